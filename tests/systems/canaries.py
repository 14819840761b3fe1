"""A sound limiter and a sound search, and canaries made of them, each of which breaks one rule.

The suite reads this file: it imports nothing that a system may not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.records import Request
from systems.api import (
    UNASSIGNED,
    Arrival,
    Decide,
    Delivery,
    Distribution,
    Effect,
    Event,
    Message,
    Outcome,
    Problem,
    Search,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Trial,
    Verdict,
)


@dataclass(frozen=True)
class Config:
    """Nothing to tune."""


class Count(Message, frozen=True):
    count: int


class Limiter:
    """Admits every other request and tells the others how many it saw."""

    def __init__(self, name: str, names: list[str], seed: int):
        self.name, self.names, self.seed, self.seen = name, names, seed, 0

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Start():
                return self.start(now_ns)
            case Arrival(request):
                self.seen += 1
                return self.decide(request)
            case Timer(name, due_at_ns):
                return self.ring(name, due_at_ns)
        return []

    def start(self, now_ns: int) -> list[Effect]:
        return [SetTimer("tell", now_ns + 100_000_000)]

    def decide(self, request: Request) -> list[Effect]:
        return [Decide(request.id, Verdict.ADMIT if self.seen % 2 else Verdict.REJECT)]

    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        told: list[Effect] = [Send(other, Count(self.seen)) for other in self.names if other != self.name]
        return [SetTimer("tell", due_at_ns + 100_000_000), *told]


def limiter(cls: Callable[[str, list[str], int], Any] = Limiter, **changes: Any) -> System:
    def nodes(names: list[str], config: Any, seed: int) -> dict[str, Any]:
        return {name: cls(name, names, seed) for name in names}

    return replace(System("canary", "", config=Config, nodes=nodes, messages=(Count,)), **changes)


class DecidesTwice(Limiter):
    def decide(self, request: Request) -> list[Effect]:
        return [*super().decide(request), *super().decide(request)]


class DecidesStrangers(Limiter):
    def decide(self, request: Request) -> list[Effect]:
        return [Decide(request.id + 1, Verdict.ADMIT)]


class DecidesAlone(Limiter):
    def decide(self, request: Request) -> list[Effect]:
        return [Decide(request.id, Verdict.ADMIT, unanswered=True)]


class MisusesUnanswered(Limiter):
    def decide(self, request: Request) -> list[Effect]:
        return [Decide(request.id, Verdict.ADMIT, "yes")]  # type: ignore[arg-type]


class NeverDecides(Limiter):
    def decide(self, request: Request) -> list[Effect]:
        return []


class DecidesLate(Limiter):
    """Decides when its timer rings, of which it forgets to arm the second: fine until requests follow."""

    def __init__(self, name: str, names: list[str], seed: int):
        super().__init__(name, names, seed)
        self.waiting: list[int] = []

    def decide(self, request: Request) -> list[Effect]:
        self.waiting.append(request.id)
        return []

    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        waiting, self.waiting = self.waiting, []
        return [Decide(request_id, Verdict.ADMIT) for request_id in waiting]


class NotAfterACrash(Limiter):
    """Starts only around instant 0, whatever its clock says, and decides only once started."""

    started = False

    def start(self, now_ns: int) -> list[Effect]:
        self.started = now_ns < 500_000_000
        return []

    def decide(self, request: Request) -> list[Effect]:
        return super().decide(request) if self.started else []


class TimerInThePast(Limiter):
    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        return [SetTimer("tell", due_at_ns - 1)]


class NeverPasses(Limiter):
    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        return [SetTimer("tell", due_at_ns)]


class SendsToStrangers(Limiter):
    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        return [Send("n4", Count(1))]


class SendsUndeclared(Limiter):
    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        return [Send("n1", Request(1, "u", 0))]


class SendsWrongType(Limiter):
    def ring(self, name: str, due_at_ns: int) -> list[Effect]:
        return [Send("n1", Count("many"))]  # type: ignore[arg-type]


class Unprepared(Limiter):
    """Fails when a node that it told about itself falls silent and comes back."""

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        if isinstance(event, Delivery) and event.message.count == 0 and self.seen > 30:
            raise ValueError("impossible count")
        return super().handle(event, now_ns)


_SHARED: list[int] = []


class SharesState(Limiter):
    """Keeps state outside the node, which the second run finds."""

    def decide(self, request: Request) -> list[Effect]:
        _SHARED.append(request.id)
        return [Decide(request.id, Verdict.ADMIT if len(_SHARED) < 150 else Verdict.REJECT)]


class DrawsUnseeded(Limiter):
    def decide(self, request: Request) -> list[Effect]:
        rng = np.random.Generator(np.random.PCG64())
        return [Decide(request.id, Verdict.ADMIT if rng.random() < 0.5 else Verdict.REJECT)]


ONCE: dict[str, Any] = {}


def the_same_nodes(names: list[str], config: Any, seed: int) -> dict[str, Any]:
    return {name: ONCE.setdefault(name, Limiter(name, names, seed)) for name in names}


def too_few_nodes(names: list[str], config: Any, seed: int) -> dict[str, Any]:
    return {names[0]: Limiter(names[0], names, seed)}


def no_nodes_at_all(names: list[str], config: Any, seed: int) -> dict[str, Any]:
    return dict.fromkeys(names, None)


@dataclass(frozen=True)
class Needy:
    limit_rps: float


# --- distributors -------------------------------------------------------------------------------------


def searching(search: Callable[[Problem, Any, np.random.Generator], Search]) -> System:
    return System("canary", "", config=Config, distribute=search)


def evenly(problem: Problem) -> Any:
    return (np.arange(problem.publishers.count) % len(problem.brokers)).astype(np.int32)


def sound(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    measured = yield Trial(evenly(problem), problem.round_ns)
    met = measured.p99_ns <= problem.slo_ns
    return Distribution(evenly(problem), Outcome.PLACED if met else Outcome.OUT_OF_BROKERS)


def endless(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    while (yield Trial(evenly(problem), problem.round_ns)).p99_ns > problem.slo_ns:
        pass
    return Distribution(evenly(problem))


def loses_a_publisher(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    yield Trial(evenly(problem)[1:], problem.round_ns)
    return Distribution(evenly(problem))


def leaves_one_out(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    assignment = evenly(problem)
    assignment[-1] = UNASSIGNED
    yield Trial(assignment, problem.round_ns)
    return Distribution(assignment)


def invents_a_broker(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    return Distribution(evenly(problem) + np.int32(1))
    yield


def wrong_type(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    return Distribution(evenly(problem).astype(np.int64))
    yield


def no_duration(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    yield Trial(evenly(problem), 0)
    return Distribution(evenly(problem))


def counts_down(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    yield Trial(evenly(problem), problem.round_ns, 2)
    yield Trial(evenly(problem), problem.round_ns, 1)
    return Distribution(evenly(problem))


def says_placed(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    yield Trial(evenly(problem), problem.round_ns)
    return Distribution(evenly(problem))


def gives_up(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    yield Trial(evenly(problem), problem.round_ns)
    return Distribution(evenly(problem), Outcome.OUT_OF_BROKERS)


def answers_something_else(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    """Validates one assignment and answers with another, worse one."""
    measured = yield Trial(evenly(problem), problem.round_ns)
    met = measured.p99_ns <= problem.slo_ns
    worse = np.full(problem.publishers.count, len(problem.brokers) - 1, np.int32)
    return Distribution(worse, Outcome.PLACED if met else Outcome.OUT_OF_BROKERS)


def unseeded(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    other = np.random.Generator(np.random.PCG64())
    return Distribution(other.integers(0, len(problem.brokers), problem.publishers.count, np.int32))
    yield


def returns_nothing(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    yield Trial(evenly(problem), problem.round_ns)
    return None  # type: ignore[return-value]


def fails(problem: Problem, config: Any, rng: np.random.Generator) -> Search:
    measured = yield Trial(evenly(problem), problem.round_ns)
    assert all(broker.p99_ns for broker in measured.brokers)  # with one publisher, others carry nothing
    return (yield from sound(problem, config, rng))
