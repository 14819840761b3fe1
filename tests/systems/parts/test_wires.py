"""Questions and answers as bytes: written as others read them, and read however they are cut."""

from itertools import pairwise
from typing import Any
from urllib.parse import quote

import hiredis
import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems.parts.wires import HttpAnswer, HttpReader, RespReader, http, resp

WORDS = st.lists(st.text(max_size=9) | st.binary(max_size=9) | st.integers(), min_size=1, max_size=6)
STATUSES = st.sampled_from([200, 204, 304, 404, 429, 500, 503])
SIMPLE = st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=30) | st.none()


class Asked:
    """A request, as a server's parser reads it."""

    def __init__(self, content: bytes):
        self.path, self.body, self.count = "", b"", 0
        self.headers: dict[str, str] = {}
        parser: Any = httptools.HttpRequestParser(self)
        parser.feed_data(content)
        self.method, self.stays = parser.get_method().decode(), parser.should_keep_alive()

    def on_url(self, url: bytes) -> None:
        self.path += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.count += 1


@given(st.text(), st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_a_server_reads_the_questions(user: str, body: str) -> None:
    path = f"/?u={quote(user, safe='', errors='surrogatepass')}"
    asked = Asked(http(path, body, "text/plain"))
    assert (asked.path, asked.body, asked.count, asked.stays) == (path, body.encode(), 1, True)
    assert asked.headers["host"] and asked.method == ("POST" if body else "GET")
    assert asked.headers.get("content-type") == ("text/plain" if body else None)


@given(WORDS)
def test_redis_reads_the_commands(words: list[str | bytes | int]) -> None:
    told = tuple(word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word for word in words)
    assert resp(*words) == hiredis.pack_command(told)  # type: ignore[arg-type]  # its stub knows commands of one word


def cut(content: bytes, places: list[int]) -> list[bytes]:
    """In parts, however they are cut."""
    ends = sorted({0, len(content), *(place % (len(content) + 1) for place in places)})
    return [content[begin:end] for begin, end in pairwise(ends)]


def answered(status: int, body: bytes, is_chunked: bool) -> bytes:
    if status in (204, 304):
        return b"HTTP/1.1 %d x\r\n\r\n" % status
    if is_chunked:
        parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in cut(body, [3]) if part)
        return b"HTTP/1.1 %d x\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % (status, parts)
    return b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


@given(st.lists(st.tuples(STATUSES, st.binary(max_size=40), st.booleans()), max_size=5), st.lists(st.integers(0, 999)))
def test_answers_by_http_are_read_however_they_are_cut(said: list[tuple[int, bytes, bool]], places: list[int]) -> None:
    reader = HttpReader()
    taken = [answer for part in cut(b"".join(answered(*each) for each in said), places) for answer in reader.take(part)]
    assert taken == [HttpAnswer(status, b"" if status in (204, 304) else body) for status, body, _ in said]
    assert not reader.is_last


def packed(answer: object) -> bytes:
    match answer:
        case None:
            return b"$-1\r\n"
        case int(number):
            return b":%d\r\n" % number
        case bytes(text):
            return b"$%d\r\n%b\r\n" % (len(text), text)
        case list(parts):
            return b"*%d\r\n" % len(parts) + b"".join(map(packed, parts))
    raise AssertionError(answer)


@given(st.lists(SIMPLE | st.lists(SIMPLE, max_size=3)), st.lists(st.integers(0, 999)))
def test_answers_of_redis_are_read_however_they_are_cut(said: list[object], places: list[int]) -> None:
    """A nought, a rejection perhaps, is an answer, too."""
    reader = RespReader()
    assert [answer for part in cut(b"".join(map(packed, said)), places) for answer in reader.take(part)] == said
    (error,) = reader.take(b"-NOSCRIPT no such script\r\n")
    assert isinstance(error, hiredis.ReplyError) and not reader.is_last


@pytest.mark.parametrize("close", [b"HTTP/1.1 200 x\r\nConnection: close\r\n", b"HTTP/1.0 200 x\r\n"])
def test_a_server_that_hangs_up_has_said_so(close: bytes) -> None:
    reader = HttpReader()
    assert reader.take(close + b"Content-Length: 1\r\n\r\n1") == [HttpAnswer(200, b"1")] and reader.is_last


@pytest.mark.parametrize(
    ("reader", "garbage"),
    [
        (HttpReader, b"\x00\xff"),
        (HttpReader, b"-ERR\r\n"),
        (HttpReader, b"HTTP/1.1 200 x\r\nContent-Length: many\r\n\r\n"),
        (RespReader, b"HTTP/1.1 200 x\r\n\r\n"),
        (RespReader, b"*99999999\r\n"),
        (RespReader, b"$-7\r\n"),
    ],
)
def test_garbage_is_no_answer(reader: type[HttpReader | RespReader], garbage: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        reader().take(garbage)
