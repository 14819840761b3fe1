"""What the DST figures that need runs share: loads, points; over-throttling and lag from the samples of a run."""

from pathlib import Path

import numpy as np

from analysis.tables import collect
from core.records import Json, Options
from harness.experiment import Option, RunSpec
from paper_figs.dst.published import CYCLE, CYCLES, SERVERS
from paper_figs.dst.readings import LITERAL
from paper_figs.light import Column, Data, Frame, SparkFrame
from paper_figs.series import frame_of, with_point
from systems.parts.throttling import Array
from systems.parts.throttling_graphs import graph_named, laplacian

CYCLE_MS = 300  # a gossip round of the thesis (D6)
LOG = Option("log", "request log whose arrival rate is a third load: a file with a column TIMESTAMP")
LOADS = {"ar1": "AR(1), calibrated", "iid": "independent increments", "log": "a log's rate", "white": "no memory"}
LAGS = range(1, 8)
EXACT = 1e-6  # of l_total: rounding
FACTORS = {"load": "workload.kind", "phi": "workload.phi", "graph": "system.graph", "pairing": "system.pairing"}
FACTORS |= {"clamp": "system.clamp", "delay": "topology.delay", "faults": "study.faults", "cycles": "study.cycles"}


def workload(load: str, options: Options) -> Json:
    """Options of the workload load-curve; a log needs ``--log``, ``white`` is AR(1) with coefficient 0."""
    if load == "log":
        return {"kind": load, "path": str(Path(options["log"]).absolute())}
    return {"kind": "ar1", "phi": 0.0} if load == "white" else {"kind": load}


def point(
    offered: Json,
    graph: str = "",
    delay: str = "0ms",
    cycles: int = CYCLES,
    study: Options | None = None,
    clamp: str = LITERAL,
    **system: object,
) -> RunSpec:
    """The law on ``graph``, or the centralised throttler where none is named, over links of ``delay``."""
    throttler = {"graph": graph, "g": CYCLE, "clamp": clamp, **system}
    return RunSpec(
        system="throttler" if graph else "centralised-throttler",
        system_options=throttler if graph else system,
        workload="load-curve",
        workload_options=offered,
        topology="full-mesh",
        topology_options={"nodes": SERVERS, "delay": delay},
        study="throttling",
        study_options={"cycles": cycles, **(study or {})},
    )


def totals(data: Data) -> SparkFrame:
    """Sums over the servers: run_id, cycle, demand, limit, admitted, ideal (8), with l_total that of cycle 0 (6)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    sums = [_sum(f.sort_array(f.collect_list(name))).alias(name) for name in ("demand", "limit", "admitted")]
    wide = data.table("cycles").groupBy("run_id", "cycle").agg(*sums)
    first = f.first("limit").over(Window.partitionBy("run_id").orderBy("cycle"))
    return wide.select("run_id", "cycle", "demand", "limit", "admitted", f.least("demand", first).alias("ideal"))


def overthrottling(data: Data, totals: SparkFrame) -> Frame:
    """A row a run, of its ``totals``.

    ``overthrottling_percent`` (Example 2); ``excess_percent``: what was admitted beyond the ideal, of the ideal;
    ``drift_percent``: the sum of the limits at the end against l_total; ``negative_percent``: limits below 0, of
    all servers' cycles; and what names the point (``FACTORS``).
    """
    from pyspark.sql import functions as f

    columns = ("demand", "limit", "admitted", "ideal")
    rows = f.sort_array(f.collect_list(f.struct("cycle", *columns)))
    runs = totals.groupBy("run_id").agg(rows.alias("rows"))
    ideal = _sum(f.col("rows.ideal"))
    missed = f.transform("rows", lambda row: row["ideal"] - row["admitted"])
    excess = f.transform("rows", lambda row: f.greatest(row["admitted"] - row["ideal"], f.lit(0.0)))
    last = f.element_at("rows", -1)["limit"] / f.element_at("rows", 1)["limit"]
    below = f.count_if(f.col("limit") < 0) / f.count("limit")
    negative = data.table("cycles").groupBy("run_id").agg((100 * below).alias("negative_percent"))
    percents = runs.select(
        "run_id",
        (100 * (_sum(missed) / ideal)).alias("overthrottling_percent"),
        (100 * (_sum(excess) / ideal)).alias("excess_percent"),
        (100 * (last - 1)).alias("drift_percent"),
    )
    return with_point(data, percents.join(negative, "run_id"), FACTORS)


def _sum(values: Column) -> Column:
    # In the array's order.
    from pyspark.sql import functions as f

    return f.aggregate(values, f.lit(0.0), lambda total, x: total + x)


def reaction(data: Data, runs: Frame) -> Frame:
    """How late limits follow demand; a row a run with one kind of delay at most: who, trouble, repetition, lag_cycles.

    Centralised: the smallest d with x_i(k + d) = l_total r_i(k) / sum r(k) at all remote servers.  A graph: the
    smallest d with x_i(k + d) - x_i(k + d - 1) = g sum_j w_ij (p_i(k) - p_j(k - s)) for some staleness s of the
    neighbours, that is, when a server's own p_i(k) counts.  NaN where no lag fits: messages were lost.
    """
    from pyspark.sql import functions as f

    chosen = runs[runs.trouble.isin({"none"}) | runs.trouble.str.startswith("late")]
    kept = data.table("cycles").where(f.col("run_id").isin([str(run_id) for run_id in chosen.run_id]))
    values = collect(kept.select("run_id", "cycle", "server", "demand", "limit"), ["run_id", "cycle"])
    rows = []
    for row in chosen.itertuples():
        of_run = values[values.run_id == row.run_id]
        demand, limit = (_matrix(of_run, name) for name in ("demand", "limit"))
        lag = _centralised(demand, limit) if row.who == "centralised" else _graph(demand, limit, str(row.who))
        rows.append((row.who, row.trouble, row.repetition, lag))
    return frame_of(rows, ["who", "trouble", "repetition", "lag_cycles"])


def _matrix(values: Frame, name: str) -> Array:
    """One column by cycle and server; servers n1, n2, … in the order of their numbers."""
    wide = values.pivot(index="cycle", columns="server", values=name)
    return np.asarray(wide[sorted(wide.columns, key=lambda name: int(str(name)[1:]))], float)


def _centralised(demand: Array, limit: Array) -> float:
    total = limit[0].sum()
    shares = total * demand / demand.sum(axis=1, keepdims=True)
    # Server n1 is the centre itself.
    fits = (lag for lag in LAGS if np.abs(limit[lag:, 1:] - shares[:-lag, 1:]).max() <= EXACT * total)
    return float(next(fits, np.nan))


def _graph(demand: Array, limit: Array, graph: str) -> float:
    weights = -laplacian(graph_named(graph, demand.shape[1]))
    np.fill_diagonal(weights, 0.0)
    degree, p, total = weights.sum(axis=1), demand - limit, limit[0].sum()
    settled = 2 * max(LAGS)
    for lag in LAGS:
        at = np.arange(settled, len(p) - lag)
        for stale in range(max(LAGS)):
            change = CYCLE * (p[at] * degree - p[at - stale] @ weights)
            if np.abs(limit[at + lag] - limit[at + lag - 1] - change).max() <= EXACT * total:
                return float(lag)
    return float("nan")
