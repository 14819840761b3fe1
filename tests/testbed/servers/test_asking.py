"""A node's questions over real sockets: pools that grow, answers in pieces, servers that go and come back."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import hiredis
import pytest

from core.errors import MachineError
from core.units import MILLISECOND_NS
from systems.limiting.deployed import Answered, Ask, HttpAnswer
from systems.parts.wires import HttpReader, RespReader, http, resp
from testbed.hosts.loop import Loop
from testbed.nodes.planes import ServerAt, Surroundings
from testbed.servers.asking import AskingPlane, http_plane, resp_plane

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
YES = HttpAnswer(200, b"ok")


class WebWords:
    """Questions by HTTP without a body: their paths."""

    def __init__(self) -> None:
        self.rest = b""

    def take(self, data: bytes) -> list[str]:
        *heads, self.rest = (self.rest + data).split(b"\r\n\r\n")
        return [head.split()[1].decode() for head in heads]


class RedisWords(RespReader):
    """Commands, in words."""

    def take(self, data: bytes) -> list[str]:
        return [b" ".join(words).decode() for words in super().take(data)]


class Peer:
    """A server whose every word a test has chosen: ``answer(question) -> parts`` to send, None to hang up."""

    def __init__(
        self,
        answer: Callable[[str], Sequence[bytes] | None],
        words: Callable[[], Any] = WebWords,
        bound: socket.socket | None = None,
    ):
        self.answer, self.words = answer, words
        self.heard: list[tuple[int, str]] = []  # number of the connection, question
        self.connections: list[socket.socket] = []
        self._socket = bound or nobody()
        self._socket.listen()
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for sock in (self._socket, *self.connections):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._socket.accept()
                self.connections.append(sock)
                threading.Thread(target=self._serve, args=(sock, len(self.connections)), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        words = self.words()
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := sock.recv(1 << 16):
                for question in words.take(data):
                    self.heard.append((number, question))
                    parts = self.answer(question)
                    if parts is None:
                        sock.shutdown(socket.SHUT_RDWR)
                        return
                    for part in parts:
                        sock.sendall(part)
                        time.sleep(0.002)


def nobody() -> socket.socket:
    """A place at which nobody listens yet, and that nobody else can take."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


@contextmanager
def peer(answer: Callable[[str], Sequence[bytes] | None], **options: Any) -> Iterator[Peer]:
    made = Peer(answer, **options)
    try:
        yield made
    finally:
        made.close()


class Node:
    """A plane in a loop of its own, and what it reports."""

    def __init__(self, make: Callable[..., AskingPlane], port: int, greeting: Sequence[bytes] = ()):
        self.loop, self.said, self.sent = Loop(), dict[int, Any](), list[bytes]()
        around = Surroundings("n1", {"limiter": ServerAt("127.0.0.1", port, greeting=tuple(greeting))})
        self.plane = make(self.loop, around, self._hear, self.sent.append)

    def _hear(self, report: Any) -> None:
        assert isinstance(report, Answered) and report.request_id not in self.said
        self.said[report.request_id] = report.answer

    def ask(self, *numbers: int) -> None:
        for number in numbers:
            self.plane.actuate(Ask(number, http(f"/{number}")))

    def give_up(self, *numbers: int) -> None:
        for number in numbers:
            self.plane.actuate(Ask(number, b""))

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Until it has held once: what else is due may change that before the loop has stopped."""
        until_s, has_held = time.monotonic() + seconds, False

        def look() -> None:
            nonlocal has_held
            has_held = condition()
            if has_held or time.monotonic() > until_s:
                self.loop.stop()
            else:
                self.loop.call_at(time.monotonic_ns() + MILLISECOND_NS, look)

        self.loop._running = True
        self.loop.call_at(time.monotonic_ns(), look)
        self.loop.run()
        assert has_held, "it did not happen in time"

    def answers(self, *numbers: int) -> list[Any]:
        self.until(lambda: self.said.keys() >= set(numbers))
        return [self.said[number] for number in numbers]


class Gate:
    """Answers once it is open."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, question: str) -> list[bytes]:
        assert self.opened.wait(60)
        return [OK]


# --- HTTP --------------------------------------------------------------------------------------------------------


def test_a_pool_has_as_many_connections_as_questions_are_under_way() -> None:
    gate = Gate()
    with peer(gate) as web:
        node = Node(http_plane, web.port)
        assert node.plane.ready() and not web.connections, "without a greeting it waits for the first question"
        node.ask(1, 2, 3, 4, 5)
        node.until(lambda: len(web.heard) == 5)
        assert len({number for number, _ in web.heard}) == 5 and not node.said
        gate.opened.set()
        assert node.answers(1, 2, 3, 4, 5) == [YES] * 5
        for number in range(6, 20):
            node.ask(number)
            assert node.answers(number) == [YES]
        assert len(web.connections) == 5, "they stay"
    assert node.sent == [http(f"/{number}") for number in range(1, 20)]


def test_questions_beyond_the_most_connections_wait_their_turn() -> None:
    gate = Gate()
    with peer(gate) as web:
        node = Node(partial(AskingPlane, HttpReader, 3), web.port)
        node.ask(*range(12))
        node.until(lambda: len(web.heard) == 3)
        gate.opened.set()
        assert node.answers(*range(12)) == [YES] * 12
        assert len(web.connections) == 3
        order = [(number, int(question[1:])) for number, question in web.heard]
        assert {question for _, question in order[:3]} == {0, 1, 2} and len(order) == 12
        for connection in (1, 2, 3):  # each hears those that have waited longest
            heard = [question for number, question in order if number == connection]
            assert heard == sorted(heard)
    assert http_plane.args == (HttpReader, 256)


def test_what_nobody_waits_for_is_not_sent_and_ends_the_connection_on_which_it_is_under_way() -> None:
    gate = Gate()
    with peer(lambda question: gate(question) if question in ("/0", "/1") else [OK]) as web:
        node = Node(partial(AskingPlane, HttpReader, 2), web.port)
        node.ask(0, 1, 2, 3, 4)
        node.until(lambda: len(web.heard) == 2)
        node.give_up(2, 0)  # one that waits, one that is under way
        assert node.answers(3, 4) == [YES] * 2, "one connection is theirs"
        gate.opened.set()
        assert node.answers(1) == [YES]
        node.give_up(1, 3, 77)  # answered, or never asked
        node.ask(5)
        assert node.answers(5) == [YES] and len(web.connections) == 3
        assert sorted(question for _, question in web.heard) == ["/0", "/1", "/3", "/4", "/5"]
    assert node.said.keys() == {1, 3, 4, 5} and len(node.sent) == 6


CHUNKED = b"HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nnot\r\n4\r\n now\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ([OK[:10], OK[10:-1], OK[-1:]], YES),
        ([bytes([byte]) for byte in CHUNKED], HttpAnswer(429, b"not now")),
        ([CHUNKED], HttpAnswer(429, b"not now")),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], HttpAnswer(204, b"")),
    ],
)
def test_an_answer_may_come_in_pieces(parts: list[bytes], answer: HttpAnswer) -> None:
    with peer(lambda question: parts) as web:
        node = Node(http_plane, web.port)
        for number in range(3):
            node.ask(number)
            assert node.answers(number) == [answer]
        assert len(web.connections) == 1


@pytest.mark.parametrize(
    "said",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbut"],
        [b"HTTP/1.1 200"],
        [],
    ],
    ids=["in the body", "in the head", "before"],
)
def test_a_connection_that_ends_in_the_middle_is_no_answer(said: list[bytes]) -> None:
    def answer(question: str) -> list[bytes] | None:
        if question == "/2":
            web.connections[-1].sendall(b"".join(said))
            return None
        return [OK]

    with peer(answer) as web:
        node = Node(http_plane, web.port)
        for number, told in ((1, YES), (2, None), (3, YES)):
            node.ask(number)
            assert node.answers(number) == [told]
        assert len(web.connections) == 2, "the next question has a connection of its own"


@pytest.mark.parametrize("garbage", [b"\x00\xff\x00\xff", b"-ERR\r\n", OK + b"garbage", OK + OK])
def test_garbage_is_no_answer_and_ends_the_connection(garbage: bytes) -> None:
    with peer(lambda question: [garbage if question == "/1" else OK]) as web:
        node = Node(http_plane, web.port)
        node.ask(1)
        (first,) = node.answers(1)
        assert first is None or (first == YES and garbage.startswith(OK))
        node.ask(2)
        assert node.answers(2) == [YES] and len(web.connections) == 2


def test_what_nobody_asked_for_is_nobodys_answer() -> None:
    with peer(lambda question: [OK]) as web:
        node = Node(http_plane, web.port)
        node.ask(1)
        node.answers(1)
        web.connections[0].sendall(CHUNKED)
        node.until(lambda: not node.plane._links)
        node.ask(2)
        assert node.answers(2) == [YES]


def test_a_server_that_hangs_up_after_each_answer_is_asked_over_others() -> None:
    with peer(lambda question: [OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)]) as web:
        node = Node(http_plane, web.port)
        for number in range(4):
            node.ask(number)
            assert node.answers(number) == [YES]
        assert len(web.connections) == 4


def test_an_idle_connection_that_ends_is_not_asked() -> None:
    with peer(lambda question: [OK]) as web:
        node = Node(http_plane, web.port)
        node.ask(1)
        node.answers(1)
        web.connections[0].shutdown(socket.SHUT_RDWR)
        node.until(lambda: not node.plane._links)
        node.ask(2)
        assert node.answers(2) == [YES]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The connections that ended, or were refused."""
    links: list[Any] = []
    lose = AskingPlane._lost

    def noted(self: AskingPlane, link: Any) -> None:
        links.append(link)
        lose(self, link)

    monkeypatch.setattr(AskingPlane, "_lost", noted)
    return links


@pytest.mark.parametrize("make", [http_plane, resp_plane])
def test_a_refused_question_is_answered_by_none_at_once_until_the_server_is_back(make: Any, lost: list[Any]) -> None:
    place = nobody()
    node = Node(make, place.getsockname()[1])
    for number in range(5):
        node.ask(number)
        assert node.answers(number) == [None] and len(lost) == number + 1, "it is not tried again"
    is_web = make is http_plane
    with peer(lambda question: [OK if is_web else b":1\r\n"], words=WebWords if is_web else RedisWords, bound=place):
        node.plane.actuate(Ask(9, http("/9") if is_web else resp("PING")))
        assert node.answers(9) == [YES if is_web else 1]


def test_greetings_have_connections_of_their_own_before_the_run() -> None:
    gate = Gate()
    with peer(gate) as web:
        node = Node(http_plane, web.port, [http("/a"), http("/b"), http("/a")])
        node.until(lambda: len(web.heard) == 3)
        assert not node.plane.ready() and sorted(question for _, question in web.heard) == ["/a", "/a", "/b"]
        gate.opened.set()
        node.until(node.plane.ready)
        node.ask(1, 2, 3)
        assert node.answers(1, 2, 3) == [YES] * 3 and len(web.connections) == 3
    assert not node.said.keys() - {1, 2, 3} and len(node.sent) == 3, "they are no questions of the run"


def test_who_is_not_there_yet_is_greeted_again(lost: list[Any]) -> None:
    place = nobody()
    node = Node(http_plane, place.getsockname()[1], [http("/a"), http("/b")])
    node.until(lambda: len(lost) >= 2)
    with peer(lambda question: [OK], bound=place):
        node.until(node.plane.ready)
    assert node.said == {}


def test_a_greeting_is_said_again_until_its_answer_is_no_error() -> None:
    errors = [b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\nno" % status for status in (400, 500, 503)]
    with peer(lambda question: [errors.pop() if question == "/a" and errors else OK]) as web:
        node = Node(http_plane, web.port, [http("/a"), http("/b")])
        node.until(node.plane.ready)
        assert sorted(question for _, question in web.heard) == ["/a", "/a", "/a", "/a", "/b"]
        assert len(web.connections) == 2 and node.said == {} and node.sent == []


@pytest.mark.parametrize("said", [CHUNKED, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"])
def test_who_is_over_the_limit_or_asks_for_nothing_has_been_greeted(said: bytes) -> None:
    with peer(lambda question: [said]) as web:
        node = Node(http_plane, web.port, [http("/a")])
        node.until(node.plane.ready)
        assert [question for _, question in web.heard] == ["/a"]


def test_an_error_of_a_node_is_no_broken_connection() -> None:
    with peer(lambda question: [OK]) as web:
        node = Node(http_plane, web.port)
        node.said[1] = None  # it is told twice
        node.ask(1)
        with pytest.raises(AssertionError, match="request_id"):
            node.until(lambda: False)


# --- Redis' protocol -------------------------------------------------------------------------------------------------

HELLO = [resp("AUTH", "word"), resp("LOAD")]


def redis(question: str) -> list[bytes]:
    """A number is told back, after a while."""
    return [b"+OK\r\n" if question in ("AUTH word", "LOAD") else b":%d\r\n" % int(question)]


def test_one_connection_for_all_survives_who_waits_no_more() -> None:
    gate = Gate()

    def slow(question: str) -> list[bytes]:
        return redis(question) if question == "2" or gate(question) else []

    with peer(slow, words=RedisWords) as server:
        node = Node(resp_plane, server.port)
        for number in (1, 2):
            node.plane.actuate(Ask(number, resp(number)))
        node.give_up(1)
        gate.opened.set()
        assert node.answers(1, 2) == [1, 2] and len(server.connections) == 1


def test_many_questions_are_under_way_over_one_connection_which_begins_with_the_greetings() -> None:
    with peer(redis, words=RedisWords) as server:
        node = Node(resp_plane, server.port, HELLO)
        assert not node.plane.ready()
        for number in range(40):
            node.plane.actuate(Ask(number, resp(7 * number)))
        assert node.answers(*range(40)) == [7 * number for number in range(40)] and node.plane.ready()
        assert [question for _, question in server.heard] == ["AUTH word", "LOAD", *(str(7 * n) for n in range(40))]
        assert len(server.connections) == 1 and len(node.sent) == 40


def test_a_connection_to_redis_that_breaks_is_made_anew_and_greeted_again() -> None:
    with peer(lambda question: None if question == "5" else redis(question), words=RedisWords) as server:
        node = Node(resp_plane, server.port, HELLO)
        for number in (4, 5, 6):
            node.plane.actuate(Ask(number, resp(number)))
        assert node.answers(4, 5, 6) == [4, None, None]
        node.plane.actuate(Ask(7, resp(7)))
        assert node.answers(7) == [7]
        assert [question for number, question in server.heard if number == 2] == ["AUTH word", "LOAD", "7"]


def test_redis_is_greeted_until_it_is_there(lost: list[Any]) -> None:
    place = nobody()
    node = Node(resp_plane, place.getsockname()[1], HELLO)
    node.until(lambda: len(lost) >= 3)
    with peer(redis, words=RedisWords, bound=place) as server:
        node.until(node.plane.ready)
        assert [question for _, question in server.heard] == ["AUTH word", "LOAD"]


def test_nil_answers_a_greeting_as_anything_else_does() -> None:
    with peer(lambda question: [b"$-1\r\n"] if question == "LOAD" else redis(question), words=RedisWords) as server:
        node = Node(resp_plane, server.port, HELLO)
        node.until(node.plane.ready)
        assert [question for _, question in server.heard] == ["AUTH word", "LOAD"]


def test_garbage_of_redis_is_no_answer() -> None:
    with peer(lambda question: [b"?\r\n"] if question == "5" else redis(question), words=RedisWords) as server:
        node = Node(resp_plane, server.port, HELLO)
        node.until(node.plane.ready)
        for number in (5, 6):
            node.plane.actuate(Ask(number, resp(number)))
        assert node.answers(5) == [None]


def test_errors_of_redis_are_answers_but_not_to_a_greeting() -> None:
    with peer(lambda question: redis(question) if question != "5" else [b"-BUSY\r\n"], words=RedisWords) as server:
        node = Node(resp_plane, server.port, HELLO)
        node.plane.actuate(Ask(5, resp(5)))
        (answer,) = node.answers(5)
        assert isinstance(answer, hiredis.ReplyError)
    with peer(lambda question: [b"-ERR no script\r\n"], words=RedisWords) as server:
        node = Node(resp_plane, server.port, HELLO)
        with pytest.raises(MachineError, match="the server refuses what it is asked before the run: ERR no script"):
            node.until(node.plane.ready)
