"""One window of the schedule as a publisher process sends it: every command made beforehand, and what became of it."""

from array import array
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.records import Block
from testbed.brokers import nsq
from testbed.trust.accounts import ABSENT

BODY_BYTES_MINIMUM = nsq.HEADER.size
_BYTES_AT_ONCE = 200_000  # NumPy keeps the interpreter while it fills them: short, for the pacing thread's sake
_HEADER = np.dtype([("message", ">i8"), ("publisher", ">i4"), ("tag", ">i4"), ("intended_at_ns", ">i8")])


def save_block(path: Path, block: Block) -> None:
    """Write a block for ``load`` commands."""
    size_bytes = np.asarray(block.size_bytes, np.int32)
    with path.open("wb") as file:
        np.savez(file, at_ns=block.at_ns, publisher=block.publisher, count=block.count, size_bytes=size_bytes)


def read_block(path: Path) -> Block:
    """Read what ``save_block`` wrote."""
    with np.load(path) as columns:
        size_bytes = columns["size_bytes"]
        sizes: int | NDArray[np.int32] = size_bytes if size_bytes.ndim else int(size_bytes)
        return Block(columns["at_ns"], columns["publisher"], columns["count"], sizes)


class Load:
    """The emissions of one block that belong to this process' publishers, as commands and records.

    Messages are numbered over the whole block in its canonical order, whoever sends them.  A message
    smaller than the header is sent with the header's size.  ``epoch_ns``: CLOCK_REALTIME of the
    schedule's instant 0.  Arrays have one entry an emission; an emission is one command, one write.
    """

    def __init__(self, block: Block, topic: str, epoch_ns: int, mine: Collection[int], tag: int = 0):
        self.topic, self.tag = topic, tag
        chosen = _belongs(block.publisher, mine)
        first = np.cumsum(block.count, dtype=np.int64) - block.count
        sizes = np.broadcast_to(np.asarray(block.size_bytes, np.int64), block.at_ns.shape)
        self._first, self._messages = first[chosen], block.count[chosen].astype(np.int64)
        size_bytes = np.maximum(sizes[chosen], BODY_BYTES_MINIMUM)
        at_ns = block.at_ns[chosen] + epoch_ns
        publisher = block.publisher[chosen]
        self.count = len(at_ns)
        self.message_count = int(self._messages.sum())
        # Lists of the standard library: a single entry of a NumPy array is several times slower to reach.
        self.at_ns, self.publisher = array("q", at_ns.tobytes()), array("i", publisher.tobytes())
        self.sent_at_ns, self.acknowledged_at_ns = self._absent(), self._absent()
        self.broker = self._absent()  # index in the process' list of addresses
        self.next = 0  # the first emission that is not due yet
        self.waiting_count = self.in_flight_count = 0  # emissions that are due, not written; written, not answered
        self.ended = False  # nothing of it will be sent any more
        self._view = self._commands(at_ns, publisher, size_bytes).data

    def frame(self, index: int) -> memoryview:
        """The bytes of an emission's command."""
        return self._view[self._begin[index] : self._begin[index + 1]]

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

    def _absent(self) -> "array[int]":
        return array("q", np.full(self.count, ABSENT, np.int64).tobytes())

    def _commands(
        self, at_ns: NDArray[np.int64], publisher: NDArray[np.int32], size_bytes: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """All commands, one after another; sets ``_begin``, where each begins (and the last ends).

        Commands of one shape (messages, size) are copies of one template with other headers.
        """
        shapes, shape_of = _shapes(self._messages << 32 | size_bytes)
        templates = [_template(self.topic, shape >> 32, shape & 0xFFFF_FFFF) for shape in shapes]
        lengths = np.array([len(template) for template, _ in templates], np.int64)
        begin = np.zeros(self.count + 1, np.int64)
        np.cumsum(lengths[shape_of], out=begin[1:])
        self._begin = array("q", begin.tobytes())
        out = np.empty(int(begin[-1]), np.uint8)
        order = np.argsort(shape_of, kind="stable")
        edges = np.searchsorted(shape_of[order], np.arange(len(shapes) + 1))
        for (template, bodies), low, high in zip(templates, edges[:-1], edges[1:], strict=True):
            length, one = len(template), np.frombuffer(template, np.uint8)
            rows_at_once = max(1, _BYTES_AT_ONCE // length)
            for start in range(int(low), int(high), rows_at_once):
                chosen = order[start : min(start + rows_at_once, int(high))]
                header = np.empty((len(chosen), len(bodies)), _HEADER)
                header["message"] = self._first[chosen, None] + np.arange(len(bodies))
                header["publisher"], header["tag"] = publisher[chosen, None], self.tag
                header["intended_at_ns"] = at_ns[chosen, None]
                raw = header.view(np.uint8).reshape(len(chosen), len(bodies), _HEADER.itemsize)
                rows = np.tile(one, (len(chosen), 1))
                rows[:, bodies[:, None] + np.arange(_HEADER.itemsize)] = raw
                if len(shapes) == 1:
                    out[begin[start] : begin[start] + rows.size] = rows.reshape(-1)
                elif rows_at_once == 1:
                    out[begin[chosen[0]] : begin[chosen[0]] + length] = rows[0]
                else:
                    out[begin[chosen, None] + np.arange(length)] = rows
        return out


def _belongs(publisher: NDArray[np.int32], mine: Collection[int]) -> NDArray[np.bool_]:
    """Which of the rows are of the publishers ``mine``: by a table, since sorting would take long."""
    is_mine = np.zeros(max(int(publisher.max(initial=0)), *mine, 0) + 1, bool)
    is_mine[list(mine)] = True
    return is_mine[publisher]


def _shapes(shape: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """The different ones, and which of them each row has; usually all are alike."""
    if len(shape) and (shape == shape[0]).all():
        return [int(shape[0])], np.zeros(len(shape), np.int64)
    different, number = np.unique(shape, return_inverse=True)
    return different.tolist(), number


def _template(topic: str, count: int, size: int) -> tuple[bytes, NDArray[np.int64]]:
    """A command with empty messages, and where in it each body begins."""
    body = bytes(size)
    command = nsq.pub(topic, body) if count == 1 else nsq.mpub(topic, [body] * count)
    return command, len(command) - size - (size + 4) * np.arange(count - 1, -1, -1)
