"""How far the limit can be exceeded, against the number of nodes (section 3.1.1 says so, and measures it nowhere).

Data set B, substantial load.  Ours: the sweep.  The queue's window is a node's share of the bucket, c / n.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import COUNTER, FL, ORACLE, at, limited, oracle
from paper_figs.crdt.runs import EXTENSIONS_NOTE, per_run
from paper_figs.crdt.usage import with_seconds
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import legend_above, steps, where
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

DATA_SET = "B-substantial"
VARIANTS = (COUNTER, FL)


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Numbers of nodes x variants."""
    counts = scale.pick(tiny=[3, 10], quick=[3, 10, 30], paper=[2, 5, 10, 20, 30, 60])
    found = [
        oracle(DATA_SET),
        *(limited(variant, DATA_SET, nodes=nodes) for nodes in counts for variant in VARIANTS),
    ]
    return at(scale, found)


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run but the oracle's."""
    runs = with_seconds(per_run(data))
    return {"runs": runs[runs.variant != ORACLE].sort_values(["variant", "nodes", "repetition"], ignore_index=True)}


def draw(found: FigureTables) -> "Drawing":
    """Excess, the thesis' percentage, bytes."""
    drawing, axes = panels(1, 3)
    drawing.set_size_inches(9.0, 2.7)
    runs = found["runs"]
    runs = runs.assign(excess=100 * runs.excess_share, percent=100 * runs.rejected_ratio.astype(float),
                       sent_kb=runs.sent_bytes.astype(float) / 1e3)  # fmt: skip
    columns = (
        ("excess", "above the envelope (% of c)", "worst excess"),
        ("percent", "of centralised rejections (%)", "rejections"),
        ("sent_kb", "sent by a node (kB)", "bytes"),
    )
    for n, (panel, (value, label, title)) in enumerate(zip(axes[0], columns, strict=True)):
        _draw_by_count(panel, runs, value)
        panel.set_ylabel(label, fontsize=8)
        letter(panel, f"({'abc'[n]}) {title}")
    axes[0][1].axhline(100, color="#000000", linewidth=0.8, linestyle=":")
    axes[0][0].set_ylim(bottom=0)
    axes[0][2].set_ylim(bottom=0)
    legend_above(drawing, axes[0][0])
    return drawing


def _draw_by_count(axes: "Axes", runs: "pd.DataFrame", value: str) -> None:
    for variant in VARIANTS:
        look = style_of(variant)
        found = runs[runs.variant == variant].groupby("nodes")[value].agg(["mean", "std"]).fillna(0.0)
        axes.errorbar(found.index, found["mean"], yerr=found["std"], color=look.colour, marker=look.marker,
                      markersize=4, linestyle=look.dashes, linewidth=1.2, capsize=2, label=look.label)  # fmt: skip
    axes.set_xticks(sorted(set(runs.nodes)))
    axes.set_xlabel("nodes")


def measure_t25(tables: Tables) -> Evidence:
    """The counter's worst excess over the envelope, between neighbouring numbers of nodes."""
    runs = where(tables["crdt-nodes/runs"], variant=COUNTER)
    found = steps(runs, "excess_tokens", "nodes", unit="tokens")
    if not found:
        raise KeyError("two numbers of nodes")
    return Evidence(tuple(found))


CLAIMS = (
    Claim(
        "T25", "3.1.1", "The more nodes serve a user, the further the user can exceed the limit.", ("crdt-nodes",),
        measure_t25,
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-nodes", "Excess against the number of nodes", "ours; CRDT 3.1.1", points)
FIGURE = Figure(
    EXPERIMENT,
    tables,
    draw,
    CLAIMS,
    notes=f"{EXTENSIONS_NOTE} The claim is about any user above the limit, so B's stand-in for "
    "one serves as well as the recording. Bars are standard deviations over repetitions.",
)
