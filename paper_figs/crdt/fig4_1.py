"""Fig. 4.1: the sliding log and the token bucket admit equally many requests if requests never end.

Capacity 4, one token a second, one node; four requests every 10 ms stand for "infinitely often".  (a) Requests
admitted since the start.  (b) Which ones: an instant a mark.  Ours: that they are real systems on one node,
``sliding-log`` and ``crdt-queue``, beside the centralised limiter.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import ORACLE, at
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import legend_above, with_point
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

LIMIT: dict[str, Any] = {"capacity": 4, "rate": "1"}  # 4.1.1
LIFE_S = 4  # c / r, Eq. (4.1)
SYSTEMS = {"sliding-log": "sliding-log", "crdt-queue": "central queue", ORACLE: ORACLE}  # -> style
PATTERN = {"at": ["0ms"] * 4, "period": "10ms", "repeats": 1_601}


def alone(system: str, pattern: Mapping[str, Any]) -> RunSpec:
    """A system on one node, offered a pattern of instants."""
    return RunSpec(
        system=system,
        system_options=dict(LIMIT),
        workload="instants",
        workload_options=dict(pattern),
        topology="full-mesh",
        topology_options={"nodes": 1, "delay": "0ms"},
        study="limiting",
    )


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Three systems, saturated."""
    return at(scale, [alone(system, PATTERN) for system in SYSTEMS])


def tables(data: "Data") -> FigureTables:
    """``admitted``: one row an admitted request: at_s, and how many there were up to then, count."""
    return {"admitted": admitted(data)}


def admitted(data: "Data") -> "pd.DataFrame":
    """system, repetition, request_id, at_s, count: the admitted requests in order."""
    from pyspark.sql import functions as f

    rows = data.requests.where("decision = 'admit'")
    found = with_point(
        data, rows.select("run_id", "request_id", (f.col("intended_at_ns") / SECOND_NS).alias("at_s")), {}
    )
    found = found.sort_values(["system", "repetition", "request_id"], ignore_index=True)
    found["count"] = found.groupby(["system", "repetition"]).cumcount() + 1
    return found[["system", "repetition", "request_id", "at_s", "count"]]


def draw(found: FigureTables) -> "Drawing":
    """Two panels; the first repetition, since all are alike."""
    drawing, axes = panels(1, 2, gridspec_kw={"width_ratios": [1.0, 1.2]})
    table = found["admitted"]
    table = table[table.repetition == table.repetition.min()]
    end_s = table.at_s.max()
    for system, look in ((system, style_of(name)) for system, name in SYSTEMS.items()):
        part = table[table.system == system]
        axes[0][0].step([0, *part.at_s, end_s], [0, *part["count"], part["count"].max()], where="post",
                        color=look.colour, linestyle=look.dashes, linewidth=1.2, label=look.label)  # fmt: skip
    axes[0][0].set_xticks(range(0, int(end_s) + 1, LIFE_S))
    axes[0][0].set_xlabel("time (s)")
    axes[0][0].set_ylabel("admitted requests")
    letter(axes[0][0], "(a) how many")
    draw_instants(axes[0][1], table)
    axes[0][1].set_xticks(range(0, int(end_s) + 1, LIFE_S))
    letter(axes[0][1], "(b) which (marks of one instant side by side)")
    legend_above(drawing, axes[0][0])
    return drawing


def draw_instants(axes: "Axes", table: "pd.DataFrame") -> None:
    """One row a system, one mark an admitted request; those within 50 ms stand side by side."""
    for place, (system, name) in enumerate(SYSTEMS.items()):
        look, part = style_of(name), table[table.system == system]
        clump = (part.at_s.diff() > 0.05).cumsum()
        shift = part.groupby(clump).cumcount() * 0.22
        axes.plot(part.groupby(clump).at_s.transform("first") + shift, [place] * len(part), color=look.colour,
                  marker="o", markersize=4, linestyle="none")  # fmt: skip
    axes.set_yticks(range(len(SYSTEMS)), [style_of(name).label for name in SYSTEMS.values()], fontsize=7)
    axes.set_ylim(len(SYSTEMS) - 0.5, -0.5)
    axes.set_xlabel("time (s)")


EXPERIMENT = Experiment(
    "crdt-fig4.1", "Sliding log and token bucket, saturated: equally many", "CRDT thesis, Fig. 4.1", points
)
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="At multiples of c / r = 4 s both have admitted equally many; between them the log is behind by up to c - 1, "
    "as it gives its tokens back in bursts. Claim T23 stands with Fig. 4.2.",
)  # fmt: skip
