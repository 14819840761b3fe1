"""Whether two things differ, from pairs of values: signed ranks, Holm's correction over all that was compared.

A pair is two runs of one point and repetition.  Where nothing that matters was changed, which of the two values is the
first is as good as tossed: the differences of a pair are symmetric about 0, whatever the points are, and so pairs of
different points can be ranked together.  Pairs that share one toss, as all points of a repetition do whose seeds
differ, count once, by their mean.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from analysis.verdicts import Interval, t_interval

ERROR = 0.05  # of saying that anything differs where nothing does, over all that is compared
RANKED_FROM = 12  # draws: of fewer not even unanimous ranks are significant among a hundred comparisons


@dataclass(frozen=True)
class Comparison:
    """Values of one measure, ``one[i]`` and ``other[i]`` of one point and repetition.

    ``draws[i]``: whose chance the pair shares; none given: each pair has its own.
    """

    one: tuple[float, ...]
    other: tuple[float, ...]
    draws: tuple[Hashable, ...] = ()

    @property
    def draw_count(self) -> int:
        """How many differences chance had a hand in by itself."""
        return len(set(self.draws)) or len(self.one)

    @property
    def draws_are_shared(self) -> bool:
        """Whether there are fewer of them than pairs."""
        return self.draw_count < len(self.one)

    def by_draw(self, values: Iterable[float]) -> list[float]:
        """The mean of each draw, of one value a pair."""
        shared: defaultdict[Hashable, list[float]] = defaultdict(list)
        for draw, value in zip(self.draws or range(len(self.one)), values, strict=True):
            shared[draw].append(value)
        return [fmean(each) for each in shared.values()]

    @property
    def difference(self) -> Interval:
        """``other - one``, with its 95 % interval by Student's t."""
        return t_interval(self.by_draw(after - before for before, after in zip(self.one, self.other, strict=True)))

    @property
    def is_same(self) -> bool:
        """Whether every pair is of one value."""
        return self.one == self.other

    @property
    def p(self) -> float:
        """How probable differences as clear as these are where nothing differs; 1 for a single draw.

        Wilcoxon's signed ranks of relative differences, in which no point outweighs the others.  Of fewer than
        ``RANKED_FROM`` draws that differ, Student's t; and where those are all alike, which says nothing about their
        spread, the signs.
        """
        from scipy.stats import ttest_1samp, wilcoxon

        one, other = np.array(self.one), np.array(self.other)
        scale = np.abs(one) + np.abs(other)
        of_pairs = other - one, np.divide(other - one, scale, out=np.zeros(len(one)), where=scale > 0)
        absolute, relative = (np.array(self.by_draw(values.tolist())) for values in of_pairs)
        apart = relative[relative != 0.0]
        count = len(apart)
        if len(relative) < 2 or count == 0:
            return 1.0
        if count >= RANKED_FROM:
            return float(wilcoxon(apart).pvalue)
        if any(0.0 < np.abs(values).max() >= 1e9 * np.ptp(values) for values in (absolute, relative)):
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
