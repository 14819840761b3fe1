"""What a soak wants at rest, and how soon: each rule is broken by a small patch, and nothing else by that."""

from itertools import cycle
from typing import Any

import pytest
from msgspec.structs import replace

from core.clients import Role
from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.draw import HEALED_NS, LATE_HEAL_NS, draw
from harness.soak.schedule import SoakRequest, SoakSchedule, Told
from harness.soak.trial import play
from harness.soak.variants import SOAKED
from systems.api import Actuate, Effect, Report, RunHistory, Step
from systems.limiting import crdt_counter_literal, crdt_queue_literal
from systems.limiting.counter_common import Delta
from systems.limiting.counter_fast import FastNode
from systems.limiting.counter_node import CounterNode
from systems.limiting.owner_global import GlobalNode
from systems.limiting.owner_messages import STATES
from systems.loader import load_system
from systems.parts.lease_book import LeaseBook
from systems.parts.lease_client import LeaseClient
from systems.parts.limit import limit_of
from systems.placement.client import ClientNode
from systems.placement.messages import Attach, Open, Wanted
from testbed.faults import Crash, Partition

Patch = pytest.MonkeyPatch
REPLICAS = "replicas equal at rest"


def breaches(schedule: SoakSchedule) -> set[str]:
    return {breach.invariant for breach in play(schedule).breaches}


def schedule_of(system: str, *requests: SoakRequest, **options: object) -> SoakSchedule:
    told = {**SOAKED[system][0].options, **options}
    return SoakSchedule(1, system, told, ("n1", "n2", "n3"), 14 * SECOND_NS, MILLISECOND_NS, requests=requests)


def crashed(schedule: SoakSchedule, node: str, copy_from: str) -> SoakSchedule:
    restart = {"kind": "restart", "at": "6s", "node": node} | ({"copy_from": copy_from} if copy_from else {})
    return replace(schedule, troubles=(({"kind": "crash", "at": "5s", "node": node}, restart),))


# --- replicas, after a crash ------------------------------------------------------------------------

COUNTED = schedule_of("crdt-counter", *(SoakRequest(at_s * SECOND_NS, "n2", "ann") for at_s in (1, 2, 9)))


@pytest.mark.parametrize("copy_from", ["n1", ""])
def test_a_crash_excuses_what_it_lost(copy_from: str) -> None:
    assert not breaches(crashed(schedule_of("crdt-counter", COUNTED.requests[0]), "n3", copy_from))


def test_a_node_that_throws_away_what_it_copied_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(FastNode, "restore", lambda node, snapshot: None)
    once = schedule_of("crdt-counter", COUNTED.requests[0])
    assert REPLICAS in breaches(crashed(once, "n3", "n1"))
    assert REPLICAS not in breaches(crashed(once, "n3", "")), "it copied nothing"


def test_another_s_crash_excuses_nobody(monkeypatch: Patch) -> None:
    take = CounterNode._take

    def deaf(node: CounterNode, message: Delta, sender: int, now_ns: int) -> list[Effect]:
        return [] if node.node_id == "n1" and now_ns > 8 * SECOND_NS else take(node, message, sender, now_ns)

    assert not breaches(crashed(COUNTED, "n3", "n1"))
    monkeypatch.setattr(CounterNode, "_take", deaf)
    assert REPLICAS in breaches(crashed(COUNTED, "n3", "n1"))


@pytest.mark.parametrize("push", ["broadcast", "none"])
def test_a_broadcast_that_dies_with_its_node_reaches_those_who_were_cut_off_from_nobody(
    push: str, monkeypatch: Patch
) -> None:
    """Gossip would: who has heard of it passes it on."""
    apart: tuple[dict[str, object], ...] = (
        {"kind": "partition", "at": "2s", "side": ["n1", "n3"]},
        {"kind": "heal", "at": "8s", "side": ["n1", "n3"]},
    )
    once = schedule_of("crdt-counter", SoakRequest(4 * SECOND_NS, "n3", "ann"), push=push)
    once = crashed(once, "n3", "")
    once = replace(once, troubles=(*once.troubles, apart))
    assert not breaches(once)
    take = CounterNode._take

    def deaf(node: CounterNode, message: Delta, sender: int, now_ns: int) -> list[Effect]:
        return [] if node.node_id == "n2" else take(node, message, sender, now_ns)

    monkeypatch.setattr(CounterNode, "_take", deaf)
    assert (REPLICAS in breaches(once)) == (push == "none")


def test_a_node_that_is_back_and_deaf_is_found(monkeypatch: Patch) -> None:
    take = CounterNode._take

    def deaf(node: CounterNode, message: Delta, sender: int, now_ns: int) -> list[Effect]:
        return [] if node.node_id == "n3" and now_ns > 8 * SECOND_NS else take(node, message, sender, now_ns)

    monkeypatch.setattr(CounterNode, "_take", deaf)
    assert REPLICAS in breaches(crashed(COUNTED, "n3", "n1"))


def test_a_counter_whose_messages_and_snapshots_are_empty_is_found(monkeypatch: Patch) -> None:
    """All replicas are alike then."""
    literal = replace(COUNTED, options={**COUNTED.options, "body": "literal"})
    pack = crdt_counter_literal.packed
    assert not breaches(literal)
    monkeypatch.setattr(crdt_counter_literal, "packed", lambda buckets, *more: pack((), *more))
    assert breaches(literal) == {"all is counted at rest"}


def test_a_queue_whose_messages_and_snapshots_are_empty_is_found(monkeypatch: Patch) -> None:
    asked = (SoakRequest(13 * SECOND_NS, "n2", "ann") for _ in range(9))
    schedule, pack = schedule_of("crdt-queue", *asked, implementation="lists"), crdt_queue_literal.pack
    assert not breaches(schedule)
    monkeypatch.setattr(crdt_queue_literal, "pack", lambda queues, *more: pack({}, *more))
    assert breaches(schedule) == {"all that lives is known at rest"}


# --- copies of an owner's buckets -------------------------------------------------------------------


@pytest.mark.parametrize("untold", ["n1", "n2", "n3"])
def test_an_owner_that_does_not_tell_all_others_what_it_knows_is_found(untold: str, monkeypatch: Patch) -> None:
    schedule = schedule_of("owner-global", *(SoakRequest(SECOND_NS, node, "ann") for node in ("n1", "n2", "n3")))
    rows, owner = GlobalNode._rows, GlobalNode("", ["n1", "n2", "n3"], limit_of(12, "1"), 1, 1)._owner("ann")

    def partly(node: GlobalNode, kind: str, now_ns: int) -> list[Any]:
        return [one for one in rows(node, kind, now_ns) if kind != STATES or one[0] != untold]

    assert not breaches(schedule)
    monkeypatch.setattr(GlobalNode, "_rows", partly)
    assert breaches(schedule) == (set() if untold == owner else {"copies equal at rest"})


# --- leases -----------------------------------------------------------------------------------------


def test_leases_that_hold_more_than_the_limit_are_found_below_the_bound_of_all(monkeypatch: Patch) -> None:
    """18 at once: (1 + 2/3) 12 and 3 minima are 23, by leases it is 12 and 3."""
    asked = [SoakRequest(SECOND_NS, "n2", "ann"), *(SoakRequest(9 * SECOND_NS, "n2", "ann") for _ in range(18))]
    schedule = schedule_of("leases", *asked, lease="10s")
    assert not breaches(schedule)
    monkeypatch.setattr(LeaseClient, "admit", lambda client, user, cost: True)
    assert breaches(schedule) == {"no more than the limit by leases"}


def test_an_allocator_that_lends_to_nobody_is_found(monkeypatch: Patch) -> None:
    schedule = schedule_of("leases", SoakRequest(SECOND_NS, "n2", "ann"))
    assert not breaches(schedule)
    monkeypatch.setattr(LeaseBook, "answer", lambda *asked: None)
    assert breaches(schedule) == {"questions are answered"}


# --- placements -------------------------------------------------------------------------------------

SERVED = next(one for one in load_system("epulsar").invariants if one.name == "clients are served at rest")


@pytest.mark.parametrize(("brokers", "holds"), [(("broker1",), True), (("broker1", "broker2"), False)])
def test_two_brokers_that_serve_a_topic_at_rest_are_found(brokers: tuple[str, ...], holds: bool) -> None:
    system, steps = load_system("epulsar"), list[Step]()
    for number, broker in enumerate(brokers):
        client = f"client{number}"
        wanted = Report(Wanted("red", Role.PRODUCER, True))
        steps.append(Step(number, broker, 0, Report(None), (Actuate(Open("red")),), number))
        steps.append(Step(number, client, 0, wanted, (Actuate(Attach("red", broker)),), number))
    names = ("broker1", "broker2", "client0", "client1")
    history = RunHistory(system, system.config(), names, steps, at_rest=True, end_ns=60 * SECOND_NS)
    assert (SERVED.broken(history) is None) == holds


def test_clients_that_are_served_for_a_moment_are_not_at_rest(monkeypatch: Patch) -> None:
    nodes = ("manager1", "broker1", "store", "broker1-agent", "proxy1", "clienta")
    told = (Told(0, "clienta", proxy="proxy1"), Told(SECOND_NS, "clienta", "red", role="producer"))
    options = dict(SOAKED["pulsar"][0].options)
    schedule = SoakSchedule(1, "pulsar", options, nodes, 14 * SECOND_NS, MILLISECOND_NS, told=told)
    assert not breaches(schedule)
    looks = cycle([True, False, False])
    monkeypatch.setattr(ClientNode, "idle", lambda client: next(looks))
    assert breaches(schedule) == {"at rest after the last fault"}
    assert not breaches(replace(schedule, options={**options, "periodic": "3s"})), "topics go round"


def test_topics_that_may_not_stay_where_no_broker_is_near_enough_go_round() -> None:
    """A bound of 1 ms that nobody keeps, and ``stay = False``: each broker passes them on."""
    schedule = draw(121_862)
    assert schedule.system == "gossip-placer" and not schedule.options["stay"]
    assert not breaches(schedule)


# --- how soon ---------------------------------------------------------------------------------------


def test_some_partitions_last_long_enough_to_show_how_streams_back_off() -> None:
    """A wait doubles from 0.2 s on: none of a minute is ever reached in 12 s."""
    long = [
        (fault.at_ns, fault.side)
        for schedule in map(draw, range(1, 300))
        for fault in schedule.faults()
        if fault.at_ns > HEALED_NS and not isinstance(fault, Crash | Partition) and schedule.load_end_ns < fault.at_ns
    ]
    assert len(long) > 5
    assert all(LATE_HEAL_NS // 2 <= at_ns <= LATE_HEAL_NS for at_ns, _ in long)
