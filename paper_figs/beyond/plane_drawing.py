"""How ``limiters-plane`` is drawn: the plane above, the sweeps below, and in one line what was offered."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise, product
from math import cos, radians, sin

from analysis.verdicts import Interval
from core.records import Options
from core.units import duration_ns
from paper_figs import drawing
from paper_figs.beyond.limiters import order_of
from paper_figs.beyond.sweeps import SWEEPS
from paper_figs.drawing import GREY, log_axis, plain, title
from paper_figs.figure import FigureTables
from paper_figs.intervals import floored, intervals_of
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Drawing, Floats, Frame, Series
from paper_figs.style import style_of

OVERLAYS = ("full-mesh", "random", "star", "tree", "ring", "line")
LINEAR_PERCENT = 0.1  # below it, axes of percentages are linear, so that 0 is on them
ROWS = {
    "false_admit_share": "admitted wrongly\n(% of requests)",
    "false_reject_share": "rejected wrongly\n(% of requests)",
    "excess_share": "worst excess\n(% of capacity)",
}
TEXTS = {"0.0": "none", "0ms": "0", "full-mesh": "full\nmesh", "random": "ran-\ndom"}

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top
_OUTSIDE, _COVERED = 20.0, 5.0  # what pixels outside the panel, and covered ones, count beside a longer way
_REACHES = (8.0, 17.0, 28.0, 40.0)  # points: how far a name may be; beyond the first it has a line to its point
_SIZE = 6.5  # points, of the names
_STEPS = 16  # of a line, between two of its points


def draw(tables: FigureTables) -> Drawing:
    """Four panels, below them three rows of sweeps."""
    sweeps = tables["sweeps"]
    sheet = drawing.sheet(12.5, 9.6)
    above, below = sheet.subfigures(2, 1, squeeze=False, height_ratios=[1, 1.3])[:, 0]
    plane, waiting, kinds, excess = above.subplots(1, 4, width_ratios=[2, 2, 1.4, 0.6])
    axes = below.subplots(len(ROWS), len(SWEEPS), height_ratios=[1, 1, 0.9])
    names = order_of(sweeps.name)
    for row, measure in zip(axes, ROWS, strict=True):
        _draw_row(row, sweeps, measure, names)
    _draw_kinds(kinds, excess, sweeps, names)
    _draw_waiting(waiting, sweeps, names)
    _draw_plane(plane, sweeps, names)
    legend_above(below, [key(style_of(name)) for name in names], min(10, max(1, len(names))), below=True)
    above.suptitle(offered(tables["facts"].iloc[0]), fontsize=8, x=0.01, ha="left")
    return sheet


def offered(facts: Series) -> str:
    """What the limiters were offered, in two lines."""
    what = f"{facts.requests:,} requests of {facts.users:,} users"
    text = f"SYNTHETIC requests (no --log given; data set C made small): {what}"
    if facts.log:
        start = "" if facts.start in ("", "0s") else f" from {_clock(facts.start)} after its first request"
        window = f", {facts.duration}{start}" if facts.duration else ("," + start if start else ", all of it")
        text = f"Log {facts.log}{window}: {what}"
        text += f", time compressed {facts.speed:g} times" if facts.speed != 1 else ""
        text += ", whole seconds, so spread within them" if facts.spread else ""
        text += f"; {facts.skipped:,} bad lines skipped" if facts.skip_bad else ""
        text += f" ({facts.skipped_reasons})" if facts.skipped_reasons else ""
    limit = f"Limit of each user: c = {facts.capacity} tokens, r = {facts.rate}/s"
    limit += f"; the oracle rejects {100 * facts.rejected_share:.1f} %."
    return f"{text}.\n{limit}  Threshold of frequency analysis: {facts.threshold}."


def _clock(span: str) -> str:
    """``33561s`` as ``9:19:21``; other spans as they are."""
    if not (span.endswith("s") and span[:-1].isdigit()):
        return span
    seconds = int(span[:-1])
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def values_in_order(part: Frame) -> list[str]:
    """The values of a sweep: spans and numbers by size, the full mesh before other overlays."""

    def size(value: str) -> tuple[float, str]:
        for number in (float, duration_ns):
            with suppress(ValueError):
                return float(number(value)), ""
        return float(OVERLAYS.index(value) if value in OVERLAYS else 99), value

    return sorted(set(part.value) - {""}, key=size)


def _draw_lines(axes: Axes, sweeps: Frame, sweep: str, names: list[str], x: str) -> dict[str, Frame]:
    """Each limiter's line along a sweep, error over ``x``, the base's point large.

    Given back, by name: a row a value in ascending order, is_base, at_x, at_y.
    """
    log_axis(axes)
    axes.tick_params(labelsize=7.5)
    parts = {}
    along = sweeps[sweeps.sweep == sweep]
    order = ["", *values_in_order(along)]
    for name in names:
        own, look = along[along.name == name], style_of(name)
        wide = own.pivot(index="value", columns="measure", values="mean").reindex(columns=["error_share", x])
        wide["is_base"] = own.groupby("value").is_base.first().astype(bool)
        part = wide.loc[sorted(wide.index, key=order.index)].dropna(subset="error_share")
        part = part.assign(at_x=part[x].clip(lower=1) if sweep == "period" else part[x], at_y=100 * part.error_share)
        drawing.curve(axes, part.at_x, part.at_y, look, width=1.1)
        drawing.marks(axes, part.at_x, part.at_y, look._replace(marker="."), size=4)
        drawing.marks(axes, part.at_x[part.is_base], part.at_y[part.is_base], look, size=6)
        parts[name] = part
    return parts


def _draw_plane(axes: Axes, sweeps: Frame, names: list[str]) -> None:
    log_axis(axes, "x", at=[10.0**k for k in range(8)], names=["none", *(plain(10.0**k) for k in range(1, 8))])
    parts = _draw_lines(axes, sweeps, "period", names, "bytes_per_request")
    axes.margins(x=0.12, y=0.1)
    axes.autoscale_view()
    axes.set_xlabel("bytes sent per request, by all nodes", fontsize=8)
    axes.set_ylabel("decided otherwise than the oracle (% of requests)", fontsize=8)
    title(axes, "(a) precision against bytes; lines: other periods")
    _name_bases(axes, parts)


def _draw_waiting(axes: Axes, sweeps: Frame, names: list[str]) -> None:
    ticks = (0, 1, 10, 100, 1000)
    log_axis(axes, "x", at=ticks, names=["at once", *map(plain, ticks[1:])], linear_below=1.0, linear_share=0.6)
    parts = _draw_lines(axes, sweeps, "delay", names, "p99_ms")
    axes.set_xlim(-0.25, max(5_000.0, axes.get_xlim()[1]))
    axes.margins(y=0.1)
    axes.set_xlabel("99th percentile of the wait for a decision (ms)", fontsize=8)
    title(axes, "(b) precision against latency; lines: other distances")
    far = [
        (f"{float(str(value)):g} x as far", row.at_x, row.at_y, GREY)
        for part in parts.values()
        for value, row in part[~part.is_base & (part.at_x > 1)].iterrows()
    ]
    _name_bases(axes, parts, far)


def _name_bases(axes: Axes, parts: dict[str, Frame], more: Sequence[tuple[str, float, float, str]] = ()) -> None:
    bases = [
        (style_of(name).label, row.at_x, row.at_y, style_of(name).colour)
        for name, part in parts.items()
        for row in part[part.is_base].itertuples()
    ]
    _label_points(axes, [*bases, *more], [list(zip(part.at_x, part.at_y, strict=True)) for part in parts.values()])


def _draw_kinds(axes: Axes, excess: Axes, sweeps: Frame, names: list[str]) -> None:
    """Bars of both kinds of errors to either side, and the worst excess beside them, with intervals; the base."""
    rows = sweeps[(sweeps.sweep == "period") & sweeps.is_base]
    sides = (("false_reject_share", -1, axes), ("false_admit_share", 1, axes), ("excess_share", 1, excess))
    for panel, at in ((axes, (-100, -10, -1, 0, 1, 10)), (excess, (0, 1, 10, 100))):
        log_axis(panel, "x", at=at, names=[plain(abs(tick)) for tick in at], linear_below=1.0, linear_share=0.8)
        panel.tick_params(labelsize=7)
    for place, name in enumerate(names):
        for measure, sign, panel in sides:
            row = rows[(rows.name == name) & (rows.measure == measure)].dropna(subset="mean")
            for mean in intervals_of(row, 100.0):
                low, high = sorted((sign * mean.low, sign * mean.high))
                signed = Interval(sign * mean.mean, low, high, mean.count)
                drawing.interval_bars(panel, [place], [signed], style_of(name), 0.7, True, 1.0 if sign > 0 else 0.55)
                end = sign * (mean.high if mean.count > 1 else mean.mean)
                text = f"{mean.mean:.2g}" if mean.mean < 9.95 else f"{mean.mean:.0f}"
                drawing.label(panel, text, (end, place), "#333333", (3 * sign, 0), size=5.5)
    for panel, reach in ((axes, (-400.0, 60.0)), (excess, (0.0, 1_000.0))):
        panel.set_xlim(*reach)
        drawing.rule(panel, 0, "x", reference=True)
        drawing.categories(panel, [style_of(name).label for name in names], "y")
    excess.tick_params(labelleft=False)
    axes.set_xlabel("rejected wrongly | admitted wrongly\n(% of requests)", fontsize=7.5)
    excess.set_xlabel("worst excess\n(% of capacity)", fontsize=7.5)
    title(axes, "(c) errors of both kinds")
    title(excess, "(d) excess")


def _draw_row(row: Sequence[Axes], sweeps: Frame, measure: str, names: list[str]) -> None:
    drawn = sweeps[sweeps.measure == measure]
    highest = 100 * drawn["mean"].max() if len(drawn) else 1.0
    for number, (panel, sweep) in enumerate(zip(row, SWEEPS, strict=True)):
        log_axis(panel, at=(0, 0.1, 1, 10, 100, 1000), linear_below=LINEAR_PERCENT, linear_share=0.5)
        _draw_sweep(panel, drawn[drawn.sweep == sweep.column], names)
        panel.set_ylim(-0.02, max(1.0, highest * 1.6))
        if not number:
            panel.set_ylabel(ROWS[measure], fontsize=7.5)
        if measure == next(iter(ROWS)):
            title(panel, f"({'efghij'[number]}) {sweep.title}")
        panel.tick_params(labelsize=7, labelleft=not number, labelbottom=measure == list(ROWS)[-1])


def _draw_sweep(axes: Axes, part: Frame, names: list[str]) -> None:
    """A line a limiter that the sweep touches, over places of equal distance; the base's value in bold."""
    order = values_in_order(part)
    for name in names:
        line = part[(part.name == name) & (part.value != "")].dropna(subset="mean")
        if line.value.nunique() < 2:
            continue
        line = line.assign(place=[order.index(value) for value in line.value]).sort_values("place")
        intervals = [floored(interval) for interval in intervals_of(line, 100.0)]
        drawing.interval_points(axes, line.place, intervals, style_of(name), joined=True, size=3.2)
    if order:
        axes.set_xlim(-0.3, len(order) - 0.7)
    axes.set_xticks(range(len(order)), [_text(part.sweep.iloc[0], value) for value in order], fontsize=7)
    bases = set(part[part.is_base].value)
    for text, value in zip(axes.get_xticklabels(), order, strict=True):
        text.set_fontweight("bold" if value in bases else "normal")


def _text(sweep: str, value: str) -> str:
    if sweep == "loss":
        return f"{100 * float(value):g} %" if float(value) else "none"
    if sweep == "delay":
        return f"{float(value):g} x"
    number = value.rstrip("ms")
    unit = value.removeprefix(number)
    is_span = unit and number.replace(".", "").isdigit()
    return TEXTS.get(value, f"{number} {unit}" if is_span else value)


# --- names beside points, where they cover the least ---------------------------------------------


def _label_points(
    axes: Axes, points: Sequence[tuple[str, float, float, str]], lines: Iterable[Sequence[Point]] = ()
) -> None:
    """Write each (text, x, y, colour) beside its point, greedily where it covers least.

    ``lines``: not to be covered either.  Axes must have their final limits and scales; the size of a text is
    estimated from its length, so that nothing has to be drawn first.
    """
    sheet = axes.get_figure(root=True)
    assert sheet is not None
    sheet.draw_without_rendering()  # axes get their places
    to_pixels, scale = axes.transData.transform, axes.figure.dpi / 72
    frame = axes.get_window_extent()
    border = (frame.x0 + 4 * scale, frame.y0, frame.x1, frame.y1)
    taken = [_around(to_pixels((x, y)), 5 * scale) for _, x, y, _ in points]
    for start, end in (pair for line in lines for pair in pairwise([to_pixels(point) for point in line])):
        shares = (step / _STEPS for step in range(_STEPS + 1))
        taken += [_around(start + share * (end - start), 1.5 * scale) for share in shares]
    for text, x, y, colour in sorted(points, key=lambda point: (-point[2], point[1])):
        at_x, at_y = to_pixels((x, y))
        extent = 0.6 * _SIZE * scale * len(text), 1.2 * _SIZE * scale
        places: list[tuple[float, int, Box]] = []  # cost, ring, box
        for ring, angle in product(range(len(_REACHES)), range(0, 360, 30)):
            box = _box(at_x, at_y, _REACHES[ring] * scale, angle, extent)
            covered = sum(_overlap(box, other) for other in taken)
            outside = extent[0] * extent[1] - _overlap(box, border)
            places.append((_COVERED * covered + _OUTSIDE * outside + ring * extent[1] ** 2, ring, box))
        _, ring, box = min(places)
        taken.append(box)
        offset = (box[0] - at_x) / scale, ((box[1] + box[3]) / 2 - at_y) / scale
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        look: Options = {"fontsize": _SIZE, "color": colour, "va": "center", "zorder": 5}
        axes.annotate(text, (x, y), offset, "data", "offset points", leader if ring else None, **look)


def _box(x: float, y: float, reach: float, angle: int, extent: Point) -> Box:
    """Of a text that is ``reach`` away in the direction ``angle``, in degrees: beside, above or below its point."""
    across, up = cos(radians(angle)), sin(radians(angle))
    left, bottom = x + reach * across - extent[0] * (1 - across) / 2, y + reach * up - extent[1] / 2
    return left, bottom, left + extent[0], bottom + extent[1]


def _around(at: Floats, half: float) -> Box:
    return at[0] - half, at[1] - half, at[0] + half, at[1] + half


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)
