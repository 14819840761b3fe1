"""Two protocols as bytes, questions out and answers in: HTTP/1.1 on a connection that stays, and Redis' own."""

import re
from collections import deque
from typing import Any, NamedTuple

import hiredis
import httptools

_MANY = re.compile(rb"[*$%~>!=|]\+?[0-9]{7}")  # no answer to a limiter's question is as long
_LONGEST = 8  # bytes of that which may have come before the rest


class HttpAnswer(NamedTuple):
    """An answer by HTTP."""

    status: int
    body: bytes


def http(path: str, body: str = "", kind: str = "application/json") -> bytes:
    """A question by HTTP/1.1: GET, or POST of a text."""
    content = body.encode()
    of_body = f"Content-Type: {kind}\r\nContent-Length: {len(content)}\r\n" if content else ""
    head = f"{'POST' if content else 'GET'} {path} HTTP/1.1\r\nHost: ratebed\r\n{of_body}\r\n"
    return head.encode() + content


def resp(*words: str | bytes | int) -> bytes:
    """A command in Redis' protocol."""
    parts = [word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogatepass") for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class HttpReader:
    """What comes over a connection; ``is_last``: after these answers the server hangs up."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._answers, self._body, self.is_last = deque[HttpAnswer](), b"", False

    def take(self, data: bytes) -> list[HttpAnswer]:
        """The answers that are whole with this; ValueError for what is none."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError(str(error)) from error
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def on_body(self, body: bytes) -> None:
        """For the parser."""
        self._body += body

    def on_message_complete(self) -> None:
        """For the parser."""
        self._answers.append(HttpAnswer(self._parser.get_status_code(), self._body))
        self._body, self.is_last = b"", not self._parser.should_keep_alive()


class RespReader:
    """The same for Redis' protocol; its errors are answers, too, as ``hiredis.ReplyError``."""

    is_last = False

    def __init__(self) -> None:
        self._reader, self._end = hiredis.Reader(), b""

    def take(self, data: bytes) -> list[Any]:
        """See ``HttpReader``."""
        if _MANY.search(self._end + data):  # room for all of them would be made at once
            raise ValueError("millions of elements")
        self._end = (self._end + data)[-_LONGEST:]
        answers: list[Any] = []
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not False:
                answers.append(answer)
        except (hiredis.ProtocolError, TypeError) as error:  # TypeError: a map whose key is a list
            raise ValueError(str(error)) from error
        return answers
