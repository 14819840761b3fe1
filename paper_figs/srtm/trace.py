"""LB, Conc, Max-Min and SRTM on a *real* trace of sensors (ours; the papers have synthetic traffic only).

``--trace FILE`` names the trace: readings of the ULB library's motes as they were published
(recognised by their columns), a CSV with a column map, or Parquet.  The trace is replayed faster
(``--speed``) and in copies (``--replicas``), each from its own place in the trace; the motes of a
copy form a correlation group.  A copy that comes to the trace's end starts over: those wraps are
counted.
"""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import SpecError
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables
from paper_figs.srtm.grids import CONFORMANT
from paper_figs.srtm.series import ENVELOPE_NOTE, SLO_MS, log_axis, per_run, summary, whole
from paper_figs.style import letter, panels, slo_line, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

ROUND_S = 60  # SRTM VI-E
SYSTEMS = ("lb", "conc", "max-min", "srtm")
OPTIONS = (
    Option("trace", "trace of sensors: publisher, instant[, size, group]"),
    Option("format", "csv, parquet or ulb-wsn; default: by the file's looks"),
    Option("columns", "csv and parquet: publisher=NAME,instant=NAME, by header name or 0-based number", ""),
    Option("instant-unit", "csv and parquet: s, ms, us, ns or iso", "s"),
    Option("replicas", "copies of the trace", 53, int),
    Option("speed", "time compression", 600.0, float),
)


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The four systems on the trace; none without a trace."""
    if not options["trace"]:
        return []
    path = str(Path(options["trace"]).absolute())
    kind = options["format"] or looks_like(path)
    workload: dict[str, Any] = {
        "path": path, "format": kind, "replicas": options["replicas"], "speed": options["speed"],
    }  # fmt: skip
    if kind != "ulb-wsn":
        workload |= {"columns": options["columns"], "instant_unit": options["instant-unit"]}
    return [
        RunSpec(
            system=system,
            workload="trace",
            workload_options=workload,
            procedure_options=CONFORMANT,
            inputs=(path,),
        )
        for system in SYSTEMS
    ]


def skip_reason(options: Mapping[str, Any]) -> str:
    """Why there are no points."""
    return "no trace given: pass --trace FILE"


def looks_like(path: str) -> str:
    """The format by the file's beginning: Parquet's mark, 7 or 9 bare columns of the ULB logs, otherwise CSV."""
    try:
        with open(path, "rb") as raw:
            head = raw.read(4)
        with gzip.open(path) if head[:2] == b"\x1f\x8b" else open(path, "rb") as text:
            line = text.readline(10_000)
    except (OSError, EOFError) as error:
        what = getattr(error, "strerror", None) or error
        raise SpecError(f"--trace {path}: {what}", "give a readable file") from None
    if head == b"PAR1":
        return "parquet"
    fields = line.split()
    bare = len(fields) in (7, 9) and fields[0].isdigit() and b";" not in line
    return "ulb-wsn" if bare else "csv"


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run; ``p99``: over the repetitions; ``wraps``: how often copies started over in a minute."""
    from pyspark.sql import functions as f

    runs = per_run(data, {})
    wraps = data.samples.where(f.col("metric") == "wrap_count").groupBy("run_id")
    judged = wraps.agg(f.max_by("value", "at_ns").alias("wraps"))  # the judged minute is the last one
    return {
        "runs": runs,
        "p99": summary(runs, ["system"]),
        "wraps": judged.agg(f.avg("wraps").alias("mean"), f.max("wraps").alias("max")).toPandas(),
    }


def draw(found: FigureTables) -> "Drawing":
    """(a) p99 with the number of brokers; (b) rounds of the search, and those of them that violated the SLO."""
    drawing, axes = panels(1, 2)
    order = [*SYSTEMS, *sorted(set(found["p99"].system) - set(SYSTEMS))]
    _draw_p99(axes[0][0], found, order)
    _draw_rounds(axes[0][1], found, order)
    letter(axes[0][0], f"(a) copies start over {found['wraps']['mean'].iloc[0]:.0f} times a minute in all")
    letter(axes[0][1], "(b) search")
    return drawing


def _draw_p99(axes: "Axes", found: FigureTables, order: list[str]) -> None:
    """Mean and standard deviation, number of brokers beside."""
    for place, system in enumerate(order):
        row = found["p99"][found["p99"].system == system].iloc[0]
        style = style_of(system)
        bars = [[min(row["std"], 0.9 * row["mean"])], [row["std"]]]  # a log axis has no room below 0
        axes.errorbar([place], [row["mean"]], yerr=bars, marker=style.marker, color=style.colour, capsize=3)
        axes.annotate(whole(row["broker_count"]), (place, row["mean"]), xytext=(7, 0), textcoords="offset points",
                      va="center", fontsize=7, color=style.colour)  # fmt: skip
    log_axis(axes)
    slo_line(axes, SLO_MS)
    axes.set_ylabel("p99 end-to-end latency (ms)")
    _name_systems(axes, order)


def _draw_rounds(axes: "Axes", found: FigureTables, order: list[str]) -> None:
    """A bar a system, the violating rounds hatched."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    rounds = found["runs"].groupby("system")[["round_count", "violation_s"]].mean()
    for place, system in enumerate(order):
        style = style_of(system)
        axes.bar(place, rounds.round_count[system], width=0.6, color=style.colour, alpha=0.35)
        bad = rounds.violation_s[system] / ROUND_S
        axes.bar(place, bad, width=0.6, fill=False, edgecolor=style.colour, hatch="///", linewidth=0)
    axes.set_ylabel("rounds of the search")
    axes.set_ylim(0, max(1.3, 1.3 * rounds.round_count.max()))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(
        handles=[Patch(facecolor="none", edgecolor="#555555", hatch="///", label="violated the SLO")], fontsize=7
    )
    _name_systems(axes, order)


def _name_systems(axes: "Axes", order: list[str]) -> None:
    axes.set_xticks(range(len(order)), [style_of(system).label for system in order])
    axes.set_xlim(-0.6, len(order) - 0.4)
    axes.grid(visible=False, axis="x")


EXPERIMENT = Experiment(
    "srtm-trace",
    "Load distribution on a real trace of sensors",
    "ours; systems of SRTM VI",
    points,
    OPTIONS,
    skip_reason,
)
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="Mean and standard deviation over repetitions, in each of which the copies start from other places in the "
    "trace; numbers beside points: brokers. The motes of a copy are a correlation group (what SRTM knows of the "
    "trace). "
    + ENVELOPE_NOTE,
)  # fmt: skip
