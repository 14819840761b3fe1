"""What a live run's load cost in bytes on the wire, processor time and memory: Spark frames in, Spark frames out.

From outside, so that somebody else's servers and our nodes are counted alike: what interfaces carried, and what Linux
says of processes, between two instants at which all counters are read, ``counted_from_ns`` just before the load and
``counted_until_ns`` when answers to its last requests are there (samples of the study of limiting).  Set-up and the
check of the links come before.  On machines of others (ssh) counters are read once a second, and the nearest reads
before count.  All is null in virtual time, which has models only.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

MACHINE = "machine"  # the harness' own
KINDS = {"node_process_count": "node", "server_process_count": "server"}


def costs(requests: DataFrame, samples: DataFrame, network: DataFrame, processes: DataFrame) -> DataFrame:
    """What a request cost; one row a run that has counted.

    run_id, offered_count and

    * wire_bytes, wire_packet_count (``wire``) and wire_bytes_per_request;
    * of ``node`` and of ``server`` processes (``by_process``): node_process_count, node_cpu_ns (of all of them),
      node_cpu_ns_per_request, node_rss_peak_bytes (of the largest); but for the number null where there are none.
    """
    offered = requests.groupBy("run_id").agg(F.count("*").alias("offered_count"))
    spent = by_process(samples, processes)
    measures: list[Column] = []
    for kind in KINDS.values():
        its = F.col("kind") == kind
        measures += [
            F.count_if(its).alias(f"{kind}_process_count"),
            F.sum(F.when(its, F.col("cpu_ns"))).alias(f"{kind}_cpu_ns"),
            F.max(F.when(its, F.col("rss_peak_bytes"))).alias(f"{kind}_rss_peak_bytes"),
        ]
    known = _spans(samples).select("run_id").join(offered, "run_id")
    joined = known.join(wire(samples, network), "run_id", "left").join(
        spent.groupBy("run_id").agg(*measures), "run_id", "left"
    )
    a_request = {
        "wire_bytes_per_request": F.col("wire_bytes"),
        **{f"{kind}_cpu_ns_per_request": F.col(f"{kind}_cpu_ns") for kind in KINDS.values()},
    }
    return joined.withColumns({name: total / F.col("offered_count") for name, total in a_request.items()})


def wire(samples: DataFrame, network: DataFrame) -> DataFrame:
    """What the hosts put on their links while the load was on: run_id, wire_bytes, wire_packet_count.

    Sent by all hosts that have a network of their own, so each packet counts once, with all its headers; what stays
    on a host (its loopback) is not in it.  A host that delays what comes in, or a packet that a fault doubles, adds
    nothing: both are behind the receiving interface.  No row where hosts share the machine's network (local).
    """
    # Rows of the testbed's own counters are of the run's end, whatever their instant: those have no interface counts.
    read = network.where(F.col("interface_sent_count").isNotNull() & (F.col("node") != MACHINE))
    names = {"interface_sent_bytes": "wire_bytes", "interface_sent_count": "wire_packet_count"}
    grown = _grown(samples, read, tuple(names))
    return grown.groupBy("run_id").agg(*(F.sum(name).alias(its) for name, its in names.items()))


def by_process(samples: DataFrame, processes: DataFrame) -> DataFrame:
    """What each node's and server's process took: run_id, node (the process), kind, cpu_ns, rss_peak_bytes.

    ``kind``: node or server.  cpu_ns: while the load was on, of all lives that a server of that name had (Linux counts
    in 10 ms); rss_peak_bytes: the most it was seen to hold meanwhile, at one look a second.
    """
    kind = F.create_map(*(F.lit(word) for pair in KINDS.items() for word in pair))[F.col("metric")].alias("kind")
    ours = samples.where(F.col("metric").isin(*KINDS)).select("run_id", "node", kind).distinct()
    read = processes.where(F.col("cpu_ns").isNotNull()).join(F.broadcast(ours), ["run_id", "node"])
    held = read.join(F.broadcast(_spans(samples)), "run_id").where("at_ns between from_ns and until_ns")
    peak = held.groupBy("run_id", "node", "kind").agg(F.max("rss_bytes").alias("rss_peak_bytes"))
    return peak.join(_grown(samples, read, ("cpu_ns",)), ["run_id", "node"], "left").select(
        "run_id", "node", "kind", F.coalesce("cpu_ns", F.lit(0)).alias("cpu_ns"), "rss_peak_bytes"
    )


def _spans(samples: DataFrame) -> DataFrame:
    """run_id, from_ns, until_ns: of runs that have both."""
    value = F.col("value").cast("long")
    ends = {"counted_from_ns": "from_ns", "counted_until_ns": "until_ns"}
    marks = [F.max(F.when(F.col("metric") == metric, value)).alias(name) for metric, name in ends.items()]
    told = samples.where(F.col("metric").isin(*ends)).groupBy("run_id").agg(*marks)
    return told.where("from_ns is not null and until_ns is not null")


def _grown(samples: DataFrame, counters: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """By how much counters grew in the span: run_id, node, ``names``; no row where none was read in it.

    A counter that is first seen, or that is less than before, has begun anew: all of it was added since.
    """
    order = Window.partitionBy("run_id", "node").orderBy("at_ns")
    befores = {name: F.lag(name).over(order) for name in names}
    grown = {
        name: F.when(F.col(name) >= before, F.col(name) - before).otherwise(F.col(name))
        for name, before in befores.items()
    }
    steps = counters.select("run_id", "node", "at_ns", *(growth.alias(name) for name, growth in grown.items()))
    inside = steps.join(F.broadcast(_spans(samples)), "run_id").where("at_ns > from_ns and at_ns <= until_ns")
    return inside.groupBy("run_id", "node").agg(*(F.sum(name).alias(name) for name in names))
