"""Drives a distributor's search on a deployed topic, and judges its answer on fresh traffic."""

import numpy as np

from core.errors import SystemFault
from core.records import Int32
from core.seeds import generator
from studies.distribution.asked import TRIALS_MAXIMUM, Round, Searched, Searching
from studies.distribution.windows import TopicWindows
from systems.api import UNASSIGNED, Distribution, Problem


def searched(asked: Searching, deployment: TopicWindows) -> Searched:
    """The whole search and the fresh round; a distributor that breaks its interface is a SystemFault."""
    rounds, iterations, answer = _search(asked, deployment)
    fresh = deployment.fresh_round(answer.assignment, asked.round_ns)
    return Searched(
        rounds, iterations, answer, fresh, deployment.names, deployment.loads_rps, deployment.mcaps_rps,
        deployment.messages(), deployment.evidence(),
    )  # fmt: skip


def _search(asked: Searching, deployment: TopicWindows) -> tuple[list[Round], list[int], Distribution]:
    system, round_ns = asked.system, asked.round_ns
    assert system.distribute is not None
    problem = Problem(
        asked.schedule.population,
        deployment.envelope_for(deployment.now_ns, round_ns),
        deployment.brokers,
        asked.slo_ns,
        round_ns,
    )
    search = system.distribute(problem, asked.config, generator(asked.seed, "system", system.key))
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
    wrong = not isinstance(assignment, np.ndarray) or assignment.shape != (problem.publishers.count,)
    if wrong or assignment.min() < UNASSIGNED or assignment.max() >= len(problem.brokers):
        raise SystemFault(f"{key}: bad assignment", "give one broker index, or -1, for each publisher")
    if (assignment == UNASSIGNED).all():
        raise SystemFault(f"{key}: a trial without publishers", "assign some")
