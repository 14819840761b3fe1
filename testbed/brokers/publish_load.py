"""One window of the schedule as a publisher process sends it: every command made beforehand, and what became of it."""

from array import array
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from core.records import Block, Int32, Int64
from testbed.brokers import nsq
from testbed.trust.accounts import ABSENT

BODY_BYTES_MINIMUM = nsq.HEADER.size
_AT_ONCE = 8_192  # emissions: NumPy keeps the interpreter while it fills them: short, for the pacing thread's sake
_HEADER = np.dtype([("message", ">i8"), ("publisher", ">i4"), ("tag", ">i4"), ("at_ns", ">i8")])  # nsq.HEADER


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
        self.count, self.message_count = len(at_ns), int(self._messages.sum())
        # Arrays of the standard library: a single entry of a NumPy array is several times slower to reach.
        self.at_ns, self.publisher = array("q", at_ns.tobytes()), array("i", publisher.tobytes())
        absent = array("q", [ABSENT]) * self.count
        self.sent_at_ns, self.acknowledged_at_ns = absent[:], absent[:]
        self.broker = absent  # index in the process' list of addresses
        self.next = 0  # the first emission that is not due yet
        self.waiting_count = self.in_flight_count = 0  # emissions that are due, not written; written, not answered
        self.ended = False  # nothing of it will be sent any more
        self._fill(topic, at_ns, publisher, np.maximum(sizes[chosen], BODY_BYTES_MINIMUM))

    def frame(self, index: int) -> memoryview:
        """An emission's command: its messages, each a header and zeros."""
        commands, size = self._commands[self._group_of[index]]
        begin = self._row_of[index] * size
        return commands[begin : begin + size]

    def columns(self) -> dict[str, Int64]:
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

    def _fill(self, topic: str, at_ns: Int64, publisher: Int32, size_bytes: Int64) -> None:
        """Make all commands, some of one shape (messages, size) at a time: they are alike but for their headers."""
        shape = self._messages << 32 | size_bytes
        order = np.argsort(shape, kind="stable")
        group_of, row_of = np.empty(self.count, np.int64), np.empty(self.count, np.int64)
        self._commands: list[tuple[memoryview, int]] = []  # of some emissions of one shape, end to end; bytes of each
        edges = np.union1d(np.flatnonzero(np.diff(shape[order])) + 1, np.arange(_AT_ONCE, self.count, _AT_ONCE))
        for alike in np.split(order, edges) if self.count else ():
            count, size = int(self._messages[alike[0]]), int(size_bytes[alike[0]])
            body = bytes(size)
            command = nsq.pub(topic, body) if count == 1 else nsq.mpub(topic, [body] * count)
            rows = np.empty((len(alike), len(command)), np.uint8)
            rows[:] = np.frombuffer(command, np.uint8)
            strides, first_at = (len(command), size + 4), len(command) - count * (size + 4) + 4
            headers = np.ndarray((len(alike), count), _HEADER, rows, first_at, strides)
            headers["message"] = self._first[alike, None] + np.arange(count)
            headers["publisher"], headers["tag"] = publisher[alike, None], self.tag
            headers["at_ns"] = at_ns[alike, None]
            group_of[alike], row_of[alike] = len(self._commands), np.arange(len(alike))
            self._commands.append((rows.reshape(-1).data, len(command)))
        self._group_of, self._row_of = array("q", group_of.tobytes()), array("q", row_of.tobytes())
