"""poisson: every correlation group emits at the instants of a Poisson process (SRTM VI-A).

The groups' processes are drawn as one superposed process of the topic: the number of events of a
chunk is Poisson, their instants are uniform order statistics (normalised sums of exponentials, so
nothing is sorted), and each falls to a group in proportion to its rate.  Instants are rounded down to
whole nanoseconds.  Randomness is named by the topic.
"""

import numpy as np

from core.records import Float64, Int32, Int64
from core.seeds import generator
from core.units import SECOND_NS
from workloads.api import Workload
from workloads.chunks import order_ties
from workloads.groups import GroupedConfig, GroupedSchedule, group_rates


def poisson_instants(draws: np.random.Generator, events_rps: float, start_ns: int, length_ns: int) -> Int64:
    """The instants of a Poisson process of ``events_rps`` within a window, ascending, int64 (n,)."""
    count = int(draws.poisson(events_rps * length_ns / SECOND_NS))
    sums = draws.standard_exponential(count + 1)
    np.cumsum(sums, out=sums)
    sums *= length_ns / sums[-1]
    # The last sum is the end of the window itself; rounding must not carry another one there.
    return np.minimum(sums[:-1].astype(np.int64), length_ns - 1) + start_ns


class PoissonSchedule(GroupedSchedule):
    """The Poisson traffic of one topic."""

    def __init__(self, config: GroupedConfig, seed: int):
        rates_rps = group_rates(config, seed)
        super().__init__(config, seed, rates_rps)
        self._events_rps = float(rates_rps.sum()) / config.batch
        self._alias = None if config.rates == "homogeneous" else alias_table(rates_rps)

    def _events(self, index: int) -> tuple[Int64, Int32]:
        draws = generator(self.seed, "poisson", index)
        at_ns = poisson_instants(draws, self._events_rps, index * self.chunk_ns, self.chunk_ns)
        group = self._groups(draws, len(at_ns))
        order_ties(at_ns, group)
        return at_ns, group

    def _groups(self, draws: np.random.Generator, count: int) -> Int32:
        """The group of each event, int32 (count,)."""
        if self._alias is None:
            return draws.integers(0, self.config.group_count, count, dtype=np.int32)
        keep_probability, other = self._alias
        draw = draws.random(count) * len(other)
        column = draw.astype(np.int32)
        return np.where(draw - column < keep_probability[column], column, other[column])


def alias_table(weight: Float64) -> tuple[Float64, Int32]:
    """Walker's alias table (Vose's construction): probability of keeping a column, and the other choice.

    A draw takes one uniform number, however many weights there are.
    """
    count = len(weight)
    keep_probability = weight * (count / weight.sum())
    other = np.arange(count, dtype=np.int32)
    small = [i for i in range(count) if keep_probability[i] < 1.0]
    large = [i for i in range(count) if keep_probability[i] >= 1.0]
    while small and large:
        poor, rich = small.pop(), large[-1]
        other[poor] = rich
        keep_probability[rich] -= 1.0 - keep_probability[poor]
        if keep_probability[rich] < 1.0:
            small.append(large.pop())
    keep_probability[small + large] = 1.0  # what is left differs from 1 by rounding only
    return keep_probability, other


WORKLOAD = Workload(
    key="poisson",
    summary="Poisson publishers, alone or in correlation groups",
    config=GroupedConfig,
    make=PoissonSchedule,
)
