"""How runs over five cities are drawn: virtual time open and dashed, emulated runs filled; decisions that flip."""

from collections.abc import Sequence

from analysis.verdicts import Interval, t_interval
from paper_figs.beyond.wan_runs import is_live
from paper_figs.drawing import SMALL, categories, interval_points, label, marks
from paper_figs.intervals import floored
from paper_figs.light import Axes, Frame
from paper_figs.series import samples
from paper_figs.style import Style, style_of


def look_of(name: str, testbed: str) -> Style:
    """A limiter's look on a testbed."""
    live = is_live(testbed)
    words = f"{style_of(name).label}, {'emulated' if live else 'virtual time'}"
    return style_of(name)._replace(label=words, dashes="-" if live else "--", is_open=not live)


def flipped(flips: Frame) -> Interval:
    """The share of flipped decisions and its 95 % interval: over repetitions; of one run alone, Wilson's."""
    if len(flips) == 1:
        run = flips.iloc[0]
        return Interval(run.flipped_share, run.flipped_low, run.flipped_high, 1)
    return floored(t_interval(samples(flips.flipped_share)))


def change_text(flips: Frame) -> str:
    """By how much the admitted total of all repetitions changes."""
    change = f"{flips.live_admitted_count.sum() / flips.virtual_admitted_count.sum() - 1:+.2%}"
    return f"admitted {'±0' if float(change[:-1]) == 0 else change.replace('-', '−')}"


def draw_flips(axes: Axes, groups: Sequence[tuple[str, Style, Frame]]) -> None:
    """Of each (name, look, flips) the share with its interval, runs as dots beside it, the admitted total as text."""
    for place, (_, look, flips) in enumerate(groups):
        if flips.empty:
            continue
        share = flipped(flips)
        percent = Interval(100 * share.mean, 100 * share.low, 100 * share.high, share.count)
        marks(axes, [place - 0.22] * len(flips), 100 * flips.flipped_share, look, size=2.5, alpha=0.5)
        interval_points(axes, [place], [percent], look)
        label(axes, change_text(flips), (place, percent.high), look.colour, (0, 4))
    categories(axes, [name for name, _, _ in groups], size=SMALL)
    from_zero(axes, 0.3)
    axes.set_ylabel("of all decisions (%)")


def from_zero(axes: Axes, room: float, least: float = 0.1) -> None:
    """A y axis from 0, a marker at which is still whole, to the largest value and ``room`` above it."""
    top = max(least, axes.dataLim.y1) * (1 + room)
    axes.set_ylim(-0.03 * top, top)
