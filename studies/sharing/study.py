"""The study of shared buckets: where publishers go, times how their topic's bucket lives on their brokers."""

from collections import Counter

from core.records import Columns, Sample
from studies.api import Journal, Point, Study
from studies.distribution.study import SECONDS_PER_MESSAGE, deployed, fits, messages_a_round
from studies.distribution.study import expected_seconds as live_seconds
from studies.distribution.study import journal as distribution_journal
from studies.sharing.asked import Config, SharedSearch, SharingSearch
from studies.sharing.rules import ADAPTOR, IDEAL, SPLIT
from studies.spec import RunSpec
from studies.tables import sample_rows
from systems.loader import load_system
from workloads.api import Offer

SECONDS_PER_VERDICT = 40e-6  # a message that waits for one, and its gate


def asked(point: Point, config: Config) -> SharingSearch:
    """What is asked of the testbed."""
    return SharingSearch(**vars(deployed(point, config)), system=point.system, config=point.system_config)


def journal(point: Point, asked: SharingSearch, shown: SharedSearch) -> Journal:
    """The tables of ``distribution``, and what whoever shares had sent in the fresh round, summed by node."""
    told = distribution_journal(point, asked, shown.searched)
    rows = {name: list(column) for name, column in told.tables["samples"].items()}
    for name, column in sample_rows(summed(shown.samples, shown.searched.fresh.start_ns)).items():
        rows[name] += column
    tables: dict[str, Columns] = {**told.tables, "samples": rows}
    return Journal(tables, told.outcome, told.bucket_rate_rps, told.bucket_burst_count, told.evidence)


def summed(samples: list[Sample], at_ns: int) -> list[Sample]:
    """Messages and bytes sent, by node, as of ``at_ns``."""
    total: Counter[tuple[str, str]] = Counter()
    for _, node, metric, value in samples:
        if metric in ("sent_bytes", "sent_count"):
            total[node, metric] += int(value)
    return [(at_ns, node, metric, float(value)) for (node, metric), value in sorted(total.items())]


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Messages of a typical search; of real brokers its length."""
    if real_time:
        return live_seconds(spec, real_time)
    rounds = 1 if spec.system_options.get("brokers") else load_system(spec.system).round_count
    sharing = spec.study_options.get("sharing", SPLIT)
    each = SECONDS_PER_MESSAGE if sharing in (SPLIT, IDEAL, ADAPTOR) else SECONDS_PER_VERDICT
    return rounds * messages_a_round(spec) * each


STUDY = Study(
    "sharing",
    "a topic's publishers on brokers that share its token bucket",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.MESSAGES,
    virtual="studies.sharing.virtual",
    live="studies.sharing.live",
)
