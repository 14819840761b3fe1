"""The study of the load-distribution family: search, then judge the answer on fresh traffic."""

from typing import Any

import numpy as np

from collectors.histogram import bucket_bounds
from core.errors import SpecError, SystemFault
from core.records import Int32
from core.registry import configure
from core.seeds import generator
from studies.api import Journal, Point, Study, deployed, point_slo_ns, round_ns
from studies.distribution.asked import TRIALS_MAXIMUM, Deployment, DeploymentConfig, Round
from systems.api import UNASSIGNED, Distribution, Problem


def configured(point: Point) -> DeploymentConfig:
    """The study's options; SpecError where system, workload and topology do not fit it."""
    if point.system.distribute is None:
        raise SpecError(f"system {point.system.key!r} distributes no publishers", "choose lb, conc, max-min or srtm")
    config = configure("study distribution", DeploymentConfig, point.spec.study_options)
    point.backend.check(point.topology, point.schedule, point.spec, config)
    return config


def run(point: Point, config: DeploymentConfig) -> Journal:
    """Search for an assignment with the system of ``point`` and judge it on a fresh round."""
    with deployed(point, config) as deployment:
        rounds, iterations, answer = _search(point, deployment)
        fresh = deployment.fresh_round(answer.assignment, round_ns(point.spec))
        return _journal(point, deployment, rounds, iterations, fresh, answer)


def _journal(
    point: Point,
    deployment: Deployment,
    rounds: list[Round],
    iterations: list[int],
    fresh: Round,
    answer: Distribution,
) -> Journal:
    """What the rounds showed, as rows of the tables."""
    rows = [
        row
        for number, (found, iteration) in enumerate(zip(rounds, iterations, strict=True), start=1)
        for row in _decisions(deployment, found, "trial", number, iteration)
    ]
    rows += _decisions(deployment, fresh, "final", 0, 0)
    tables = {
        "decisions": {key: [row[key] for row in rows] for key in rows[0]},
        "latency_histogram": _histogram(fresh),
    }
    messages = deployment.messages()
    if messages:
        tables["messages"] = dict(messages)
    samples = _wraps(point.schedule, [*rounds, fresh]) + _drops(deployment, fresh)
    if samples:
        tables["samples"] = dict(zip(("at_ns", "node", "metric", "value"), zip(*samples, strict=True), strict=True))
    outcome = "infeasible" if fresh.note else answer.outcome.value
    envelope = fresh.envelope
    return Journal(tables, outcome, envelope.rate_rps, envelope.burst_count, deployment.evidence())


def _search(point: Point, deployment: Deployment) -> tuple[list[Round], list[int], Distribution]:
    """Drive the distributor's generator; a distributor that breaks its interface is a SystemFault."""
    spec, system = point.spec, point.system
    assert system.distribute is not None
    problem = Problem(
        point.schedule.population,
        deployment.envelope_for(deployment.now_ns, round_ns(spec)),
        deployment.brokers,
        point_slo_ns(spec),
        round_ns(spec),
    )
    search = system.distribute(problem, point.system_config, generator(spec.seed, "system", system.key))
    rounds: list[Round] = []
    iterations: list[int] = []
    try:
        trial = next(search)
        while True:
            _check(system.key, trial.assignment, problem)
            if len(rounds) == TRIALS_MAXIMUM:
                raise SystemFault(f"{system.key}: no answer after {TRIALS_MAXIMUM} rounds", "end the search")
            rounds.append(deployment.next_round(trial.assignment, trial.duration_ns))
            iterations.append(trial.iteration)
            trial = search.send(rounds[-1].measured)
    except StopIteration as stop:
        answer = stop.value
    if not isinstance(answer, Distribution):
        raise SystemFault(f"{system.key}: returned {answer!r}", "return a Distribution")
    if (np.asarray(answer.assignment) == UNASSIGNED).any():
        raise SystemFault(f"{system.key}: left publishers without a broker", "assign every publisher")
    _check(system.key, answer.assignment, problem)
    return rounds, iterations, answer


def _check(key: str, assignment: Int32, problem: Problem) -> None:
    """An assignment names a broker, or none, for every publisher."""
    wrong = not isinstance(assignment, np.ndarray) or assignment.shape != (problem.publishers.count,)
    if wrong or assignment.min() < UNASSIGNED or assignment.max() >= len(problem.brokers):
        raise SystemFault(f"{key}: bad assignment", "give one broker index, or -1, for each publisher")
    if (assignment == UNASSIGNED).all():
        raise SystemFault(f"{key}: a trial without publishers", "assign some")


def _decisions(deployment: Deployment, found: Round, kind: str, number: int, iteration: int) -> list[dict[str, Any]]:
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
                "load_rps": float(rate) + deployment.loads_rps[broker],
                "mcap_rps": deployment.mcap_rps,
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


def _drops(deployment: Deployment, fresh: Round) -> list[tuple[int, str, str, float]]:
    """Rows of ``samples``: messages that each broker dropped in the fresh round, where the limiter drops."""
    if deployment.rule.non_conformant != "drop":
        return []
    pairs = zip(deployment.names, fresh.dropped_count, strict=True)
    return [(fresh.start_ns, name, "dropped_count", float(count)) for name, count in pairs]


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


STUDY = Study(configured, run)
