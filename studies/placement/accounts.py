"""What became of every message of a live placement run: the records of producers, consumers and brokers put together.

A message counts as delivered when everybody has it who is owed it.  A consumer is *owed* what was accepted after a
broker had told it that it is subscribed, as long as it wants the topic, and everything between the first and the last
message of a producer that it got.  What it is owed and never got is a gap; what it got again, a duplicate.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.clients import Role, TopicLoad
from core.records import Int64
from studies.placement.asked import Spell
from studies.placement.planes import spans_of
from studies.placement.script import Script
from testbed.trust.accounts import DeliveryAccount
from testbed.virtual.topic_kernel import Fate

NEVER_NS = -1
NOTHING = DeliveryAccount(*[0] * len(fields(DeliveryAccount)))
MISSING_NS = 2**62  # somebody who is owed it never had it
Row = tuple[int, str, str, float]  # at_ns, node, metric, value
Tables = Mapping[str, Int64]


@dataclass
class Counts:
    """Of one consumer and one topic."""

    gaps: int = 0
    duplicates: int = 0
    reordered: int = 0
    owed: int = 0


@dataclass
class Accounts:
    """Everything that clients wrote down, by client."""

    script: Script
    clients: dict[str, Tables]
    counts: dict[tuple[str, str], Counts] = field(default_factory=dict)  # (consumer, topic)
    account: DeliveryAccount = field(default_factory=lambda: NOTHING)  # of all topics

    def fates(self, topics: Sequence[TopicLoad]) -> dict[str, Fate]:
        """By topic; ``counts`` and the account are made on the way."""
        return {topic.name: self._fate(topic) for topic in topics}

    def lateness_ns(self) -> Int64:
        """How long after its instant each message was due in its process."""
        found = [table[:, 1] - table[:, 0] for _, _, table in self._sent() if len(table)]
        late = np.concatenate(found) if found else np.empty(0, np.int64)
        return late

    def samples(self) -> list[Row]:
        """Counts of clients, at the end of the run."""
        at_ns, rows = self.script.until_ns, list[Row]()
        for (client, _), counts in self.counts.items():
            rows += [(at_ns, client, f"{name}_count", float(value)) for name, value in (
                ("gap", counts.gaps), ("duplicate", counts.duplicates), ("reordered", counts.reordered),
                ("owed", counts.owed))]  # fmt: skip
        for client, _, table in self._sent():
            rows.append((at_ns, client, "refused_count", float(table[:, 4].sum())))
            rows.append((at_ns, client, "resent_count", float(table[:, 5].sum())))
            rows.append((at_ns, client, "unacknowledged_count", float((table[:, 3] < 0).sum())))
        return rows

    def _sent(self, topic: str = "") -> list[tuple[str, str, Int64]]:
        """(client, topic, rows) of all producers."""
        found = []
        for client, tables in self.clients.items():
            for name, table in tables.items():
                kind, _, its = name.partition(":")
                if kind == "sent" and topic in ("", its):
                    found.append((client, its, table))
        return found

    def _fate(self, topic: TopicLoad) -> Fate:
        parts = []
        consumers = [client for client, tables in self.clients.items() if f"got:{topic.name}" in tables]
        for producer, _, sent in self._sent(topic.name):
            number = list(self.script.clients).index(producer)
            last_ns = np.full(len(sent), NEVER_NS, np.int64)
            owed_count, late_count, copies, most = (np.zeros(len(sent), np.int64) for _ in range(4))
            for consumer in consumers:
                received_ns, owed, times = self._received(consumer, topic.name, number, sent)
                copies, most = copies + times, np.maximum(most, times)
                missing = owed & (received_ns < 0)
                owed_count += owed
                late_count += owed & (missing | (received_ns - sent[:, 0] > topic.bound_ns))
                last_ns = np.where(owed, np.maximum(last_ns, received_ns), last_ns)
                last_ns[missing] = MISSING_NS
            self.account += _account(sent, last_ns, copies, most)
            there = owed_count > 0
            latency_ns = np.where(last_ns < MISSING_NS, last_ns - sent[:, 0], NEVER_NS)
            parts.append((sent[there, 0], latency_ns[there], late_count[there], owed_count[there]))
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*parts, strict=True)]
        columns = columns or [np.empty(0, np.int64)] * len(Fate._fields)
        order = np.argsort(columns[0], kind="stable")
        return Fate(*(column[order] for column in columns))

    def _received(
        self, consumer: str, topic: str, producer: int, sent: Int64
    ) -> tuple[Int64, NDArray[np.bool_], Int64]:
        """When a consumer first had each message of a producer (-1: never), whether it is owed, how often it came."""
        tables = self.clients[consumer]
        rows = tables[f"got:{topic}"]
        mine = rows[(rows[:, 0] == producer) & (rows[:, 1] < len(sent))]
        times = np.bincount(mine[:, 1], minlength=len(sent))
        received_ns = np.full(len(sent), NEVER_NS, np.int64)
        numbers, first = np.unique(mine[:, 1], return_index=True)
        received_ns[numbers] = mine[first, 3]
        owed = received_ns >= 0
        deeds, until_ns = self.script.clients[consumer], self.script.until_ns
        for span in spans_of(deeds, topic, Role.CONSUMER, until_ns):
            told_ns = tables[f"subscribed:{topic}"]
            told_ns = told_ns[(told_ns >= span.start_ns) & (told_ns < span.end_ns)]
            accepted = sent[:, 3] >= 0
            if len(told_ns) and span.end_ns == until_ns:  # to the end: all that was accepted
                owed |= accepted & (sent[:, 2] >= told_ns[0])
            within = numbers[(received_ns[numbers] >= span.start_ns) & (received_ns[numbers] < span.end_ns)]
            if len(within):
                owed[within.min() : within.max() + 1] |= accepted[within.min() : within.max() + 1]
        counts = self.counts.setdefault((consumer, topic), Counts())
        counts.gaps += int((owed & (received_ns < 0)).sum())
        counts.duplicates += len(mine) - len(numbers)
        in_order = mine[np.sort(first), 1]
        counts.reordered += int((np.diff(in_order) < 0).sum())
        counts.owed += int(owed.sum())
        return received_ns, owed, times


def _account(sent: Int64, last_ns: Int64, copies: Int64, most: Int64) -> DeliveryAccount:
    """Of one producer's messages; ``copies``: deliveries to all, ``most``: to the one who got most."""
    not_sent, acknowledged = sent[:, 2] < 0, sent[:, 3] >= 0
    unacknowledged = ~not_sent & ~acknowledged & (copies == 0)
    undelivered = acknowledged & (last_ns >= MISSING_NS)
    duplicated = ~not_sent & ~undelivered & (most > 1)
    counts = [int(part.sum()) for part in (not_sent, unacknowledged, undelivered, duplicated)]
    return DeliveryAccount(
        not_sent_count=counts[0],
        unacknowledged_count=counts[1],
        undelivered_count=counts[2],
        delivered_count=len(sent) - sum(counts),
        duplicated_count=counts[3],
        offered_count=len(sent),
        unacknowledged_at_broker_count=0,  # brokers keep no rows here
        undelivered_released_count=0,
        delivered_unacknowledged_count=int((~acknowledged & (copies > 0)).sum()),
        surplus_count=int(np.maximum(0, most - 1).sum()),
        foreign_count=0,
    )


def read_accounts(script: Script) -> Accounts:
    """What the clients of a run have written."""
    clients: dict[str, Tables] = {}
    for name in script.clients:
        path = Path(script.folder) / f"{name}.npz"
        with np.load(path) as found:
            clients[name] = {key: found[key] for key in found.files}
    return Accounts(script, clients)


@dataclass(frozen=True)
class Ownership:
    """What the brokers wrote: who had which topic, and how they parted from it."""

    spells: list[Spell]
    samples: list[Row]


def read_ownership(script: Script, crashes: Sequence[tuple[int, str]]) -> Ownership:
    """The events of all brokers; ``crashes``: (instant, broker)."""
    events: list[tuple[int, str, str, str, int]] = [(at_ns, broker, "crash", "", 0) for at_ns, broker in crashes]
    for broker in script.brokers:
        path = Path(script.folder) / f"{broker}.events"
        for line in path.read_text().splitlines() if path.exists() else ():
            at_ns, kind, topic, *more = json.loads(line)
            events.append((at_ns, broker, kind, topic, more[0] if more else 0))
    events.sort(key=lambda event: event[0])
    spells: list[Spell] = []
    samples: list[Row] = []
    opened: dict[tuple[str, str], int] = {}  # (topic, broker) -> since when
    fenced: dict[tuple[str, str], int] = {}  # the same, of those that are not drained
    for at_ns, broker, kind, topic, count in events:
        if kind == "open":
            opened[topic, broker] = at_ns
            early = any(its == topic and other != broker for its, other in fenced)
            samples.append((at_ns, topic, "early_open_count", float(early)))
        elif kind == "left":
            samples.append((at_ns, topic, "undelivered_count", float(count)))
        elif kind == "drained":
            samples.append((at_ns, topic, "drain_ns", float(at_ns - fenced.pop((topic, broker), at_ns))))
        for its, its_broker in list(opened):
            if its_broker == broker and (kind == "crash" or (kind == "fence" and its == topic)):
                spells.append(Spell(its, broker, opened.pop((its, broker)), at_ns))
        if kind == "fence":
            fenced[topic, broker] = at_ns
        elif kind == "crash":
            fenced = {key: since for key, since in fenced.items() if key[1] != broker}
    spells += [Spell(topic, broker, since_ns, script.until_ns) for (topic, broker), since_ns in opened.items()]
    ended = [spell._replace(end_ns=min(spell.end_ns, script.until_ns)) for spell in spells]
    spells = sorted((spell for spell in ended if spell.start_ns < spell.end_ns), key=lambda spell: spell.start_ns)
    return Ownership(spells, samples)
