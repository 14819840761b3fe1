"""What figures of usage have in common: memory and bandwidth of a node over time, ratios, and convergence.

(a), (b) Means over nodes and repetitions, the counter's peak as 100 %, a run that has ended as 0: the thesis'
axes (5.1.3, 5.2.4).  (c) Areas under the curves over the counter's, each until its own run ends; memory as
modelled and as measured.  (d) When each run came to rest.  (c) and (d) are ours; there the thesis has numbers.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from analysis.verdicts import Check, above, at_least, below, t_interval
from harness.experiment import RunSpec
from paper_figs.crdt.checks import nearest
from paper_figs.crdt.grids import COUNTER, limited
from paper_figs.crdt.runs import curves, per_run
from paper_figs.figure import FigureTables
from paper_figs.series import by_repetition, log_axis, samples
from paper_figs.style import PUBLISHED, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

MEMORY, MEASURED, BANDWIDTH = "state_byte_seconds", "allocated_byte_seconds", "sent_bytes"
AREAS = {MEMORY: "memory\n(model)", MEASURED: "memory\n(measured)", BANDWIDTH: "bandwidth"}
HIGH = 10  # counter's peaks: axes above it are logarithmic
USAGE_NOTE = (
    "Memory is that of a model (32 bytes a user, 16 a counter, limit or queue element; local and delta states), and "
    "measured allocation beside it; the thesis measured Erlang processes with all that these bring. Bandwidth is "
    'encoded bytes. "798 % more" (5.2.1) is a ratio of 7.98, so that other percentages may be read both ways: both are '
    "marked, the nearer one counts."
)
Published = Mapping[str, Mapping[str, tuple[float, ...]]]  # variant -> area -> readings of its ratio to the counter's


def points(data_set: str, variants: Sequence[str]) -> list[RunSpec]:
    """The variants on one data set."""
    return [limited(variant, data_set) for variant in variants]


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run; ``curves``: state_bytes and sent_bytes by second; ``ratios``: areas over the counter's.

    ``runs`` has, besides ``per_run``'s, in seconds: load_end_s, last_sent_s (0: nothing ever), and rest_s, when all
    requests were over and nothing was queued or under way, or where that never was, the end of the run; ``converged``
    tells the two apart.  And memory_kept (below).
    """
    runs, rows = usage_of(data, decided=False)
    over_time = curves(rows, runs, "state_bytes", "sent_bytes", zero_after_end=True)
    kept = runs.merge(memory_kept(rows, runs), on="run_id", how="left")
    return {"runs": kept, "curves": over_time, "ratios": ratios(runs)}


def usage_of(
    data: "Data", decided: bool = True, more: Mapping[str, str] | None = None
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """``per_run`` ``with_seconds``; and memory and bandwidth of a node, a row a run and second.

    The latter has run_id, t_ns, state_bytes, sent_bytes (``usage_over_time``).
    """
    from analysis.spark import collect, computed_once
    from analysis.usage import usage_over_time

    with computed_once(usage_over_time(data.table("usage"))) as over_time:
        runs = with_seconds(per_run(data, decided=decided, more=more, over_time=over_time))
        rows = over_time.select("run_id", "t_ns", "state_bytes", "sent_bytes")
        return runs, collect(rows, ["run_id", "t_ns"])


def memory_kept(rows: "pd.DataFrame", ends: "pd.DataFrame") -> "pd.DataFrame":
    """run_id and memory_kept: a node's mean memory in the last tenth of the load over that in the sixth."""
    timed = rows.merge(ends[["run_id", "load_end_ns"]], on="run_id")
    part = timed["t_ns"] / timed["load_end_ns"]
    last, sixth = (
        timed[(part > low) & (part <= low + 0.1)].groupby("run_id")["state_bytes"].mean() for low in (0.9, 0.5)
    )
    return (last / sixth.where(sixth > 0.0)).rename("memory_kept").reset_index()


def with_seconds(runs: "pd.DataFrame") -> "pd.DataFrame":
    """``runs`` with load_end_s, last_sent_s, rest_s and converged."""
    converged = runs["converged_at_ns"].notna()
    end_ns = runs["converged_at_ns"].where(converged, runs["end_ns"]).astype(float)
    load_end_s = runs["load_end_ns"].astype(float) / 1e9
    rest_s = (end_ns / 1e9).clip(lower=load_end_s)
    last_sent_s = runs["last_sent_at_ns"].astype(float).fillna(0.0) / 1e9
    return runs.assign(load_end_s=load_end_s, last_sent_s=last_sent_s, rest_s=rest_s, converged=converged)


def ratio(runs: "pd.DataFrame", area: str, variant: str, to: str = COUNTER) -> "pd.Series":
    """An area of one variant over that of another, paired by repetition."""
    found = by_repetition(runs, area, variant=variant).astype(float)
    quotient: pd.Series = found / by_repetition(runs, area, variant=to).astype(float)
    return quotient


def ratios(runs: "pd.DataFrame") -> "pd.DataFrame":
    """One row a variant and area: the mean ratio to the counter's with its interval, low and high."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for variant in sorted(set(runs.variant) - {COUNTER}):
        for area in AREAS:
            found = t_interval(samples(ratio(runs, area, variant)))
            if found.count:
                rows.append({"variant": variant, "area": area, "mean": found.mean, "low": found.low,
                             "high": found.high, "count": found.count})  # fmt: skip
    return pd.DataFrame(rows, columns=["variant", "area", "mean", "low", "high", "count"])


def draw(found: FigureTables, variants: Sequence[str], published: Published) -> "Drawing":
    """Four panels."""
    drawing, axes = panels(2, 2)
    drawing.set_size_inches(7.6, 5.2)
    load_end_s = found["runs"].load_end_s.max()
    for n, (panel, value, title) in enumerate(
        zip(axes[0], ("state_bytes", "sent_bytes"), ("memory of a node", "bandwidth of a node"), strict=True)
    ):
        draw_usage(panel, found["curves"], value, variants, load_end_s)
        letter(panel, f"({'ab'[n]}) {title}")
    draw_ratios(axes[1][0], found["ratios"], [variant for variant in variants if variant != COUNTER], published)
    letter(axes[1][0], "(c) areas under the curves")
    draw_rest(axes[1][1], found["runs"], variants, load_end_s)
    letter(axes[1][1], "(d) convergence of each run")
    handles, labels = axes[0][0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 5), fontsize=7)
    return drawing


def draw_usage(axes: "Axes", found: "pd.DataFrame", value: str, variants: Sequence[str], load_end_s: float) -> None:
    """Mean curves, the peak of the counter's as 100 %; a thin line where the requests end."""
    from matplotlib.ticker import FuncFormatter

    peak = found[found.variant == COUNTER][value].max()
    for variant in variants:
        part, look = found[found.variant == variant], style_of(variant)
        axes.plot(part.t_s, 100 * part[value] / peak, color=look.colour, linestyle=look.dashes, linewidth=1.2,
                  label=look.label)  # fmt: skip
    axes.axvline(load_end_s, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
    if found[value].max() > HIGH * peak:  # the counter would be a flat line
        axes.set_yscale("symlog", linthresh=100)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:,.0f}"))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time (s); requests end at the dashed line")
    axes.set_ylabel("of the counter's peak (%)")


def draw_ratios(axes: "Axes", found: "pd.DataFrame", variants: Sequence[str], published: Published) -> None:
    """Each area over the counter's with its interval, log axis; printed values in both readings."""
    width = 0.7 / max(1, len(variants))
    places = list(AREAS)
    for n, variant in enumerate(variants):
        look, part = style_of(variant), found[found.variant == variant]
        for row in part.to_dict("records"):
            place = places.index(row["area"]) + (n - (len(variants) - 1) / 2) * width
            low = row["low"] if row["count"] > 1 else row["mean"]
            error = [[row["mean"] - max(low, 0.05 * row["mean"])], [max(0.0, min(row["high"], 1e3) - row["mean"])]]
            axes.errorbar([place], [row["mean"]], yerr=error if row["count"] > 1 else None, color=look.colour,
                          marker=look.marker, markersize=5, capsize=2, linestyle="none")  # fmt: skip
            if row["area"] in published.get(variant, {}):
                printed = published[variant][row["area"]]
                axes.plot([place + 0.3 * width] * len(printed), printed, **cast(Any, PUBLISHED))
    axes.axhline(1.0, color="#000000", linewidth=0.8, linestyle=":")
    log_axis(axes)
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set_xticks(range(len(places)), list(AREAS.values()), fontsize=7)
    axes.set_ylabel("over the counter's")
    handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    axes.legend(handles.values(), handles.keys(), fontsize=6.5)


def draw_rest(axes: "Axes", runs: "pd.DataFrame", variants: Sequence[str], load_end_s: float) -> None:
    """One row a variant: when each run came to rest, and (a tick) when it sent its last message."""
    for place, variant in enumerate(variants):
        look, part = style_of(variant), runs[runs.variant == variant].sort_values("repetition")
        spread = [place + 0.5 * ((n + 0.5) / max(1, len(part)) - 0.5) for n in range(len(part))]
        axes.plot(part.rest_s, spread, color=look.colour, marker=look.marker, markersize=4, linestyle="none")
        axes.plot(part.last_sent_s, spread, color=look.colour, marker="|", markersize=6, linestyle="none")
    axes.plot([], [], color="#555555", marker="o", markersize=4, linestyle="none", label="at rest")
    axes.plot([], [], color="#555555", marker="|", markersize=6, linestyle="none", label="last message")
    axes.axvline(load_end_s, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
    marks = [load_end_s, *runs.rest_s, *runs.last_sent_s]
    margin = 0.05 * max(marks)
    axes.set_xlim(max(0.0, min(marks) - margin), max(marks) + margin)
    axes.set_ylim(len(variants) - 0.4, -0.6)
    names = [style_of(variant).label.replace(", ", ",\n") for variant in variants]
    axes.set_yticks(range(len(variants)), names, fontsize=7)
    axes.set_xlabel("time (s)")
    axes.legend(fontsize=6.5, loc="best")


def as_published(
    runs: "pd.DataFrame", variant: str, printed: Mapping[str, tuple[float, ...]]
) -> tuple[list[Check], list[Check]]:
    """The areas of a variant over the counter's: within 15 % of the nearest reading; and on the same side of 1."""
    exact, direction = [], []
    for area, values in printed.items():
        found = ratio(runs, area, variant)
        name = f"{AREAS[area].split()[0]} of the {variant} over the counter's"
        exact.append(nearest(name, found, values))
        direction.append((above if min(values) > 1 else below)(name, samples(found), 1.0))
    return exact, direction


def silent_before_the_end(runs: "pd.DataFrame", variant: str = COUNTER) -> Check:
    """A variant's last message is sent before the last request."""
    return below(f"last message of the {variant} minus last request", samples(_late(runs, variant)), 0.0, "s")


def talks_after_the_end(runs: "pd.DataFrame", variant: str, least_s: float = 0.0) -> Check:
    """A variant still sends so long after the last request, in seconds."""
    label = f"last message of the {variant} minus last request"
    found = samples(_late(runs, variant))
    return at_least(label, found, least_s, "s") if least_s else above(label, found, 0.0, "s")


def _late(runs: "pd.DataFrame", variant: str) -> "pd.Series":
    late: pd.Series = by_repetition(runs, "last_sent_s", variant=variant) - by_repetition(
        runs, "load_end_s", variant=variant
    )
    return late
