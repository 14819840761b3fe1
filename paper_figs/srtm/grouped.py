"""What Figs. 7 to 9 have in common: SRTM against Max-Min, a topic in correlation groups, a panel a kind of arrivals."""

from collections.abc import Sequence

from harness.experiment import RunSpec, Scale
from paper_figs.light import Drawing, Frame
from paper_figs.srtm.grids import ARRIVALS, SMALL_PUBLISHERS, arrivals, at, group_sizes, grouped
from paper_figs.srtm.published import PUBLISHERS
from paper_figs.srtm.strips import Cases, p99_sheet

SYSTEMS = ("srtm", "max-min")
TITLES = ("Poisson", "periodic")  # in the order of ARRIVALS
GROUP_SIZE = "group size (publishers)"
FEWER = PUBLISHERS // SMALL_PUBLISHERS  # at the scale small


def main_points(scale: Scale) -> list[RunSpec]:
    """Group sizes x arrivals x systems."""
    cases = [(system, kind, size) for kind in arrivals(scale) for size in group_sizes(scale) for system in SYSTEMS]
    return at(scale, [grouped(*case) for case in cases], FEWER)


def by_arrivals(runs: Frame) -> Cases:
    """A panel's title and runs for each kind of arrivals."""
    return [(title, runs[runs.arrivals == kind]) for kind, title in zip(ARRIVALS, TITLES, strict=True)]


def draw_cases(cases: Cases, x: str, label: str, systems: Sequence[str] = SYSTEMS) -> Drawing:
    """The cases side by side."""
    beside = 0.02 * max([0.0, *(runs[x].max() for _, runs in cases if len(runs))])
    inches = (7.0 / max(2, len(cases)), 4.4)
    return p99_sheet(cases, systems, x, label, columns=len(cases), panel_inches=inches, tail_beside=beside)[0]
