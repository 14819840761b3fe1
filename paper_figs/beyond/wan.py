"""Limiters as real processes over five cities: the points, and what all their figures measure and draw.

A run and its twin in virtual time are offered the same requests at the same instants, and their nodes have the same
seeds: what differs is the testbed.  The load is the first minute of data set A (thesis 4.3.4) at its own size, ten
users of very different zeal, 68 requests a second: half of them come upon their limit, each at another time, at a rate
that a machine of two cores carries without being late.

The cities are the five of the topology wan, 54 to 165 ms apart one way and hardly two pairs alike; New York is the
first, and has the servers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.tables import collect
from analysis.verdicts import Interval, t_interval
from core.records import Json, Options
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs.beyond.limiters import LIMITERS, Limiter, named
from paper_figs.drawing import SMALL, categories, interval_points, label, marks
from paper_figs.intervals import floored
from paper_figs.light import Axes, Data, Frame
from paper_figs.series import QUANTILES, frame_of, in_ms, joined, samples
from paper_figs.style import Style, style_of

if TYPE_CHECKING:
    from testbed.topologies.topology import Topology

NAMES = ("counter", "queue", "queue+F+L")  # of the thesis
CITIES = ("New York", "London", "Singapore", "Sao Paulo", "Sydney")  # of the topology wan, in its order
VIRTUAL, LIVE = "virtual", "mininet"
FEWEST = 3  # repetitions that a claim takes
LIVE_CLAIM: Options = {"needs": LIVE, "testbed": LIVE, "minimum_repetitions": FEWEST}
FLIPPED = 0.05  # ours, set before results: decisions that differ
REDIS = "redis-gcra"
REPLICA_COUNTS = ("replica_count", "replica_entry_count", "replica_gap_count")


def point(name: str, scale: Scale) -> RunSpec:
    """One limiter (of ``limiters.LIMITERS``, or Redis) on the emulated WAN, with the thesis' gossip and limit."""
    limiter = LIMITERS.get(name, Limiter(name))
    return _point(limiter.system, limiter.options, scale, "wan", {"cities": ", ".join(CITIES)}, LIVE)


def oracle(scale: Scale) -> RunSpec:
    """The centralised limiter without delay, in virtual time: the ground truth (thesis 4.3.1)."""
    return _point("centralised", {}, scale, "full-mesh", {"delay": "0ms"}, VIRTUAL)


def _point(system: str, options: Options, scale: Scale, topology: str, place: Options, testbed: str) -> RunSpec:
    """Tiny is another, lighter load: seconds long, of one user of a small bucket."""
    limit: Options = {}
    load: Json = {"set": "A"}
    nodes, duration = len(CITIES), "60s"
    if scale.name == "tiny":
        limit, load = {"capacity": 30, "rate": "0.03"}, {"set": "B-extreme", "capacity": 30}
        nodes, duration = 3, "6s"
    return RunSpec(
        system=system,
        system_options={**limit, **options},
        workload="data-set",
        workload_options=load,
        topology=topology,
        topology_options={"nodes": nodes, **place},
        testbed=testbed,
        study="limiting",
        study_options={"duration": duration, "compare_replicas": True},
    )


def network() -> "Topology":
    """The cities, a node each."""
    from testbed.topologies.topology import load_topology

    return load_topology("wan", {"nodes": len(CITIES), "cities": ", ".join(CITIES)})


def with_cities(frame: Frame) -> Frame:
    """``frame`` and, of each row's ``node``, its city and rtt_ms: the round trip to the first, where servers are."""
    topology = network()
    first, *_ = topology.node_names()
    rtt_ms = [2 * topology.path(node, first).one_way_delay_ns / MILLISECOND_NS for node in frame.node]
    return frame.assign(city=[CITIES[int(node[1:]) - 1] for node in frame.node], rtt_ms=rtt_ms)


def on_both(specs: Sequence[RunSpec]) -> list[RunSpec]:
    """Each in virtual time, and emulated."""
    return [msgspec.structs.replace(spec, testbed=testbed) for spec in specs for testbed in (VIRTUAL, LIVE)]


def points_of(data: Data) -> Frame:
    """One row a run: run_id, name (as in ``limiters.name_of``: the oracle too), testbed, validity, repetition."""
    return named(data)[["run_id", "name", "testbed", "validity", "repetition"]]


def runs_of(data: Data) -> Frame:
    """``points_of``, and what each run decided and what that cost; the oracle's runs are left out.

    Columns of ``limiting.precision`` and error_share (false admissions and rejections, of the requests), excess_tokens,
    p50_ms, p95_ms, p99_ms of the decision latency, bytes_per_request (all that all nodes sent), convergence_s (after
    the last request), and REPLICA_COUNTS: missing where there are no replicas.
    """
    from pyspark.sql import functions as f

    from analysis import limiting, usage

    latency = data.latency_histogram.where("metric = 'decision_latency'")
    convergence = usage.convergence(data.samples, data.table("usage"), data.runs)
    of_run = data.samples.where("node = ''").groupBy("run_id")
    replicas = [f.max(f.when(f.col("metric") == name, f.col("value"))).alias(name) for name in REPLICA_COUNTS]
    runs = joined(
        points_of(data),
        limiting.precision(data.requests, limiting.with_oracle(data.runs)),
        limiting.worst_excess(data.requests, data.runs).select("run_id", "excess_tokens"),
        in_ms(latency, QUANTILES, "run_id"),
        data.table("usage").where("node != ''").groupBy("run_id").agg(f.sum("sent_bytes").alias("sent_bytes")),
        of_run.agg(*replicas),
        convergence.selectExpr("run_id", "convergence_ns / 1e9 as convergence_s"),
    )
    runs["error_share"] = runs.false_admit_share + runs.false_reject_share
    runs["bytes_per_request"] = runs.pop("sent_bytes").fillna(0) / runs.offered_count
    runs = runs[(runs.name != "oracle") & runs.offered_count.notna()]
    return runs.sort_values(["name", "testbed", "repetition", "run_id"], ignore_index=True)


def flips_of(data: Data, pairs: Frame) -> Frame:
    """``analysis.fidelity.flips`` of pairs of runs, with what else ``pairs`` says of them.

    ``pairs``: virtual_run_id and live_run_id (one and another, whatever they are; left out of what is returned),
    testbed, and more.  admitted_ratio: the other's admitted total over the one's.
    """
    from analysis import fidelity

    assert data.spark is not None
    keys = ["virtual_run_id", "live_run_id", "testbed"]
    rows = [tuple(row) for row in pairs[keys].itertuples(index=False)]
    frame = data.spark.createDataFrame(rows, ", ".join(f"{key} string" for key in keys))
    flips = collect(fidelity.flips(data.requests, frame), keys).merge(pairs, on=keys)
    flips["admitted_ratio"] = flips.live_admitted_count / flips.virtual_admitted_count
    return flips.drop(columns=keys[:2])


def flips_of_twins(data: Data) -> Frame:
    """``flips_of`` each run and its twin in virtual time, with name, repetition and validity."""
    from analysis.fidelity import pairs_of

    pairs = frame_of([pair[:3] for pair in pairs_of(data.folders)], ["virtual_run_id", "live_run_id", "testbed"])
    names = points_of(data).drop(columns="testbed").rename(columns={"run_id": "live_run_id"})
    return flips_of(data, pairs.merge(names, on="live_run_id")).sort_values(["name", "repetition"], ignore_index=True)


def latency_curves(data: Data) -> Frame:
    """Distribution functions of the decision latency: name, testbed, value_ms, share; over all repetitions."""
    from pyspark.sql import functions as f

    rows = data.latency_histogram.where("metric = 'decision_latency'").groupBy("run_id", "high_ns")
    runs = collect(rows.agg(f.sum("count").alias("count")), ["run_id", "high_ns"]).merge(points_of(data), on="run_id")
    counts = runs[runs.name != "oracle"].groupby(["name", "testbed", "high_ns"], as_index=False)["count"].sum()
    by = counts.groupby(["name", "testbed"])["count"]
    counts["share"] = by.cumsum() / by.transform("sum")
    counts["value_ms"] = counts.high_ns / 1e6
    return counts[["name", "testbed", "value_ms", "share"]]


def look_of(name: str, testbed: str) -> Style:
    """A limiter's look on a testbed: virtual time open and dashed, emulated runs filled."""
    look, live = style_of(name), testbed != VIRTUAL
    words = f"{look.label}, {'emulated' if live else 'virtual time'}"
    return look._replace(label=words, dashes="-" if live else "--", is_open=not live)


def flipped(flips: Frame) -> Interval:
    """The share of flipped decisions and its 95 % interval: over repetitions; of one run alone, Wilson's."""
    if len(flips) == 1:
        run = flips.iloc[0]
        return Interval(run.flipped_share, run.flipped_low, run.flipped_high, 1)
    return floored(t_interval(samples(flips.flipped_share)))


def draw_flips(axes: Axes, groups: Sequence[tuple[str, Style, Frame]]) -> None:
    """Of each (name, look, flips) the share with its interval, runs as dots beside it, the admitted total as text."""
    for place, (_, look, flips) in enumerate(groups):
        if flips.empty:
            continue
        share = flipped(flips)
        percent = Interval(100 * share.mean, 100 * share.low, 100 * share.high, share.count)
        marks(axes, [place - 0.22] * len(flips), 100 * flips.flipped_share, look, size=2.5, alpha=0.5)
        interval_points(axes, [place], [percent], look)
        change = f"{flips.live_admitted_count.sum() / flips.virtual_admitted_count.sum() - 1:+.2%}"
        change = "±0" if float(change[:-1]) == 0 else change.replace("-", "−")
        label(axes, f"admitted {change}", (place, percent.high), look.colour, (0, 4))
    categories(axes, [name for name, _, _ in groups], size=SMALL)
    from_zero(axes, 0.3)
    axes.set_ylabel("of all decisions (%)")


def from_zero(axes: Axes, room: float) -> None:
    """A y axis from 0, a marker at which is still whole, to the largest value and ``room`` above it."""
    top = max(0.1, axes.dataLim.y1) * (1 + room)
    axes.set_ylim(-0.03 * top, top)
