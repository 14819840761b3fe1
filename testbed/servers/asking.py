"""A node's questions to a deployed limiter, over connections that stay; what they mean is the node's."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from core.errors import MachineError
from systems.limiting.deployed import Answered, Ask
from systems.parts.wires import HttpAnswer, HttpReader, RespReader
from testbed.hosts.loop import Loop
from testbed.nodes.planes import Count, Plane, Report, ServerAt, Surroundings
from testbed.nodes.sockets import LoopSocket, reason
from testbed.servers.wire_plane import REDIAL_NS

MOST_CONNECTIONS = 256  # ours: of one node, by HTTP; what is asked beyond that waits its turn
_ERRORS, _BROKEN = (400, *range(500, 600)), HttpAnswer(503, b"")  # ratelimit's is 400; a connection that ends is one


class _Link(LoopSocket):
    """A connection; its answers are told in the order of the questions."""

    def __init__(self, loop: Loop, at: ServerAt, reader: HttpReader | RespReader, told: Callable[[Ask, Any], None]):
        self.asked, self._reader, self._told = deque[Ask](), reader, told
        super().__init__(loop, (at.address, at.port))

    def ask(self, question: Ask) -> None:
        self.asked.append(question)
        self.write(question.content)

    def _take(self, data: bytes) -> None:
        try:
            answers = self._reader.take(data)
        except ValueError as error:
            self.fail(reason(error))
            return
        pairs = [(self.asked.popleft(), answer) for answer in answers[: len(self.asked)]]
        if self._reader.is_last or len(pairs) < len(answers):
            self.fail("it says too much, or no more")
        for question, answer in pairs:
            self._told(question, answer)


class AskingPlane(Plane):
    """By HTTP, over as many connections as questions are under way, and as greetings are said before the run.

    A question that nobody waits for is not sent any more; if it is under way its connection ends, as clients do it.
    With at ``most`` one connection, all are under way there, and whenever it is made it begins with the greetings.
    """

    def __init__(self, reader: type, most: int, loop: Loop, around: Surroundings, report: Report, count_sent: Count):
        self._reader, self._most, self._loop, self._report, self._count_sent = reader, most, loop, report, count_sent
        (self._at,) = around.servers.values()  # the only server that the node is told of
        self._links, self._waiting = list[_Link](), deque[Ask]()
        greetings = [Ask(number - len(self._at.greeting), said) for number, said in enumerate(self._at.greeting)]
        self._to_greet = {greeting.request_id for greeting in greetings}  # below 0: no request's
        self._first = greetings if most == 1 else []
        for group in [greetings] if most == 1 else [[greeting] for greeting in greetings]:
            self._dial(group)

    def ready(self) -> bool:
        """Whether all greetings are answered, and not by an error."""
        return not self._to_greet

    def actuate(self, command: Any) -> None:
        """Ask, or wait for one's turn; or wait no more."""
        if command.content:
            self._count_sent(command.content)
            self._ask(command)
        elif self._most > 1:
            self._waiting = deque(each for each in self._waiting if each.request_id != command.request_id)
            for link in [each for each in self._links if command.request_id in (of.request_id for of in each.asked)]:
                link.close()
                self._links.remove(link)
            self._ask()

    def _ask(self, *questions: Ask) -> None:
        """These, and before them those that wait, as far as there are connections."""
        self._waiting.extend(questions)
        while self._waiting:
            link = next((each for each in self._links if self._most == 1 or not each.asked), None)
            if link is not None:
                link.ask(self._waiting.popleft())
            elif len(self._links) < self._most:
                self._dial(dict.fromkeys([*self._first, self._waiting.popleft()]))
            else:
                break

    def _dial(self, questions: Iterable[Ask]) -> None:
        link = _Link(self._loop, self._at, self._reader(), self._told)
        link.on_close = lambda why: self._lost(link)
        self._links.append(link)
        for question in questions:
            link.ask(question)

    def _lost(self, link: _Link) -> None:
        self._links.remove(link)
        for question in link.asked:
            self._told(question, None if question.request_id >= 0 else _BROKEN)

    def _told(self, question: Ask, answer: Any) -> None:
        self._ask()
        if question.request_id >= 0:
            self._report(Answered(question.request_id, answer))
        elif isinstance(answer, Exception):
            raise MachineError(f"the server refuses what it is asked before the run: {answer}", "see its log")
        elif isinstance(answer, HttpAnswer) and answer.status in _ERRORS:  # it is not ready yet
            self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._greet, question)
        else:
            self._to_greet.discard(question.request_id)

    def _greet(self, greeting: Ask) -> None:
        if not (self._first and self._links):
            self._ask(greeting)


http_plane = partial(AskingPlane, HttpReader, MOST_CONNECTIONS)
resp_plane = partial(AskingPlane, RespReader, 1)
