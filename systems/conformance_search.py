"""Conformance of distributors: searches against synthetic measuring oracles.

A search must end within a bounded number of trials, conserve publishers, be deterministic, and,
if it measures at all, say ``OUT_OF_BROKERS`` where no measurement meets the SLO and ``PLACED`` only
where its answer does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import SystemFault
from core.records import Envelope, Int32, Population
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import UNASSIGNED, Broker, BrokerMeasure, Distribution, Measured, Outcome, Problem, System, Trial

TRIALS_PER_BROKER_MAXIMUM = 50
SLO_NS = MILLISECOND_NS
_SEED = 20_240_602

Delay = Callable[[Broker, float, np.random.Generator], float]  # (broker, the topic's rate on it, rng) -> p99 / SLO


def always_met(broker: Broker, rate_rps: float, rng: np.random.Generator) -> float:
    """Every trial meets the SLO."""
    return 0.5


def never_met(broker: Broker, rate_rps: float, rng: np.random.Generator) -> float:
    """No trial does."""
    return 10.0


def by_capacity(broker: Broker, rate_rps: float, rng: np.random.Generator) -> float:
    """The delay of a server: a quarter of the SLO when idle, all of it at 75 % of the broker's mcap."""
    utilisation = (broker.load_rps + rate_rps) / broker.mcap_rps
    return 0.25 / max(1.0 - utilisation, 0.001)


def noisy(broker: Broker, rate_rps: float, rng: np.random.Generator) -> float:
    """The same, times a random factor (log-normal, 20 %)."""
    return by_capacity(broker, rate_rps, rng) * float(rng.lognormal(0.0, 0.2))


@dataclass(frozen=True)
class Case:
    """A problem, how its trials turn out, and what a search that measures must say (None: anything)."""

    name: str
    problem: Problem
    delay: Delay
    outcome: Outcome | None = None
    answer_meets: bool = False  # an answer that says PLACED must meet the SLO


def problem(publishers: int = 240, brokers: int = 6, rate_rps: float = 12_000.0) -> Problem:
    """Heterogeneous publishers in correlation groups of six, brokers with unequal loads."""
    weights = 1.0 + np.arange(publishers) % 7
    population = Population(rate_rps * weights / weights.sum(), (np.arange(publishers) // 6).astype(np.int32))
    fleet = tuple(Broker(f"b{i}", 10_000.0, 800.0 * i) for i in range(brokers))
    return Problem(population, Envelope(1.1 * rate_rps, 500.0), fleet, SLO_NS, 60 * SECOND_NS)


def cases() -> list[Case]:
    """All problems of the suite."""
    usual = problem()
    return [
        Case("every trial meets the SLO", usual, always_met, Outcome.PLACED),
        Case("no trial meets the SLO", usual, never_met, Outcome.OUT_OF_BROKERS),
        Case("brokers with capacities", usual, by_capacity, answer_meets=True),
        Case("noisy measurements", usual, noisy),
        Case("a topic beyond all capacities", problem(rate_rps=90_000.0), by_capacity, Outcome.OUT_OF_BROKERS),
        Case("one publisher", problem(publishers=1, rate_rps=10.0), by_capacity, Outcome.PLACED),
        Case("one broker", problem(brokers=1, rate_rps=1_000.0), by_capacity, Outcome.PLACED),
    ]


def check_search(system: System, config: object) -> None:
    """Raise SystemFault at the first case in which the system's search breaks a rule."""
    for case in cases():
        try:
            trials, answer = run(system, config, case)
            others, other = run(system, config, case)
            if not _same(trials, others) or not np.array_equal(answer.assignment, other.assignment):
                raise SystemFault("two searches with one seed differ", "draw only from the rng given")
            _check_answer(case, trials, answer)
        except SystemFault as fault:
            raise SystemFault(f"with {case.name}: {fault.what}", fault.fix) from fault


def run(system: System, config: object, case: Case) -> tuple[list[Trial], Distribution]:
    """One search against the case's oracle: its trials and its answer, each checked."""
    assert system.distribute is not None
    search = system.distribute(case.problem, config, generator(_SEED, "search"))
    rng = generator(_SEED, "oracle")
    trials: list[Trial] = []
    limit = TRIALS_PER_BROKER_MAXIMUM * len(case.problem.brokers)
    try:
        trial = next(search)
        while True:
            trials.append(_checked(trial, case.problem, trials))
            if len(trials) > limit:
                raise SystemFault(f"no answer after {limit} trials", "end the search")
            trial = search.send(measure(case, trials[-1].assignment, trial.duration_ns, rng))
    except StopIteration as stop:
        if not isinstance(stop.value, Distribution):
            raise SystemFault(f"the search returned {stop.value!r}", "return a Distribution") from None
        _check_assignment(stop.value.assignment, case.problem, "the answer")
        if (stop.value.assignment == UNASSIGNED).any():
            raise SystemFault("the answer leaves publishers unassigned", "assign all of them") from None
        return trials, stop.value
    except SystemFault:
        raise
    except Exception as error:
        what = f"the search failed after {len(trials)} trials: {type(error).__name__}: {error}"
        raise SystemFault(what, "mend it") from error


def measure(case: Case, assignment: Int32, duration_ns: int, rng: np.random.Generator) -> Measured:
    """What the oracle sees of an assignment; the pooled p99 is that of the slowest broker."""
    placed = assignment != UNASSIGNED
    rates = np.bincount(
        assignment[placed], case.problem.publishers.rate_rps[placed], minlength=len(case.problem.brokers)
    )
    measures = []
    for broker, rate_rps in zip(case.problem.brokers, rates.tolist(), strict=True):
        ratio = case.delay(broker, rate_rps, rng)
        p99_ns = round(ratio * case.problem.slo_ns) if rate_rps > 0 else None
        measures.append(BrokerMeasure(p99_ns, round(rate_rps * duration_ns / SECOND_NS), rate_rps))
    return Measured(tuple(measures), max((m.p99_ns for m in measures if m.p99_ns is not None), default=0))


def _checked(trial: object, problem: Problem, earlier: Sequence[Trial]) -> Trial:
    """The trial, if it is one, with a copy of its assignment."""
    if not isinstance(trial, Trial):
        raise SystemFault(f"the search yielded {trial!r}", "yield Trials")
    _check_assignment(trial.assignment, problem, f"trial {len(earlier) + 1}")
    if not isinstance(trial.duration_ns, int) or trial.duration_ns <= 0:
        raise SystemFault(f"trial {len(earlier) + 1} lasts {trial.duration_ns!r} ns", "give a positive integer")
    if trial.iteration < (earlier[-1].iteration if earlier else 1):
        raise SystemFault(f"trial {len(earlier) + 1} is of iteration {trial.iteration}", "count up from 1")
    return Trial(trial.assignment.copy(), trial.duration_ns, trial.iteration)


def _check_assignment(assignment: object, problem: Problem, what: str) -> None:
    wanted = f"int32 of shape ({problem.publishers.count},)"
    if not isinstance(assignment, np.ndarray) or assignment.dtype != np.int32:
        raise SystemFault(f"{what} has an assignment of {type(assignment).__name__}", f"make it {wanted}")
    if assignment.shape != (problem.publishers.count,):
        raise SystemFault(f"{what} assigns {assignment.shape} publishers", f"make it {wanted}")
    if assignment.min() < UNASSIGNED or assignment.max() >= len(problem.brokers):
        raise SystemFault(f"{what} names a broker that is not there", f"indices are -1 to {len(problem.brokers) - 1}")


def _check_answer(case: Case, trials: list[Trial], answer: Distribution) -> None:
    if not isinstance(answer.outcome, Outcome):
        raise SystemFault(f"the outcome is {answer.outcome!r}", "use systems.api.Outcome")
    if not trials:
        return  # it did not measure, so it cannot know
    if case.outcome is not None and answer.outcome is not case.outcome:
        raise SystemFault(f"the search says {answer.outcome.value}", f"it is {case.outcome.value}")
    if case.answer_meets and answer.outcome is Outcome.PLACED:
        measured = measure(case, answer.assignment, case.problem.round_ns, generator(_SEED, "answer"))
        if measured.p99_ns > case.problem.slo_ns:
            raise SystemFault("the search says placed, but its answer violates the SLO", "say out-of-brokers")


def _same(trials: list[Trial], others: list[Trial]) -> bool:
    return len(trials) == len(others) and all(
        np.array_equal(one.assignment, other.assignment)
        and (one.duration_ns, one.iteration) == (other.duration_ns, other.iteration)
        for one, other in zip(trials, others, strict=True)
    )
