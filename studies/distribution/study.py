"""The study of the load-distribution family: search, then judge the answer on fresh traffic."""

import numpy as np

from core.records import Columns, Row, Sample, Schedule
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study, point_slo_ns, round_ns
from studies.distribution.asked import Deployed, DeploymentConfig, Replayed, Round, Searched, Searching
from studies.spec import RunSpec
from studies.tables import histogram_rows, sample_rows
from systems.api import System
from systems.loader import load_system
from workloads.api import Offer, WrappingSchedule

SECONDS_PER_MESSAGE = 80e-9  # schedule, envelope, kernel
SECONDS_PER_LIVE_ROUND = 3.0  # beside its traffic: publishers moved, drain, records
_SMALL_GROUP, _FEW_ROUNDS = 5, 2  # up to here live searches end at once


def asked(point: Point, config: DeploymentConfig) -> Searching:
    """What is asked of the testbed."""
    return Searching(**vars(deployed(point, config)), system=point.system, config=point.system_config)


def deployed(point: Point, rule: DeploymentConfig, longest_ns: int = 0) -> Deployed:
    """The point's topic on its brokers."""
    spec, spans_ns = point.spec, (point_slo_ns(point.spec), round_ns(point.spec))
    keeps = "messages" in spec.keep
    schedule = Replayed(point.schedule, spans_ns[1]) if rule.envelope == "replayed" else point.schedule
    return Deployed(point.topology, schedule, rule, spec.calibration, spec.seed, *spans_ns, keeps, longest_ns)


def journal(point: Point, asked: Searching, search: Searched) -> Journal:
    """What the rounds showed, as rows of the tables."""
    rows: list[Row] = []
    for number, (shown, iteration) in enumerate(zip(search.rounds, search.iterations, strict=True), start=1):
        rows += _decisions(search, shown, "trial", number, iteration)
    fresh = search.fresh
    rows += _decisions(search, fresh, "final", 0, 0)
    histograms = {"end_to_end_latency": fresh.latency, "access_delay": fresh.access_delay, **fresh.more}
    tables: dict[str, Columns] = {
        "decisions": {key: [row[key] for row in rows] for key in rows[0]},
        "latency_histogram": histogram_rows(histograms),
        "messages": search.messages,
        "samples": sample_rows(_wraps(point.schedule, asked, [*search.rounds, fresh]) + _drops(asked.rule, search)),
    }
    outcome = "infeasible" if fresh.note else search.answer.outcome.value
    return Journal(tables, outcome, fresh.envelope.rate_rps, fresh.envelope.burst_count, search.evidence)


def _decisions(search: Searched, shown: Round, kind: str, number: int, iteration: int) -> list[Row]:
    counts = np.bincount(shown.assignment[shown.assignment >= 0], minlength=len(shown.rates_rps))
    brokers = zip(shown.rates_rps, shown.sub_buckets, shown.measured.brokers, strict=True)
    return [
        {
            "at_ns": shown.start_ns,
            "kind": kind,
            "iteration": iteration,
            "round": number,
            "broker": broker,
            "publisher_count": int(counts[broker]),
            "assigned_rps": float(rate),
            "load_rps": float(rate) + search.loads_rps[broker],
            "mcap_rps": search.mcaps_rps[broker],
            "bucket_rate_rps": bucket.rate_rps if bucket else None,
            "bucket_burst_count": bucket.burst_count if bucket else None,
            "seen_p99_ns": seen.p99_ns,
            "seen_topic_p99_ns": shown.measured.p99_ns,
            "duration_ns": shown.duration_ns,
            "note": shown.note,
        }
        for broker, (rate, bucket, seen) in enumerate(brokers)
    ]


def _wraps(schedule: Schedule, asked: Searching, rounds: list[Round]) -> list[Sample]:
    """Rows of ``samples``: how often copies of a trace started over within each round."""
    if not isinstance(schedule, WrappingSchedule):
        return []
    rows: list[Sample] = []
    for shown in rounds:
        begin_ns = 0 if asked.rule.envelope == "replayed" else shown.start_ns  # every window is the first one again
        count = schedule.wraps(begin_ns, begin_ns + shown.duration_ns)
        rows.append((shown.start_ns, "workload", "wrap_count", float(count)))
    return rows


def _drops(rule: DeploymentConfig, search: Searched) -> list[Sample]:
    """Rows of ``samples``: messages that each broker dropped in the fresh round, where the limiter drops."""
    if rule.non_conformant != "drop":
        return []
    pairs = zip(search.names, search.fresh.dropped_count, strict=True)
    return [(search.fresh.start_ns, name, "dropped_count", float(count)) for name, count in pairs]


def fits(system: System) -> bool:
    """Whether it distributes publishers."""
    return system.distribute is not None


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Rounds of a typical search and the fresh one: live their length, else their messages."""
    system = load_system(spec.system)
    rounds = 1 if spec.system_options.get("brokers") else system.round_count
    if not real_time:
        return rounds * messages_a_round(spec) * SECONDS_PER_MESSAGE
    if int(spec.workload_options.get("group_size", 1)) <= _SMALL_GROUP:
        rounds = min(rounds, _FEW_ROUNDS)
    return rounds * (round_ns(spec) / SECOND_NS + SECONDS_PER_LIVE_ROUND)


def messages_a_round(spec: RunSpec) -> float:
    """Messages of one round, the brokers' other topics (at a tenth of the cost) included."""
    rate_rps = float(spec.workload_options.get("publishers", 1000)) * float(spec.workload_options.get("rate_rps", 10))
    others_rps = sum(spec.study_options.get("initial_loads_rps", ()))
    length_ns = duration_ns(str(spec.study_options.get("duration", "0s"))) or round_ns(spec)
    return (rate_rps + others_rps / 10) * length_ns / SECOND_NS


STUDY = Study(
    "distribution",
    "a topic's publishers on brokers: a search, judged on fresh traffic",
    DeploymentConfig,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.MESSAGES,
    virtual="studies.distribution.virtual",
    live="studies.distribution.live",
)
