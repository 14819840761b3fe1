"""The study ``quota``: brokers of a real Apache Pulsar that share a quota, by its own rule or by SRTM's."""

from studies.api import Journal, Point, Study, expected_s
from studies.quota.asked import NAME, Config, QuotaRequest, QuotaShown
from studies.spec import RunSpec
from studies.tables import sample_rows
from systems.api import System
from workloads.api import Offer

CLUSTER_S = 90.0  # ours: a cluster is started and stopped, its topics are put where they belong


def asked(point: Point, config: Config) -> QuotaRequest:
    """SpecError for fewer than two brokers, or a quota of less than one message a second each."""
    return QuotaRequest(point.topology, point.schedule, point.spec.seed, config, point.system_config)


def journal(point: Point, asked: QuotaRequest, shown: QuotaShown) -> Journal:
    """The tables of a run; the bucket is the quota, of one second."""
    tables = {"messages": shown.messages, "samples": sample_rows(shown.samples)}
    quota_rps = float(asked.rule.quota_rps)
    return Journal(tables, bucket_rate_rps=quota_rps, bucket_burst_count=quota_rps, evidence=shown.evidence)


def fits(system: System) -> bool:
    """TB Adaptor's options hold where it shares; no other system is known beside Pulsar."""
    return system.key == "tb-adaptor"


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its length, and the cluster."""
    return expected_s(spec, Config, "duration") + CLUSTER_S


STUDY = Study(
    NAME,
    "messages for the topics of several brokers of a real Apache Pulsar, which share a quota",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.MESSAGES,
    live="studies.quota.live",
)
