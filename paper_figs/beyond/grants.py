"""What limiters granted and how far they went beyond their limit: runs of ``contenders`` as small tables.

What the figures ``deployed`` have in common: their grid, their tables, and samples of a group for claims.
"""

from collections.abc import Sequence

from analysis.tables import collect, computed_once
from core.records import Options
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs.beyond import contenders
from paper_figs.beyond.contenders import CONTENDERS, ORACLE, OURS, PRODUCTS, REPLICATED, Regime
from paper_figs.beyond.wan import with_cities
from paper_figs.figure import FigureTables
from paper_figs.intervals import interval_table
from paper_figs.light import Data, Frame, SparkFrame
from paper_figs.series import by_repetition, joined, samples, where

NAMES = (*(name for name in PRODUCTS if name not in REPLICATED), *OURS)
SHAPES = {"even": "spread evenly", "skewed": "80 % in one city", "moving": "80 %, another city each fifth"}
ORDER = ["name", "testbed", "repetition"]


def points(regime: Regime, scale: Scale, options: Options) -> list[RunSpec]:
    """Each contender emulated, and the oracle."""
    names = contenders.names_of(scale, [name for name in NAMES if name not in regime.left_out])
    return [contenders.oracle(regime, scale), *(contenders.point(name, regime, scale) for name in names)]


def tables(regime: Regime, data: Data) -> FigureTables:
    """``runs``: what a run cost; ``groups``: see ``groups_of``; ``cities``: city, rtt_ms, p50_ms, p99_ms of a node."""
    from analysis import costs, deployed

    runs = contenders.runs_of(data)
    mine = runs[runs.name != ORACLE]
    cost = costs.costs(data.requests, data.samples, data.table("network"), data.table("processes"))
    answers = deployed.answers(data.requests, data.samples, data.runs).drop("offered_count")
    spent = joined(mine, cost, deployed.waits(data.requests), answers)
    return {
        "runs": spent.sort_values(ORDER, ignore_index=True),
        "groups": groups_of(data, in_groups(data, regime), mine),
        "cities": _cities(deployed.waits(data.requests, ("node",)), mine),
    }


def in_groups(data: Data, regime: Regime) -> SparkFrame:
    """The requests of a regime's keys with their shape and factor."""
    from analysis import deployed

    assert data.spark is not None
    keys = data.spark.createDataFrame(contenders.groups_of(regime), "user string, shape string, factor double")
    return deployed.in_groups(data.requests, keys)


def groups_of(data: Data, requests: SparkFrame, runs: Frame, by: Sequence[str] = ("shape", "factor")) -> Frame:
    """A row a run of ``runs`` and group, with ``analysis.deployed``'s columns of what it granted and let pass.

    Those of ``granted``, ``excess``, ``busiest_windows`` and ``over_contract``.  ``requests``: of ``in_groups``.
    """
    from analysis import deployed, limiting

    promised = {who.system: who.contract for who in CONTENDERS.values()}
    group = ["run_id", *by]
    groups = runs
    with (
        computed_once(requests) as each,
        computed_once(deployed.excess(each, data.runs, by)) as excess,
        computed_once(deployed.busiest_windows(each, data.runs, by)) as windows,
    ):
        measured = (
            deployed.granted(each, limiting.with_oracle(data.runs), by),
            excess,
            windows,
            deployed.over_contract(excess, windows, data.runs, promised, by),
        )
        for number, frame in enumerate(measured):
            groups = groups.merge(collect(frame, group), on=group if number else ["run_id"])
    return groups.sort_values([*ORDER, *by], ignore_index=True)


def seconds_of(data: Data, regime: Regime) -> Frame:
    """What is admitted of a key in each second over the repetitions: by name, shape, factor, t_s.

    offered_rps and admitted_rps, means; low, high (95 % interval) and count of what is admitted.
    """
    from analysis import deployed

    runs = contenders.runs_of(data)
    group = ["run_id", "shape", "factor", "t_ns"]
    frame = collect(deployed.admitted_over_time(in_groups(data, regime)), group)
    frame = frame.merge(runs.loc[runs.name != ORACLE, ["run_id", "name"]], on="run_id")
    point = ["name", "shape", "factor", "t_s"]
    groups = frame.assign(t_s=frame.t_ns / 1e9).groupby(point)
    offered_rps = groups.offered_rps.mean().reset_index()
    admitted = interval_table(point, [(names, samples(values)) for names, values in groups.admitted_rps])
    return offered_rps.merge(admitted.rename(columns={"mean": "admitted_rps"}), on=point)


def _cities(waits: SparkFrame, runs: Frame) -> Frame:
    frame = collect(waits, ["run_id", "node"]).merge(runs[["run_id", "name", "repetition"]], on="run_id")
    frame = with_cities(frame)
    for name in ("p50", "p99"):
        frame[f"{name}_ms"] = frame.pop(f"{name}_ns") / MILLISECOND_NS
    return frame.drop(columns=["run_id", "node"])


def group_samples(groups: Frame, name: str, shape: str, factor: float, measure: str) -> list[float]:
    """One point's values, a repetition each; KeyError where there are none."""
    return samples(by_repetition(where(groups, shape=shape, factor=factor), measure, name=name))
