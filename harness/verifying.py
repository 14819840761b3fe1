"""Many finished runs are verified in several processes, while it is worked out which others are wanted."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from collectors.integrity import Key, take_over, verified_among
from core.errors import MachineError
from harness.campaign import Campaign
from harness.executors.local import deaf_children, live_with_the_parent, spawning_pool

WORTHWHILE = 2_000  # runs; fewer are verified in the time that processes take to start
AT_A_TIME = 500


@contextmanager
def verifying_ahead(campaign: Campaign, jobs: int) -> Iterator[Callable[[str], None]]:
    """Tell what is yielded the id of each run that is wanted: those that are there are verified.

    So that ``verified``, after this, has nothing left to do but for what is damaged, and the campaign knows of the
    others that they are whole.  Of a few there is nothing to gain: whoever asks for one verifies it.  MachineError if
    a process dies.
    """
    ahead = _Ahead(campaign, jobs)
    try:
        yield ahead.want
        ahead.finish()
    except BrokenProcessPool:
        raise MachineError("a process that verified runs was killed", "free memory or lower --jobs") from None
    finally:
        if ahead.pool:
            ahead.pool.shutdown(wait=False, cancel_futures=True)


class _Ahead:
    def __init__(self, campaign: Campaign, jobs: int):
        self.campaign, self.jobs = campaign, jobs
        self.pool: ProcessPoolExecutor | None = None  # of many
        self._waiting: list[str] = []
        self._parts: list[Future[dict[Key, bytes]]] = []
        try:
            self._there = set(os.listdir(campaign.runs)) if jobs > 1 else set()
        except OSError:
            self._there = set()

    def want(self, run_id: str) -> None:
        if run_id in self._there:
            self._there.remove(run_id)  # another figure may want it, too
            self._waiting.append(f"{self.campaign.runs}/{run_id}")
            if len(self._waiting) >= (AT_A_TIME if self.pool else WORTHWHILE):
                self._begin()

    def _begin(self) -> None:
        """Have what waits verified."""
        if self.pool is None:
            self.pool = spawning_pool(self.jobs, live_with_the_parent)
        with deaf_children():
            for start in range(0, len(self._waiting), AT_A_TIME):
                part = self._waiting[start : start + AT_A_TIME]
                self._parts.append(self.pool.submit(verified_among, part))
        self._waiting.clear()

    def finish(self) -> None:
        if self.pool:
            self._begin()
        for part in as_completed(self._parts):
            manifests = part.result()
            take_over(manifests)
            self.campaign.whole.update(os.path.basename(folder) for folder, *_ in manifests)
