"""Many finished runs are verified in several processes, before anybody asks for one (``collectors.integrity``)."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from collectors.integrity import take_over, verified_among
from core.errors import MachineError
from harness.executors.local import live_with_the_parent

WORTHWHILE = 2_000  # runs; fewer are verified in the time that processes take to start
AT_A_TIME = 500


def verify_ahead(folders: Sequence[Path], jobs: int) -> None:
    """Verify them, so that ``verified`` has nothing left to do but for what is damaged; MachineError if a process dies.

    Of a few there is nothing to gain: whoever asks for one verifies it.
    """
    if jobs < 2 or len(folders) < WORTHWHILE:
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=live_with_the_parent)
    try:
        parts = [folders[start : start + AT_A_TIME] for start in range(0, len(folders), AT_A_TIME)]
        for part in as_completed([pool.submit(verified_among, part) for part in parts]):
            take_over(part.result())
    except BrokenProcessPool:
        raise MachineError("a process that verified runs was killed", "free memory or lower --jobs") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
