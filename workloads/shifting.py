"""shifting: one topic whose traffic moves between two halves of its publishers (SRTM V-D).

The topic stays within its envelope, since only the publishers' names change: the superposed
Poisson process and the draws that pick a publisher are the same whatever the shares are.  Two
configs that differ in shares alone are a fair pair.
"""

import math
from dataclasses import dataclass

import numpy as np

from core.limits import ByteCount, PublisherCount, Rps, UserCount
from core.records import Block, Float64, Int64, Population
from core.seeds import generator
from workloads.api import Workload, require, span_of
from workloads.chunks import ChunkedSchedule, chunk_length_ns, order_ties
from workloads.poisson import poisson_instants


@dataclass(frozen=True)
class ShiftingConfig:
    """Options of a Poisson topic that shifts.  Raises SpecError when made."""

    publishers: PublisherCount = 1_000  # the first half of the ids (rounded down) is one set, the rest the other
    rate_rps: Rps = 10.0  # mean messages a second of a publisher over the whole topic, SRTM VI-A
    batch: UserCount = 1  # messages sent at once, SRTM VI-B
    shift_at: str = "20s"  # ours: when the shares begin to change
    ramp: str = "0s"  # ours: how long they change, linearly; 0 = at once
    share_before: float = 0.5  # ours: the first set's share of the topic's messages before
    share_after: float = 0.8  # ours: the same afterwards
    size_bytes: ByteCount = 150  # message body, SRTM's artifact

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """SpecError that names the first impossible field."""
        require(2 <= self.publishers <= 100_000_000, "publishers", self.publishers, "give 2 to 100,000,000 publishers")
        require(0 < self.rate_rps < math.inf, "rate_rps", self.rate_rps, "give a finite rate above 0")
        require(self.batch >= 1, "batch", self.batch, "give 1 or more messages")
        span_of("shift_at", self.shift_at)
        span_of("ramp", self.ramp)
        for name in ("share_before", "share_after"):
            share = getattr(self, name)
            require(0 <= share <= 1, name, share, "give a share from 0 to 1")
        require(0 <= self.size_bytes < 2**31, "size_bytes", self.size_bytes, "give 0 or more bytes")


class ShiftingSchedule(ChunkedSchedule):
    """The traffic of one topic that shifts; ``population`` has the rates before the shift."""

    def __init__(self, config: ShiftingConfig, seed: int):
        self.config, self.seed = config, seed
        self.first_count = config.publishers // 2
        self.shift_at_ns, self.ramp_ns = span_of("shift_at", config.shift_at), span_of("ramp", config.ramp)
        self._events_rps = config.publishers * config.rate_rps / config.batch
        super().__init__(self.population_at(self.shift_at_ns - 1), chunk_length_ns(self._events_rps))

    def share_at(self, at_ns: Int64) -> Float64:
        """The first set's share of the topic's messages at each instant, float64 (n,)."""
        since_ns = at_ns - self.shift_at_ns
        done = np.clip(since_ns / self.ramp_ns, 0.0, 1.0) if self.ramp_ns else (since_ns >= 0).astype(np.float64)
        return (1.0 - done) * self.config.share_before + done * self.config.share_after

    def population_at(self, at_ns: int) -> Population:
        """The publishers with their rates at an instant."""
        config, first = self.config, self.first_count
        share = float(self.share_at(np.array([at_ns]))[0])
        total_rps = config.publishers * config.rate_rps
        rate_rps = np.empty(config.publishers)
        rate_rps[:first] = total_rps * share / first
        rate_rps[first:] = total_rps * (1.0 - share) / (config.publishers - first)
        return Population(rate_rps, np.arange(config.publishers, dtype=np.int32))

    def _shares(self, index: int, at_ns: Int64) -> Float64:
        """``share_at``, as one number for a chunk that the shift does not touch."""
        ends_ns = np.array([index * self.chunk_ns, (index + 1) * self.chunk_ns])
        at_ends = self.share_at(ends_ns)
        return at_ends[:1] if at_ends[0] == at_ends[1] else self.share_at(at_ns)

    def _chunk(self, index: int) -> Block:
        config, first = self.config, self.first_count
        draws = generator(self.seed, "shifting", index)
        at_ns = poisson_instants(draws, self._events_rps, index * self.chunk_ns, self.chunk_ns)
        in_first = draws.random(len(at_ns)) < self._shares(index, at_ns)
        member = draws.random(len(at_ns)) * np.where(in_first, first, config.publishers - first)
        publisher = member.astype(np.int32)
        publisher[~in_first] += np.int32(first)
        order_ties(at_ns, publisher)
        return Block(at_ns, publisher, np.full(len(at_ns), config.batch, np.int32), config.size_bytes)


WORKLOAD = Workload(
    key="shifting",
    summary="a Poisson topic whose traffic moves between two halves of its publishers",
    config=ShiftingConfig,
    make=ShiftingSchedule,
)
