"""How far an emulated run is from the virtual run of the same spec and seed: Spark frames in, Spark frames out.

A *pair* is two runs whose specs differ in the testbed alone (and in the tables that they keep).  Both
were offered the very same messages or requests, so decisions can be compared one by one, and
latencies by their distributions: those of fresh rounds, of runs that count in windows of time those of all windows.

Two distances: Kolmogorov's, the largest difference between the two distribution functions (0 to 1),
and Wasserstein's, the area between them, which is the mean shift in ns that turns one into the
other.  Both are exact for the buckets of ``latency_histogram``, whose values are at most 0.4 % off.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collectors.integrity import verified
from core.records import Json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIRTUAL = "virtual"
QUANTILES = (0.5, 0.95, 0.99)
Z_95 = 1.959963984540054  # of the normal distribution, for Wilson's interval


class Pair(NamedTuple):
    """Two runs of one spec and seed."""

    virtual_run_id: str
    live_run_id: str
    testbed: str  # of the live one
    validity: str  # of the live one
    spec: Json  # of the live one
    validity_reasons: Sequence[str] = ()  # of the live one


def pairs_of(folders: Iterable[Path]) -> list[Pair]:
    """The pairs among folders of finished runs, by live run id; of several runs of one spec the latest counts.

    Two inventories are two places.  ``Damage`` where a run is not as it was written.
    """
    latest: dict[tuple[str, str, str], tuple[str, Path, Json]] = {}
    for folder in folders:
        manifest = verified(folder)
        spec, started_at = manifest["spec"], manifest["started_at"]
        options = {} if spec["testbed"] == VIRTUAL else spec.get("testbed_options", {})
        key = (_point(manifest), spec["testbed"], json.dumps(options, sort_keys=True))
        if key not in latest or latest[key][0] < started_at:
            latest[key] = started_at, folder, manifest
    virtual = {point: folder for (point, testbed, _), (_, folder, _) in latest.items() if testbed == VIRTUAL}
    pairs = []
    for (point, testbed, _), (_, folder, manifest) in latest.items():
        other = virtual.get(point)
        if testbed != VIRTUAL and other is not None:
            validity, reasons = manifest.get("validity", "valid"), manifest.get("validity_reasons", ())
            pairs.append(Pair(other.name, folder.name, testbed, validity, manifest["spec"], reasons))
    return sorted(pairs, key=lambda pair: pair.live_run_id)


_BESIDE = ("testbed", "testbed_options", "keep")


def _point(manifest: Json) -> str:
    """What two runs of a pair have in common, and what is in the files they read: not where they were made."""
    spec = manifest["spec"]
    own = set(map(str, spec.get("testbed_options", {}).values()))
    kept = {name: value for name, value in spec.items() if name not in _BESIDE}
    kept["inputs"] = {name: digest for name, digest in manifest.get("inputs", {}).items() if name not in own}
    return json.dumps(kept, sort_keys=True)


def pair_frame(spark: "SparkSession", pairs: Sequence[Pair]) -> "DataFrame":
    """Pairs as a frame: virtual_run_id, live_run_id, testbed."""
    rows = [(pair.virtual_run_id, pair.live_run_id, pair.testbed) for pair in pairs]
    return spark.createDataFrame(rows, "virtual_run_id string, live_run_id string, testbed string")


def distances(histogram: "DataFrame", pairs: "DataFrame") -> "DataFrame":
    """Latencies of both runs of each pair, one row a metric that both have.

    Columns: those of ``pairs``, metric, virtual_p50_ns, live_p50_ns ... p99, virtual_count, live_count,
    kolmogorov_distance, wasserstein_ns.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from analysis.metrics import judged_rounds, quantile_name

    value = F.expr("low_ns + (high_ns - low_ns - 1) div 2").alias("value_ns")
    judged = judged_rounds(histogram).select("run_id", "metric", value, "count")
    key = ["virtual_run_id", "live_run_id", "testbed", "metric"]
    sides = [
        judged.join(F.broadcast(pairs), judged["run_id"] == pairs[f"{side}_run_id"]).select(
            *key, "value_ns", *(F.when(F.lit(side == name), F.col("count")).otherwise(0).alias(name) for name in _SIDES)
        )
        for side in _SIDES
    ]
    pooled = sides[0].unionByName(sides[1]).groupBy(*key, "value_ns").agg(*(F.sum(name).alias(name) for name in _SIDES))
    ordered = Window.partitionBy(*key).orderBy("value_ns")
    so_far, whole = ordered.rowsBetween(Window.unboundedPreceding, 0), Window.partitionBy(*key)
    columns = {f"{name}_cumulative": F.sum(name).over(so_far) for name in _SIDES}
    columns |= {f"{name}_count": F.sum(name).over(whole) for name in _SIDES}
    columns |= {"gap_ns": F.coalesce(F.lead("value_ns").over(ordered) - F.col("value_ns"), F.lit(0))}
    ranked = pooled.withColumns(columns).where("virtual_count > 0 and live_count > 0")
    apart = F.abs(F.expr("virtual_cumulative / virtual_count - live_cumulative / live_count"))
    quantiles = [
        F.min(F.when(F.col(f"{name}_cumulative") >= q * F.col(f"{name}_count"), F.col("value_ns"))).alias(
            f"{name}_{quantile_name(q)}"
        )
        for q in QUANTILES
        for name in _SIDES
    ]
    # A sum of doubles depends on its order: they are gathered, sorted by value and summed one after another.
    areas = F.sort_array(F.collect_list(F.struct("value_ns", (apart * F.col("gap_ns")).alias("area"))))
    area = F.aggregate(areas, F.lit(0.0), lambda total, part: total + part["area"])
    return ranked.groupBy(*key).agg(
        *quantiles,
        *(F.max(f"{name}_count").alias(f"{name}_count") for name in _SIDES),
        F.max(apart).alias("kolmogorov_distance"),
        area.alias("wasserstein_ns"),
    )


_SIDES = ("virtual", "live")
DECISIONS = "decisions"


def one_sided(histogram: "DataFrame", requests: "DataFrame", pairs: Sequence[Pair]) -> dict[tuple[str, str], int]:
    """What one run of a pair has alone, so that nobody can compare it: (metric, "virtual" or "live") -> pairs.

    ``DECISIONS``: requests of which somebody decided.
    """
    from pyspark.sql import functions as F

    from analysis.metrics import judged_rounds

    every = judged_rounds(histogram).select("run_id", "metric")
    every = every.unionByName(requests.select("run_id", F.lit(DECISIONS).alias("metric"))).distinct()
    has = defaultdict[str, set[str]](set)
    for run_id, metric in every.collect():
        has[run_id].add(metric)
    sides = [(has[pair.virtual_run_id], has[pair.live_run_id]) for pair in pairs]
    alone = [(metric, _SIDES[0]) for virtual, live in sides for metric in virtual - live]
    alone += [(metric, _SIDES[1]) for virtual, live in sides for metric in live - virtual]
    return dict(sorted(Counter(alone).items()))


def flips(requests: "DataFrame", pairs: "DataFrame") -> "DataFrame":
    """Decisions of both runs of each pair, request by request: one row a pair that has requests.

    Columns: those of ``pairs``, offered_count (that both were offered), flipped_count (admitted here and
    rejected there, or the reverse), flipped_share of what both decided, with Wilson's 95 % interval
    flipped_low and flipped_high (all null where both decided nothing); virtual_admitted_count,
    live_admitted_count, virtual_lost_count, live_lost_count.
    Flips of one user hang together, so the interval of one run is a narrow one.
    """
    from pyspark.sql import functions as F

    def side(name: str) -> "DataFrame":
        mine = requests.select(F.col("run_id").alias(f"{name}_run_id"), "request_id", F.col("decision").alias(name))
        return mine.join(F.broadcast(pairs), f"{name}_run_id")

    key = ["virtual_run_id", "live_run_id", "testbed"]
    both = side("virtual").join(side("live"), [*key, "request_id"])
    decided = (F.col("virtual") != "lost") & (F.col("live") != "lost")
    counts = both.groupBy(*key).agg(
        F.count("*").alias("offered_count"),
        F.count_if(decided).alias("decided_count"),
        F.count_if(decided & (F.col("virtual") != F.col("live"))).alias("flipped_count"),
        *(F.count_if(F.col(name) == "admit").alias(f"{name}_admitted_count") for name in _SIDES),
        *(F.count_if(F.col(name) == "lost").alias(f"{name}_lost_count") for name in _SIDES),
    )
    n = F.nullifzero("decided_count")  # of nothing there is no share
    share = F.col("flipped_count") / n
    middle = (share + Z_95**2 / (2 * n)) / (1 + Z_95**2 / n)
    half = Z_95 / (1 + Z_95**2 / n) * F.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n * n))
    return counts.withColumns(
        {
            "flipped_share": share,
            "flipped_low": F.when(n.isNotNull(), F.greatest(middle - half, F.lit(0.0))),
            "flipped_high": F.when(n.isNotNull(), F.least(middle + half, F.lit(1.0))),
        }
    )
