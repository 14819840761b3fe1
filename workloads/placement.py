"""Which node a request reaches: the thesis' injector (4.3.1), sticky users, or chance.

The injector hashes a request's recorded time multiplied by its user's number consistently onto the
nodes: a user's requests spread over all of them, but those of one millisecond reach the same one.
Ids, users, instants and costs of requests never depend on the nodes, their placement alone does.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.records import Int32, Int64, Request
from core.seeds import generator
from core.units import MILLISECOND_NS

RULES = ("injector", "user", "random")
RING_POINTS = 512  # ours: of each node; its share of the requests is then off by about 4 % (1 / sqrt(512))
EPOCH_MS = 1_600_000_000_000  # ours: recorded times are UNIX times; instants here begin at 0, which times a user is 0
_USER_ID = re.compile(r"[0-9a-f]{32}")


class Columns(NamedTuple):
    """Requests in order of time, one row each: int64, int32 (an index of ``names``), int32 tokens; users' names."""

    at_ns: Int64
    user: Int32
    cost: Int32
    names: tuple[str, ...]


def user_number(name: str) -> int:
    """The integer that a user's name stands for: 32 hex digits (thesis 4.3.1) as they are, other text by its digest."""
    if _USER_ID.fullmatch(name):
        return int(name, 16)
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "little")


def user_id(rng: np.random.Generator) -> str:
    """A user's name as the thesis' recordings have it: 32 hex digits."""
    return rng.bytes(16).hex()


@lru_cache(maxsize=8)
def _ring(nodes: tuple[str, ...]) -> tuple[NDArray[np.uint64], Int32]:
    """Points of the ring in order, and the index of the node that each belongs to."""
    digests = b"".join(
        blake2b(f"{number} {name}".encode(), digest_size=8).digest() for name in nodes for number in range(RING_POINTS)
    )
    points = np.frombuffer(digests, "<u8")
    owner = np.repeat(np.arange(len(nodes), dtype=np.int32), RING_POINTS)
    order = np.argsort(points, kind="stable")
    return points[order], owner[order]


def owners(nodes: Sequence[str], keys: Sequence[int]) -> Int32:
    """Index of the node that each key (0 to 2^192) is hashed to; a node that leaves moves its own keys only."""
    points, owner = _ring(tuple(nodes))
    digests = b"".join([blake2b(key.to_bytes(24, "little"), digest_size=8).digest() for key in keys])
    return owner[np.searchsorted(points, np.frombuffer(digests, "<u8")) % len(points)]


def place(rule: str, seed: int, nodes: Sequence[str], columns: Columns) -> Int32:
    """Index of the node that each request reaches.

    ``injector``: consistent hash of time in ms x user number; ``user``: of the user number alone;
    ``random``: drawn for each request, from a stream of its user's own.
    """
    assert rule in RULES and nodes and len(set(nodes)) == len(nodes)
    if rule == "random":
        places = np.zeros(len(columns.user), np.int32)
        order = np.argsort(columns.user, kind="stable")
        counts = np.bincount(columns.user, minlength=len(columns.names))
        draws = [
            generator(seed, "placement", name).random(count) for name, count in zip(columns.names, counts, strict=True)
        ]
        places[order] = np.concatenate(draws or [np.zeros(0)]) * len(nodes)
        return places
    numbers = [user_number(name) for name in columns.names]
    if rule == "user":
        return owners(nodes, numbers)[columns.user]
    recorded_ms = columns.at_ns // MILLISECOND_NS + EPOCH_MS
    return owners(
        nodes, [at_ms * numbers[user] for at_ms, user in zip(recorded_ms.tolist(), columns.user.tolist(), strict=True)]
    )


def before(columns: Columns, end_ns: int) -> Columns:
    """The requests before an instant."""
    end = int(np.searchsorted(columns.at_ns, end_ns))
    return Columns(columns.at_ns[:end], columns.user[:end], columns.cost[:end], columns.names)


def at_nodes(nodes: Sequence[str], columns: Columns, places: Int32) -> dict[str, list[Request]]:
    """Requests of each node in order of time; a request's row is its id.  ``places``: the index of its node."""
    requests: dict[str, list[Request]] = {name: [] for name in nodes}
    append = [requests[name].append for name in nodes]
    rows = zip(places.tolist(), columns.at_ns.tolist(), columns.user.tolist(), columns.cost.tolist(), strict=True)
    for number, (node, instant, index, tokens) in enumerate(rows):
        append[node](Request(number, columns.names[index], instant, tokens))
    return requests


class PlacedRequests:
    """What a limiter is offered: requests in columns, placed on whatever nodes there are.

    ``duration_ns``: the natural length; every request comes before it.
    """

    def __init__(self, columns: Columns, duration_ns: int, rule: str, seed: int):
        assert (np.diff(columns.at_ns) >= 0).all()
        assert len(columns.at_ns) == 0 or 0 <= columns.at_ns[0] <= columns.at_ns[-1] < duration_ns
        self._columns, self.duration_ns, self._rule, self._seed = columns, duration_ns, rule, seed

    def columns(self) -> Columns:
        """All requests in order of time; a request's row is its id."""
        return self._columns

    def requests(self, nodes: Sequence[str], duration_ns: int) -> dict[str, list[Request]]:
        """Requests of each node in order of time, before ``duration_ns``; ids count up over all nodes."""
        part = before(self._columns, duration_ns)
        return at_nodes(nodes, part, place(self._rule, self._seed, nodes, part))
