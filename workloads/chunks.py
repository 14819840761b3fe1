"""Random access by window: a schedule is cut into chunks of a fixed length, each made on its own.

A chunk is a pure function of the config, the seed and its number, so that any window, asked for in
any order and split in any way, gives the same rows.  Only the last few chunks are kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from core.records import Block, Int32, Int64, Population, Schedule
from core.units import SECOND_NS

# A chunk of this many rows fits the L2 cache and makes the cost of a call per chunk vanish.
CHUNK_ROW_COUNT = 32_768
CHUNK_MAX_NS = 10 * SECOND_NS
KEPT_CHUNK_COUNT = 3
PIECE_CHUNK_COUNT = 8  # so many chunks' rows, some 6 MB, and fewer where messages come in batches


def chunk_length_ns(rows_rps: float, least_ns: int = 1) -> int:
    """The length of a chunk that holds about ``CHUNK_ROW_COUNT`` rows, between ``least_ns`` and 10 s or so."""
    wanted_ns = int(min(CHUNK_MAX_NS, CHUNK_ROW_COUNT / rows_rps * SECOND_NS))
    return max(wanted_ns, least_ns, 1)


def piece_ns(schedules: Iterable[Schedule]) -> int:
    """Schedules are walked together in pieces of this length, at most 10 s: few calls, and memory stays flat."""
    messages_rps = sum(schedule.population.total_rps for schedule in schedules)
    return chunk_length_ns(max(1.0, messages_rps) / PIECE_CHUNK_COUNT)


class ChunkedSchedule(ABC):
    """A ``Schedule`` made chunk by chunk: chunk ``i`` holds the rows of [i, i + 1) x ``chunk_ns``.

    Time is two-sided: the traffic has always been going on, and instant 0 is no special one.
    """

    def __init__(self, population: Population, chunk_ns: int):
        self.population = population
        self.chunk_ns = chunk_ns
        self._kept: dict[int, Block] = {}

    def block(self, start_ns: int, end_ns: int) -> Block:
        """The emissions with ``start_ns <= at_ns < end_ns``, in canonical order; to be read only."""
        assert start_ns <= end_ns, f"window ends before it starts: {start_ns}..{end_ns}"
        first, last = start_ns // self.chunk_ns, max(start_ns, end_ns - 1) // self.chunk_ns
        return join([self._cut(index, start_ns, end_ns) for index in range(first, last + 1)])

    def _cut(self, index: int, start_ns: int, end_ns: int) -> Block:
        """The part of a chunk that lies in a window."""
        chunk = self._kept.get(index)
        if chunk is None:
            chunk = self._kept[index] = self._chunk(index)
            if len(self._kept) > KEPT_CHUNK_COUNT:
                del self._kept[next(iter(self._kept))]
        if start_ns <= index * self.chunk_ns and (index + 1) * self.chunk_ns <= end_ns:
            return chunk
        low, high = np.searchsorted(chunk.at_ns, (start_ns, end_ns))
        size = chunk.size_bytes if isinstance(chunk.size_bytes, int) else chunk.size_bytes[low:high]
        return Block(chunk.at_ns[low:high], chunk.publisher[low:high], chunk.count[low:high], size)

    @abstractmethod
    def _chunk(self, index: int) -> Block:
        """All rows of chunk ``index``, in canonical order."""


def join(blocks: list[Block]) -> Block:
    """Consecutive blocks as one: a single one as it is, several copied."""
    if len(blocks) == 1:
        return blocks[0]
    size = blocks[0].size_bytes
    return Block(
        np.concatenate([block.at_ns for block in blocks]),
        np.concatenate([block.publisher for block in blocks]),
        np.concatenate([block.count for block in blocks]),
        size if isinstance(size, int) else np.concatenate([np.asarray(block.size_bytes) for block in blocks]),
    )


def sort_pairs(
    at_ns: Int64, key: Int32 | Int64, key_count: int, start_ns: int, *, nearly_sorted: bool = True
) -> tuple[Int64, Int64]:
    """Both arrays (n,) in the order (instant, key), keys being below ``key_count``.

    Instant and key are packed into one integer, which sorts faster than an index does.
    Instants must lie within 2^63 / key_count ns after ``start_ns``.  ``nearly_sorted`` (or made of
    sorted runs) is a matter of speed only: a merge sort takes half the time there.
    """
    bits = max(1, int(key_count - 1).bit_length())
    assert len(at_ns) == 0 or int(at_ns.max() - start_ns).bit_length() + bits <= 63, "instants too far apart to pack"
    packed = ((at_ns - start_ns) << bits) | key
    packed.sort(kind="stable" if nearly_sorted else "quicksort")
    return (packed >> bits) + start_ns, packed & ((1 << bits) - 1)


def order_ties(at_ns: Int64, key: Int32) -> None:
    """Sort ``key`` in place within runs of equal instants; ``at_ns`` (n,) is in order already.

    Ties are rare where instants are drawn at random, so only their rows are touched.
    """
    same = at_ns[1:] == at_ns[:-1]
    if not same.any():
        return
    tied = np.zeros(len(at_ns), bool)
    tied[1:] = same
    tied[:-1] |= same
    rows = np.flatnonzero(tied)
    key[rows] = key[rows][np.lexsort((key[rows], at_ns[rows]))]


def ranges(low: Int64, high: Int64) -> tuple[Int64, Int64]:
    """The numbers of [low[i], high[i]) for each i in turn, and the i of each: int64 (n,) both."""
    count = high - low
    owner = np.repeat(np.arange(len(low)), count)
    before = np.cumsum(count) - count
    return np.arange(count.sum()) - before[owner] + low[owner], owner
