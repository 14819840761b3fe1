"""Does the memory of a session grow?  What is resident after its runs, at the begin and at the end of a soak."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

GROWTH_MOST = 0.05  # of a soak
_PARTS = 10  # ours: the first tenth of the runs beside the last; a median, as what is free again comes and goes,
_FEW = 3  # and so of as many at least, where there are twice as many


class Growth(NamedTuple):
    """Of a soak, after its warm-up: hours, runs, and the median memory after the first and the last tenth of them.

    Of fewer than two runs nothing is known.
    """

    begun: str
    hours: float
    runs: int
    first_mb: float
    last_mb: float

    @property
    def share(self) -> float:
        """Of what it was at first."""
        return self.last_mb / self.first_mb - 1

    @property
    def problem(self) -> str:
        """A sentence where it is too much, or not known."""
        if self.runs < 2:
            return f"too short to say whether memory grows: runs after the warm-up: {self.runs}"
        return f"memory grew by {self.share:.1%} in {self.hours:.2f} h" if self.share >= GROWTH_MOST else ""

    def line(self) -> str:
        """For people."""
        if self.runs < 2:
            return f"soak of {self.begun}: {self.problem}"
        told = f"memory {self.first_mb:.1f} -> {self.last_mb:.1f} MB ({self.share:+.1%}, most {GROWTH_MOST:.0%})"
        return f"soak of {self.begun}: {self.hours:.2f} h, {self.runs} runs after the warm-up: {told}"


def growth(begun: str, warm_at_s: float, rows: Sequence[tuple[float, float]]) -> Growth:
    """``rows``: of each run after the warm-up its end (s, as ``warm_at_s``) and the memory then (MB), in order."""
    if len(rows) < 2:
        return Growth(begun, 0.0, len(rows), 0.0, 0.0)
    some = max(len(rows) // _PARTS, min(_FEW, len(rows) // 2))
    memory_mb = [its_mb for _, its_mb in rows]
    hours = (rows[-1][0] - warm_at_s) / 3_600
    return Growth(begun, hours, len(rows), median(memory_mb[:some]), median(memory_mb[-some:]))
