"""The study of controllers: a topic runs on fixed brokers while a control protocol moves its sub-buckets.

Publishers stay where they are, in equal blocks of ids; the workload shifts traffic between them.
"""

from studies.api import Journal, Point, Study, expected_s
from studies.control.asked import Config, Controlled, Controlling
from studies.distribution.study import SECONDS_PER_MESSAGE, deployed, messages_a_round
from studies.spec import RunSpec
from studies.tables import columns, sample_rows, window_rows
from systems.api import Report, SetBucket, System
from workloads.api import Offer


def asked(point: Point, config: Config) -> Controlling:
    """What is asked of the testbed."""
    duration, window = config.spans_ns(len(point.topology.node_names("broker")))
    topic = vars(deployed(point, config, duration))
    return Controlling(**topic, system=point.system, config=point.system_config, duration_ns=duration, window_ns=window)


def journal(point: Point, asked: Controlling, shown: Controlled) -> Journal:
    """The tables of a run."""
    windows = [{"end_to_end_latency": latency, "access_delay": delay} for latency, delay in shown.windows]
    buckets = [
        (at_ns, "set_bucket", shown.names.index(node), command.rate_rps, command.burst_count)
        for at_ns, node, command in shown.commands
        if isinstance(command, SetBucket)
    ]
    tables = {
        "latency_histogram": window_rows(windows),
        "samples": sample_rows(shown.samples),
        "messages": shown.messages,
        "decisions": columns(("at_ns", "kind", "broker", "bucket_rate_rps", "bucket_burst_count"), buckets),
    }
    return Journal(tables, "done", shown.envelope.rate_rps, shown.envelope.burst_count, shown.evidence)


def fits(system: System) -> bool:
    """Whether its nodes take the measurements of brokers."""
    return system.nodes is not None and Report in system.inputs


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Live its length, else its messages."""
    return expected_s(spec, Config, "duration") if real_time else messages_a_round(spec) * SECONDS_PER_MESSAGE


STUDY = Study(
    "control",
    "a topic on fixed brokers while a controller moves its sub-buckets",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.MESSAGES,
    virtual="studies.control.virtual",
    live="studies.control.live",
)
