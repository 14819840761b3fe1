"""What the studies of placement policies share (ePulsar 5.5): points, tables; curves are in ``policy_drawing``.

A run is one topology.  Its clients are placed at random many times, and all policies choose brokers for the same
placements.  Delays are *estimated*, from the coordinates, as in the paper, and beside them *true*.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs.epulsar import published as paper
from paper_figs.series import by_repetition, plain, where

if TYPE_CHECKING:
    from paper_figs.figure import FigureTables
    from paper_figs.kinds import Data, Frame, Series

POLICIES = ("pulsar", "all-pairs", "epulsar", "optimal")
_GAME = {"groups": paper.GAME_GROUPS, "members": paper.GAME_CLIENTS // paper.GAME_GROUPS}
_UAVS = {"groups": paper.SWARMS, "members": paper.SWARM_MEMBERS}
GAME: dict[str, Any] = {"scenario": "game", **_GAME, "bound": f"{paper.GAME_BOUND_MS}ms"}
UAVS: dict[str, Any] = {"scenario": "swarms", **_UAVS, "bound": f"{paper.SWARM_BOUND_MS}ms"}
ACCESS_MS = 8  # of UAVs, one way: ours, the paper gives none
ACCESS = f"{ACCESS_MS}ms"
_WORST = ("estimated_worst", "true_worst")
_RATIOS = ("estimated_violation_ratio", "printed_violation_ratio", "true_violation_ratio", "feasible_ratio")
_ERRORS = ("median_error_ratio", "p90_error_ratio")


def permutations(scale: Scale) -> int:
    """Random placements a run; the paper's at its scale."""
    count: int = scale.pick(tiny=50, quick=200, paper=paper.PERMUTATIONS)
    return count


def point(
    scale: Scale, topology: str, topology_options: Mapping[str, Any], inputs: tuple[str, ...] = (), **study: Any
) -> RunSpec:
    """One topology.  Nothing is offered, so system and workload are idle."""
    return RunSpec(
        system="static-split",
        workload="requests",
        topology=topology,
        topology_options=dict(topology_options),
        study="policies",
        study_options={"permutations": permutations(scale), **study},
        inputs=inputs,
    )


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

    def of(metric: str) -> Any:
        return f.when(f.col("metric") == metric, f.col("value"))

    named = [f.col("factors")[name].alias(column) for column, name in factors.items()]
    points = data.runs.select("run_id", "topology", "repetition", *named)
    worst = [
        each
        for name in _WORST
        for each in (
            (f.avg(of(f"{name}_ns")) / MILLISECOND_NS).alias(f"{name}_ms"),
            (f.max(of(f"{name}_ns")) / MILLISECOND_NS).alias(f"{name}_max_ms"),
        )
    ]
    violating = f.avg((of("estimated_violation_ratio") > 0).cast("double")).alias("violating_ratio")
    measures = [*worst, *(f.avg(of(name)).alias(name) for name in _RATIOS), violating]
    by_run = data.samples.groupBy("run_id", f.col("node").alias("policy"))
    runs = by_run.agg(*measures).where(f.col("policy").isin(list(POLICIES)))
    of_agents = data.samples.where(f.col("node") == "coordinates").groupBy("run_id")
    estimates = of_agents.agg(*(f.max(of(name)).alias(name) for name in _ERRORS))
    order = ["topology", *factors, "repetition"]
    frames = {
        "runs": collect(runs.join(points, "run_id"), [*order, "policy"]),
        "estimates": collect(estimates.join(points, "run_id"), order),
    }
    return {name: plain(frame, factors).drop(columns="run_id") for name, frame in frames.items()}


def gap(runs: "Frame", value: str, policy: str, other: str, **point: Any) -> "Series":
    """``policy`` less ``other``, paired by repetition; KeyError where a point has no data."""
    return by_repetition(where(runs, **point), value, policy=policy) - by_repetition(
        where(runs, **point), value, policy=other
    )
