"""What came home of a run on Pulsar: who owned what, what each move cost, what became of the messages.

*Downtime* is the paper's: from a client's connection closed to its next one, by the client's own log; of one that never
came back at least until the end.  The *gap* is what Pulsar keeps messages waiting, connected or not: the longest time
without a delivery around a move.  It is at least the distance of two messages.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from core.clients import Role
from core.records import Int64, Sample
from studies.placement.accounts import NOTHING
from studies.placement.asked import Spell
from studies.placement.script import events_file
from studies.placement_on_pulsar.asked import ClientCrew, ClientDowntime, PulsarRequest, StepSpan
from studies.placement_on_pulsar.load import due_of
from studies.placement_on_pulsar.planes import PulsarScript
from testbed.hosts.site import Site
from testbed.servers.pulsar.client_log import downtimes
from testbed.servers.pulsar.move_steps import steps_of
from testbed.servers.pulsar.transfers import AROUND_NS, KNOWN_NS, SeenByClients, TopicTraffic, longest_gap_ns
from testbed.trust.accounts import (
    ABSENT,
    DeliveryAccount,
    Fate,
    Got,
    Interest,
    Receipt,
    Sent,
    fate,
    lateness_ns,
    of_topic,
    receipt,
    shifted,
)


class UnitMove(NamedTuple):
    """A unit was unloaded; instants of CLOCK_REALTIME, around REST's answer.  ``owner``: the node that had it then."""

    unit: str
    source: str
    target: str  # "": whom Pulsar found
    asked_at_ns: int
    answered_at_ns: int
    problem: str
    owner: str = ""

    @property
    def landed(self) -> bool:
        """Whether it went where it was to; without a target, whether anybody has it."""
        return self.owner == self.target if self.target else bool(self.owner)


class Owned(NamedTuple):
    """From an instant of CLOCK_REALTIME on, a unit is a node's; "": nobody's."""

    at_ns: int
    unit: str
    node: str


class Hired(NamedTuple):
    """A crew, its number, and its process."""

    crew: ClientCrew
    number: int
    traffic: TopicTraffic


class PulsarAccounts(NamedTuple):
    """Of a run: samples, what moves and clients took, latencies of first deliveries, how late messages were sent.

    ``account``: what became of all.  ``fates``: of each topic's messages.  ``notes``: what went wrong with moves, and
    how many clients had no broker at the end.
    """

    samples: list[Sample]
    requests: list[StepSpan]
    downtimes: list[ClientDowntime]
    latency_ns: Int64
    lateness_ns: Int64
    account: DeliveryAccount
    fates: dict[str, Fate]
    notes: list[str]


def owned_of(site: Site, script: PulsarScript) -> list[Owned]:
    """What the store's node heard, in order."""
    return sorted(Owned(*row) for row in _rows(site, script.store))


def moves_of(site: Site, script: PulsarScript) -> list[UnitMove]:
    """What the brokers' nodes asked for, in order, and who had it afterwards."""
    owned = owned_of(site, script)
    moves = [UnitMove(*row) for broker in script.brokers for row in _rows(site, broker)]
    return [move._replace(owner=owner_after(move, owned)) for move in sorted(moves, key=lambda move: move.asked_at_ns)]


def owner_after(move: UnitMove, owned: Iterable[Owned]) -> str:
    """The target, if it had the unit by ``KNOWN_NS`` after the answer; else the last one who had it by then, or ""."""
    until_ns = move.answered_at_ns + KNOWN_NS
    nodes = [one.node for one in owned if one.unit == move.unit and move.asked_at_ns <= one.at_ns <= until_ns]
    if move.target and move.target in nodes:
        return move.target
    return next((node for node in reversed(nodes) if node), "")


def spells_of(owned: Iterable[Owned], epoch_ns: int, until_ns: int) -> list[Spell]:
    """Who had which unit, in the run's time, 0 to ``until_ns``."""
    since: dict[str, tuple[str, int]] = {}
    spells = []
    for at_ns, unit, node in owned:
        if unit in since:
            owner, start_ns = since.pop(unit)
            spells.append(Spell(unit, owner, start_ns, at_ns - epoch_ns))
        if node:
            since[unit] = node, at_ns - epoch_ns
    spells += [Spell(unit, node, start_ns, until_ns) for unit, (node, start_ns) in since.items()]
    cut = [one._replace(start_ns=max(0, one.start_ns), end_ns=min(until_ns, one.end_ns)) for one in spells]
    return sorted((one for one in cut if one.start_ns < one.end_ns), key=lambda one: (one.start_ns, one.topic))


def logged_steps(logs: Iterable[str], script: PulsarScript, epoch_ns: int, until_ns: int) -> Iterator[StepSpan]:
    """Those of the run's moves that ended in the run, by the logs of its brokers."""
    names = {f"{script.topic(name).space}/{bundle}": name for name, bundle in script.bundles().items()}
    for log in logs:
        for at_ns, step, unit, span_ns in steps_of(log):
            end_ns = at_ns - epoch_ns
            if unit in names and 0 <= end_ns < until_ns:
                yield StepSpan(names[unit], step, end_ns - span_ns, end_ns)


def told_of(asked: PulsarRequest, epoch_ns: int, crews: Sequence[Hired], moves: Sequence[UnitMove]) -> PulsarAccounts:
    """Everything that clients saw, and each move as they saw it."""
    until_ns, samples, away = asked.duration_ns, list[Sample](), list[ClientDowntime]()
    seen = [(hired, hired.traffic.seen()) for hired in crews]
    for hired, told in seen:
        away += downtimes_of(hired.traffic.log(), hired.crew, told, epoch_ns, until_ns)
    fates, latencies, total = dict[str, Fate](), [np.empty(0, np.int64)], NOTHING
    for load in asked.load.topics:
        consumers = [
            _consumed(hired.crew, told, load.name, epoch_ns, until_ns)
            for hired, told in seen
            if load.name in hired.crew.topics
        ]
        parts, foreign_count, reordered_count = [], sum(len(one.got.message) for one in consumers), 0
        for hired, told in seen:
            if load.name in hired.crew.produced:
                due = due_of(asked, hired.crew, hired.number)
                sent = sent_of(due, told, hired.crew.topics.index(load.name), epoch_ns)
                receipts = [receipt(sent, one.got, hired.number, one.interest) for one in consumers]
                rows, account = fate(sent, receipts, load.bound_ns)
                parts.append(rows)
                total += account
                latencies += [_latency_ns(sent, one) for one in receipts]
                foreign_count -= sum(int(one.times.sum()) for one in receipts)
                reordered_count += sum(one.reordered_count for one in receipts)
        fates[load.name] = of_topic(parts)
        total = replace(total, foreign_count=total.foreign_count + foreign_count)
        samples.append((until_ns, load.name, "out_of_order_count", float(reordered_count)))
        mine = [move for move in moves if move.unit == load.name]
        samples += [row for one in consumers for row in gaps(one, mine, epoch_ns)]
    samples += [(move.asked_at_ns - epoch_ns, move.unit, "migration_count", float(move.landed)) for move in moves]
    requests = [
        StepSpan(move.unit, "request", move.asked_at_ns - epoch_ns, move.answered_at_ns - epoch_ns) for move in moves
    ]
    for metric in ("offered_count", "undelivered_count", "unacknowledged_count", "surplus_count"):
        samples.append((until_ns, "clients", metric, float(getattr(total, metric))))
    late = [lateness_ns(told.sent["intended_at_ns"], told.sent["sent_at_ns"]) for _, told in seen]
    notes = _notes(moves, away, until_ns)
    latency_ns, late_ns = np.concatenate(latencies), np.concatenate(late)
    account = excused(total, asked.rule.persistent)
    return PulsarAccounts(samples, requests, away, latency_ns, late_ns, account, fates, notes)


def excused(total: DeliveryAccount, persistent: bool) -> DeliveryAccount:
    """Without what is Pulsar's way, and no fault of the run.

    It delivers again what a consumer had not acknowledged when it was closed; and its receipt for a message of a topic
    that is not persistent promises nothing.
    """
    once = replace(total, delivered_count=total.delivered_count + total.duplicated_count, duplicated_count=0)
    if persistent:
        return once
    gone = once.unacknowledged_count + once.undelivered_count
    return replace(once, unacknowledged_count=gone, undelivered_count=0)


def _notes(moves: Iterable[UnitMove], downtimes: Iterable[ClientDowntime], until_ns: int) -> list[str]:
    away = sum(one.end_ns >= until_ns for one in downtimes)
    notes = sorted({f"REST: {move.problem}" for move in moves if move.problem})
    return [*notes, *([f"{away} clients had no broker at the end"] if away else [])]


class Consumed(NamedTuple):
    """What a consumer got of a topic, and when it wanted it.  Instants of the run."""

    got: Got
    interest: Interest


def _consumed(crew: ClientCrew, told: SeenByClients, topic: str, epoch_ns: int, until_ns: int) -> Consumed:
    number = crew.topics.index(topic)
    rows = {name: column[told.got["topic"] == number] for name, column in told.got.items()}
    received_ns = rows["received_at_ns"] - epoch_ns
    later = told.subscribed["at_ns"][(told.subscribed["topic"] == number) & (told.subscribed["at_ns"] != ABSENT)]
    since_ns = np.concatenate([np.zeros(crew.consuming.count(number), np.int64), later - epoch_ns])
    got = Got(rows["sender"], rows["message"], np.full(len(received_ns), ABSENT), received_ns)
    return Consumed(got, Interest(crew.spans_ns(number, until_ns), since_ns, until_ns))


def sent_of(due: Mapping[str, Int64], told: SeenByClients, topic: int, epoch_ns: int) -> Sent:
    """A producer's messages of a topic, by its number: what was due, and what its process says of it."""
    born_ns = due["intended_at_ns"][due["topic"] == topic]
    rows = {name: column[told.sent["topic"] == topic] for name, column in told.sent.items()}
    sent_ns, answered_ns = (np.full(len(born_ns), ABSENT) for _ in range(2))
    sent_ns[rows["message"]] = rows["sent_at_ns"] - epoch_ns
    answered_ns[rows["message"]] = shifted(rows["acknowledged_at_ns"], epoch_ns)
    never = np.zeros_like(born_ns)
    return Sent(born_ns, sent_ns, sent_ns, answered_ns, never, never)


def _latency_ns(sent: Sent, one: Receipt) -> Int64:
    """From when a message was due to its first delivery."""
    came = one.received_ns != ABSENT
    latency_ns: Int64 = one.received_ns[came] - sent.born_ns[came]
    return latency_ns


def downtimes_of(
    log: str, crew: ClientCrew, told: SeenByClients, epoch_ns: int, until_ns: int
) -> Iterator[ClientDowntime]:
    """Each time that a client was cut off in the run, as long as it wanted its topic."""
    names = [str(topic) for topic in told.topics]
    order = {Role.PRODUCER: crew.producing, Role.CONSUMER: (*crew.consuming, *told.subscribed["topic"].tolist())}
    for span in downtimes(log, {role: [names[number] for number in numbers] for role, numbers in order.items()}):
        number, begin_ns = names.index(span.topic), span.begin_ns - epoch_ns
        wanted = [(0, until_ns)] if span.role == Role.PRODUCER else crew.spans_ns(number, until_ns)
        for start_ns, end_ns in wanted:
            if start_ns <= begin_ns < end_ns:
                away_ns = span.span_ns(epoch_ns + end_ns)
                if end_ns < until_ns:  # who has left is not away any more; whom the run left is
                    away_ns = min(away_ns, end_ns - begin_ns)
                yield ClientDowntime(crew.node, crew.topics[number], Role(span.role), begin_ns, begin_ns + away_ns)


def gaps(one: Consumed, moves: Iterable[UnitMove], epoch_ns: int) -> Iterator[Sample]:
    """``delivery_gap_ns`` of a topic's moves, as a consumer saw them that wanted it all the time around them.

    Where nothing comes any more it lasts as long as the consumer wants the topic.
    """
    for move in moves:
        begin_ns = move.asked_at_ns - epoch_ns
        end_ns = min(move.answered_at_ns + AROUND_NS - epoch_ns, one.interest.until_ns)
        for start_ns, left_ns in one.interest.spans_ns:
            if start_ns <= begin_ns and end_ns <= left_ns:
                at_ns = np.sort(np.append(one.got.received_ns, left_ns))
                yield begin_ns, move.unit, "delivery_gap_ns", float(longest_gap_ns(at_ns, begin_ns, end_ns))


def _rows(site: Site, node: str) -> list[list[Any]]:
    path = events_file(site.folder / "clients", node)
    site.fetch(node, path)
    return [json.loads(line) for line in Path(path).read_text().splitlines()]
