"""How ``limiters-plane`` is drawn: a plane a load and its bytes above, the sweeps below, and what was offered."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise, product
from math import cos, radians, sin
from string import ascii_lowercase
from typing import Any

from core.records import Options
from core.units import duration_ns
from paper_figs import drawing
from paper_figs.beyond.limiters import order_of
from paper_figs.beyond.sweeps import SWEEPS
from paper_figs.drawing import log_axis, plain, title
from paper_figs.figure import FigureTables
from paper_figs.intervals import floored, intervals_of
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Drawing, Floats, Frame, Series
from paper_figs.style import style_of

OVERLAYS = ("full-mesh", "random", "star", "tree", "ring", "line")
LINEAR_PERCENT = 0.1  # below it, axes of percentages are linear, so that 0 is on them
PERCENTS = (0, 0.1, 0.3, 1, 3, 10, 30, 100)
ERRORS = {"over_admission_share": "over-admission (% of requests)", "false_rejection_share": "false rejection (%)"}
ROWS = {
    "over_admission_share": "over-admission\n(% of requests)",
    "false_rejection_share": "false rejection\n(% of requests)",
    "excess_share": "worst excess\n(% of capacity)",
    "p99_ms": "wait for a decision,\n99th percentile (ms)",
}
TEXTS = {"0.0": "none", "0ms": "0", "full-mesh": "full\nmesh", "random": "ran-\ndom"}

NOT_JUDGED = "NOT JUDGED: one repetition, of which each limiter's settings were chosen by these very errors."
STEADY = 3.0  # r T / c: below it, hardly a bucket is used up and refilled

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top
_OUTSIDE, _COVERED = 20.0, 5.0  # what pixels outside the panel, and covered ones, count beside a longer way
_REACHES = (8.0, 17.0, 28.0, 40.0)  # points: how far a name may be; beyond the first it has a line to its point
_SIZE = 6.5  # points, of the names
_STEPS = 16  # of a line, between two of its points


def draw(tables: FigureTables) -> Drawing:
    """A column of three panels a load, below them the rows of sweeps."""
    sweeps, tuned, loads = tables["sweeps"], tables["envelopes"], tables["facts"]
    sheet = drawing.sheet(12.5, 13.5)
    above, below = sheet.subfigures(2, 1, squeeze=False, height_ratios=[1.55, 1])[:, 0]
    columns = above.subplots(3, max(1, len(loads)), squeeze=False, height_ratios=[1.3, 1, 1]).T
    names = order_of(sweeps.name)
    for number, (column, load) in enumerate(zip(columns, loads.itertuples(index=False), strict=False)):
        _draw_load(column, tuned[tuned.load == load.load], names)
        title(column[0], f"({ascii_lowercase[number]}) {_who(load)}: c = {load.capacity}, r = {load.rate}/s")
    axes = below.subplots(len(ROWS), len(SWEEPS))
    for number, (panel, sweep) in enumerate(zip(axes[0], SWEEPS, strict=True), len(loads)):
        title(panel, f"({ascii_lowercase[number]}) {sweep.title}")
    for row, measure in zip(axes, ROWS, strict=True):
        _draw_row(row, sweeps, measure, names)
    legend_above(below, [key(style_of(name)) for name in names], min(10, max(1, len(names))), below=True)
    if len(loads):
        text = offered(loads) if tuned.is_judged.all() else f"{offered(loads)}\n{NOT_JUDGED}"
        above.suptitle(text, fontsize=8, x=0.01, ha="left")
    return sheet


def _who(load: Any) -> str:
    return "one aggregate" if load.users == 1 else f"{load.users:,} users"


def _draw_load(column: Sequence[Axes], tuned: Frame, names: list[str]) -> None:
    """The plane, and below it either error over bytes."""
    plane, *over_bytes = column
    means = tuned.pivot_table(index=["name", "step"], columns="measure", values="mean")
    for side in ("x", "y"):
        log_axis(plane, side, at=PERCENTS, linear_below=LINEAR_PERCENT, linear_share=0.5)
    for axes in over_bytes:
        log_axis(axes, "x", at=[10.0**k for k in range(8)], names=["none", *(plain(10.0**k) for k in range(1, 8))])
        log_axis(axes, at=PERCENTS, linear_below=LINEAR_PERCENT, linear_share=0.5)
    best: list[tuple[str, float, float, str]] = []
    lines = []
    for name in [name for name in names if name in means.index.get_level_values("name")]:
        own, look = means.loc[name], style_of(name)
        rejected, admitted = (100 * own[f"{kind}_share"] for kind in ("false_rejection", "over_admission"))
        drawing.curve(plane, rejected, admitted, look, width=1.0)
        drawing.marks(plane, rejected, admitted, look._replace(marker="."), size=4)
        drawing.marks(plane, rejected.iloc[-1:], admitted.iloc[-1:], look, size=6)
        best.append((look.label, rejected.iloc[-1], admitted.iloc[-1], look.colour))
        lines.append(list(zip(rejected, admitted, strict=True)))
        for axes, measure in zip(over_bytes, ERRORS, strict=True):
            rows = tuned[(tuned.name == name) & (tuned.measure == measure)].sort_values("step")
            values = [floored(interval) for interval in intervals_of(rows, 100.0)]
            drawing.interval_points(axes, own.bytes_per_request.clip(lower=1), values, look, joined=True, size=4)
    _frame(plane, over_bytes)
    _label_points(plane, best, lines)


def _frame(plane: Axes, over_bytes: Sequence[Axes]) -> None:
    for axes in (plane, *over_bytes):
        axes.tick_params(labelsize=7.5)
        axes.autoscale_view()
        axes.set_ylim(-0.02, max(1.0, 1.5 * axes.dataLim.y1 if axes.has_data() else 1.0))
    plane.set_xlim(-0.02, max(1.0, 2.5 * plane.dataLim.x1 if plane.has_data() else 1.0))
    plane.set_ylabel(ERRORS["over_admission_share"], fontsize=8)
    plane.set_xlabel("false rejection (% of requests)", fontsize=8)
    for axes, words in zip(over_bytes, ERRORS.values(), strict=True):
        axes.set_ylabel(words, fontsize=8)
        axes.set_xlim(0.6, max(1e4, 2 * axes.dataLim.x1 if axes.has_data() else 1.0))
    over_bytes[-1].set_xlabel("bytes sent per request, by all nodes", fontsize=8)


def offered(loads: Frame) -> str:
    """What the limiters were offered: all loads together in one line, of a log in two."""
    first = loads.iloc[0]
    if first.log:
        return _of_log(first)
    each = ", ".join(f"{load.requests:,} of {_who(load)}" for load in loads.itertuples(index=False))
    least = f"buckets are refilled {loads.refills.min():.0f} times (r T / c)"
    shares = ", ".join(f"{100 * share:.0f} %" for share in loads.rejected_share)
    text = f"SYNTHETIC requests (no --log given): {each}; {least}; the oracle rejects {shares}."
    return f"{text}\nThe sweeps below are on {_who(first)}: c = {first.capacity}, r = {first.rate}/s."


def _of_log(facts: Series) -> str:
    what = f"{facts.requests:,} requests of {facts.users:,} users"
    start = "" if facts.start in ("", "0s") else f" from {_clock(facts.start)} after its first request"
    window = f", {facts.duration}{start}" if facts.duration else ("," + start if start else ", all of it")
    text = f"Log {facts.log}{window}: {what}"
    text += f", time compressed {facts.speed:g} times" if facts.speed != 1 else ""
    text += ", whole seconds, so spread within them" if facts.spread else ""
    text += f"; {facts.skipped:,} bad lines skipped" if facts.skip_bad else ""
    text += f" ({facts.skipped_reasons})" if facts.skipped_reasons else ""
    limit = f"Limit of each user: c = {facts.capacity} tokens, r = {facts.rate}/s, refilled {facts.refills:.1f} times"
    limit += " (r T / c: mostly, who notices that a first budget is used up)" if facts.refills < STEADY else ""
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


def _draw_row(row: Sequence[Axes], sweeps: Frame, measure: str, names: list[str]) -> None:
    factor = 1.0 if measure == "p99_ms" else 100.0
    drawn = sweeps[sweeps.measure == measure]
    highest = factor * drawn["mean"].max() if len(drawn) else 1.0
    for number, (panel, sweep) in enumerate(zip(row, SWEEPS, strict=True)):
        log_axis(panel, at=(0, 0.1, 1, 10, 100, 1000), linear_below=LINEAR_PERCENT, linear_share=0.5)
        _draw_sweep(panel, drawn[drawn.sweep == sweep.column], names, factor)
        panel.set_ylim(-0.02, max(1.0, highest * 1.6))
        if not number:
            panel.set_ylabel(ROWS[measure], fontsize=7.5)
        panel.tick_params(labelsize=7, labelleft=not number, labelbottom=measure == list(ROWS)[-1])


def _draw_sweep(axes: Axes, part: Frame, names: list[str], factor: float) -> None:
    """A line a limiter that the sweep touches, over places of equal distance; the base's value in bold."""
    order = values_in_order(part)
    for name in names:
        line = part[(part.name == name) & (part.value != "")].dropna(subset="mean")
        if line.value.nunique() < 2:
            continue
        line = line.assign(place=[order.index(value) for value in line.value]).sort_values("place")
        intervals = [floored(interval) for interval in intervals_of(line, factor)]
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
