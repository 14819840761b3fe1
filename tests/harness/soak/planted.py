"""Bugs to plant into systems, one small patch each: what a soak must find."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from core.records import Envelope
from harness.executors.local import live_with_the_parent
from systems.api import Actuate, Decide, Delivery, Effect, Event, Timer, Verdict
from systems.distribution import tb_adaptor
from systems.limiting.centralised import CentralisedNode
from systems.limiting.counter_node import CounterNode
from systems.limiting.crdt_counter_literal import CounterBucket, LiteralCounterNode
from systems.limiting.owner_global import LeakyTable
from systems.limiting.throttling_users import UserBucket, UserBuckets
from systems.parts.lease_book import Grant, LeaseBook
from systems.parts.questions import Questions
from systems.placement import manager as placement
from systems.placement.broker import BrokerNode
from systems.placement.manager import ManagerNode
from systems.placement.messages import Fence
from testbed.nodes import retransmission
from testbed.nodes.member import Member

Patch = pytest.MonkeyPatch
SILENCE_NS = 1_500_000_000


@dataclass(frozen=True)
class Planted:
    """A bug in a system, and the invariants of which one must break."""

    system: str
    plant: Callable[[Patch], None]
    invariants: tuple[str, ...]


def double_count_on_a_duplicate(patch: Patch) -> None:
    handle = CentralisedNode.handle

    def forgetful(node: CentralisedNode, event: Event, now_ns: int) -> list[Effect]:
        node.asked.clear()  # so that a question that comes twice is a new one
        return handle(node, event, now_ns)

    patch.setattr(CentralisedNode, "handle", forgetful)


def lease_lent_twice(patch: Patch) -> None:
    answer = LeaseBook.answer

    def generous(book: LeaseBook, client: str, asked: Any, claim: Any, now_ns: int) -> Grant | None:
        before = book.accounts[claim.user].pool.parts if claim.user in book.accounts else book.bucket.parts
        grant = answer(book, client, asked, claim, now_ns)
        if grant and grant.parts:
            pool = book.accounts[claim.user].pool
            pool.parts = max(pool.parts, before)  # what is lent stays in the pool
        return grant

    patch.setattr(LeaseBook, "answer", generous)


def timer_that_survives_a_crash(patch: Patch) -> None:
    def crash(member: Member) -> None:
        member.alive = False

    patch.setattr(Member, "crash", crash)


def unfenced_owner(patch: Patch) -> None:
    release = BrokerNode._release

    def open_release(broker: BrokerNode, manager: str, name: str, next_broker: str) -> list[Effect]:
        effects = release(broker, manager, name, next_broker)
        return [one for one in effects if not (isinstance(one, Actuate) and isinstance(one.command, Fence))]

    patch.setattr(BrokerNode, "_release", open_release)


def fenceless_return(patch: Patch) -> None:
    """A broker that the store has forgotten begins anew, and goes on with what it had."""
    begin = BrokerNode._begin_anew

    def going_on(broker: BrokerNode) -> list[Effect]:
        return [one for one in begin(broker) if not (isinstance(one, Actuate) and isinstance(one.command, Fence))]

    patch.setattr(BrokerNode, "_begin_anew", going_on)


def lost_acknowledgement_taken_as_rejection(patch: Patch) -> None:
    rung = Questions.rung

    def rejecting(questions: Questions, now_ns: int) -> list[Effect]:
        effects = rung(questions, now_ns)
        return [Decide(one.request_id, Verdict.REJECT) if isinstance(one, Decide) else one for one in effects]

    patch.setattr(Questions, "rung", rejecting)


def refill_counted_twice_at_a_restart(patch: Patch) -> None:
    restore = LiteralCounterNode.restore

    def refilling(node: LiteralCounterNode, snapshot: Any) -> None:
        restore(node, snapshot)
        node.state = {user: replace(bucket, refilled_at_ns=0) for user, bucket in node.state.items()}

    patch.setattr(LiteralCounterNode, "restore", refilling)


def owner_deaf_to_hits(patch: Patch) -> None:
    """It tells how its bucket is, and takes none off it."""
    hit = LeakyTable.hit

    def deaf(table: LeakyTable, user: str, hits: int, date_ns: int, now_ns: int, drain: bool = False) -> bool:
        return drain or hit(table, user, hits, date_ns, now_ns)

    patch.setattr(LeakyTable, "hit", deaf)


def command_that_counts_its_tokens_twice(patch: Patch) -> None:
    reshare = UserBuckets.reshare

    def minting(buckets: UserBuckets, bucket: UserBucket, parts: int, grains: int, now_ns: int) -> None:
        reshare(buckets, bucket, parts, 2 * grains, now_ns)

    patch.setattr(UserBuckets, "reshare", minting)


def merge_by_sum(patch: Patch) -> None:
    merged = CounterBucket.merged

    def summed(bucket: CounterBucket, other: CounterBucket) -> CounterBucket:
        slots = {*bucket.counts, *other.counts}
        counts = {slot: bucket.counts.get(slot, 0) + other.counts.get(slot, 0) for slot in slots}
        return replace(merged(bucket, other), counts=counts)

    patch.setattr(CounterBucket, "merged", summed)


def gossip_not_resumed_after_a_heal(patch: Patch) -> None:
    """A node that has heard from nobody for long, as in a partition, ends its rounds for ever."""
    handle = CounterNode.handle

    def giving_up(node: Any, event: Event, now_ns: int) -> list[Effect]:
        heard_ns = getattr(node, "heard_ns", now_ns)
        if isinstance(event, Delivery) or not hasattr(node, "heard_ns"):
            node.heard_ns = now_ns
        if isinstance(event, Timer) and now_ns - heard_ns > SILENCE_NS and not node.idle():
            return []
        return handle(node, event, now_ns)

    patch.setattr(CounterNode, "handle", giving_up)


def release_before_the_drain(patch: Patch) -> None:
    release = BrokerNode._release

    def hasty(broker: BrokerNode, manager: str, name: str, next_broker: str) -> list[Effect]:
        broker.drain = False
        return release(broker, manager, name, next_broker)

    patch.setattr(BrokerNode, "_release", hasty)


def executors_without_end(patch: Patch) -> None:
    execute = ManagerNode._execute

    def forgetful(manager: ManagerNode, now_ns: int) -> list[Effect]:
        effects = execute(manager, now_ns)
        manager._running.clear()
        return effects

    patch.setattr(ManagerNode, "_execute", forgetful)


def nothing_stays_where_it_arrived(patch: Patch) -> None:
    """The load manager's view holds no unit back, on its way or not."""
    patch.setattr(placement, "frozenset", lambda units: frozenset(), raising=False)


def adaptor_drops_a_fraction(patch: Patch) -> None:
    split = tb_adaptor.split_bucket

    def dropping(*arguments: Any) -> list[Envelope]:
        first, *others = split(*arguments)
        return [replace(first, rate_rps=first.rate_rps * 0.999), *others]

    patch.setattr(tb_adaptor, "split_bucket", dropping)


def begin_where_an_adaptor_drops_a_fraction() -> None:
    """A worker process begins, with the bug in it."""
    live_with_the_parent()
    adaptor_drops_a_fraction(Patch())


def stream_that_backs_off_for_a_minute(patch: Patch) -> None:
    patch.setattr(retransmission, "RETRANSMIT_MAXIMUM_NS", 60_000_000_000)


PLANTED = {
    "a double count on a duplicate": Planted(
        "centralised", double_count_on_a_duplicate, ("decides as a token bucket",)
    ),
    "a lease lent twice": Planted("leases", lease_lent_twice, ("no more is lent than there is",)),
    "a timer that survives a crash": Planted("leases", timer_that_survives_a_crash, ("timers die in a crash",)),
    "an unfenced owner": Planted("epulsar", unfenced_owner, ("one owner at a time",)),
    "a return without fences": Planted("epulsar", fenceless_return, ("one owner at a time",)),
    "a lost acknowledgement taken as rejection": Planted(
        "centralised", lost_acknowledgement_taken_as_rejection, ("decides what it was told",)
    ),
    "a refill counted twice at a restart": Planted(
        "crdt-counter", refill_counted_twice_at_a_restart, ("decides by what it knows",)
    ),
    "an owner deaf to hits": Planted("owner-global", owner_deaf_to_hits, ("decides and tells by its table",)),
    "a command that counts its tokens twice": Planted(
        "centralised-throttler", command_that_counts_its_tokens_twice, ("decides and reports by its commands",)
    ),
    "a merge by sum": Planted("crdt-counter", merge_by_sum, ("decides by what it knows",)),
    "gossip not resumed after a heal": Planted(
        "crdt-counter", gossip_not_resumed_after_a_heal, ("at rest after the last fault", "replicas equal at rest")
    ),
    "a release before the drain": Planted("pulsar", release_before_the_drain, ("nothing acknowledged is lost",)),
    "a release before the drain, by vote": Planted(
        "gossip-placer", release_before_the_drain, ("nothing acknowledged is lost",)
    ),
    "executors without end": Planted("pulsar", executors_without_end, ("few move at a time",)),
    "a unit on its way that is moved again": Planted(
        "all-pairs", nothing_stays_where_it_arrived, ("few move at a time",)
    ),
    "a stream that backs off for a minute": Planted(
        "leases", stream_that_backs_off_for_a_minute, ("at rest after the last fault",)
    ),
    "an adaptor that drops a fraction": Planted("tb-adaptor", adaptor_drops_a_fraction, ("tokens conserved",)),
}
