"""What came home of a run on Pulsar: who owned what, what each move cost, what became of the messages.

*Downtime* is the paper's: from a client's connection closed to its next one, by the client's own log; of one that never
came back at least until the end.  The *gap* is what Pulsar keeps messages waiting, connected or not: the longest time
without a delivery around a move.  It is at least the distance of two messages.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from core.clients import Role
from core.records import Int64, Sample
from studies.placement.accounts import NOTHING
from studies.placement.asked import Spell
from studies.placement.script import events_file
from studies.placement_on_pulsar.asked import ClientCrew
from studies.placement_on_pulsar.planes import PulsarScript
from testbed.hosts.site import Site
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.client_log import downtimes
from testbed.servers.pulsar.transfers import KNOWN_NS, SeenByClients, TopicTraffic, Transfer
from testbed.trust.accounts import DeliveryAccount, lateness_ns

DOWNTIME = "client_downtime_ns"


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


class PulsarAccounts(NamedTuple):
    """Of a run: samples, latencies of first deliveries, how late messages were sent, what became of all.

    ``notes``: what went wrong with moves, and how many clients had no broker at the end.
    """

    samples: list[Sample]
    latency_ns: Int64
    lateness_ns: Int64
    account: DeliveryAccount
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


def told_of(
    epoch_ns: int,
    crews: Sequence[tuple[ClientCrew, TopicTraffic]],
    topics: Mapping[str, Topic],
    moves: Sequence[UnitMove],
    duration_ns: int,
) -> PulsarAccounts:
    """Everything that clients saw, and each move as they saw it."""
    sent, pairs = dict[str, tuple[SeenByClients, int]](), list[tuple[str, SeenByClients, int]]()
    samples: list[Sample] = []
    for crew, traffic in crews:
        seen = traffic.seen()
        for number, name in enumerate(crew.topics):
            if crew.role is Role.PRODUCER:
                sent[name] = seen, number
            else:
                pairs.append((name, seen, number))
        names = [str(topics[name]) for name in crew.topics]
        samples += downtime_samples(traffic.log(), crew, names, epoch_ns, duration_ns)
    processes = [seen for seen, number in sent.values() if not number]
    late = [lateness_ns(seen.sent["intended_at_ns"], seen.sent["sent_at_ns"]) for seen in processes]
    accounts, latencies = [NOTHING], [np.empty(0, np.int64)]
    for name, seen, number in pairs:
        both = together(topics[name], sent[name], (seen, number))
        accounts.append(both.accounts()[topics[name]])
        latencies.append(first_latencies_ns(both))
        samples.append((duration_ns, name, "out_of_order_count", float(both.out_of_order())))
        samples += _gaps(name, both, moves, epoch_ns)
    samples += [(move.asked_at_ns - epoch_ns, move.unit, "landed_count", float(move.landed)) for move in moves]
    total = reduce(add, accounts)
    away = sum(at_ns + value >= duration_ns for at_ns, _, metric, value in samples if metric == DOWNTIME)
    notes = sorted({f"REST: {move.problem}" for move in moves if move.problem})
    notes += [f"{away} clients had no broker at the end"] if away else []
    for metric in ("offered_count", "undelivered_count", "unacknowledged_count", "surplus_count"):
        samples.append((duration_ns, "clients", metric, float(getattr(total, metric))))
    # Pulsar delivers again what a consumer had not acknowledged when it was closed: no fault of the run.
    once = replace(total, delivered_count=total.delivered_count + total.duplicated_count, duplicated_count=0)
    return PulsarAccounts(samples, np.concatenate(latencies), np.concatenate(late), once, notes)


def together(topic: Topic, sender: tuple[SeenByClients, int], receiver: tuple[SeenByClients, int]) -> SeenByClients:
    """What was sent to a topic, by one process, and what another got of it."""
    (out, mine), (back, theirs) = sender, receiver
    sent = {name: column[out.sent["topic"] == mine] for name, column in out.sent.items()}
    got = {name: column[back.got["topic"] == theirs] for name, column in back.got.items()}
    return SeenByClients(
        [topic],
        {**sent, "topic": np.zeros_like(sent["topic"])},
        {**got, "topic": np.zeros_like(got["topic"])},
    )


def first_latencies_ns(seen: SeenByClients) -> Int64:
    """From when a message was due to its first delivery."""
    order = np.argsort(seen.got["received_at_ns"], kind="stable")
    messages, first = np.unique(seen.got["message"][order], return_index=True)
    due = dict(zip(seen.sent["message"].tolist(), seen.sent["intended_at_ns"].tolist(), strict=True))
    at_ns = seen.got["received_at_ns"][order][first]
    return np.array([at - due[message] for message, at in zip(messages.tolist(), at_ns, strict=True) if message in due])


def downtime_samples(
    log: str, crew: ClientCrew, topics: Sequence[str], epoch_ns: int, duration_ns: int
) -> Iterator[Sample]:
    """``client_downtime_ns`` of each time that a client was cut off in the run."""
    spans = [
        span
        for span in downtimes(log, topics)
        if span.role == crew.role and epoch_ns <= span.begin_ns < epoch_ns + duration_ns
    ]
    names = dict(zip(topics, crew.topics, strict=True))
    for span in spans:
        away_ns = float(span.span_ns(epoch_ns + duration_ns))
        yield span.begin_ns - epoch_ns, f"{crew.role} of {names[span.topic]}", DOWNTIME, away_ns


def _gaps(name: str, seen: SeenByClients, moves: Iterable[UnitMove], epoch_ns: int) -> list[Sample]:
    rows: list[Sample] = []
    for move in moves:
        if move.unit == name:
            there = Transfer(
                seen.topics[0], move.source, move.target, move.asked_at_ns, move.answered_at_ns, move.owner
            )
            rows.append((move.asked_at_ns - epoch_ns, name, "delivery_gap_ns", float(seen.gap_ns(there))))
    return rows


def _rows(site: Site, node: str) -> list[list[Any]]:
    path = events_file(site.folder / "clients", node)
    site.fetch(node, path)
    return [json.loads(line) for line in Path(path).read_text().splitlines()]
