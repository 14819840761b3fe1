"""Whether two things differ, from pairs of values: signed ranks, Holm's correction over all that was compared.

A pair is two runs of one point and repetition.  Where nothing that matters was changed, which of the two values is the
first is as good as tossed: the differences of a pair are symmetric about 0, whatever the points are, and so pairs of
different points can be ranked together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.verdicts import Interval, t_interval

ERROR = 0.05  # of saying that anything differs where nothing does, over all that is compared
RANKED_FROM = 12  # pairs: of fewer not even unanimous ranks are significant among a hundred comparisons


@dataclass(frozen=True)
class Comparison:
    """Values of one measure, ``one[i]`` and ``other[i]`` of one point and repetition."""

    one: tuple[float, ...]
    other: tuple[float, ...]

    @property
    def difference(self) -> Interval:
        """``other - one``, with its 95 % interval by Student's t."""
        return t_interval([after - before for before, after in zip(self.one, self.other, strict=True)])

    @property
    def is_same(self) -> bool:
        """Whether every pair is of one value."""
        return self.one == self.other

    @property
    def p(self) -> float:
        """How probable differences as clear as these are where nothing differs; 1 for a single pair.

        Wilcoxon's signed ranks of relative differences, in which no point outweighs the others.  Of fewer than
        ``RANKED_FROM`` pairs that differ, Student's t; and where those are all alike, which says nothing about their
        spread, the signs.
        """
        from scipy.stats import ttest_1samp, wilcoxon

        one, other = np.array(self.one), np.array(self.other)
        apart = one != other
        scale = np.abs(one) + np.abs(other)
        relative = np.divide(other - one, scale, out=np.zeros(len(one)), where=scale > 0)
        count = int(apart.sum())
        if len(one) < 2 or count == 0:
            return 1.0
        if count >= RANKED_FROM:
            return float(wilcoxon(relative[apart]).pvalue)
        if np.ptp(relative) <= 1e-9 * np.abs(relative).max():
            return float(2.0 ** (1 - count))
        return float(ttest_1samp(relative, 0.0).pvalue)


def holm(probabilities: Sequence[float]) -> list[float]:
    """Holm's adjusted probabilities, in the order given: those of at most ``ERROR`` are significant together."""
    order = sorted(range(len(probabilities)), key=lambda i: probabilities[i])
    adjusted, least = [1.0] * len(order), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, probabilities[i] * (len(order) - rank)))
        adjusted[i] = least
    return adjusted
