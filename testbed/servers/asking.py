"""A node's questions to a deployed limiter: HTTP/1.1 over a pool of connections that stay, or Redis' protocol over one.

See ``testbed.nodes.planes`` and ``systems.limiting.deployed``: what is asked, and what an answer means, is the node's.
"""

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis
import httptools

from core.errors import MachineError
from core.reading import reading
from systems.limiting.deployed import Answered, Ask, HttpAnswer
from testbed.hosts.loop import Loop
from testbed.nodes.planes import Plane, ServerAt, Surroundings
from testbed.nodes.sockets import LoopSocket
from testbed.servers.wire_plane import REDIAL_NS, WirePlane

MOST_CONNECTIONS = 256  # ours: of one node; what is asked beyond that waits its turn
_MANY = re.compile(rb"[*$%~>!=|]\+?[0-9]{7}")  # no answer to a limiter's question is as long
Report = Callable[[object], None]
Count = Callable[[bytes], None]


# --- HTTP/1.1 ------------------------------------------------------------------------------------


class _HttpLink(LoopSocket):
    """A connection that is asked one thing at a time; ``told(link, question, answer)``: None where it broke first."""

    def __init__(self, loop: Loop, at: ServerAt, told: Callable[["_HttpLink", Ask, HttpAnswer | None], None]):
        self.question: Ask | None = None
        self._told, self._body = told, b""
        self._parser: Any = httptools.HttpResponseParser(self)
        super().__init__(loop, (at.address, at.port))
        self.on_close = self._broken

    def ask(self, question: Ask) -> None:
        """Ask, if nothing else is."""
        assert self.question is None
        self.question = question
        self.write(question.content)

    def on_body(self, body: bytes) -> None:
        """The parser's: a part of an answer."""
        self._body += body

    def on_message_complete(self) -> None:
        """The parser's: the answer is whole."""
        answer, self._body = HttpAnswer(self._parser.get_status_code(), self._body), b""
        if not self._parser.should_keep_alive():
            self.close()
        self._tell(answer)

    def _take(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(str(error))

    def _broken(self, why: str) -> None:
        self._tell(None)

    def _tell(self, answer: HttpAnswer | None) -> None:
        question, self.question = self.question, None
        if question is not None:  # it may hang up while nothing is asked
            self._told(self, question, answer)


class HttpPlane(Plane):
    """As many connections as questions are under way, and as greetings are said before the run."""

    def __init__(self, loop: Loop, at: ServerAt, report: Report, count_sent: Count):
        self._loop, self._at, self._report, self._count_sent = loop, at, report, count_sent
        self._idle: list[_HttpLink] = []
        self._waiting: deque[Ask] = deque()
        self._open_count = 0
        self._to_greet = set(range(-len(at.greeting), 0))  # numbers that no request has
        for number, content in zip(sorted(self._to_greet), at.greeting, strict=True):
            self._put(Ask(number, content))

    def ready(self) -> bool:
        """Whether all greetings are answered."""
        return not self._to_greet

    def actuate(self, command: Any) -> None:
        """Ask, over a connection that nobody waits at."""
        self._count_sent(command.content)
        self._put(command)

    def _put(self, question: Ask) -> None:
        while self._idle:
            link = self._idle.pop()
            if not link.is_closed:
                link.ask(question)
                return
            self._open_count -= 1
        if self._open_count >= MOST_CONNECTIONS:
            self._waiting.append(question)
            return
        self._open_count += 1
        _HttpLink(self._loop, self._at, self._told).ask(question)

    def _told(self, link: _HttpLink, question: Ask, answer: HttpAnswer | None) -> None:
        if link.is_closed:
            self._open_count -= 1
        else:
            self._idle.append(link)
        if question.request_id >= 0:
            self._report(Answered(question.request_id, answer))
        elif answer is not None:
            self._to_greet.discard(question.request_id)
        else:
            self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._put, question)
        if self._waiting:
            self._put(self._waiting.popleft())


def http_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> HttpPlane:
    """What carries a node's questions to the only server that it is told of."""
    (at,) = around.servers.values()
    return HttpPlane(loop, at, report, count_sent)


# --- Redis' protocol -----------------------------------------------------------------------------


class RespWire:
    """See ``testbed.servers.wire_plane.Wire``."""

    def __init__(self, at: ServerAt):
        self._greeting = at.greeting
        self._reader = hiredis.Reader()
        self._asked: deque[int | None] = deque()  # request ids, oldest first; None: a greeting
        self._to_greet = len(at.greeting)

    def hello(self) -> bytes:
        """The greetings, in order."""
        self._asked += [None] * self._to_greet
        return b"".join(self._greeting)

    def is_ready(self) -> bool:
        """Whether each was answered, and by no error."""
        return not self._to_greet

    def ask(self, command: Ask) -> bytes:
        """A question, as it is."""
        self._asked.append(command.request_id)
        return command.content

    def take(self, content: bytes) -> list[Answered]:
        """Answers, in the order of the questions."""
        reports = []
        with reading(f"the server answers {content[:60]!r}", "see its log", MachineError):
            if _MANY.search(content):  # its reader would make room for all of them at once
                raise ValueError("millions of elements")
            self._reader.feed(content)
            while (answer := self._reader.gets()) is not False:
                request_id = self._asked.popleft()
                if request_id is not None:
                    reports.append(Answered(request_id, answer))
                elif not isinstance(answer, hiredis.ReplyError):
                    self._to_greet -= 1
        return reports


def resp_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> WirePlane:
    """What carries a node's questions to the only server that it is told of, many under way at once."""
    (at,) = around.servers.values()
    return WirePlane(loop, at, lambda: RespWire(at), report, count_sent)
