"""How ``limiters-plane`` is drawn: the plane above, the sweeps below, and in one line what was offered."""

from typing import TYPE_CHECKING, Any, cast

from paper_figs.beyond.labels import label_points
from paper_figs.beyond.limiters import order_of
from paper_figs.beyond.sweeps import MEASURES, SWEEPS, Sweep
from paper_figs.figure import FigureTables
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

LINEAR_PERCENT = 0.1  # below it, axes of percentages are linear, so that 0 is on them
ROWS = {
    "false_admit_share": "admitted wrongly\n(% of requests)",
    "false_reject_share": "rejected wrongly\n(% of requests)",
    "excess_share": "worst excess\n(% of capacity)",
}
TEXTS = {"0.0": "none", "0ms": "0", "full-mesh": "full\nmesh", "random": "ran-\ndom"}


def draw(found: FigureTables) -> "Drawing":
    """Three panels, below them three rows of sweeps."""
    sweeps = found["sweeps"]
    drawing, [[placeholder]] = panels(1, 1)
    placeholder.remove()
    drawing.set_size_inches(12.5, 9.6)
    above, below = drawing.subfigures(2, 1, squeeze=False, height_ratios=[1, 1.3])[:, 0]
    plane, waiting, kinds, excess = above.subplots(1, 4, width_ratios=[2, 2, 1.4, 0.6])
    excess.sharey(kinds)
    axes = below.subplots(len(ROWS), len(SWEEPS), height_ratios=[1, 1, 0.9])
    names = order_of(sweeps.name)
    for row, measure in zip(axes, ROWS, strict=True):
        _draw_row(row, sweeps, measure, names)
    draw_kinds(kinds, excess, sweeps, names)
    draw_waiting(waiting, sweeps, names)
    draw_plane(plane, sweeps, names)
    handles = [_handle(name) for name in names]
    below.legend(handles=handles, loc="outside lower center", ncols=min(10, len(handles)), fontsize=7,
                   columnspacing=1.2, handlelength=2.2)  # fmt: skip
    above.suptitle(offered(found["facts"].iloc[0]), fontsize=8, x=0.01, ha="left")
    return drawing


def offered(facts: Any) -> str:
    """What the limiters were offered, in two lines."""
    what = f"{facts.requests:,} requests of {facts.users:,} users"
    if facts.log:
        start = "" if facts.start in ("", "0s") else f" from {_clock(facts.start)} after its first request"
        window = f", {facts.duration}{start}" if facts.duration else ("," + start if start else ", all of it")
        text = f"Log {facts.log}{window}: {what}"
        text += f", time compressed {facts.speed:g} times" if facts.speed != 1 else ""
        text += ", whole seconds, so spread within them" if facts.spread else ""
        text += f"; {facts.skipped:,} bad lines skipped" if facts.skip_bad else ""
        text += f" ({facts.skipped_reasons})" if facts.skipped_reasons else ""
    else:
        text = f"SYNTHETIC requests (no --log given; data set C made small): {what}"
    limit = f"Limit of each user: c = {facts.capacity} tokens, r = {facts.rate}/s"
    return (
        f"{text}.\n{limit}; the oracle rejects {100 * facts.rejected_share:.1f} %.  "
        f"Threshold of frequency analysis: {facts.threshold}."
    )


def _clock(span: str) -> str:
    """``33561s`` as ``9:19:21``; other spans as they are."""
    if not (span.endswith("s") and span[:-1].isdigit()):
        return span
    seconds = int(span[:-1])
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def means(sweeps: "pd.DataFrame", sweep: str, name: str) -> "pd.DataFrame":
    """One limiter's means along a sweep, a row a value in ascending order, a column a measure.

    Further columns: is_base, place (of the value among those of all limiters).
    """
    part = sweeps[sweeps.sweep == sweep]
    order = values_in_order(part)
    wide = part[part.name == name].pivot(index="value", columns="measure", values="mean").reindex(columns=MEASURES)
    wide["is_base"] = part[(part.name == name)].groupby("value").is_base.first()
    wide["place"] = [order.index(value) if value in order else -1 for value in wide.index]
    return wide.sort_values("place")


def values_in_order(part: "pd.DataFrame") -> list[str]:
    """The values of a sweep: spans and numbers by size, the full mesh before other overlays."""
    from core.units import duration_ns

    def size(value: str) -> tuple[float, str]:
        try:
            return float(value), ""
        except ValueError:
            pass
        try:
            return float(duration_ns(value)), ""
        except ValueError:
            overlays = ("full-mesh", "random", "star", "tree", "ring", "line")
            return (float(overlays.index(value)) if value in overlays else 99.0), value

    return sorted(set(part.value) - {""}, key=size)


# --- above ---------------------------------------------------------------------------------------


def draw_plane(axes: "Axes", sweeps: "pd.DataFrame", names: list[str]) -> None:
    """Error against bytes; a line along the period, the base's point large."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    bases, others = [], []
    for name in names:
        part, look = means(sweeps, "period", name), style_of(name)
        part = part[part.error_share.notna()]
        if part.empty:
            continue
        x, y = part.bytes_per_request.clip(lower=1), 100 * part.error_share
        axes.plot(x, y, color=look.colour, linestyle=look.dashes, linewidth=1.1)
        axes.plot(x, y, color=look.colour, marker=".", markersize=4, linestyle="none")
        others += list(zip(x, y, strict=True))
        for base_x, base_y in zip(x[part.is_base.astype(bool)], y[part.is_base.astype(bool)], strict=True):
            axes.plot([base_x], [base_y], color=look.colour, marker=look.marker, markersize=6.5, linestyle="none")
            bases.append((look.label, base_x, base_y, look.colour))
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
    axes.margins(x=0.12, y=0.1)
    ticks = [10.0**k for k in range(8)]
    low, high = axes.get_xlim()
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(shown, ["none" if tick == 1 else f"{tick:,.0f}" for tick in shown])
    axes.set_xlim(low, high)
    axes.set_xlabel("bytes sent per request, by all nodes", fontsize=8)
    axes.set_ylabel("decided otherwise than the oracle (% of requests)", fontsize=8)
    axes.tick_params(labelsize=7.5)
    letter(axes, "(a) precision against bytes; lines: other periods")
    label_points(axes, bases, others)


def draw_waiting(axes: "Axes", sweeps: "pd.DataFrame", names: list[str]) -> None:
    """Error against the wait for a decision; a line along the distances, the base's point large."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    bases, others = [], []
    for name in names:
        part, look = means(sweeps, "delay", name), style_of(name)
        part = part[part.error_share.notna()]
        if part.empty:
            continue
        x, y = part.p99_ms, 100 * part.error_share
        axes.plot(x, y, color=look.colour, linestyle=look.dashes, linewidth=1.1, marker=".", markersize=4)
        others += list(zip(x, y, strict=True))
        factors = zip(x, y, part.index, part.is_base, strict=True)
        for at_x, at_y, value, is_base in factors:
            if is_base:
                axes.plot([at_x], [at_y], color=look.colour, marker=look.marker, markersize=6.5, linestyle="none")
                bases.append((look.label, at_x, at_y, look.colour))
            elif at_x > 1:
                bases.append((f"{float(value):g} x as far", at_x, at_y, "#555555"))
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.6)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(-0.25, max(5_000.0, axes.get_xlim()[1]))
    axes.set_xticks([0, 1, 10, 100, 1000], ["at once", "1", "10", "100", "1,000"])
    axes.margins(y=0.1)
    axes.set_xlabel("99th percentile of the wait for a decision (ms)", fontsize=8)
    axes.tick_params(labelsize=7.5)
    letter(axes, "(b) precision against latency; lines: other distances")
    label_points(axes, bases, others)


def draw_kinds(axes: "Axes", excess: "Axes", sweeps: "pd.DataFrame", names: list[str]) -> None:
    """Bars of both kinds of errors to either side, and the worst excess beside them, with intervals; the base."""
    rows = sweeps[(sweeps.sweep == "period") & sweeps.is_base]
    for place, name in enumerate(names):
        look = style_of(name)
        for measure, sign, panel in (("false_reject_share", -1, axes), ("false_admit_share", 1, axes),
                                     ("excess_share", 1, excess)):  # fmt: skip
            row = rows[(rows.name == name) & (rows.measure == measure)]
            if row.empty or row["mean"].isna().all():
                continue
            mean, low, high = 100 * row[["mean", "low", "high"]].iloc[0]
            bar: dict[str, Any] = {"color": look.colour, "height": 0.7, "alpha": 1.0 if sign > 0 else 0.55}
            panel.barh([place], [sign * mean], **bar)
            if row["count"].iloc[0] > 1:
                panel.errorbar([sign * mean], [place], xerr=[[min(mean, mean - low)], [high - mean]][::sign],
                               color="#333333", elinewidth=0.7, capsize=1.5, linestyle="none")  # fmt: skip
            panel.annotate(f"{mean:.2g}" if mean < 9.95 else f"{mean:.0f}", (sign * max(mean, high), place),
                           xytext=(3 * sign, 0), textcoords="offset points", fontsize=5.5, color="#333333",
                           ha="left" if sign > 0 else "right", va="center")  # fmt: skip
    for panel, reach in ((axes, (-400.0, 60.0)), (excess, (0.0, 1_000.0))):
        panel.set_xscale("symlog", linthresh=1.0, linscale=0.8)
        panel.set_xlim(*reach)
        panel.axvline(0, color="#000000", linewidth=0.8)
        panel.grid(visible=False, axis="y")
        panel.tick_params(labelsize=7)
    axes.set_xticks([-100, -10, -1, 0, 1, 10], ["100", "10", "1", "0", "1", "10"])
    excess.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    axes.set_yticks(range(len(names)), [style_of(name).label for name in names], fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    excess.tick_params(labelleft=False)
    axes.set_xlabel("rejected wrongly | admitted wrongly\n(% of requests)", fontsize=7.5)
    excess.set_xlabel("worst excess\n(% of capacity)", fontsize=7.5)
    letter(axes, "(c) errors of both kinds")
    letter(excess, "(d) excess")


# --- below ---------------------------------------------------------------------------------------


def _draw_row(row: Any, sweeps: "pd.DataFrame", measure: str, names: list[str]) -> None:
    """One measure in all sweeps, on a common axis."""
    drawn = sweeps[sweeps.measure == measure]
    for number, (panel, sweep) in enumerate(zip(row, SWEEPS, strict=True)):
        _draw_sweep(panel, drawn[drawn.sweep == sweep.column], names)
        panel.set_yscale("symlog", linthresh=LINEAR_PERCENT, linscale=0.5)
        ticks = [0, 0.1, 1, 10, 100, 1000]
        panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=7)
        highest = 100 * drawn["mean"].max() if len(drawn) else 1.0
        panel.set_ylim(-0.02, max(1.0, highest * 1.6))
        panel.minorticks_off()
        if number:
            panel.tick_params(labelleft=False)
        else:
            panel.set_ylabel(ROWS[measure], fontsize=7.5)
        if measure == next(iter(ROWS)):
            letter(panel, f"({'efghij'[number]}) {sweep.title}")
        if measure == list(ROWS)[-1]:
            _name_values(panel, sweep, drawn[drawn.sweep == sweep.column])
        else:
            panel.tick_params(labelbottom=False)


def _draw_sweep(axes: "Axes", part: "pd.DataFrame", names: list[str]) -> None:
    """A line a limiter that the sweep touches, over places of equal distance; intervals as bars."""
    order = values_in_order(part)
    for name in names:
        line = part[(part.name == name) & (part.value != "")].dropna(subset="mean")
        if line.value.nunique() < 2:
            continue
        line = line.assign(place=[order.index(value) for value in line.value]).sort_values("place")
        look = style_of(name)
        # A single repetition has no interval.
        low = (line["mean"] - line.low).where(line["count"] > 1, 0.0).clip(lower=0)
        high = (line.high - line["mean"]).where(line["count"] > 1, 0.0).clip(lower=0)
        axes.errorbar(line.place, 100 * line["mean"], yerr=[100 * low, 100 * high], color=look.colour,
                      linestyle=look.dashes, marker=look.marker, markersize=3.2, linewidth=1.1,
                      elinewidth=0.6)  # fmt: skip
    axes.set_xticks(range(len(order)))
    if order:
        axes.set_xlim(-0.3, len(order) - 0.7)


def _name_values(axes: "Axes", sweep: Sweep, part: "pd.DataFrame") -> None:
    """The sweep's values as they are read; the base's in bold."""
    order = values_in_order(part)
    axes.set_xticks(range(len(order)), [_text(sweep, value) for value in order], fontsize=7)
    bases = set(part[part.is_base].value)
    for label, value in zip(axes.get_xticklabels(), order, strict=True):
        label.set_fontweight("bold" if value in bases else "normal")


def _text(sweep: Sweep, value: str) -> str:
    if sweep.column == "loss":
        return f"{100 * float(value):g} %" if float(value) else "none"
    if sweep.column == "delay":
        return f"{float(value):g} x"
    if value in TEXTS:
        return TEXTS[value]
    number, unit = value.rstrip("ms"), value[len(value.rstrip("ms")) :]
    return f"{number} {unit}" if unit and number.replace(".", "").isdigit() else value


def _handle(name: str) -> Any:
    from matplotlib.lines import Line2D

    look = style_of(name)
    return Line2D([], [], color=look.colour, linestyle=cast(Any, look.dashes), marker=look.marker, markersize=4.5,
                  linewidth=1.1, label=look.label)  # fmt: skip
