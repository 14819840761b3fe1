"""The metrics: the only names that the table ``samples`` takes, each with its unit, meaning and source.

Names that are columns of a table of ``schema.COUNTERS`` are no metrics: ``collectors.rows`` puts their values there.
A system that lives outside the tree enters what it samples beside them: ``METRICS["my_count"] = Metric(...)``.
"""

from typing import NamedTuple


class Metric(NamedTuple):
    """What a sample's value is.  ``unit``: ns, bytes, count, rps, ratio or score · ``source``: who samples it."""

    unit: str
    meaning: str
    source: str


_LIMITERS, _THROTTLER, _ERLANG = "the study of limiters", "throttler", "the study of nodes in Erlang"
_PLACEMENT, _ADAPTOR = "systems that place topics", "tb-adaptor"
_PULSAR = "study placement-on-pulsar"
_LIVE, _NETWORK = "live runs", "networks, virtual and real"
_DELAYER = "the user-space delayer of testbed mininet"
_CLOCKS = "hosts with clocks of their own (ssh)"

METRICS: dict[str, Metric] = {
    # limiting and throttling
    "load_end_ns": Metric("ns", "the instant of the last request", _LIMITERS),
    "convergence_ns": Metric("ns", "the instant since which nothing was queued or under way", _LIMITERS),
    "counted_from_ns": Metric(
        "ns", "the instant at which counters of processes and networks were read, just before the load", _LIMITERS
    ),
    "counted_until_ns": Metric("ns", "the same when the last request may have its answer from anywhere", _LIMITERS),
    "node_process_count": Metric("count", "1: the process is a node's", _LIMITERS),
    "server_process_count": Metric("count", "1: the process is of a server that nodes ask", _LIMITERS),
    "error_answer_count": Metric(
        "count", "answers of a server that were errors, since the sample before; each is unanswered, too", _LIMITERS
    ),
    "replica_count": Metric("count", "states compared at the end", _LIMITERS),
    "replica_entry_count": Metric("count", "entries (a counter, an element) that any replica holds", _LIMITERS),
    "replica_gap_count": Metric("count", "entries that not all replicas hold: 0 where all are equal", _LIMITERS),
    "flat_state_bytes": Metric("bytes", "of a node's state, each term counted wherever it is referred to", _ERLANG),
    "sent_word_bytes": Metric(
        "bytes", "messages as words of memory, sent since the sample before that has any", _ERLANG
    ),
    "negative_limit_count": Metric("count", "users whose share of the limit is below 0 at a cycle's end", _THROTTLER),
    "lost_count": Metric(
        "count", "what a node sent since the sample before, and the network lost; of the delayer: all that it lost",
        _NETWORK,
    ),
    # distribution
    "message_rate_rps": Metric("rps", "messages a second that came to a broker in the last report's span", _ADAPTOR),
    "backlog_count": Metric("count", "messages that wait for a token", _ADAPTOR),
    "bucket_rate_rps": Metric("rps", "a sub-bucket's new rate", _ADAPTOR),
    "bucket_burst_count": Metric("count", "a sub-bucket's new burst", _ADAPTOR),
    "infeasible_split_count": Metric("count", "1: the envelope cannot be split by the loads told", _ADAPTOR),
    "wrap_count": Metric("count", "how often copies of a trace started over in a round", "the workload trace"),
    "dropped_count": Metric("count", "messages that a broker dropped in the fresh round", "limiters that drop"),
    "migration_count": Metric(
        "count", "publishers that went to another broker; of a move on Pulsar: 1 where the topic went as it was to",
        "studies in which publishers or topics move",
    ),
    "migration_told_count": Metric("count", "those of them that their old broker had told where to go", _LIVE),
    # placement
    "elected_count": Metric("count", "1: the node has become the load manager", _PLACEMENT),
    "migration_ns": Metric("ns", "from the command to release a unit until its broker says that it has", _PLACEMENT),
    "migration_with_wait_ns": Metric("ns", "the same from the decision on", _PLACEMENT),
    "monitoring_bytes": Metric("bytes", "of a broker's load report", _PLACEMENT),
    "utilisation_ratio": Metric("ratio", "of the resource that a broker uses most: see its report", _PLACEMENT),
    "client_downtime_ns": Metric("ns", "from a connection's close to the next; on Pulsar: `downtimes`", _PLACEMENT),
    "delivery_gap_ns": Metric("ns", "the longest time without a delivery of a topic around its move", _PULSAR),
    "unanswered_count": Metric("count", "a Serf agent did not say where; a limiter decided without its server", _LIVE),
    "early_open_count": Metric("count", "1: a broker had a topic before the last one had drained it", _LIVE),
    "drain_ns": Metric("ns", "from a topic's fence until all was delivered", _LIVE),
    "handover_lateness_ns": Metric("ns", "how late a client's host was moved", _LIVE),
    # coordinates
    "health_score": Metric("score", "of a Serf agent: above 0 it probes less often", _LIVE),
    # nodes, links and machines of live runs
    "garbage_count": Metric("count", "frames that could not be read", _LIVE),
    "timer_lateness_ns": Metric("ns", "how late a node's latest timer of a second was", _LIVE),
    "steal_ns": Metric("ns", "time that other guests of the machine took, since its start", _LIVE),
    "core_count": Metric("count", "cores of the machine", _LIVE),
    "memory_available_bytes": Metric("bytes", "memory that can still be had", _LIVE),
    "stopped_ns": Metric("ns", "for how long a process stood still until then (SIGSTOP, a debugger)", _LIVE),
    "switch_count": Metric("count", "context switches of all processes since the machine's start", _LIVE),
    "probing_ns": Metric("ns", "processor time that the sampling itself took", _LIVE),
    "clock_offset_ns": Metric("ns", "by how much CLOCK_REALTIME was moved against CLOCK_MONOTONIC", _LIVE),
    "clock_offset_before_ns": Metric("ns", "a host's clock less ours, before the run", _CLOCKS),
    "clock_offset_after_ns": Metric("ns", "the same after the run", _CLOCKS),
    "clock_doubt_ns": Metric("ns", "how well the offset is known", _CLOCKS),
    "alive_count": Metric("count", "0: a helper of the testbed was gone at the end", _LIVE),
    "out_of_memory_count": Metric("count", "1: a container was over its memory limit, and was killed", "docker"),
    "error_count": Metric("count", "errors of a broker, or of the delayer, each counted and survived", _LIVE),
    "packet_count": Metric("count", "packets that were delayed", _DELAYER),
    "cut_count": Metric("count", "packets that a partition stopped", _DELAYER),
    "doubled_count": Metric("count", "packets that came twice, as a fault wants it", _DELAYER),
    "held_count": Metric("count", "packets that were held back, as a fault wants it", _DELAYER),
    "unstamped_count": Metric("count", "packets without the kernel's instant", _DELAYER),
    "waiting_count": Metric("count", "packets that still wait", _DELAYER),
    "lateness_max_ns": Metric("ns", "of the delays, as the run was judged by it", _DELAYER),
}  # fmt: skip
