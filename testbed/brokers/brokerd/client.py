"""The harness' side of a broker's control port (README.md lists the commands)."""

import json
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from core.errors import MachineError
from core.reading import reading
from core.records import Envelope, Int64, Json
from systems.parts import token_bucket

COLUMNS = ("message", "publisher", "stamp_ns", "arrived_at_ns", "read_at_ns", "released_at_ns")
TIMEOUT_S = 20.0


def read_rows(path: Path, row_count: int, offset_ns: int = 0) -> dict[str, Int64]:
    """The columns of a file of rows that a broker wrote, whose clock was ahead of ours by ``offset_ns``.

    Instants are CLOCK_REALTIME; ``released_at_ns`` is 0 for a message that still waits.  Rows are in the order in
    which the messages took their tokens.
    """
    table = np.fromfile(path, "<i8").reshape(-1, len(COLUMNS))
    assert len(table) == row_count, "the broker says how many it wrote"
    rows = {name: table[:, i] for i, name in enumerate(COLUMNS)}
    if offset_ns:
        rows |= {name: np.where(rows[name] == 0, 0, rows[name] - offset_ns) for name in COLUMNS[2:]}
    return rows


class _Answer(Json):
    """What the broker says; MachineError where it leaves out what it was asked for."""

    def __missing__(self, name: str) -> object:
        raise MachineError(f"the broker answers without {name!r}", "is it of another version? see its log")


class BrokerGone(MachineError):
    """The broker has closed the connection, or does not answer."""


class BrokerClient:
    """Commands over a connection to the control port.  MachineError: it refused; BrokerGone: it is not there."""

    def __init__(self, connection: socket.socket, token: str):
        self._socket = connection
        self._socket.settimeout(TIMEOUT_S)
        self._lines = connection.makefile("rb")
        self._exchange("token", {"token": token})

    def close(self) -> None:
        """Close the connection; the broker stays as it is."""
        self._lines.close()
        self._socket.close()

    def acquire(self, topic: str) -> None:
        """Make a topic, without a limit, and its channel ``sub``."""
        self._ask("acquire", topic=topic)

    def release(self, topic: str, target: str = "", limit_ns: int = 5 * 10**9) -> int:
        """Send the topic's publishers away, deliver what waits, delete it.

        Returns how many messages no subscriber had finished within the limit: they are lost.
        """
        unfinished: int = self._ask("release", topic=topic, target=target, limit_ns=limit_ns)["unfinished_count"]
        return unfinished

    def set_bucket(self, topic: str, envelope: Envelope | None, full: bool = False) -> None:
        """Give the topic a new bucket (None = no limit): full, or with the tokens it has, cut to its size."""
        rate, capacity = (None, 0) if envelope is None else token_bucket.units(envelope)
        self._ask("set_bucket", topic=topic, rate=rate, capacity=capacity, full=full)

    def report(self) -> dict[str, dict[str, int]]:
        """Of each topic, since this connection's last report (README.md has the keys)."""
        topics: dict[str, dict[str, int]] = self._ask("report")["topics"]
        return topics

    def move(self, topic: str, publishers: Sequence[int] | None, target: str) -> Json:
        """Send publishers (None = all) to another broker's ingress: counts of told and closed, and who was missing."""
        numbers = None if publishers is None else [int(number) for number in publishers]
        return self._ask("move", topic=topic, publishers=numbers, target=target)

    def record(self, topic: str, rows: int) -> None:
        """Keep a row of each message from now on, at most so many; 0 = no more."""
        self._ask("record", topic=topic, on=rows > 0, rows=rows)

    def write_rows(self, path: str, topic: str = "") -> tuple[int, int]:
        """Let the broker write the rows of a topic, or of all, to a file of its machine; see ``read_rows``.

        Returns how many they are, and how many messages had no room.
        """
        answer = self._ask("collect", path=path, topic=topic)
        return answer["rows"], answer["dropped_rows"]

    def open(self, topic: str, channels: Sequence[str] = ()) -> None:
        """Let a topic accept messages from now on; each of ``channels`` gets them from the first on.

        Of one that is open, add the channels.
        """
        self._ask("open", topic=topic, channels=list(channels))

    def fence(self, topic: str) -> None:
        """Let a topic accept no message any more (publishers are answered E_FENCED); what it has, it delivers."""
        self._ask("fence", topic=topic)

    def leave(self, topic: str, channels: Sequence[str]) -> None:
        """Delete channels of a topic."""
        self._ask("leave", topic=topic, channels=list(channels))

    def queues(self) -> dict[str, dict[str, int]]:
        """What the broker holds of each topic (README.md has the keys); ``drained``: fenced, and all delivered."""
        topics: dict[str, dict[str, int]] = self._ask("queues")["topics"]
        return topics

    def stats(self) -> dict[str, int]:
        """Counters of the process, since its start."""
        answer = self._ask("stats")
        return {name: value for name, value in answer.items() if name != "ok"}

    def _ask(self, command: str, **arguments: object) -> Json:
        return self._exchange(command, {"do": command, **arguments})

    def _exchange(self, command: str, request: Json) -> Json:
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._lines.readline()
        except OSError as error:
            raise BrokerGone(f"broker, {command}: {error}", "see its log") from None
        if not line.endswith(b"\n"):
            raise BrokerGone(f"broker, {command}: it has closed the connection", "see its log")
        with reading(f"broker, {command}: it answers {line[:60]!r}", "see its log", MachineError):
            answer = _Answer(msgspec.json.decode(line, type=Json))
        if "error" in answer:
            raise MachineError(f"broker, {command}: {answer['error']}", "see its log")
        return answer
