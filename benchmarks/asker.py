"""Questions to a deployed limiter over plain sockets, as many as one process can ask: for ``benchmarks.deployed``."""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

from core.errors import MachineError
from systems.parts.wires import HttpReader, RespReader
from testbed.nodes.planes import ServerAt

ADMITTED, REJECTED, ERROR = 1, 0, 2  # ERROR: no answer, or none that is a verdict
LAST_S = 5.0  # for the last answers
_ANSWER_S = 10.0  # to a greeting
_PART_BYTES = 1 << 16


class _Link:
    def __init__(self, at: ServerAt, wire: str):
        self.asked, self.reader = deque[int](), HttpReader() if wire == "http" else RespReader()
        self.socket = socket.create_connection((at.address, at.port), _ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Asker:
    """Asks a server over connections that stay, at most ``depth`` questions at a time on each.

    ``greetings``: as nodes say them, each on one connection, or by Redis' protocol all on every one.
    """

    def __init__(self, at: ServerAt, wire: str, connections: int, depth: int):
        self.depth, self._poll, self._opened = depth, select.epoll(), ExitStack()
        self._opened.callback(self._poll.close)
        self._links: dict[int, _Link] = {}
        self.free: list[_Link] = []  # those with room
        for number in range(connections):
            link = _Link(at, wire)
            self._opened.callback(link.socket.close)
            for greeting in at.greeting if wire == "resp" else at.greeting[number::connections]:
                link.socket.sendall(greeting)
                while not (answers := link.reader.take(_received(link))):
                    pass
                if isinstance(answers[0], Exception):
                    raise MachineError(f"the server refuses a greeting: {answers[0]}", "see its log")
            self._links[link.socket.fileno()] = link
            self._poll.register(link.socket, select.EPOLLIN)
            self.free.append(link)

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    @property
    def under_way(self) -> int:
        """How many questions are not answered yet."""
        return sum(len(link.asked) for link in self._links.values())

    @property
    def room(self) -> int:
        """For how many questions there is room on the connection that is next."""
        return self.depth - len(self.free[-1].asked) if self.free else 0

    def ask(self, numbers: Sequence[int], contents: Sequence[bytes]) -> None:
        """Send questions, at most ``room`` of them; ``numbers``: by which ``answers`` names them."""
        link = self.free[-1]
        link.asked.extend(numbers)
        if len(link.asked) >= self.depth:
            self.free.pop()
        link.socket.sendall(contents[0] if len(contents) == 1 else b"".join(contents))

    def answers(self, timeout_s: float) -> Iterator[tuple[int, Any, int]]:
        """What has come: the question's number, the answer, when (of ``time.perf_counter_ns``)."""
        for descriptor, _ in self._poll.poll(timeout_s):
            link = self._links[descriptor]
            data = _received(link)
            at_ns, was_full = time.perf_counter_ns(), len(link.asked) >= self.depth
            for answer in link.reader.take(data):
                yield link.asked.popleft(), answer, at_ns
            if was_full and len(link.asked) < self.depth:
                self.free.append(link)


def _received(link: _Link) -> bytes:
    data = link.socket.recv(_PART_BYTES)
    if not data:
        raise MachineError("the server hangs up", "see its log")
    return data


def warm(asker: Asker, questions: Iterator[bytes], verdict: Callable[[Any], bool | None], limit_s: float) -> None:
    """Ask for nothing; MachineError where an answer is still to come, which would be taken for one to what follows."""
    ask_all(asker, questions, verdict, limit_s)
    if asker.under_way:
        raise MachineError(f"{asker.under_way} questions are not answered within {LAST_S:g} s", "see the server's log")


def ask_all(
    asker: Asker, questions: Iterator[bytes], verdict: Callable[[Any], bool | None], limit_s: float
) -> bytearray:
    """Ask as fast as answers come, for at most ``limit_s``: the verdicts, in the order of the questions."""
    verdicts, until_s, waiting = bytearray(), time.monotonic() + limit_s, 0
    while True:
        while asker.free and time.monotonic() < until_s:
            contents = list(islice(questions, asker.room))
            if not contents:
                break
            asker.ask(range(len(verdicts), len(verdicts) + len(contents)), contents)
            verdicts.extend([ERROR] * len(contents))
            waiting += len(contents)
        if not waiting or time.monotonic() > until_s + LAST_S:
            return verdicts
        for number, answer, _ in asker.answers(0.1):
            waiting -= 1
            said = verdict(answer)
            if said is not None:
                verdicts[number] = ADMITTED if said else REJECTED
