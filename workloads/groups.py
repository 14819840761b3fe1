"""Publishers in correlation groups: what Poisson and periodic traffic share.

All members of a group emit at the same instants, or within ``spread`` of them.  Independent
publishers are groups of one.  Members have consecutive publisher ids: group j holds the publishers
[j x group_size, (j + 1) x group_size), the last group those that are left.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from core.limits import DRAWN, ByteCount, PublisherCount, Rps, UserCount, check_product
from core.records import Block, Float64, Int32, Int64, Population
from core.seeds import child_seed, generator
from core.units import SECOND_NS
from workloads.api import require, span_of
from workloads.chunks import ChunkedSchedule, chunk_length_ns, order_ties, sort_pairs

RATE_KINDS = ("homogeneous", "zipf", "pareto")
SPREAD_KINDS = ("even", "uniform")


@dataclass(frozen=True)
class GroupedConfig:
    """Options of a topic whose publishers emit in correlation groups.  Raises SpecError when made."""

    publishers: PublisherCount = 1_000  # SRTM VI-E
    rate_rps: Rps = 10.0  # mean messages a second of a publisher, SRTM VI-A
    batch: UserCount = 1  # messages sent at once, at 1/batch of the frequency, SRTM VI-B: 1 or 10
    rates: str = "homogeneous"  # SRTM VI-A; or zipf | pareto: rates of the groups (ours)
    rates_shape: float = 1.5  # ours: exponent of zipf (rank^-shape), tail index of pareto
    group_size: int = 1  # publishers of a correlation group, SRTM VI-D; 1 = independent
    spread: str = "0ms"  # interval over which a group's instants are spread, SRTM VI-D, Fig. 9: 0-16 ms
    spread_kind: str = "even"  # SRTM VI-D "evenly spread": member i at i x spread/(g-1); or uniform: drawn each time
    size_bytes: ByteCount = 150  # message body, SRTM's artifact

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """SpecError that names the first impossible field."""
        require(1 <= self.publishers <= 100_000_000, "publishers", self.publishers, "give 1 to 100,000,000 publishers")
        require(0 < self.rate_rps < math.inf, "rate_rps", self.rate_rps, "give a finite rate above 0")
        require(self.batch >= 1, "batch", self.batch, "give 1 or more messages")
        require(self.rates in RATE_KINDS, "rates", self.rates, f"choose one of {', '.join(RATE_KINDS)}")
        least = 1.0 if self.rates == "pareto" else 0.0  # at a tail index of 1 or less there is no mean
        require(least < self.rates_shape < math.inf, "rates_shape", self.rates_shape, f"give a number above {least}")
        rule = f"give 1 to publishers={self.publishers} members"
        require(1 <= self.group_size <= self.publishers, "group_size", self.group_size, rule)
        require(0 <= self.spread_ns <= 60 * SECOND_NS, "spread", self.spread, "give at most 60s")
        kinds = ", ".join(SPREAD_KINDS)
        require(self.spread_kind in SPREAD_KINDS, "spread_kind", self.spread_kind, f"choose one of {kinds}")
        require(0 <= self.size_bytes < 2**31, "size_bytes", self.size_bytes, "give 0 or more bytes")

    @property
    def spread_ns(self) -> int:
        """The span from the first to the last possible instant of a group's emission."""
        return span_of("spread", self.spread)

    @property
    def group_count(self) -> int:
        """Correlation groups, the smaller last one included."""
        return -(-self.publishers // self.group_size)

    @property
    def group_sizes(self) -> Int64:
        """Members of each group, int64 (groups,)."""
        sizes = np.full(self.group_count, self.group_size)
        sizes[-1] = self.publishers - self.group_size * (self.group_count - 1)
        return sizes


def unit_draws(seed: int, name: str, count: int) -> Float64:
    """One uniform number in [0, 1) a group, each from a branch of its own, so that no group shifts another.

    SpecError for too many.
    """
    check_product("workload", DRAWN, groups=count)
    return np.array([(child_seed(seed, name, group) >> 11) * 2.0**-53 for group in range(count)])


def group_rates(config: GroupedConfig, seed: int) -> Float64:
    """Message rate of one member of each group, float64 (groups,); the mean over publishers is ``rate_rps``.

    zipf: the group of rank i has the weight i^-shape, ranks dealt at random; pareto: weights drawn.
    """
    if config.rates == "homogeneous":
        return np.full(config.group_count, float(config.rate_rps))
    draws = unit_draws(seed, "rates", config.group_count)
    if config.rates == "zipf":
        rank = np.empty(config.group_count)
        rank[np.argsort(draws, kind="stable")] = np.arange(1, config.group_count + 1)
        weight = rank**-config.rates_shape
    else:
        weight = (1.0 - draws) ** (-1.0 / config.rates_shape)
    return weight * (config.publishers * config.rate_rps / float(weight @ config.group_sizes))


class GroupedSchedule(ChunkedSchedule):
    """Turns a group's events into its members' emissions; subclasses say when each group has an event."""

    def __init__(self, config: GroupedConfig, seed: int, rates_rps: Float64, chunk_ns: int | None = None):
        """``rates_rps``: of a member of each group, float64 (groups,); ``chunk_ns``: the shortest chunk if given."""
        sizes = config.group_sizes
        population = Population(
            np.repeat(rates_rps, sizes), np.repeat(np.arange(config.group_count, dtype=np.int32), sizes)
        )
        # An emission is then never later than one chunk after its group's event.
        least_ns = config.spread_ns + 1
        if chunk_ns is None:
            super().__init__(population, chunk_length_ns(population.total_rps / config.batch, least_ns))
        else:
            super().__init__(population, chunk_ns * -(-least_ns // chunk_ns))
        self.config, self.seed = config, seed
        self.spread_ns = config.spread_ns if config.group_size > 1 else 0
        self._offset_ns = even_offsets(config) if self.spread_ns else None
        self._late: dict[int, tuple[Int64, Int32]] = {}

    @abstractmethod
    def _events(self, index: int) -> tuple[Int64, Int32]:
        """The events of chunk ``index``: instant and group, (n,), in the order (instant, group)."""

    def _chunk(self, index: int) -> Block:
        """The emissions of a chunk: of its own events, and those that the chunk before left over."""
        if self.spread_ns == 0:
            at_ns, publisher = self._members(*self._events(index))
        else:
            if index - 1 not in self._late:
                self._spread(index - 1)
            late_at_ns, late_publisher = self._late[index - 1]
            own_at_ns, own_publisher = self._spread(index)
            at_ns = np.concatenate([late_at_ns, own_at_ns])
            publisher = np.concatenate([late_publisher, own_publisher])
            at_ns, wide = sort_pairs(at_ns, publisher, self.config.publishers, index * self.chunk_ns)
            publisher = wide.astype(np.int32)
        count = np.full(len(at_ns), self.config.batch, np.int32)
        return Block(at_ns, publisher, count, self.config.size_bytes)

    def _members(self, at_ns: Int64, group: Int32) -> tuple[Int64, Int32]:
        """One row a member: instant and publisher; events in order give rows in order."""
        size, publishers = self.config.group_size, self.config.publishers
        if size == 1:
            return at_ns, group
        member = np.arange(size, dtype=np.int32)
        rows_publisher = (group[:, None] * np.int32(size) + member).ravel()
        rows_at_ns = np.repeat(at_ns, size)
        if publishers % size:
            inside = rows_publisher < publishers
            rows_at_ns, rows_publisher = rows_at_ns[inside], rows_publisher[inside]
        # Two events of one group in one nanosecond: its members' rows must interleave.
        if not self.spread_ns and np.any((at_ns[1:] == at_ns[:-1]) & (group[1:] == group[:-1])):
            order_ties(rows_at_ns, rows_publisher)
        return rows_at_ns, rows_publisher

    def _spread(self, index: int) -> tuple[Int64, Int32]:
        """Rows of a chunk's events, spread out, that lie in the chunk; the later ones are kept aside."""
        at_ns, publisher = self._members(*self._events(index))
        if self.config.spread_kind == "even":
            assert self._offset_ns is not None
            at_ns = at_ns + self._offset_ns[publisher]
        else:
            draws = generator(self.seed, "spread", index)
            at_ns = at_ns + draws.integers(0, self.spread_ns, len(at_ns), endpoint=True)
        late = at_ns >= (index + 1) * self.chunk_ns
        self._late[index] = at_ns[late], publisher[late]
        if len(self._late) > 2:
            del self._late[next(iter(self._late))]
        return at_ns[~late], publisher[~late]


def even_offsets(config: GroupedConfig) -> Int64:
    """Delay of each publisher behind its group's event, int64 (publishers,).

    Member i of g: floor(i x spread / (g - 1)); the first member at 0, the last at the spread.
    """
    sizes = np.repeat(config.group_sizes, config.group_sizes)
    member = np.arange(config.publishers) % config.group_size
    return member * config.spread_ns // np.maximum(sizes - 1, 1)
