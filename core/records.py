"""What is passed between the floors: publishers, envelopes, schedules of arrivals, requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

# What is open by nature, by the meanings it has here.
Json = dict[str, Any]  # an object of JSON, TOML or MessagePack, as read or about to be written
Options = Mapping[str, Any]  # settings by name, as somebody wrote them: whoever takes them checks them
Row = dict[str, Any]  # a row of a table, by column
Columns = Mapping[str, Any]  # a table: column name -> list or NumPy array

Sample = tuple[int, str, str, float]  # at_ns, node, metric, value

COST_MAXIMUM = 2**31 - 1  # tokens of one request: what the tables hold


class Request(Struct, frozen=True):
    """One request of a user to a rate-limited service; it costs 1 to ``COST_MAXIMUM`` tokens."""

    id: int
    user: str
    at_ns: int  # the intended instant
    cost: int = 1

    def __post_init__(self) -> None:
        assert 1 <= self.cost <= COST_MAXIMUM, f"request {self.id} costs {self.cost} tokens"


@dataclass(frozen=True)
class Population:
    """The publishers of a topic: entry i describes publisher i.

    ``rate_rps``: mean message rate, float64 (n,).  ``group``: correlation group key, int32 (n,);
    publishers of one key emit at (nearly) the same instants; a publisher alone has a key of its own.
    """

    rate_rps: Float64
    group: Int32

    def __post_init__(self) -> None:
        assert self.rate_rps.shape == self.group.shape and self.rate_rps.ndim == 1
        assert self.rate_rps.dtype == np.float64 and self.group.dtype == np.int32

    @property
    def count(self) -> int:
        """Number of publishers."""
        return len(self.rate_rps)

    @property
    def total_rps(self) -> float:
        """Message rate of the whole topic."""
        return float(self.rate_rps.sum())


@dataclass(frozen=True)
class Envelope:
    """A topic's token bucket (r, b): ``rate_rps`` tokens a second, at most ``burst_count`` saved up."""

    rate_rps: float
    burst_count: float


@dataclass(frozen=True)
class Block:
    """The emissions of one window, in canonical order (instant, then publisher).

    Row i: at ``at_ns[i]`` publisher ``publisher[i]`` sends ``count[i]`` messages of ``size_bytes``
    each at once (a batch wakes its broker once).  Arrays: int64, int32, int32.  ``size_bytes`` is one
    number for all rows, or int32 (n,) where a trace gives sizes.
    """

    at_ns: Int64
    publisher: Int32
    count: Int32
    size_bytes: int | Int32 = 150

    @property
    def message_count(self) -> int:
        """Messages in the block."""
        return int(self.count.sum())

    def messages(self) -> tuple[Int64, Int32, Int32]:
        """One row a message: (at_ns[], publisher[], size_bytes[])."""
        at_ns, publisher = np.repeat(self.at_ns, self.count), np.repeat(self.publisher, self.count)
        size_bytes = np.broadcast_to(np.asarray(self.size_bytes, np.int32), self.at_ns.shape)
        return at_ns, publisher, np.repeat(size_bytes, self.count)


class Schedule(Protocol):
    """The arrivals of one topic: random access by window, independent of system, assignment and testbed."""

    population: Population

    def block(self, start_ns: int, end_ns: int) -> Block:
        """The emissions with ``start_ns <= at_ns < end_ns``; asking twice gives the same arrays."""
        ...
