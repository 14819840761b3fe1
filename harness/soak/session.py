"""Many trials, in order of their seeds, some at a time: what ``ratebed soak`` does."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from core.errors import MachineError
from harness.executors.local import deaf_children, live_with_the_parent, spawning_pool
from harness.soak.draw import draw, system_of
from harness.soak.trial import Breach, ended, play

CHUNK = 25  # schedules that a worker plays in a row
TWICE_EVERY = 10  # every tenth seed is played twice, and compared
SCHEDULE = "every seed can be played"


@dataclass(frozen=True)
class Failure:
    """A seed that broke something."""

    seed: int
    system: str
    breaches: tuple[Breach, ...]

    @property
    def command(self) -> str:
        """What replays it."""
        return f"ratebed soak --replay {self.seed}"

    def line(self) -> str:
        """For people."""
        first = self.breaches[0]
        what = first.what if len(first.what) < 160 else first.what[:160] + "…"
        return f"seed {self.seed}  {self.system}: {first.invariant}: {first.node} {what}  ->  {self.command}"


@dataclass(frozen=True)
class Chunk:
    """Seeds played in a row; ``seconds`` of processor time."""

    first: int
    last: int
    count: int
    seconds: float
    failures: tuple[Failure, ...]


def play_chunk(seeds: tuple[int, ...], first: int) -> Chunk:
    """One worker's share: ``seeds``; between ``first`` and the last there are no others to be played."""
    begun = time.process_time()
    failures = []
    for seed in seeds:
        try:
            breaches = play(draw(seed), twice=seed % TWICE_EVERY == 0).breaches
        except Exception as error:  # the seed makes no schedule, or no trial can begin: the others go on
            breaches = (ended(error, invariant=SCHEDULE),)
        if breaches:
            failures.append(Failure(seed, system_of(seed), breaches))
    return Chunk(first, seeds[-1], len(seeds), time.process_time() - begun, tuple(failures))


def soak(first: int, count: int, system: str = "", jobs: int = 1, seconds: float = 0.0) -> Iterator[Chunk]:
    """Play ``count`` schedules (of one system) from a seed on, for at most so many ``seconds`` (0: all); in order."""
    until = time.monotonic() + seconds if seconds else float("inf")
    chunks = _chunks(first, count, system)
    if jobs == 1:
        for seeds, start in chunks:
            if time.monotonic() >= until:
                return
            yield play_chunk(seeds, start)
        return
    pool = spawning_pool(jobs, live_with_the_parent)
    waiting: deque[Future[Chunk]] = deque()
    try:
        for seeds, start in chunks:
            with deaf_children():
                waiting.append(pool.submit(play_chunk, seeds, start))
            if len(waiting) >= 2 * jobs:
                yield waiting.popleft().result()
            if time.monotonic() >= until:
                break
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise MachineError("a worker process was killed", "free memory or lower --jobs") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chunks(first: int, count: int, system: str) -> Iterator[tuple[tuple[int, ...], int]]:
    """Seeds by chunk, and the first seed that each chunk accounts for."""
    seed, left = first, count
    while left > 0:
        start, seeds = seed, list[int]()
        while len(seeds) < min(CHUNK, left):
            if not system or system_of(seed) == system:
                seeds.append(seed)
            seed += 1
        left -= len(seeds)
        yield tuple(seeds), start
