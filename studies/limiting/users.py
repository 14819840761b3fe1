"""The agent that stands for the users of a host's nodes: open-loop requests at their instants, and the verdicts.

    python -m studies.limiting.users

Commands, in order: ``configure``, ``go``; then ``status`` and ``collect``.  Each node has one connection, on its own
host.  Requests at a node that is down are lost: they are not sent later.  Instants are of the true clock.
"""

import gc
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from core.records import Request
from systems.api import Verdict
from testbed.hosts.loop import Clock, Loop, serve_in
from testbed.nodes.frames import FrameSocket, Hello, read_request, read_verdict, request_frame

NEVER = -1  # in the columns: an instant that did not come
_NO_VERDICT = NEVER, NEVER, False, False
_TOGETHER = 16  # requests sent at most before the loop looks at its sockets


def write_requests(path: Path, requests: Sequence[Request]) -> None:
    """The file that ``configure`` reads: a list of frames."""
    path.write_bytes(msgspec.msgpack.encode([request_frame(request) for request in requests]))


@dataclass
class _Users:
    address: tuple[str, int]
    frames: list[bytes]
    ids: list[int]
    at_ns: list[int]
    sent_at_ns: list[int] = field(default_factory=list)
    verdicts: dict[int, tuple[int, int, bool, bool]] = field(default_factory=dict)  # id -> the last four of a row
    connection: FrameSocket | None = None


class RequestHost:
    """Sends and listens."""

    def __init__(self) -> None:
        self.loop = Loop()
        self._clock: Clock
        self._hello = b""
        self._users: list[_Users] = []

    def configure(self, token: str, nodes: dict[str, tuple[str, int, str]]) -> None:
        """``nodes``: name -> address, port, file of requests.  Connects to all of them."""
        self._hello = msgspec.json.encode(Hello(token))
        for address, port, path in nodes.values():
            frames = msgspec.msgpack.decode(Path(path).read_bytes(), type=list[bytes])
            requests = [read_request(frame) for frame in frames]
            users = _Users((address, port), frames, [r.id for r in requests], [r.at_ns for r in requests])
            self._users.append(users)
            if not self._reach(users):
                raise ConnectionError(f"nobody listens at {address}:{port}")
        gc.collect()
        gc.freeze()

    def go(self, epoch_ns: int) -> None:
        """Send each request at its instant after the epoch."""
        self._clock = Clock(epoch_ns)
        for users in self._users:
            self._plan(users)

    def status(self) -> dict[str, int]:
        """How many requests are to come."""
        return {"to_come_count": sum(len(users.at_ns) - len(users.sent_at_ns) for users in self._users)}

    def collect(self, path: str) -> None:
        """Write int64 rows: id, instants sent, received, decided (``NEVER``: not at all), admitted, unanswered."""
        rows = []
        for users in self._users:
            for number, request_id in enumerate(users.ids):
                sent_ns = users.sent_at_ns[number] if number < len(users.sent_at_ns) else NEVER
                rows.append((request_id, sent_ns, *users.verdicts.get(request_id, _NO_VERDICT)))
        columns = np.array(rows, np.int64).reshape(-1, 6)
        with open(f"{path}.part", "wb") as file:
            np.savez(file, rows=columns)
        os.replace(f"{path}.part", path)

    def _plan(self, users: _Users) -> None:
        number = len(users.sent_at_ns)
        if number < len(users.at_ns):
            self.loop.call_at(self._clock.zero_ns + users.at_ns[number], self._send_due, users)

    def _send_due(self, users: _Users) -> None:
        for _ in range(_TOGETHER):
            number = len(users.sent_at_ns)
            if number == len(users.at_ns) or users.at_ns[number] > self._clock.now_ns():
                break
            users.sent_at_ns.append(self._send(users, users.frames[number]))
        self._plan(users)

    def _send(self, users: _Users, frame: bytes) -> int:
        if users.connection is None:
            self._reach(users)
        if users.connection is None:
            return NEVER
        now_ns = self._clock.now_ns()
        users.connection.send(frame)
        return now_ns

    def _reach(self, users: _Users) -> bool:
        """Connect to the node.  Both ends are on one host, so that the answer comes at once."""
        try:
            sock = socket.create_connection(users.address, timeout=1.0)
        except OSError:
            return False

        def gone(_: str) -> None:
            users.connection = None

        users.connection = FrameSocket(self.loop, sock)
        users.connection.on_frame, users.connection.on_close = (lambda frame: self._hear(users, frame)), gone
        users.connection.send(self._hello)  # a node that is being killed may have accepted: soon it is gone again
        return True

    def _hear(self, users: _Users, frame: bytes) -> None:
        received_ns = self._clock.now_ns()
        number, decided_ns, verdict, unanswered = read_verdict(frame)
        users.verdicts[number] = received_ns, decided_ns, verdict is Verdict.ADMIT, unanswered


def main() -> None:
    """Run until standard input ends."""
    host = RequestHost()
    names = ("configure", "go", "status", "collect")
    serve_in(host.loop, {name: getattr(host, name) for name in names})


if __name__ == "__main__":
    main()
