"""What the studies of placement policies share (ePulsar 5.5): points, tables, curves of all policies.

A run is one topology.  Its clients are placed at random many times, and all policies choose brokers for the same
placements.  Delays are *estimated*, from the coordinates, as in the paper, and beside them *true*.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs.epulsar.estimates import draw_curve
from paper_figs.series import by_repetition, plain, where
from paper_figs.style import style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from analysis.spark import Data
    from paper_figs.figure import FigureTables

POLICIES = ("pulsar", "all-pairs", "epulsar", "optimal")
GAME: dict[str, Any] = {"scenario": "game", "groups": 128, "members": 8, "bound": "100ms"}  # 5.1.2, 5.5.2
SWARMS: dict[str, Any] = {"scenario": "swarms", "groups": 16, "members": 8, "bound": "40ms"}  # 5.1.1, 5.5.3
ACCESS = "8ms"  # of UAVs, one way: ours, the paper gives none
SHOWN = ("pulsar", "optimal", "epulsar", "all-pairs")  # in the order of drawing
ESTIMATING = tuple(policy for policy in SHOWN if policy != "optimal")  # that one knows the truth
SIZES = {"pulsar": 3.5, "optimal": 4.0, "epulsar": 5.5, "all-pairs": 2.5}
LINES: dict[str, Any] = {"pulsar": "-", "optimal": ":", "epulsar": "-", "all-pairs": "--"}
_WORST = ("estimated_worst", "true_worst")
_RATIOS = ("estimated_violation_ratio", "printed_violation_ratio", "true_violation_ratio", "feasible_ratio")
_ERRORS = {"median_error_ratio": 0.5, "p90_error_ratio": 0.9}
BOTH_WAYS = 2  # a pair's error counts for its way there and its way back


def permutations(scale: Scale) -> int:
    """Random placements a run; the paper's 1000 (5.5.1) at its scale."""
    count: int = scale.pick(tiny=50, quick=200, paper=1000)
    return count


def point(
    scale: Scale, topology: str, topology_options: Mapping[str, Any], inputs: tuple[str, ...] = (), **study: Any
) -> RunSpec:
    """One topology.  Nothing is offered, so system and workload are idle."""
    return RunSpec(
        system="static-split", workload="requests", topology=topology, topology_options=dict(topology_options),
        study="policies", study_options={"permutations": permutations(scale), **study},
        inputs=inputs,
    )  # fmt: skip


def tables(data: "Data", factors: Mapping[str, str]) -> "FigureTables":
    """``runs``, a row a run and policy, and ``estimates``, a row a run; both with ``factors`` and the repetition.

    Over the placements of a run: ``estimated_worst_ms`` and ``true_worst_ms``, the mean of each placement's worst
    delay (``..._max_ms``: the largest); ``estimated_violation_ratio``, ``printed_violation_ratio`` and
    ``true_violation_ratio``, the mean share of pairs above the bound; ``violating_ratio``: the share of placements
    with any such pair, by estimate; ``feasible_ratio``: the mean share of topics with a broker within the bound, as
    the policy sees it.  ``estimates``: median and 90th percentile of the relative errors of estimated round trips.
    """
    from pyspark.sql import functions as f

    from analysis.spark import collect

    named = [f.col("factors")[name].alias(column) for column, name in factors.items()]
    points = data.runs.select("run_id", "topology", "repetition", *named)
    worst = [
        each
        for name in _WORST
        for each in (
            (f.avg(f"{name}_ns") / MILLISECOND_NS).alias(f"{name}_ms"),
            (f.max(f"{name}_ns") / MILLISECOND_NS).alias(f"{name}_max_ms"),
        )
    ]
    violating = f.avg((f.col("estimated_violation_ratio") > 0).cast("double")).alias("violating_ratio")
    measures = [*worst, *(f.avg(name).alias(name) for name in _RATIOS), violating]
    runs = data.table("policies").groupBy("run_id", "policy").agg(*measures)
    error_ratio = f.abs(f.col("estimated_rtt_ns") - f.col("true_rtt_ns")) / f.col("true_rtt_ns")
    spread = [f.percentile(error_ratio, q, BOTH_WAYS).alias(name) for name, q in _ERRORS.items()]
    estimates = data.table("coordinates").groupBy("run_id").agg(*spread)
    order = ["topology", *factors, "repetition"]
    found = {
        "runs": collect(runs.join(points, "run_id"), [*order, "policy"]),
        "estimates": collect(estimates.join(points, "run_id"), order),
    }
    return {name: plain(frame, factors).drop(columns="run_id") for name, frame in found.items()}


def draw_policies(
    axes: "Axes", runs: "pd.DataFrame", x: str, y: str, scaled: float = 1.0, hollow: bool = False,
    policies: Iterable[str] = SHOWN,
) -> None:  # fmt: skip
    """A curve of ``y`` times ``scaled`` a policy, means over repetitions with 95 % intervals; ``hollow``: the truth.

    AllPairs, small and dashed, is drawn over ePulsar, which it often covers.
    """
    for policy in policies:
        part = runs[runs.policy == policy]
        if part.empty:
            continue
        style = style_of(policy)
        filled: dict[str, Any] = {
            "markerfacecolor": style.colour,
            "markersize": SIZES[policy],
            "linestyle": LINES[policy],
        }
        look: dict[str, Any] = (
            {"markerfacecolor": "none", "markersize": SIZES[policy] + 2.5, "linestyle": ":"} if hollow else filled
        )
        draw_curve(axes, part.assign(shown=part[y] * scaled), x, "shown", color=style.colour, marker=style.marker,
                   **look)  # fmt: skip


def legend(drawing: Any, policies: Iterable[str] = SHOWN) -> None:
    """Policies by colour and marker; estimates filled, the truth hollow and dotted."""
    from matplotlib.lines import Line2D

    handles = []
    for policy in policies:
        style = style_of(policy)
        handles.append(Line2D([], [], color=style.colour, marker=style.marker, markersize=SIZES[policy],
                              linestyle=LINES[policy], label=style.label))  # fmt: skip
    grey = "#555555"
    handles.append(Line2D([], [], color=grey, marker="o", markersize=3.5, label="estimated from coordinates"))
    handles.append(Line2D([], [], color=grey, marker="o", markersize=6.5, markerfacecolor="none", linestyle=":",
                          label="true"))  # fmt: skip
    drawing.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=7)


def bound_line(axes: "Axes", bound_ms: float, below: bool = False) -> None:
    """The bound on end-to-end latency, named at the left above the line or at the right below."""
    axes.axhline(bound_ms, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(f"bound {bound_ms:g} ms", (0.99 if below else 0.01, bound_ms), xycoords=("axes fraction", "data"),
                  va="top" if below else "bottom", ha="right" if below else "left", fontsize=6, color="#555555",
                  xytext=(0, -1.5 if below else 1), textcoords="offset points")  # fmt: skip


def gap(runs: "pd.DataFrame", value: str, policy: str, other: str, **point: Any) -> "pd.Series":
    """``policy`` less ``other``, paired by repetition; KeyError where a point has no data."""
    return by_repetition(where(runs, **point), value, policy=policy) - by_repetition(
        where(runs, **point), value, policy=other
    )
