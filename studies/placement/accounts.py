"""What came home of a live placement run: the records of producers, consumers and brokers, and their account."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import add
from pathlib import Path
from typing import NamedTuple

import numpy as np

from core.clients import Role, TopicLoad
from core.errors import MachineError
from core.records import Int64, Sample
from studies.placement.asked import Spell
from studies.placement.script import Script, client_file, events_file
from testbed.hosts.site import Site
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
)

NOTHING = DeliveryAccount(*[0] * len(fields(DeliveryAccount)))


@dataclass(frozen=True)
class Records:
    """What clients wrote down, by (client, topic)."""

    sent: dict[tuple[str, str], Sent] = field(default_factory=dict)
    got: dict[tuple[str, str], Got] = field(default_factory=dict)
    subscribed_ns: dict[tuple[str, str], Int64] = field(default_factory=dict)


class Accounts(NamedTuple):
    """Of a run: fates by topic, the account of all topics, samples of clients, lateness of all messages."""

    fates: dict[str, Fate]
    account: DeliveryAccount
    samples: list[Sample]
    lateness_ns: Int64


def read_records(site: Site, folder: Path, clients: Iterable[str]) -> Records:
    """Bring them home from the clients' hosts."""
    records = Records()
    for client in clients:
        path = client_file(folder, client)
        site.fetch(client, path)
        with np.load(path) as tables:
            for name in tables.files:
                kind, _, topic = name.partition(":")
                if kind == "sent":
                    records.sent[client, topic] = Sent(*tables[name].T)
                elif kind == "got":
                    records.got[client, topic] = Got(*tables[name].T)
                else:
                    records.subscribed_ns[client, topic] = tables[name]
    return records


def accounts(script: Script, records: Records, topics: Sequence[TopicLoad]) -> Accounts:
    """Records of clients -> what became of every message."""
    numbers = {client: number for number, client in enumerate(script.clients)}
    receipts: dict[tuple[str, str], list[Receipt]] = {}  # of each consumer
    fates: dict[str, Fate] = {}
    whole = [NOTHING]
    for topic in topics:
        parts = []
        for (producer, name), sent in records.sent.items():
            if name != topic.name:
                continue
            received = []
            for (consumer, theirs), got in records.got.items():
                if theirs == name:
                    spans_ns = script.spans_ns(consumer, name, Role.CONSUMER)
                    interest = Interest(spans_ns, records.subscribed_ns[consumer, name], script.until_ns)
                    received.append(receipt(sent, got, numbers[producer], interest))
                    receipts.setdefault((consumer, name), []).append(received[-1])
            rows, account = fate(sent, received, topic.bound_ns)
            parts.append(rows)
            whole.append(account)
        fates[topic.name] = of_topic(parts)
    late = [lateness_ns(sent.born_ns, sent.fired_ns) for sent in records.sent.values()]
    samples = _samples(script.until_ns, records, receipts)
    return Accounts(fates, reduce(add, whole), samples, np.concatenate([np.empty(0, np.int64), *late]))


def _samples(at_ns: int, records: Records, receipts: dict[tuple[str, str], list[Receipt]]) -> list[Sample]:
    rows: list[Sample] = []
    for (client, _), parts in receipts.items():
        counts = {
            "gap_count": sum(part.gap_count for part in parts),
            "duplicate_count": sum(part.duplicate_count for part in parts),
            "reordered_count": sum(part.reordered_count for part in parts),
            "owed_count": sum(int(part.is_owed.sum()) for part in parts),
        }
        rows += [(at_ns, client, metric, float(value)) for metric, value in counts.items()]
    for (client, _), sent in records.sent.items():
        rows.append((at_ns, client, "refused_count", float(sent.refused_count.sum())))
        rows.append((at_ns, client, "resent_count", float(sent.resent_count.sum())))
        rows.append((at_ns, client, "unacknowledged_count", float((sent.answered_ns == ABSENT).sum())))
    return rows


# --- who had which topic -------------------------------------------------------------------------------------


class Event(NamedTuple):
    """What a broker's topic did: open, fence, drained, left (so many messages undelivered); or it: crash, restart."""

    at_ns: int
    broker: str
    kind: str
    topic: str = ""
    left_count: int = 0


def read_events(site: Site, folder: Path, brokers: Iterable[str]) -> list[Event]:
    """Bring them home from the brokers' hosts; of one whose host is lost, or where nothing happened, none."""
    events = []
    for broker in brokers:
        path = events_file(folder, broker)
        with suppress(MachineError):
            site.fetch(broker, path)
        for line in path.read_text().splitlines() if path.exists() else ():
            at_ns, kind, *more = json.loads(line)
            events.append(Event(at_ns, broker, kind, *more))
    return events


def ownership(events: Iterable[Event], until_ns: int) -> tuple[list[Spell], list[Sample]]:
    """Who had which topic, and samples of how they parted from it.

    What a broker did while it was down, it did before, by a clock that is ahead of ours.
    """
    spells: list[Spell] = []
    samples: list[Sample] = []
    opened: dict[tuple[str, str], int] = {}  # (topic, broker) -> since when
    fenced: dict[tuple[str, str], int] = {}  # the same, of those that are not drained
    down = set[str]()
    for at_ns, broker, kind, topic, left_count in sorted(events, key=lambda event: event.at_ns):
        if kind == "restart":
            down.discard(broker)
        if broker in down:
            continue
        if kind == "open":
            early = any(name == topic and other != broker for name, other in (*opened, *fenced))
            opened[topic, broker] = at_ns
            samples.append((at_ns, topic, "early_open_count", float(early)))
        elif kind == "left":
            samples.append((at_ns, topic, "undelivered_count", float(left_count)))
        elif kind == "drained":
            samples.append((at_ns, topic, "drain_ns", float(at_ns - fenced.pop((topic, broker), at_ns))))
        for name, owner in list(opened):
            if owner == broker and (kind == "crash" or (kind == "fence" and name == topic)):
                spells.append(Spell(name, owner, opened.pop((name, owner)), at_ns))
        if kind == "fence":
            fenced[topic, broker] = at_ns
        elif kind == "crash":
            down.add(broker)
            fenced = {key: since for key, since in fenced.items() if key[1] != broker}
    spells += [Spell(topic, broker, since_ns, until_ns) for (topic, broker), since_ns in opened.items()]
    ended = [spell._replace(end_ns=min(spell.end_ns, until_ns)) for spell in spells]
    spells = sorted((spell for spell in ended if spell.start_ns < spell.end_ns), key=lambda spell: spell.start_ns)
    return spells, samples
