"""The study of the load-distribution family: search, then judge the answer on fresh traffic."""

from typing import Any

import numpy as np

from collectors.histogram import bucket_bounds
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study, point_slo_ns, round_ns
from studies.distribution.asked import Deployed, DeploymentConfig, Round, Searched, Searching
from studies.spec import RunSpec
from systems.api import System
from systems.loader import load_system
from workloads.api import Offer

SECONDS_PER_MESSAGE = 80e-9  # schedule, envelope, kernel
SECONDS_PER_LIVE_ROUND = 3.0  # beside its traffic: publishers moved, drain, records
_SMALL_GROUP, _FEW_ROUNDS = 5, 2  # up to here live searches end at once


def asked(point: Point, config: DeploymentConfig) -> Searching:
    """What is asked of the testbed."""
    return Searching(point.system, point.system_config, deployed(point, config))


def deployed(point: Point, rule: DeploymentConfig, longest_ns: int = 0) -> Deployed:
    """The point's topic on its brokers."""
    spec = point.spec
    keeps_messages = "messages" in spec.keep
    slo_ns, length_ns = point_slo_ns(spec), round_ns(spec)
    return Deployed(
        point.topology, point.schedule, rule, spec.calibration, spec.seed, slo_ns, length_ns, keeps_messages, longest_ns
    )


def journal(point: Point, asked: Searching, search: Searched) -> Journal:
    """What the rounds showed, as rows of the tables."""
    rows = [
        row
        for number, (shown, iteration) in enumerate(zip(search.rounds, search.iterations, strict=True), start=1)
        for row in _decisions(search, shown, "trial", number, iteration)
    ]
    fresh = search.fresh
    rows += _decisions(search, fresh, "final", 0, 0)
    tables: dict[str, dict[str, Any]] = {
        "decisions": {key: [row[key] for row in rows] for key in rows[0]},
        "latency_histogram": _histogram(fresh),
    }
    if search.messages:
        tables["messages"] = dict(search.messages)
    samples = _wraps(point.schedule, [*search.rounds, fresh]) + _drops(asked.deployed.rule, search)
    if samples:
        tables["samples"] = dict(zip(("at_ns", "node", "metric", "value"), zip(*samples, strict=True), strict=True))
    outcome = "infeasible" if fresh.note else search.answer.outcome.value
    return Journal(tables, outcome, fresh.envelope.rate_rps, fresh.envelope.burst_count, search.evidence)


def _decisions(search: Searched, found: Round, kind: str, number: int, iteration: int) -> list[dict[str, Any]]:
    """One row a broker: what it carried, what the search saw."""
    counts = np.bincount(found.assignment[found.assignment >= 0], minlength=len(found.rates_rps))
    rows = []
    for broker, (rate, bucket, seen) in enumerate(
        zip(found.rates_rps, found.sub_buckets, found.measured.brokers, strict=True)
    ):
        rows.append(
            {
                "at_ns": found.start_ns,
                "kind": kind,
                "iteration": iteration,
                "round": number,
                "broker": broker,
                "publisher_count": int(counts[broker]),
                "assigned_rps": float(rate),
                "load_rps": float(rate) + search.loads_rps[broker],
                "mcap_rps": search.mcap_rps,
                "bucket_rate_rps": bucket.rate_rps if bucket else None,
                "bucket_burst_count": bucket.burst_count if bucket else None,
                "seen_p99_ns": seen.p99_ns,
                "seen_topic_p99_ns": found.measured.p99_ns,
                "duration_ns": found.duration_ns,
                "note": found.note,
            }
        )
    return rows


def _wraps(schedule: Any, rounds: list[Round]) -> list[tuple[int, str, str, float]]:
    """Rows of ``samples``: how often copies of a trace started over within each round."""
    if not hasattr(schedule, "wraps"):
        return []
    spans = [(found.start_ns, found.start_ns + found.duration_ns) for found in rounds]
    return [(start_ns, "workload", "wrap_count", float(schedule.wraps(start_ns, end_ns))) for start_ns, end_ns in spans]


def _drops(rule: DeploymentConfig, search: Searched) -> list[tuple[int, str, str, float]]:
    """Rows of ``samples``: messages that each broker dropped in the fresh round, where the limiter drops."""
    if rule.non_conformant != "drop":
        return []
    pairs = zip(search.names, search.fresh.dropped_count, strict=True)
    return [(search.fresh.start_ns, name, "dropped_count", float(count)) for name, count in pairs]


def _histogram(found: Round) -> dict[str, Any]:
    """The fresh round's counts, without empty buckets."""
    return histogram_rows(0, {"end_to_end_latency": found.latency, "access_delay": found.access_delay, **found.more})


def histogram_rows(number: int, metrics: dict[str, np.ndarray]) -> dict[str, Any]:
    """Columns of ``latency_histogram`` from counts of shape (brokers, BUCKET_COUNT)."""
    low_ns, high_ns = bucket_bounds()
    columns: dict[str, list[Any]] = {key: [] for key in ("round", "broker", "metric", "low_ns", "high_ns", "count")}
    for metric, counts in metrics.items():
        broker, bucket = np.nonzero(counts)
        columns["round"].append(np.full(len(broker), number, np.int32))
        columns["broker"].append(broker.astype(np.int32))
        columns["metric"].append(np.full(len(broker), metric, object))
        columns["low_ns"].append(low_ns[bucket])
        columns["high_ns"].append(high_ns[bucket])
        columns["count"].append(counts[broker, bucket])
    return {key: np.concatenate(parts) for key, parts in columns.items()}


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
    Offer.MESSAGES,
    fits,
    asked,
    journal,
    expected_seconds,
    "studies.distribution.virtual:BODY",
    "studies.distribution.live:BODY",
)
