"""The only definition of the tables (Parquet) and of a run folder's files; ``collectors.metrics`` has the metrics.

A run folder holds ``manifest.json`` (all wall-clock fields live there, and only there), one
Parquet file a table, and of a live run ``logs/``, what its processes printed.  Instants and spans
are integer nanoseconds since the run's time 0.  Every table starts with ``run_id``.  Columns hold values,
never records as text; ``docs/results.md`` is made from what is said here.
"""

import pyarrow as pa

from collectors.columns import NAMED_TEXTS, REAL, SMALL, TEXT, TEXTS, WHOLE, Table, table

SCHEMA_VERSION = 6
MANIFEST = "manifest.json"
LOGS = "logs"

AT = ("at_ns", WHOLE)

# --- of every run -----------------------------------------------------------------------------------

_OF_EVERY_RUN = {
    "runs": table(
        "the run: its axes, options and outcome",
        ("system", TEXT),
        ("variant", TEXT, 'options that differ from the defaults, "brokers=3,margin=1.1"'),
        ("workload", TEXT),
        ("topology", TEXT),
        ("testbed", TEXT),
        ("calibration", TEXT),
        ("factors", NAMED_TEXTS, 'every option, "workload.publishers" -> "4000"'),
        ("seed", WHOLE),
        ("repetition", SMALL),
        ("workload_id", TEXT, "equal for runs that were offered the very same messages"),
        ("validity", TEXT, "valid, degraded or invalid"),
        ("outcome", TEXT, "placed, out-of-brokers or done"),
        ("slo_ns", WHOLE),
        ("bucket_rate_rps", REAL, "of the topic's envelope (r, b)"),
        ("bucket_burst_count", REAL),
        ("schema_version", SMALL),
    ),
    "latency_histogram": table(
        "a bucket of the log-linear histogram (`collectors.histogram`) that counted something",
        ("round", SMALL, "0: the fresh round after a search, or no search; studies control, moving: windows from 1"),
        ("broker", SMALL),
        (
            "metric",
            TEXT,
            "end_to_end_latency, access_delay or decision_latency; of traffic that shifts: held_time (of messages that "
            "their publisher kept back: from the intended instant to sending) and closed_time (of a publisher that "
            "leaves this broker: from when it is told until it may send again); of a bucket that brokers share: "
            "token_debt (how much later than it was released one bucket (r, b), full at the start, would have had a "
            "message's token); of modelled brokers that carry other topics: resident_latency (end to end, of those "
            "topics) and resident_latency_before (the same minute without this topic); of live brokers, from their "
            "records: stamp_error "
            "(when the process had read a message, less when the kernel had received it), undue_delay (of messages "
            "that conform by their arrival: from reading to release, 0 for those let through; with _kernel and _read: "
            "what an exact bucket would do by either kind of stamps), ingress_time (of messages let through: from "
            "arrival to release), broker_time (from arrival to the subscriber)",
        ),
        ("low_ns", WHOLE, "the bucket holds low_ns <= v < high_ns"),
        ("high_ns", WHOLE),
        ("count", WHOLE),
    ),
    "samples": table(
        "a value of a metric at an instant",
        AT,
        ("node", TEXT, "a node, client, process, host or topic; empty: the whole run"),
        ("metric", TEXT, "one of those below"),
        ("value", REAL),
    ),
    "skipped_lines": table(
        "a reason for which lines of the run's input were left out",
        ("reason", TEXT),
        ("line_count", WHOLE),
    ),
    "faults": table(
        "a fault that happened",
        AT,
        ("kind", TEXT, "as in a study's option faults: crash, restart, partition, heal, link-loss, …"),
        ("target", TEXT, "the node or host, or one end of the link"),
        ("peer", TEXT, "the link's other end; of a restart: whose state was copied"),
        ("side", TEXTS, "of a partition: the nodes or hosts that are cut off; of a heal: empty for all partitions"),
        ("point", TEXT, "of a handover: the switch"),
        ("probability", REAL, "of loss, duplication or reordering"),
        ("hold_ns", WHOLE, "of reordering; of a delay: how much longer packets take"),
        ("offset_ns", WHOLE, "of a clock"),
    ),
}

# --- distribution and limiting ----------------------------------------------------------------------

_OF_LOADS = {
    "messages": table(
        "a message that was offered; the first instant that is null says how far it came",
        ("message", WHOLE, "its number in the window's canonical order: the same on every testbed"),
        ("publisher", SMALL),
        ("broker", SMALL),
        ("topic", TEXT),
        ("intended_at_ns", WHOLE),
        ("sent_at_ns", WHOLE),
        ("arrived_at_ns", WHOLE, "at the broker's token bucket"),
        ("released_at_ns", WHOLE, "its token was there"),
        ("received_at_ns", WHOLE, "by the subscriber"),
        ("acknowledged_at_ns", WHOLE, "the broker's OK was at the publisher; null in virtual time, which has none"),
    ),
    "requests": table(
        "a request to a limiter",
        ("node", TEXT, "the one that the user asked"),
        ("user", TEXT),
        ("request_id", WHOLE),
        ("cost", SMALL, "tokens asked for"),
        ("intended_at_ns", WHOLE),
        ("sent_at_ns", WHOLE, "by the user; null in virtual time, where it is the intended instant"),
        ("decided_at_ns", WHOLE, "null: lost"),
        ("received_at_ns", WHOLE, "the verdict was at the user; null in virtual time, and of lost ones"),
        ("decision", TEXT, "admit, reject or lost"),
    ),
    "decisions": table(
        "a broker and round of a search, or a command of a controller",
        ("at_ns", WHOLE, "start of the round, on the schedule's time"),
        ("kind", TEXT, "trial, final, set_bucket or move"),
        ("iteration", SMALL),
        ("round", SMALL),
        ("broker", SMALL),
        ("publisher_count", SMALL, "of the topic, on this broker; of a move, those that went there"),
        ("assigned_rps", REAL),
        ("load_rps", REAL, "of all topics on this broker"),
        ("mcap_rps", REAL),
        ("bucket_rate_rps", REAL),
        ("bucket_burst_count", REAL),
        ("seen_p99_ns", WHOLE, "what the search was told; null where nothing was measured"),
        ("seen_topic_p99_ns", WHOLE),
        ("duration_ns", WHOLE),
        ("note", TEXT, "why nothing could be measured, a sentence"),
    ),
    "cycles": table(
        "a server's cycle under a throttler",
        AT,
        ("cycle", SMALL, "from 0; it ends at at_ns"),
        ("server", TEXT),
        ("limit", REAL, "requests a cycle; below 0 where a law lets it"),
        ("demand", REAL, "requests that it was asked for"),
        ("admitted", REAL, "of the demand"),
        ("nodal_measure", REAL, "how well the server does (DST, Table 1: p); null for throttlers without"),
    ),
    "client_cycles": table(
        "a client of a server in a cycle of which the server was told each client's demand",
        AT,
        ("cycle", SMALL),
        ("server", TEXT),
        ("client", SMALL, "its number at the server, from 0"),
        ("demand", REAL),
        ("admitted", REAL),
    ),
}

# --- placement --------------------------------------------------------------------------------------

_OF_PLACEMENT = {
    "ownership": table(
        "a span in which a broker had accepted a topic",
        ("topic", TEXT),
        ("broker", TEXT),
        ("start_ns", WHOLE),
        ("end_ns", WHOLE),
    ),
    "clients": table(
        "something that a client of topics did",
        AT,
        ("client", TEXT),
        ("topic", TEXT, "null: a handover"),
        ("role", TEXT, "producer or consumer; null: a handover"),
        ("kind", TEXT, "joined, left or handover"),
        ("site", SMALL, "of a handover: where to, 0 is the topology's first"),
    ),
    "move_steps": table(
        "a step of a topic's move on Pulsar",
        ("topic", TEXT),
        ("step", TEXT, "request (REST's, to its answer); by the old broker's log unload: release, assign, disconnect"),
        ("start_ns", WHOLE, "below 0 where a broker counts from before the run"),
        ("end_ns", WHOLE),
    ),
    "downtimes": table(
        "a span in which a client on Pulsar was cut off from a topic",
        ("client", TEXT, "its host: one for the clients of a site that stay"),
        ("topic", TEXT),
        ("role", TEXT, "producer or consumer"),
        ("start_ns", WHOLE),
        ("end_ns", WHOLE, "of who never came back at least the run's end"),
    ),
    "topic_windows": table(
        "a topic and window of its messages' births in which there were any",
        ("at_ns", WHOLE, "the window's start"),
        ("topic", TEXT),
        ("message_count", WHOLE, "of those with a consumer"),
        ("late_count", WHOLE, "messages that not all consumers had within the bound"),
        ("lost_count", WHOLE, "messages that somebody never got"),
        ("pair_count", WHOLE, "messages times consumers"),
        ("late_pair_count", WHOLE),
    ),
    "topic_latency": table(
        "a bucket of a topic's and window's histogram of latencies, until the last consumer has a message",
        ("at_ns", WHOLE, "the window's start"),
        ("topic", TEXT),
        ("low_ns", WHOLE, "as in latency_histogram"),
        ("high_ns", WHOLE),
        ("count", WHOLE, "of messages that are not lost"),
    ),
    "control_messages": table(
        "a message of the control plane, where a run records them",
        AT,
        ("node", TEXT, "who sent or got it"),
        ("way", TEXT, "sent or got"),
        ("peer", TEXT),
        ("kind", TEXT, "the message's class"),
        ("subject", TEXT, "the topic, unit or path that it is about, if any"),
        ("broker", TEXT, "the broker or value that it names, if any"),
        ("ticket", WHOLE, "of a question to the store, and of its answer"),
    ),
    "policies": table(
        "a policy and random placement of clients",
        ("permutation", SMALL, "number of the placement, from 0"),
        ("policy", TEXT),
        ("estimated_worst_ns", REAL, "the worst pair's delay, by coordinates"),
        ("estimated_violation_ratio", REAL, "pairs above the bound, by coordinates, of all"),
        ("printed_violation_ratio", REAL, "the same by the formulas as the paper prints them"),
        ("true_worst_ns", REAL, "the worst pair's delay, by the topology"),
        ("true_violation_ratio", REAL),
        ("feasible_ratio", REAL, "topics that some broker can serve within the bound, of all, as the policy sees it"),
    ),
    "coordinates": table(
        "a pair of nodes at a read of their coordinates",
        AT,
        ("a", TEXT),
        ("b", TEXT),
        ("estimated_rtt_ns", REAL, "by the coordinates, which are real numbers; null: one of them is lost"),
        ("true_rtt_ns", WHOLE, "by the topology"),
    ),
    "agents": table(
        "a coordinate agent at a read, from the second on",
        AT,
        ("agent", TEXT),
        (
            "shift_ns",
            WHOLE,
            "how far its coordinate is from where it was at the read before, change of height included",
        ),
    ),
}

# --- counters: what is counted or weighed together; a row a node and instant --------------------------

NODE = ("node", TEXT)
COUNTERS = {
    "usage": table(
        "what a node of a protocol holds and has sent",
        AT,
        NODE,
        ("state_bytes", WHOLE, "memory that the node's state takes, by its model"),
        ("allocated_bytes", WHOLE, "the same as Python allocates it"),
        ("sent_count", WHOLE, "messages sent since the row before that has any"),
        ("sent_bytes", WHOLE, "of these messages, encoded, or in the unit that the system was asked for"),
    ),
    "deliveries": table(
        "what became of messages: of a window (node empty), or of what a client sent or got, or of a topic's",
        AT,
        NODE,
        ("offered_count", WHOLE),
        ("not_sent_count", WHOLE),
        ("unacknowledged_count", WHOLE, "sent, but no broker accepted them"),
        ("undelivered_count", WHOLE, "accepted, and they never came"),
        ("delivered_count", WHOLE),
        ("duplicated_count", WHOLE, "messages that came more than once"),
        ("unacknowledged_at_broker_count", WHOLE, "of which a broker has a row"),
        ("undelivered_released_count", WHOLE, "that a broker had released"),
        ("delivered_unacknowledged_count", WHOLE),
        ("surplus_count", WHOLE, "copies beyond the first"),
        ("foreign_count", WHOLE, "that nobody had offered"),
        ("dropped_rows_count", WHOLE, "records for which there was no room"),
        ("out_of_order_count", WHOLE),
        ("owed_count", WHOLE, "that a consumer had to get"),
        ("gap_count", WHOLE, "owed, and never got"),
        ("duplicate_count", WHOLE, "got again"),
        ("reordered_count", WHOLE, "got after a later one"),
        ("refused_count", WHOLE, "refusals that a producer met"),
        ("resent_count", WHOLE, "sendings after the first"),
    ),
    "spans": table(
        "the measured span of a broker's profile, which ends at at_ns (node clients: all clients' processes)",
        AT,
        NODE,
        ("span_ns", WHOLE, "its length"),
        ("span_in_count", WHOLE, "messages that the broker acknowledged in it"),
        ("span_in_bytes", WHOLE),
        ("span_out_count", WHOLE, "copies that consumers got in it"),
        ("span_out_bytes", WHOLE, "bodies alone"),
        ("span_offered_count", WHOLE, "copies that were due in it"),
        ("span_lost_count", WHOLE, "those of them that never came"),
        ("span_cpu_ns", WHOLE, "processor time in it"),
    ),
    "processes": table(
        "counters of a process since its start, or of the machine's cores (node machine)",
        AT,
        NODE,
        ("cpu_ns", WHOLE),
        ("rss_bytes", WHOLE),
        ("anonymous_bytes", WHOLE, "what of it is no file's: heap and stacks"),
        ("thread_count", WHOLE),
        ("voluntary_switch_count", WHOLE, "of the threads that live"),
        ("involuntary_switch_count", WHOLE),
    ),
    "containers": table(
        "counters of a container since its start, and its limits",
        AT,
        NODE,
        ("container_cpu_ns", WHOLE),
        ("container_memory_bytes", WHOLE),
        ("container_throttled_count", WHOLE, "periods in which its share of the cores was used up"),
        ("container_throttled_ns", WHOLE),
        ("container_cpu_limit", REAL, "cores"),
        ("container_memory_limit_bytes", WHOLE),
    ),
    "network": table(
        "counters of a network namespace (node: host, or machine) since its start",
        AT,
        NODE,
        ("interface_received_bytes", WHOLE, "of all interfaces but the loopback"),
        ("interface_received_count", WHOLE),
        ("interface_sent_bytes", WHOLE),
        ("interface_sent_count", WHOLE),
        ("interface_dropped_count", WHOLE),
        ("received_packet_count", WHOLE, "of the host's own interface"),
        ("receive_error_count", WHOLE),
        ("receive_drop_count", WHOLE),
        ("sent_packet_count", WHOLE),
        ("send_error_count", WHOLE),
        ("send_drop_count", WHOLE),
        ("loopback_received_bytes", WHOLE),
        ("loopback_received_count", WHOLE),
        ("loopback_sent_bytes", WHOLE),
        ("loopback_sent_count", WHOLE),
        ("loopback_dropped_count", WHOLE),
        ("queue_waiting_count", WHOLE, "packets on their way to the delayer"),
        ("queue_drop_count", WHOLE, "packets that found its queue full, or were not delivered"),
        ("udp_received_count", WHOLE),
        ("udp_sent_count", WHOLE),
        ("udp_dropped_count", WHOLE, "above all for want of room in a socket's buffer"),
        ("tcp_received_count", WHOLE),
        ("tcp_sent_count", WHOLE),
        ("tcp_retransmitted_count", WHOLE),
        ("tcp_established_count", WHOLE),
        ("tcp_listen_dropped_count", WHOLE),
        ("tcp_dropped_count", WHOLE),
    ),
    "brokers": table(
        "counters of a broker's process at the run's end",
        AT,
        NODE,
        ("accepted_count", WHOLE, "connections"),
        ("connection_count", WHOLE, "that are open"),
        ("command_count", WHOLE),
        ("message_count", WHOLE),
        ("read_count", WHOLE),
        ("merged_read_count", WHOLE, "reads that brought several commands"),
        ("missing_stamp_count", WHOLE, "reads without the kernel's instant"),
        ("refused_token_count", WHOLE, "connections with a wrong password"),
        ("stranger_count", WHOLE, "connections that ended without the password"),
        ("refused_message_count", WHOLE, "publications for which there was no room"),
        ("panic_count", WHOLE),
        ("waited_count", WHOLE, "messages that waited for a token"),
        ("late_sum_ns", WHOLE, "how late they were released, together"),
        ("late_maximum_ns", WHOLE),
        ("gc_cycle_count", WHOLE, "of Go's collector"),
        ("gc_forced_count", WHOLE),
        ("gc_pause_sum_ns", WHOLE),
        ("gc_cpu_ns", WHOLE),
        ("heap_bytes", WHOLE),
        ("clock_ns", WHOLE, "CLOCK_REALTIME of the answer"),
    ),
}

_PATHS = table(
    "a direction of a path, as the topology wants it and as it was measured before the load",
    ("source", TEXT),
    ("target", TEXT),
    ("requested_delay_ns", WHOLE, "one way"),
    ("measured_delay_ns", WHOLE, "the median of the probes, one way"),
    ("requested_jitter_ns", WHOLE, "plus or minus"),
    ("measured_p05_ns", WHOLE),
    ("measured_p95_ns", WHOLE),
    ("requested_loss_probability", REAL),
    ("lost_count", WHOLE, "of the probes"),
    ("probe_count", WHOLE),
)

# Tables whose columns a dictionary makes no smaller (``collectors.writer``).
OF_REAL_NUMBERS, HISTOGRAMS = ("cycles", "client_cycles", "coordinates"), ("latency_histogram", "topic_latency")

DESCRIBED: dict[str, Table] = {**_OF_EVERY_RUN, **_OF_LOADS, **_OF_PLACEMENT, **COUNTERS, "paths": _PATHS}
TABLES: dict[str, pa.Schema] = {name: described.schema for name, described in DESCRIBED.items()}
