"""The only definition of the tables (Parquet) and of a run folder's files.

A run folder holds ``manifest.json`` (all wall-clock fields live there, and only there), one
Parquet file a table, and of a live run ``logs/``, what its processes printed.  Instants and spans
are integer nanoseconds since the run's time 0.  Every table starts with ``run_id``.
"""

import pyarrow as pa

SCHEMA_VERSION = 3
MANIFEST = "manifest.json"
LOGS = "logs"

RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("system", pa.string()),
        ("variant", pa.string()),  # options that differ from the defaults, "brokers=3,margin=1.1"
        ("workload", pa.string()),
        ("topology", pa.string()),
        ("testbed", pa.string()),
        ("calibration", pa.string()),
        ("factors", pa.map_(pa.string(), pa.string())),  # every option, "workload.publishers" -> "4000"
        ("seed", pa.int64()),
        ("repetition", pa.int32()),
        ("workload_id", pa.string()),  # equal for runs that were offered the very same messages
        ("validity", pa.string()),  # valid | degraded | invalid
        ("outcome", pa.string()),  # placed | out-of-brokers | done
        ("slo_ns", pa.int64()),
        ("bucket_rate_rps", pa.float64()),  # the topic's envelope (r, b)
        ("bucket_burst_count", pa.float64()),
        ("schema_version", pa.int32()),
    ]
)

# Bucket i of the log-linear histogram holds the values in [low_ns, high_ns); see collectors.histogram.
LATENCY_HISTOGRAM = pa.schema(
    [
        ("run_id", pa.string()),
        ("round", pa.int32()),  # search rounds from 1; 0 = the fresh round after the final assignment, or no search
        ("broker", pa.int32()),
        # end_to_end_latency | access_delay | decision_latency; and of live brokers, from their records:
        # stamp_error   when the process had read a message, less when the kernel had received it
        # undue_delay   of messages that conform by their arrival: from reading to release, 0 for those let through;
        #               undue_delay_kernel, undue_delay_read: what an exact bucket would do by either kind of stamps
        # ingress_time  of messages let through: from arrival to release;  broker_time: from arrival to the subscriber
        ("metric", pa.string()),
        ("low_ns", pa.int64()),
        ("high_ns", pa.int64()),
        ("count", pa.int64()),
    ]
)

# A message that was offered has a row; the first instant that is null says how far it came.
MESSAGES = pa.schema(
    [
        ("run_id", pa.string()),
        ("message", pa.int64()),  # its number in the window's canonical order: the same on every testbed
        ("publisher", pa.int32()),
        ("broker", pa.int32()),
        ("topic", pa.string()),
        ("intended_at_ns", pa.int64()),
        ("sent_at_ns", pa.int64()),
        ("arrived_at_ns", pa.int64()),  # at the broker's token bucket
        ("released_at_ns", pa.int64()),  # its token was there
        ("received_at_ns", pa.int64()),  # by the subscriber
        (
            "acknowledged_at_ns",
            pa.int64(),
        ),  # the broker's OK was at the publisher; null in virtual time, which has none
    ]
)

REQUESTS = pa.schema(
    [
        ("run_id", pa.string()),
        ("node", pa.string()),
        ("user", pa.string()),
        ("request_id", pa.int64()),
        ("cost", pa.int32()),  # tokens asked for
        ("intended_at_ns", pa.int64()),
        ("sent_at_ns", pa.int64()),  # by the user; null in virtual time, where it is the intended instant
        ("decided_at_ns", pa.int64()),  # null = lost
        ("received_at_ns", pa.int64()),  # the verdict was at the user; null in virtual time, and of lost ones
        ("decision", pa.string()),  # admit | reject | lost
    ]
)

SAMPLES = pa.schema(
    [
        ("run_id", pa.string()),
        ("at_ns", pa.int64()),
        ("node", pa.string()),
        ("metric", pa.string()),  # the unit is its last word, as in backlog_count
        ("value", pa.float64()),
    ]
)

# One row a broker and round of a search, and one for each command of a controller.
DECISIONS = pa.schema(
    [
        ("run_id", pa.string()),
        ("at_ns", pa.int64()),  # start of the round, on the schedule's time
        ("kind", pa.string()),  # trial | final | set_bucket | fault
        ("iteration", pa.int32()),
        ("round", pa.int32()),
        ("broker", pa.int32()),
        ("publisher_count", pa.int32()),  # of the topic, on this broker
        ("assigned_rps", pa.float64()),
        ("load_rps", pa.float64()),  # of all topics on this broker
        ("mcap_rps", pa.float64()),
        ("bucket_rate_rps", pa.float64()),
        ("bucket_burst_count", pa.float64()),
        ("seen_p99_ns", pa.int64()),  # what the search was told; null where nothing was measured
        ("seen_topic_p99_ns", pa.int64()),
        ("duration_ns", pa.int64()),
        ("note", pa.string()),
    ]
)

# Every direction of every path, as the topology wants it and as it was found before the load.
PATHS = pa.schema(
    [
        ("run_id", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("requested_delay_ns", pa.int64()),  # one way
        ("measured_delay_ns", pa.int64()),  # the median of the probes, one way
        ("requested_jitter_ns", pa.int64()),  # plus or minus
        ("measured_p05_ns", pa.int64()),
        ("measured_p95_ns", pa.int64()),
        ("requested_loss_probability", pa.float64()),
        ("lost_count", pa.int64()),  # of the probes
        ("probe_count", pa.int64()),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "runs": RUNS,
    "latency_histogram": LATENCY_HISTOGRAM,
    "messages": MESSAGES,
    "requests": REQUESTS,
    "samples": SAMPLES,
    "decisions": DECISIONS,
    "paths": PATHS,
}
