"""Runs that are carried out by one task: many runs are shorter than what a task costs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

BATCH_S = 10.0  # ours: what is lost with a worker, and what is waited for before anything is heard of a batch
PARTS = 4  # ours: batches a core at least, so that none of them idles long at the end
LEAST = 32  # batches where there is not much to do, however few cores are there yet: executors come late

Item = TypeVar("Item")


def batched(items: Sequence[Item], seconds_of: Callable[[Item], float], cores: int) -> list[list[Item]]:
    """``items`` in their order, cut into batches.

    A batch of several takes at most ``BATCH_S`` expected seconds, and less where ``cores`` want more batches.
    """
    most_s = min(BATCH_S, sum(map(seconds_of, items)) / max(PARTS * cores, LEAST))
    batches: list[list[Item]] = []
    room_s = 0.0
    for item in items:
        seconds = seconds_of(item)
        if not batches or seconds > room_s:
            batches.append([])
            room_s = most_s
        batches[-1].append(item)
        room_s -= seconds
    return batches
