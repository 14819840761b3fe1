"""One hand that draws: sheets of panels, lines, points and bars with 95 % intervals, axes.  Keys: ``keys``.

One mark means one thing: error bars are 95 % t-intervals of the mean over repetitions
(``analysis.verdicts.t_interval``), of a single repetition there is none; a black cross is what a paper prints; a key
stands above the panels or above its own, never among data.  A look is a ``style.Style``.  A frame has one row a
repetition; what a figure's table has made of them already comes as ``Interval``s (``intervals_of``).

What is logarithmic is made so before anything is drawn: whiskers that reach 0 are cut there at a twentieth of the
mean.  Neither seaborn nor matplotlib is imported at module level.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import log10
from typing import Literal, NamedTuple

from analysis.verdicts import Interval, t_interval
from core.records import Options
from paper_figs.intervals import Intervals, bounded, ends, intervals_by, whiskers
from paper_figs.light import Axes, Drawing, Frame, Values
from paper_figs.style import PANEL_INCHES, Looks, Style

Side = Literal["x", "y"]

INK, GREY, WHITE = "#000000", "#555555", "#ffffff"
WHISKER = Style("", INK, "", "-")  # an interval alone, at the end of a bar
DASHED = (0.0, (4.0, 3.0))
TEXT, SMALL = 7.0, 6.5  # points: names and keys; notes
DECADE_POINTS = 37.0  # a log axis' decade in which 1, 2 and 5 have room


# --- sheets --------------------------------------------------------------------------------------


def sheet(width_inches: float, height_inches: float) -> Drawing:
    """An empty drawing in the house style, for ``subfigures`` or ``subplots``."""
    import matplotlib

    matplotlib.use("Agg")
    import seaborn
    from matplotlib import pyplot

    look = {"svg.hashsalt": "ratebed", "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False}
    grid = {"axes.grid": True, "grid.linewidth": 0.4, "grid.color": "#dddddd", "legend.frameon": False}
    # Nothing stands above an axis: a title's place need not be looked for each time anything is laid out or drawn.
    sizes = {"axes.labelsize": 8.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "axes.titley": 1.0}
    seaborn.set_theme(context="paper", style="ticks", rc=look | grid | sizes)
    return pyplot.figure(figsize=(width_inches, height_inches), layout="constrained")


def panels(
    rows: int,
    columns: int,
    titles: Sequence[str] = (),
    inches: tuple[float, float] | None = None,
    widths: Sequence[float] | None = None,
    heights: Sequence[float] | None = None,
    share_x: bool | Literal["row", "col"] = False,
    share_y: bool | Literal["row", "col"] = False,
) -> tuple[Drawing, list[Axes]]:
    """A drawing and its panels in reading order; ``titles`` are lettered, "(a) …", if there are several.

    ``inches``: of the drawing (default: ``PANEL_INCHES`` a panel); ``widths``, ``heights``: relative.
    """
    width, height = inches or (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows)
    drawing = sheet(width, height)
    shares: Options = {"width_ratios": widths, "height_ratios": heights, "sharex": share_x, "sharey": share_y}
    grid = drawing.subplots(rows, columns, squeeze=False, **shares)
    flat: list[Axes] = list(grid.flat)
    for letter, axes, text in zip("abcdefghijklmnopqrstuvwxyz", flat, titles, strict=False):
        title(axes, f"({letter}) {text}" if len(titles) > 1 else text)
    return drawing, flat


def title(axes: Axes, text: str) -> None:
    """A panel's title."""
    axes.set_title(text, loc="left", fontsize=8)


def sentence(axes: Axes, text: str) -> None:
    """A sentence instead of an empty panel: "the centralised limiter rejects nothing"."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=8, color=GREY)


def note(axes: Axes, text: str, at: tuple[float, float], right: bool = False, top: bool = False) -> None:
    """Small text at ``at``, shares of the panel's width and height: from there to the right (left) and up (down)."""
    ha, va = "right" if right else "left", "top" if top else "bottom"
    axes.annotate(text, at, xycoords="axes fraction", fontsize=SMALL, color=GREY, ha=ha, va=va)


def label(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    colour: str = INK,
    points: tuple[float, float] = (0.0, 2.0),
    ha: Literal["left", "center", "right"] | None = None,
    size: float = SMALL,
    rotation: float = 0.0,
) -> None:
    """Small text so many ``points`` beside a place among the data: right, left, above or below, as these say."""
    ha = ha or ("left" if points[0] > 0 else "right" if points[0] < 0 else "center")
    va = "bottom" if points[1] > 0 else "top" if points[1] < 0 else "center"
    look: Options = {"fontsize": size, "color": colour, "ha": ha, "va": va, "rotation": rotation}
    axes.annotate(text, at, points, "data", "offset points", multialignment="center", annotation_clip=False, **look)


# --- lines and points ----------------------------------------------------------------------------


def curve(
    axes: Axes,
    x: Values,
    y: Values,
    look: Style,
    width: float = 1.2,
    alpha: float = 1.0,
    stairs: bool = False,
) -> None:
    """A line without markers; ``stairs``: a value holds until the next x."""
    style = "steps-post" if stairs else "default"
    axes.plot(x, y, color=look.colour, linestyle=look.dashes, linewidth=width, alpha=alpha, drawstyle=style)


def interval_curve(
    axes: Axes,
    x: Values,
    mean: Values,
    low: Values,
    high: Values,
    look: Style,
    width: float = 1.2,
    stairs: bool = False,
) -> None:
    """A line through means in a band from low to high, their 95 % intervals; no band where one is infinite or null."""
    curve(axes, x, mean, look, width, stairs=stairs)
    ends: Options = {"y1": bounded(low), "y2": bounded(high), "step": "post" if stairs else None}
    axes.fill_between(x, **ends, color=look.colour, alpha=0.2, linewidth=0)


def mean_lines(
    axes: Axes,
    frame: Frame,
    x: str,
    y: str,
    by: str,
    looks: Looks,
    apart_points: float = 0.0,
    size: float = 4.5,
    measure: Callable[[Sequence[float]], Interval] = t_interval,
) -> None:
    """A line a value of ``by`` through the means of ``y`` at each ``x``, with their 95 % intervals.

    ``looks``: in the order of drawing; what the frame lacks is left out.  Lines that would lie on each other stand so
    many ``apart_points`` side by side.  ``measure``: another mean than the arithmetic one, on whatever axis (seaborn's
    lines are of what an axis makes of the values: of logarithms on a logarithmic one).
    """
    if apart_points:
        axes.margins(x=0.08)
    present = {name: look for name, look in looks.items() if (frame[by] == name).any()}
    for n, (name, look) in enumerate(present.items()):
        at, intervals = intervals_by(frame[frame[by] == name].dropna(subset=[x, y]), x, y, measure)
        with _shifted(axes, (n - (len(present) - 1) / 2) * apart_points):
            interval_points(axes, at, intervals, look, joined=True, size=size)


def mean_points(
    axes: Axes, frame: Frame, x: str, y: str, by: str, looks: Looks, order: Sequence[object], dodge: float = 0.5
) -> None:
    """Points side by side at each category of ``order``: means of ``y`` with 95 % intervals; see ``categories``.

    ``dodge``: the part of a category's room that they share.
    """
    present = [name for name in looks if (frame[by] == name).any()]
    for name, shift in zip(present, beside(len(present), dodge), strict=True):
        part = frame[frame[by] == name]
        values = [part[part[x] == value][y].astype(float) for value in order]
        at = [place + shift for place, group in enumerate(values) if group.notna().any()]
        interval_points(axes, at, [t_interval(list(group)) for group in values if group.notna().any()], looks[name])


def interval_points(
    axes: Axes,
    at: Values,
    intervals: Intervals,
    look: Style,
    lying: bool = False,
    joined: bool = False,
    size: float = 4.5,
    caps: float = 2.0,
) -> None:
    """Points with the intervals that the caller has (see ``intervals_of``); an infinite one is left out.

    ``lying``: values along x, ``at`` along y; ``joined``: by a line in the look's dashes; ``caps``: points, 0 for
    whiskers that stand close.
    """
    mean, error = [point.mean for point in intervals], whiskers(intervals, _is_log(axes, "x" if lying else "y"))
    place: Options = {"x": mean, "y": at, "xerr": error} if lying else {"x": at, "y": mean, "yerr": error}
    line: Options = {"color": look.colour, "linestyle": look.dashes if joined else "none", "linewidth": 1.2}
    axes.errorbar(**place, elinewidth=0.8, capsize=caps, **line, **marker_of(look, size))


def marks(axes: Axes, x: Values, y: Values, look: Style, size: float = 4.0, alpha: float = 1.0) -> None:
    """Single values, a marker each: runs, instants, requests."""
    axes.plot(x, y, color=look.colour, linestyle="none", alpha=alpha, **marker_of(look, size))


def run_marks(axes: Axes, row: float, values: Values, look: Style, size: float = 4.0) -> None:
    """One marker a run along x, spread over the height of a ``row`` in the order given."""
    marks(axes, values, [row + shift for shift in beside(len(values), 0.5)], look, size)


def published(axes: Axes, x: Values, y: Values) -> None:
    """What a paper prints: black crosses, in front."""
    axes.plot(x, y, color=INK, marker="x", markersize=6, linestyle="none", zorder=5)


def rule(axes: Axes, at: float, side: Side = "y", reference: bool = False, text: str = "") -> None:
    """A thin line at ``at`` on the axis ``side``: dotted black for a ``reference``, else dashed grey.

    A reference is what something is compared with (1, 100 %, the centralised limiter); other lines are bounds
    and instants.  ``text`` stands at its right end, above it, or along it at the top.
    """
    colour, dashes = (INK, ":") if reference else (GREY, DASHED)
    small: Options = {"fontsize": SMALL, "color": colour, "textcoords": "offset points", "ha": "right"}
    if side == "y":
        axes.axhline(at, color=colour, linewidth=0.8, linestyle=dashes)
        axes.annotate(text, (1.0, at), (-2, 1.5), ("axes fraction", "data"), va="bottom", **small)
    else:
        axes.axvline(at, color=colour, linewidth=0.8, linestyle=dashes)
        axes.annotate(text, (at, 1.0), (-1.5, -2), ("data", "axes fraction"), va="top", rotation=90, **small)


# --- bars ----------------------------------------------------------------------------------------


def mean_bars(axes: Axes, frame: Frame, x: str, y: str, by: str, looks: Looks, order: Sequence[object]) -> None:
    """Bars side by side at each category of ``order``: means of ``y`` with 95 % intervals; see ``categories``."""
    import seaborn

    present = {name: look.colour for name, look in looks.items() if (frame[by] == name).any()}
    part = frame[frame[by].isin(list(present)) & frame[x].isin(list(order))].astype({y: float})
    if part.empty:
        return
    bar = {"palette": present, "saturation": 1.0, "linewidth": 0, "width": 0.75, "legend": False}
    whisker = {
        "errorbar": partial(ends, is_log=_is_log(axes, "y")),
        "err_kws": {"linewidth": 0.8, "color": INK},
        "capsize": 0.15,
    }
    with _labels_kept(axes):
        seaborn.barplot(part, x=x, y=y, hue=by, order=list(order), hue_order=list(present), ax=axes, **bar, **whisker)
    axes.set_ylim(bottom=0)


def interval_bars(
    axes: Axes,
    at: Values,
    intervals: Intervals,
    look: Style,
    width: float = 0.34,
    lying: bool = False,
    alpha: float = 1.0,
) -> None:
    """Bars with the intervals that the caller has; ``lying``: along x."""
    mean, error = [point.mean for point in intervals], whiskers(intervals, _is_log(axes, "x" if lying else "y"))
    whisker = {"elinewidth": 0.8, "capsize": 1.5, "ecolor": INK}
    error_of: Options = {"xerr" if lying else "yerr": error, "error_kw": whisker}
    bar: Options = {"color": look.colour, "alpha": alpha, "linewidth": 0, **error_of}
    (axes.barh if lying else axes.bar)(at, mean, width, **bar)


class BarPart(NamedTuple):
    """One part of ``stacked_bars``: its length in each bar, its look (open: an outline), and how it is filled."""

    lengths: Values
    look: Style
    alpha: float = 1.0
    hatch: str = ""


def stacked_bars(
    axes: Axes,
    at: Values,
    parts: Sequence[BarPart],
    width: float = 0.8,
    begin: Values | None = None,
    lying: bool = False,
    edge: str = "",
) -> None:
    """Bars of ``parts``, one on the other, the first one from ``begin`` (default: 0); ``lying``: along x.

    ``edge``: a colour around each part.  Intervals are the caller's to draw, in ``WHISKER``.
    """
    ends = [0.0] * len(at) if begin is None else list(begin)
    for lengths, look, alpha, hatch in parts:
        line: Options = {"edgecolor": edge or look.colour, "linewidth": 0.9 if edge or look.is_open else 0.0}
        fill: Options = {"color": WHITE if look.is_open else look.colour, "alpha": alpha, "hatch": hatch, **line}
        fill = {**fill, "left" if lying else "bottom": ends}
        (axes.barh if lying else axes.bar)(at, lengths, width, **fill)
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]


def beside(count: int, span: float) -> list[float]:
    """Where ``count`` things stand side by side, about 0, each in the middle of its part of ``span``."""
    return [span * ((n + 0.5) / count - 0.5) for n in range(count)]


# --- axes ----------------------------------------------------------------------------------------


def log_axis(
    axes: Axes,
    side: Side = "y",
    steps: Sequence[float] = (1, 2, 5),
    at: Sequence[float] = (),
    names: Sequence[str] = (),
    linear_below: float = 0.0,
    linear_share: float = 1.0,
) -> None:
    """A logarithmic axis with plain numbers at ``steps`` of every decade, or only ``at`` (with ``names``).

    ``linear_below``: linear between its negative and itself, so that 0 is on the axis; this part is
    ``linear_share`` decades long on either side.  Call it before drawing (see the module).
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    scale, axis = (axes.set_yscale, axes.yaxis) if side == "y" else (axes.set_xscale, axes.xaxis)
    told: Options = {"linthresh": linear_below, "linscale": linear_share} if linear_below else {}
    scale("symlog" if told else "log", **told)
    has_room = side == "x" or at or told
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value) if has_room else _in_decades(axes, value)))
    if at:
        axis.set_major_locator(FixedLocator(list(at)))
        axis.set_minor_locator(NullLocator())
        if names:
            axis.set_ticks(list(at), list(names))
    elif not linear_below:
        axis.set_major_locator(LogLocator(subs=list(steps), numticks=99))
    axis.set_minor_formatter(NullFormatter())


def _in_decades(axes: Axes, value: float) -> str:
    """What stands at a step of a logarithmic y: between the decades nothing where these are too low for text."""
    low, high = (log10(end) for end in sorted(axes.get_ylim()))
    points = 72 * axes.get_window_extent().height / axes.figure.dpi
    return plain(value) if points > DECADE_POINTS * (high - low) or log10(value) % 1 == 0 else ""


def plain(value: float) -> str:
    """A number as it is read, without a power of ten: 1,000 or 0.05."""
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def categories(axes: Axes, names: Sequence[str], side: Side = "x", size: float = TEXT, between: bool = True) -> None:
    """Names at 0, 1, … of the axis ``side``, the first at the left or at the top; no grid lines across them."""
    if side == "x":
        axes.set_xticks(range(len(names)), list(names), fontsize=size)
        axes.set_xlim(-0.6, len(names) - 0.4)
    else:
        axes.set_yticks(range(len(names)), list(names), fontsize=size)
        axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=not between, axis=side)


def marker_of(look: Style, size: float = 4.5) -> Options:
    """What matplotlib asks for a look's marker, filled or open."""
    edge = {"markeredgecolor": look.colour, "markeredgewidth": 1.0}
    face = WHITE if look.is_open else look.colour
    return {"marker": look.marker, "markersize": size, **edge, "markerfacecolor": face}


def _is_log(axes: Axes, side: str) -> bool:
    return (axes.get_yscale() if side == "y" else axes.get_xscale()) == "log"


@contextmanager
def _shifted(axes: Axes, points: float) -> Iterator[None]:
    """What is drawn meanwhile stands so many points to the right of its data, whatever the scale."""
    from matplotlib.transforms import ScaledTranslation

    before = set(axes.get_children())
    yield
    if points:
        shift = axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
        for artist in set(axes.get_children()) - before:
            artist.set_transform(shift)


@contextmanager
def _labels_kept(axes: Axes) -> Iterator[None]:
    """Seaborn writes the columns' names beside axes that have none; here figures name them."""
    before = axes.get_xlabel(), axes.get_ylabel()
    yield
    axes.set(xlabel=before[0], ylabel=before[1])
