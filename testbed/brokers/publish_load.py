"""One window of the schedule as a publisher process sends it: every command made beforehand, and what became of it."""

from array import array
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.records import Block
from testbed.brokers import nsq
from testbed.trust.accounts import ABSENT

BODY_BYTES_MINIMUM = nsq.HEADER.size
_MARK = b"\xff" * nsq.HEADER.size  # stands for a header


def save_block(path: Path, block: Block) -> None:
    """Write a block, as .npz, for ``load`` commands."""
    np.savez(path, **vars(block))


def read_block(path: Path) -> Block:
    """Read what ``save_block`` wrote."""
    with np.load(path) as columns:
        block = Block(**columns)
    sizes = np.asarray(block.size_bytes)
    return block if sizes.ndim else replace(block, size_bytes=int(sizes))


class PreparedLoad:
    """The emissions of one block that belong to this process' publishers, as commands and records.

    Messages are numbered over the whole block in its canonical order, whoever sends them.  A message
    smaller than the header is sent with the header's size.  ``epoch_ns``: CLOCK_REALTIME of the
    schedule's instant 0.  Sequences have one entry an emission; an emission is one command, one write.
    """

    def __init__(self, block: Block, topic: str, epoch_ns: int, mine: Collection[int], tag: int = 0):
        self.tag = tag
        chosen = np.isin(block.publisher, np.array(list(mine), np.int32), kind="table")
        first = np.cumsum(block.count, dtype=np.int64) - block.count
        sizes = np.broadcast_to(np.asarray(block.size_bytes, np.int64), block.at_ns.shape)
        self._first, self._messages = first[chosen], block.count[chosen].astype(np.int64)
        at_ns, publisher = block.at_ns[chosen] + epoch_ns, block.publisher[chosen]
        columns = (self._first, self._messages, publisher, at_ns, sizes[chosen])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.frames = [_command(topic, tag, *row) for row in rows]
        self.count = len(self.frames)
        self.message_count = int(self._messages.sum())
        # Arrays of the standard library: a single entry of a NumPy array is several times slower to reach.
        self.at_ns, self.publisher = array("q", at_ns.tobytes()), array("i", publisher.tobytes())
        absent = array("q", [ABSENT]) * self.count
        self.sent_at_ns, self.acknowledged_at_ns = absent[:], absent[:]
        self.broker = absent  # index in the process' list of addresses
        self.next = 0  # the first emission that is not due yet
        self.waiting_count = self.in_flight_count = 0  # emissions that are due, not written; written, not answered
        self.ended = False  # nothing of it will be sent any more

    def columns(self) -> dict[str, NDArray[np.int64]]:
        """One row a message, in canonical order: what was intended and what happened; ``ABSENT`` where it did not."""
        count = self._messages
        ends = np.cumsum(count)
        within = np.arange(self.message_count) - np.repeat(ends - count, count)
        per_emission = {
            "publisher": np.frombuffer(self.publisher, np.int32).astype(np.int64),
            "tag": np.full(self.count, self.tag, np.int64),
            "intended_at_ns": np.frombuffer(self.at_ns, np.int64),
            "sent_at_ns": np.frombuffer(self.sent_at_ns, np.int64),
            "acknowledged_at_ns": np.frombuffer(self.acknowledged_at_ns, np.int64),
            "broker": np.frombuffer(self.broker, np.int64),
        }
        rows = {name: np.repeat(column, count) for name, column in per_emission.items()}
        return {"message": np.repeat(self._first, count) + within, **rows}


def _command(topic: str, tag: int, first: int, count: int, publisher: int, at_ns: int, size_bytes: int) -> bytes:
    """An emission: message ``first`` and those after it, each a header and zeros."""
    command, *others = _between_headers(topic, count, max(size_bytes, BODY_BYTES_MINIMUM))
    for message, piece in enumerate(others, first):
        command += nsq.HEADER.pack(message, publisher, tag, at_ns) + piece
    return command


@lru_cache(maxsize=64)
def _between_headers(topic: str, count: int, size_bytes: int) -> list[bytes]:
    """A command, cut at the headers of its messages: commands of one shape are alike but for those."""
    body = _MARK.ljust(size_bytes, b"\0")
    command = nsq.pub(topic, body) if count == 1 else nsq.mpub(topic, [body] * count)
    return command.split(_MARK)
