"""What the DST figures that need runs share: loads, points, and over-throttling from the samples of a run."""

from pathlib import Path

from core.records import Json, Options
from harness.experiment import Option, RunSpec
from paper_figs.dst.published import CYCLE, CYCLES, SERVERS
from paper_figs.light import Column, Data, Frame, SparkFrame
from paper_figs.series import with_point

CYCLE_MS = 300  # a gossip round of the thesis (D6)
LOG = Option("log", "request log whose arrival rate is a third load: a file with a column TIMESTAMP")
LOADS = {"ar1": "AR(1), calibrated", "iid": "independent increments", "log": "a log's rate", "white": "no memory"}
FACTORS = {
    "load": "workload.kind",
    "phi": "workload.phi",
    "graph": "system.graph",
    "pairing": "system.pairing",
    "delay": "topology.delay",
    "faults": "study.faults",
    "cycles": "study.cycles",
}


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
    **system: object,
) -> RunSpec:
    """The literal law on ``graph``, or the centralised throttler where none is named, over links of ``delay``."""
    throttler = {"graph": graph, "g": CYCLE, "clamp": "none", **system}
    return RunSpec(
        system="throttler" if graph else "centralised-throttler",
        system_options=throttler if graph else system,
        workload="load-curve",
        workload_options=offered,
        topology="full-mesh",
        topology_options={"nodes": SERVERS, "delay": delay},
        study="throttling",
        study_options={"cycles": cycles, **(study or {})},
        inputs=(offered["path"],) if "path" in offered else (),
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
