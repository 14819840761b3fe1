"""How much of one key a limiter bears: open loop, at rising rates, until the median wait doubles.

For ``benchmarks.deployed``.  A wait is from the intended instant.  What shows that it is the limiter that is slow, and
not who asks it: how late each request was taken up; a rate at which that was much does not count.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, sqrt
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.asker import Asker, ask_all
from core.seeds import generator
from core.units import SECOND_NS
from systems.limiting.deployed import Driver, quota_of
from testbed.nodes.planes import ServerAt

LOWEST_RPS, HIGHEST_RPS, STEP = 200.0, 819_200.0, 2.0
SPAN_S, DRAIN_S = 1.0, 2.0
WARMING, WARMING_S = 4_000, 10.0  # requests, or seconds, before the load, so that what compiles itself has done so
LATE_SHARE = 0.5  # of the lowest rate's wait: a rung counts if nine tenths of its requests were taken up within that
CONNECTIONS = {"http": 64, "resp": 1}  # as a node asks: by HTTP a question at a time on each
DEPTHS = {"http": 1, "resp": 128}


class Rung(NamedTuple):
    """One rate: the median wait, and within what nine tenths of the requests were taken up after their instants.

    ``errors``: requests without a verdict; they wait for ever.
    """

    rate_rps: float
    wait_ns: float
    late_ns: float
    errors: int = 0


def counts(rung: Rung, base: Rung) -> bool:
    """Whether the generator was in time, for a first wait that can double: one of errors is infinite."""
    return rung.late_ns <= LATE_SHARE * base.wait_ns < inf


def next_rate(rungs: Sequence[Rung]) -> float | None:
    """The rate to try after ``rungs``, the first of which is the lowest; None: enough is known.

    Rates double until the wait has, or the generator is late; then one between the last two is tried.
    """
    if not rungs:
        return LOWEST_RPS
    base, last = rungs[0], rungs[-1]
    if not counts(base, base) or (len(rungs) > 1 and last.rate_rps < STEP * rungs[-2].rate_rps):
        return None
    if len(rungs) > 1 and (last.wait_ns > 2 * base.wait_ns or not counts(last, base)):
        return rungs[-2].rate_rps * sqrt(STEP)
    return last.rate_rps * STEP if last.rate_rps * STEP <= HIGHEST_RPS else None


class Knee(NamedTuple):
    """The lowest rate at which the wait has doubled, None: not reached; and the highest below it that counts."""

    rate_rps: float | None
    below_rps: float


def knee(rungs: Sequence[Rung]) -> Knee:
    """What a ladder says, its rungs in any order but the lowest first.  A late rung says nothing."""
    base = rungs[0]
    there = sorted(rung for rung in rungs if counts(rung, base))
    doubled = next((rung.rate_rps for rung in there if rung.wait_ns > 2 * base.wait_ns), None)
    below = [rung.rate_rps for rung in there if doubled is None or rung.rate_rps < doubled]
    return Knee(doubled, max(below, default=0.0))


def offer(asker: Asker, content: bytes, due_ns: Sequence[int]) -> tuple[list[float], list[int], list[Any]]:
    """Ask at these instants from now on, come what may: waits, how late each was taken up, and answers.

    A wait is from the intended instant; of what has no answer ``DRAIN_S`` after the last one, it is infinite.
    """
    count, clock = len(due_ns), time.perf_counter_ns
    waits, late, told = [inf] * count, [int(DRAIN_S * SECOND_NS)] * count, [None] * count
    waiting, taken, done = deque[int](), 0, 0
    begun_ns = clock() + SECOND_NS // 100
    until_ns = begun_ns + due_ns[-1] + int(DRAIN_S * SECOND_NS)
    while done < count and clock() < until_ns:
        # What waits for a connection waits for the server.  Otherwise no more is taken up than is sent at once.
        is_full = bool(waiting) or not asker.free
        while taken < count and (is_full or len(waiting) < asker.room):
            late_ns = clock() - begun_ns - due_ns[taken]
            if late_ns < 0:
                break
            late[taken] = late_ns
            waiting.append(taken)
            taken += 1
        if waiting and asker.free:
            numbers = [waiting.popleft() for _ in range(min(asker.room, len(waiting)))]
            asker.ask(numbers, [content] * len(numbers))
        for number, answer, at_ns in asker.answers(0):
            waits[number], told[number] = at_ns - begun_ns - due_ns[number], answer
            done += 1
    return waits, late, told


def waits_of(waits: Sequence[float], told: Sequence[Any], verdict: Callable[[Any], bool | None]) -> list[float]:
    """The waits that ``offer`` gives, infinite where what was told is no verdict: a soon error is no short wait."""
    pairs = zip(waits, told, strict=True)
    return [inf if answer is None or verdict(answer) is None else wait for wait, answer in pairs]


def climb(at: ServerAt, driver: Driver, config: Any, repeats: int, most_rps: float = HIGHEST_RPS) -> list[Rung]:
    """A rung for each rate that ``next_rate`` wants, to ``most_rps`` at most: medians of ``repeats``, most errors."""
    content, rungs, rng = driver.ask("hot", 1, quota_of(config), config), list[Rung](), generator(1, "hot")
    with Asker(at, driver.wire, CONNECTIONS[driver.wire], DEPTHS[driver.wire]) as asker:
        ask_all(asker, iter([content] * WARMING), driver.verdict, WARMING_S)
    while (rate_rps := next_rate(rungs)) is not None and rate_rps <= most_rps:
        tries = []
        for _ in range(repeats):
            gaps = rng.exponential(SECOND_NS / rate_rps, int(rate_rps * SPAN_S))
            due_ns = np.cumsum(gaps).astype(np.int64).tolist()
            with Asker(at, driver.wire, CONNECTIONS[driver.wire], DEPTHS[driver.wire]) as asker, _without_pauses():
                offered, late, told = offer(asker, content, due_ns)
            waits = waits_of(offered, told, driver.verdict)
            tries.append((median(waits), float(np.percentile(late, 90)), waits.count(inf)))
        waits_ns, lates_ns, errors = zip(*tries, strict=True)
        rungs.append(Rung(rate_rps, median(waits_ns), median(lates_ns), int(max(errors))))
    return rungs


def others_s(processes: Iterable[psutil.Process]) -> float:
    """Processor time of this machine that these have not had, since it runs: its difference disturbs."""
    all_s = psutil.cpu_times()  # what serves interrupts is on the account of whoever was interrupted
    busy_s = all_s.user + all_s.nice + all_s.system + all_s.irq + all_s.softirq
    return float(busy_s - sum(sum(each.cpu_times()[:2]) for each in processes))


@contextmanager
def _without_pauses() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
