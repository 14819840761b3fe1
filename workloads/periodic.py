"""periodic: every correlation group emits with a fixed period, from a phase drawn uniformly (SRTM VI-A).

The period is batch / rate, rounded to a whole nanosecond (within 1 ns and 36 years); phases are
rounded down.
Randomness is named by the group, so that adding a group moves no other.
"""

import numpy as np

from core.records import Float64, Int32, Int64
from core.units import SECOND_NS
from workloads.api import Workload
from workloads.chunks import CHUNK_MAX_NS, CHUNK_ROW_COUNT, ranges, sort_pairs
from workloads.groups import GroupedConfig, GroupedSchedule, group_rates, unit_draws


def periods(config: GroupedConfig, rates_rps: Float64) -> Int64:
    """The period of each group, int64 (groups,)."""
    return np.rint(np.clip(config.batch * SECOND_NS / rates_rps, 1, 2**60)).astype(np.int64)


class PeriodicSchedule(GroupedSchedule):
    """The periodic traffic of one topic: exactly one event of each group in any window of its period."""

    def __init__(self, config: GroupedConfig, seed: int):
        rates_rps = group_rates(config, seed)
        self._period_ns = periods(config, rates_rps)
        period_ns = int(self._period_ns[0])
        # All of one short period: a chunk is whole periods, one pattern repeated and never sorted.
        self._shared_ns = period_ns if config.rates == "homogeneous" and period_ns <= CHUNK_MAX_NS else None
        chunk_ns = None
        if self._shared_ns is not None:
            chunk_ns = period_ns * max(1, min(CHUNK_ROW_COUNT // config.publishers, CHUNK_MAX_NS // period_ns))
        super().__init__(config, seed, rates_rps, chunk_ns)
        phase_ns = (unit_draws(seed, "phase", config.group_count) * self._period_ns).astype(np.int64)
        self._order = np.argsort(phase_ns, kind="stable").astype(np.int32)
        self._sorted_phase_ns, self._phase_ns = phase_ns[self._order], phase_ns

    def _events(self, index: int) -> tuple[Int64, Int32]:
        start_ns = index * self.chunk_ns
        if self._shared_ns is not None:
            turns = np.arange(start_ns, start_ns + self.chunk_ns, self._shared_ns)
            return (turns[:, None] + self._sorted_phase_ns).ravel(), np.tile(self._order, len(turns))
        first = -((self._phase_ns - start_ns) // self._period_ns)  # the first turn at or after the start
        after = -((self._phase_ns - start_ns - self.chunk_ns) // self._period_ns)
        turn, group = ranges(first, after)
        at_ns = self._phase_ns[group] + turn * self._period_ns[group]
        at_ns, group = sort_pairs(at_ns, group, self.config.group_count, start_ns, nearly_sorted=False)
        return at_ns, group.astype(np.int32)


WORKLOAD = Workload(
    key="periodic",
    summary="periodic publishers of random phase, alone or in correlation groups",
    config=GroupedConfig,
    make=PeriodicSchedule,
)
