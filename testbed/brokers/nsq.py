"""NSQ's protocol V2 as bytes: commands out, frames in.  No sockets here.

A client says ``MAGIC``, then commands: words in one line, then, for some, a body after its length.
The server answers in frames: size, kind, data.  Integers are big-endian.  Answers come in the order of
the commands, so that commands may be sent without waiting.

Beyond stock NSQ, our broker sends its publishers ``MIGRATE ip:port`` and ``CLOSE`` of its own accord.
"""

import json
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from core.errors import MachineError

MAGIC = b"  V2"
OK = b"OK"
HEARTBEAT = b"_heartbeat_"
MIGRATE = b"MIGRATE "
CLOSE = b"CLOSE"
CLOSE_WAIT = b"CLOSE_WAIT"
RESPONSE, ERROR, MESSAGE = 0, 1, 2  # the kinds of frames

NOP = b"NOP\n"
CLS = b"CLS\n"  # send me no message any more: answered by CLOSE_WAIT

MESSAGE_BYTES_MAXIMUM = 1 << 20  # nsqd's --max-msg-size
COMMAND_BYTES_MAXIMUM = 5 << 20  # nsqd's --max-body-size
FRAME_BYTES_MAXIMUM = 8 << 20  # more than any server sends by these limits: a larger size is garbage

# What our publishers write at the head of each message: its number in the window's canonical order,
# the publisher, the load's tag, the intended instant (CLOCK_REALTIME).
HEADER = struct.Struct(">qiiq")

_INT32 = struct.Struct(">i")
_FRAME = struct.Struct(">ii")  # size (kind and data), kind
_MESSAGE = struct.Struct(">qH16s")  # what the server puts before a body
_NAME = re.compile(rb"[.a-zA-Z0-9_-]+(#ephemeral)?")
_NAME_BYTES_MAXIMUM = 64


class ProtocolError(MachineError):
    """The other end sent what the protocol does not know."""


class Frame(NamedTuple):
    """What a server sends: one of the kinds above, and its data."""

    kind: int
    data: bytes


class Delivered(NamedTuple):
    """The data of a frame of kind ``MESSAGE``: the broker's stamp, deliveries so far, id, body."""

    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes


def name_bytes(name: str) -> bytes:
    """A topic's or channel's name as it is sent.  ValueError if NSQ would refuse it."""
    data = name.encode()
    if not 1 <= len(data) <= _NAME_BYTES_MAXIMUM or not _NAME.fullmatch(data):
        raise ValueError(f"{name!r} is no name of a topic or channel: 1 to 64 of [.a-zA-Z0-9_-], then maybe #ephemeral")
    return data


def identify(**features: object) -> bytes:
    """IDENTIFY: who the client is and what it wants (``client_id``, ``heartbeat_interval`` in ms, ...)."""
    return b"IDENTIFY\n" + _sized(json.dumps(features).encode())


def auth(token: str) -> bytes:
    """AUTH: whoever shows the run's token may publish and subscribe; others may not."""
    return b"AUTH\n" + _sized(token.encode())


def pub(topic: str, body: bytes) -> bytes:
    """PUB: one message."""
    return b"PUB %s\n" % name_bytes(topic) + _sized(_checked_body(body))


def mpub(topic: str, bodies: Sequence[bytes]) -> bytes:
    """MPUB: several messages, taken over whole or not at all."""
    if not bodies:
        raise ValueError("MPUB wants at least one message")
    content = _INT32.pack(len(bodies)) + b"".join(_sized(_checked_body(body)) for body in bodies)
    if len(content) > COMMAND_BYTES_MAXIMUM:
        raise ValueError(f"{len(content)} bytes are too many for one command, at most {COMMAND_BYTES_MAXIMUM}")
    return b"MPUB %s\n" % name_bytes(topic) + _sized(content)


def sub(topic: str, channel: str) -> bytes:
    """SUB: from now on this connection is a subscriber."""
    return b"SUB %s %s\n" % (name_bytes(topic), name_bytes(channel))


def rdy(count: int) -> bytes:
    """RDY: at most so many messages may be on their way, unfinished."""
    return b"RDY %d\n" % count


def fin(message_id: bytes) -> bytes:
    """FIN: the message has been dealt with.  No answer."""
    return b"FIN %s\n" % message_id


def _sized(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _checked_body(body: bytes) -> bytes:
    if not 1 <= len(body) <= MESSAGE_BYTES_MAXIMUM:
        raise ValueError(f"a message of {len(body)} bytes; NSQ takes 1 to {MESSAGE_BYTES_MAXIMUM}")
    return body


def frame(kind: int, data: bytes) -> bytes:
    """A frame as a server sends it."""
    return _FRAME.pack(len(data) + 4, kind) + data


OK_FRAME = frame(RESPONSE, OK)


def message(data: bytes) -> Delivered:
    """Take the data of a ``MESSAGE`` frame apart."""
    if len(data) < _MESSAGE.size:
        raise ProtocolError(f"a message frame of {len(data)} bytes is too short")
    return Delivered._make((*_MESSAGE.unpack_from(data), data[_MESSAGE.size :]))


def text(data: bytes) -> str:
    """The words of an error, or of what should not be there."""
    return data.decode("ascii", "replace")[:200]


def address(written: str) -> tuple[str, int]:
    """``"ip:port"`` as sockets take it.  ProtocolError if it is not one."""
    host, _, port = written.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ProtocolError(f"{written!r} is no address ip:port")
    return host, int(port)


class FrameParser:
    """Frames from bytes as they come, in pieces of any size."""

    def __init__(self) -> None:
        self.rest = b""  # the start of a frame whose end has not come yet

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes; ProtocolError, after those, for a size or kind that cannot be.

        Take all of them: what is not taken is parsed again with the next data.
        """
        if self.rest:
            data = self.rest + data
        at, end = 0, len(data)
        try:
            while end - at >= _FRAME.size:
                size, kind = _FRAME.unpack_from(data, at)
                if not 4 <= size <= FRAME_BYTES_MAXIMUM or not RESPONSE <= kind <= MESSAGE:
                    raise ProtocolError(f"no frame of NSQ: size {size}, kind {kind}")
                if end - at < size + 4:
                    break
                begin, at = at, at + size + 4
                yield Frame(kind, data[begin + 8 : at])
        finally:
            self.rest = data[at:]
