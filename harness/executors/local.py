"""The cores of this machine."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import active_children, get_context, parent_process, resource_tracker

from core.errors import MachineError
from core.garbage import collect_rarely
from harness.executors.api import Finished, Work, is_live, work
from harness.experiment import RunSpec
from testbed.hosts.cleaning import remove_left
from testbed.hosts.kept import SiteAsked, SiteKeeper
from testbed.hosts.lock import machine_lock
from testbed.hosts.places import kept_by


def _give_way() -> None:
    """What a worker begins with: the parent, which draws figures while further runs are played, goes first.

    Else it would be left with them when all runs are done, alone, on one core.
    """
    os.nice(5)
    collect_rarely()
    live_with_the_parent()


def live_with_the_parent() -> None:
    """A worker ends with the command: at once if that is killed, and without a word on Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that begin in here never hear Ctrl-C, not even before they come to ``live_with_the_parent``."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_tracker() -> None:
    """Start Python's process that removes semaphores: quiet, or it has the last word where Ctrl-C ends us at once."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        resource_tracker.ensure_running()
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


def spawning_pool(jobs: int, begin: Callable[[], None]) -> ProcessPoolExecutor:
    """A pool of processes that begin with ``begin``.  They start as work is submitted: do that in ``deaf_children``."""
    _start_tracker()
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=begin)


def by_site(live: list[Work]) -> list[list[Work]]:
    """In their order, but that runs which may have a site one after another are together.

    Who is first has servers that have done nothing yet: another run in each repetition.
    """
    groups: list[tuple[SiteAsked | None, list[Work]]] = []
    for item in live:
        asked = None
        with suppress(Exception):  # whatever is wrong with a run is told when it is its turn
            asked = _site_of(item[0])
        same = next((members for other, members in groups if asked is not None and other == asked), None)
        if same is None:
            groups.append((asked, [item]))
        else:
            same.append(item)
    return [_rotated(members) for _, members in groups]


def _site_of(spec: RunSpec) -> SiteAsked | None:
    """What a live run asks for before it begins; None where it wants no servers: its site is nobody else's."""
    from harness.run import asked_of, resolve

    point = resolve(spec)
    study, asked = asked_of(point)
    servers = study.servers(point.testbed, asked)
    return None if servers is None else SiteAsked(point.testbed, asked.topology, asked.seed, servers)


def _rotated(members: list[Work]) -> list[Work]:
    first = members[0][0].repetition % len(members)
    return members[first:] + members[:first]


class LocalExecutor:
    """The cores of this machine, a process each; runs in real time follow one by one, with the machine locked."""

    def __init__(self, jobs: int):
        self.jobs = jobs

    def map(self, work_list: list[Work]) -> Generator[Finished, None, None]:
        """See ``Executor.map``; Ctrl-C ends the workers and loses nothing finished."""
        live = [item for item in work_list if is_live(item)]
        yield from self._together([item for item in work_list if not is_live(item)])
        if live:
            with machine_lock():
                for stuck in remove_left().stuck:  # what killed campaigns have left runs beside us, and is measured
                    print(f"ratebed: left of a killed run, and still there: {stuck}", file=sys.stderr, flush=True)
                yield from self._one_by_one(live)

    @staticmethod
    def _one_by_one(live: list[Work]) -> Iterator[Finished]:
        """In real time a process may fail to come up; when that happens twice in a row, the machine is at fault."""
        failed_before = False
        for items in by_site(live):
            with SiteKeeper() as keeper:
                for item in items:
                    finished = work(*item, partial(kept_by, keeper))
                    yield replace(finished, fatal=finished.fatal and failed_before)
                    failed_before = finished.fatal

    def _together(self, work_list: list[Work]) -> Iterator[Finished]:
        if self.jobs == 1 or len(work_list) < 2:
            for item in work_list:
                yield work(*item)
            return
        pool = spawning_pool(self.jobs, _give_way)
        try:
            with deaf_children():
                futures = [pool.submit(work, *item) for item in work_list]
            # Not ``wait`` again and again: that takes every future's lock each time, and Ctrl-C just then leaves some
            # of them locked for ever.
            for future in as_completed(futures):
                yield future.result()
        except (KeyboardInterrupt, GeneratorExit):  # whoever takes what is finished is interrupted as often as we are
            for child in active_children():
                child.kill()
                child.join()
            raise
        except BrokenProcessPool:
            raise MachineError(
                "a worker process was killed", "free memory or lower --jobs; then repeat the command"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
