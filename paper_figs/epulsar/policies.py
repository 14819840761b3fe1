"""What the studies of placement policies share (ePulsar 5.5): points, tables; curves are in ``policy_drawing``.

A run is one topology.  Its clients are placed at random many times, and all policies choose brokers for the same
placements.  Delays are *estimated*, from the coordinates, as in the paper, and beside them *true*.
"""

from collections.abc import Mapping

from core.records import Json, Options
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs.epulsar import published as paper
from paper_figs.figure import FigureTables
from paper_figs.light import Data, Frame, Series
from paper_figs.series import by_repetition, where, with_point

POLICIES = ("pulsar", "all-pairs", "epulsar", "optimal")
_GAME = {"groups": paper.GAME_GROUPS, "members": paper.GAME_CLIENTS // paper.GAME_GROUPS}
_UAVS = {"groups": paper.SWARMS, "members": paper.SWARM_MEMBERS}
GAME: Json = {"scenario": "game", **_GAME, "bound": f"{paper.GAME_BOUND_MS}ms"}
UAVS: Json = {"scenario": "swarms", **_UAVS, "bound": f"{paper.SWARM_BOUND_MS}ms"}
ACCESS_MS = 8  # of UAVs, one way: ours, the paper gives none
ACCESS = f"{ACCESS_MS}ms"
_WORST = ("estimated_worst", "true_worst")
_RATIOS = ("estimated_violation_ratio", "printed_violation_ratio", "true_violation_ratio", "feasible_ratio")
_ERRORS = {"median_error_ratio": 0.5, "p90_error_ratio": 0.9}
BOTH_WAYS = 2  # a pair's error counts for its way there and its way back


def point(
    scale: Scale, topology: str, topology_options: Options, inputs: tuple[str, ...] = (), **study: object
) -> RunSpec:
    """One topology.  Nothing is offered, so system and workload are idle."""
    permutations = scale.pick(tiny=50, quick=200, paper=paper.PERMUTATIONS)  # random placements
    return RunSpec(
        system="static-split",
        workload="requests",
        topology=topology,
        topology_options=dict(topology_options),
        study="policies",
        study_options={"permutations": permutations, **study},
        inputs=inputs,
    )


def tables(data: Data, factors: Mapping[str, str]) -> FigureTables:
    """``runs``, a row a run and policy, and ``estimates``, a row a run; both with ``factors`` and the repetition.

    Over the placements of a run: ``estimated_worst_ms`` and ``true_worst_ms``, the mean of each placement's worst
    delay (``..._max_ms``: the largest); ``estimated_violation_ratio``, ``printed_violation_ratio`` and
    ``true_violation_ratio``, the mean share of pairs above the bound; ``violating_ratio``: the share of placements
    with any such pair, by estimate; ``feasible_ratio``: the mean share of topics with a broker within the bound, as
    the policy sees it.  ``estimates``: median and 90th percentile of the relative errors of estimated round trips.
    """
    from pyspark.sql import functions as f

    ends = ((name, end, of) for name in _WORST for end, of in (("ms", f.avg), ("max_ms", f.max)))
    worst = [(of(f"{name}_ns") / MILLISECOND_NS).alias(f"{name}_{end}") for name, end, of in ends]
    violating = f.avg((f.col("estimated_violation_ratio") > 0).cast("double")).alias("violating_ratio")
    measures = [*worst, *(f.avg(name).alias(name) for name in _RATIOS), violating]
    runs = data.table("policies").groupBy("run_id", "policy").agg(*measures)
    error_ratio = f.abs(f.col("estimated_rtt_ns") - f.col("true_rtt_ns")) / f.col("true_rtt_ns")
    spread = [f.percentile(error_ratio, q, BOTH_WAYS).alias(name) for name, q in _ERRORS.items()]
    estimates = data.table("coordinates").groupBy("run_id").agg(*spread)
    frames = {"runs": runs, "estimates": estimates}
    axes = ("topology", "repetition")
    return {name: with_point(data, frame, factors, axes).drop(columns="run_id") for name, frame in frames.items()}


def gap(runs: Frame, value: str, policy: str, other: str, **point: object) -> Series:
    """``policy`` less ``other``, paired by repetition; KeyError where a point has no data."""
    one, less = (by_repetition(where(runs, **point), value, policy=name) for name in (policy, other))
    return one - less
