"""What became of everything that was offered, counted from the actors' own files alone: senders' at one end, receivers'
at the other.  Nothing here asks the accounts of ``testbed.trust``; sets of numbers, and what is in none of them is an
error, not a rest.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

ABSENT = -1


class Fates(NamedTuple):
    """Numbers by fate, which sum to ``offered``; ``strange``: what cannot be, a sentence each."""

    offered: int
    counts: dict[str, int]
    strange: tuple[str, ...] = ()

    def problems(self) -> list[str]:
        """Why this is no account."""
        total = sum(self.counts.values())
        residual = [] if total == self.offered else [f"fates sum to {total}, offered were {self.offered}"]
        return residual + list(self.strange)

    def __add__(self, other: "Fates") -> "Fates":  # type: ignore[override]
        counts = {name: count + other.counts.get(name, 0) for name, count in self.counts.items()}
        return Fates(self.offered + other.offered, counts, self.strange + other.strange)


def message_fates(offered: Iterable[int], sent: set[int], acknowledged: set[int], deliveries: Iterable[int]) -> Fates:
    """Of a topic's messages: what senders say of each, and how often the subscribers have it."""
    times = Counter(deliveries)
    counts = dict.fromkeys(("not_sent", "unacknowledged", "undelivered", "delivered", "duplicated"), 0)
    known = set(offered)
    for number in known:
        if times[number]:
            counts["delivered" if times[number] == 1 else "duplicated"] += 1
        elif number in acknowledged:
            counts["undelivered"] += 1
        else:
            counts["unacknowledged" if number in sent else "not_sent"] += 1
    foreign = (times.keys() | sent | acknowledged) - known
    strange = [f"{len(foreign)} messages were never offered"] if foreign else []
    if acknowledged - sent:
        strange.append(f"{len(acknowledged - sent)} messages were acknowledged and not sent")
    return Fates(len(known), counts, tuple(strange))


def request_fates(
    offered: Iterable[int],
    users: Mapping[int, tuple[bool, bool | None]],
    nodes: Mapping[int, bool],
) -> Fates:
    """Of requests: at the users whether each was sent, and the verdict that came; at the nodes the verdict."""
    counts = dict.fromkeys(("not_sent", "no_verdict", "verdict_lost", "admit", "reject"), 0)
    known, strange = set(offered), list[str]()
    differing = unsent = 0
    for number in known:
        was_sent, told = users.get(number, (False, None))
        decided = nodes.get(number)
        unsent += not was_sent and (told is not None or decided is not None)
        differing += told is not None and decided is not None and told != decided
        if told is not None:
            counts["admit" if told else "reject"] += 1
        elif decided is not None:
            counts["verdict_lost"] += 1
        else:
            counts["no_verdict" if was_sent else "not_sent"] += 1
    foreign = (users.keys() | nodes.keys()) - known
    for count, what in (
        (len(foreign), "requests were never offered"),
        (unsent, "requests were decided and never sent"),
        (differing, "verdicts differ between node and user"),
    ):
        if count:
            strange.append(f"{count} {what}")
    return Fates(len(known), counts, tuple(strange))


# --- the actors' files ---------------------------------------------------------------------------------------


def _tables(folder: Path, pattern: str) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The .npz files that were kept, in the order in which they came home: their names, less that number."""
    for path in sorted(folder.glob(pattern), key=lambda path: int(path.name.partition(".")[0])):
        with np.load(path) as tables:
            yield path.name.partition(".")[2], dict(tables)


def topic_fates(kept: Path, offered: int) -> Fates:
    """A topic's, of its last load: the files of publishers' and subscribers' hosts."""
    parts = [(int(name.rsplit(".", 3)[1]), columns) for name, columns in _tables(kept, "*.rows.npz")]
    came = list[tuple[int, int]]()  # of which load, and which message
    for _, columns in _tables(kept, "*.deliveries.npz"):
        topics = columns["topics"].tolist()
        if "topic" in topics:
            mine = columns["topic"] == topics.index("topic")
            came += zip(columns["tag"][mine].tolist(), columns["message"][mine].tolist(), strict=True)
    # Of the last load the senders may all have been killed, and left nothing.
    last = max((tag for tag, _ in [*parts, *came]), default=0)
    sent, acknowledged = set[int](), set[int]()
    for tag, columns in parts:
        if tag == last:
            sent |= _where(columns, "sent_at_ns")
            acknowledged |= _where(columns, "acknowledged_at_ns")
    deliveries = [message for tag, message in came if tag == last]
    return message_fates(range(offered), sent, acknowledged, deliveries)


def _where(columns: Mapping[str, np.ndarray], name: str) -> set[int]:
    return set(columns["message"][columns[name] != ABSENT].tolist())


def limiter_fates(kept: Path, offered: Iterable[int]) -> Fates:
    """A limiter's: the files of the users' hosts, and of every process that a node has had."""
    users: dict[int, tuple[bool, bool | None]] = {}
    for _, columns in _tables(kept, "*.users.npz"):
        for number, sent_ns, received_ns, _, admitted, _ in columns["rows"].tolist():
            users[number] = sent_ns != ABSENT, bool(admitted) if received_ns != ABSENT else None
    nodes: dict[int, bool] = {}
    for path in sorted((kept / "nodes").glob("*.jsonl")):
        for line in path.read_text().split("\n")[:-1]:  # the last one may be torn
            kind, *row = json.loads(line)
            if kind == "verdict":
                nodes[row[1]] = row[2] == "admit"
    return request_fates(offered, users, nodes)


def clients_fates(kept: Path) -> Fates:
    """Those of all producers and topics of a placement run.

    Who is owed what is the run's own business: here a message is ``had`` by somebody, or by nobody.
    """
    whole = Fates(0, dict.fromkeys(("not_sent", "unacknowledged", "acknowledged", "had"), 0))
    tables = {path.stem: dict(np.load(path)) for path in sorted((kept / "clients").glob("*.npz"))}
    numbers = {client: number for number, client in enumerate(_script(kept))}
    copies: dict[str, set[tuple[int, int]]] = {}
    produced: set[tuple[str, int]] = set()
    for columns in tables.values():
        for name, rows in columns.items():
            if name.startswith("got:"):
                copies.setdefault(name[4:], set()).update(map(tuple, rows[:, :2].tolist()))
    for client, columns in tables.items():
        for name, rows in columns.items():
            if not name.startswith("sent:"):
                continue
            topic, mine = name[5:], numbers[client]
            produced.add((topic, mine))
            counts = dict.fromkeys(whole.counts, 0)
            for number, (_, _, sent_ns, answered_ns, *_) in enumerate(rows.tolist()):
                if (mine, number) in copies.get(topic, ()):
                    counts["had"] += 1
                elif answered_ns != ABSENT:
                    counts["acknowledged"] += 1
                else:
                    counts["unacknowledged" if sent_ns != ABSENT else "not_sent"] += 1
            foreign = sum(its == mine and number >= len(rows) for its, number in copies.get(topic, ()))
            strange = (f"{client}: {foreign} messages were never offered",) if foreign else ()
            whole += Fates(len(rows), counts, strange)
    orphans = sum((topic, its) not in produced for topic, those in copies.items() for its, _ in those)
    return whole if not orphans else whole._replace(strange=(*whole.strange, f"{orphans} messages of nobody"))


def _script(kept: Path) -> list[str]:
    return list(json.loads((kept / "clients" / "script.json").read_bytes())["clients"])
