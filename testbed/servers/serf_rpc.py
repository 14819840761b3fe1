"""Serf's RPC protocol, version 1: MessagePack over TCP, a header with a sequence number and then perhaps a body.

A small blocking client with one call under way at a time: an agent answers within a tenth of a millisecond.
"""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import msgspec

from core.errors import MachineError
from systems.parts.vivaldi import Coordinate

RPC_TIMEOUT_S = 2.0
VERSION = 1
ALIVE = "alive"  # the status of a member that answers
_PART_BYTES = 1 << 16
_ONE, _TWO = b"\x91", b"\x92"  # what makes of one or two objects in a row one array


class _Header(msgspec.Struct, rename="pascal"):
    seq: int
    error: str = ""


class _Coord(msgspec.Struct, rename="pascal"):
    vec: tuple[float, ...] | None  # None: the agent knows of none
    error: float
    adjustment: float
    height: float


class _Located(msgspec.Struct, rename="pascal"):
    coord: _Coord
    ok: bool


class Member(msgspec.Struct, rename="pascal", frozen=True):
    """What an agent knows of another.  Its address is not read: old MessagePack has no type of its own for bytes."""

    name: str
    status: str  # alive | leaving | left | failed | none
    port: int = 0
    tags: dict[str, str] = {}


class _Joined(msgspec.Struct, rename="pascal"):
    num: int


class _Members(msgspec.Struct, rename="pascal"):
    members: list[Member]


class SerfRpc:
    """A connection to one agent, made by ``connect`` when it is needed; a context manager.

    MachineError where nobody answers in time, or where the agent refuses.  After that the next call connects anew.
    """

    def __init__(self, connect: Callable[[float], socket.socket], name: str, timeout_s: float = RPC_TIMEOUT_S):
        self._connect, self._name, self._timeout_s = connect, name, timeout_s
        self._socket: socket.socket | None = None
        self._seq = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def coordinate(self, node: str) -> Coordinate | None:
        """Where a node is: the agent's own coordinate now, another's at its last probe of it.

        None where it has not probed that one yet, or knows no such node.
        """
        found: _Located = self._call("get-coordinate", {"Node": node}, _Located)
        if not found.ok or found.coord.vec is None:
            return None
        return Coordinate(found.coord.vec, found.coord.error, found.coord.adjustment, found.coord.height)

    def members(self) -> list[Member]:
        """All that the agent knows of, failed ones too."""
        found: _Members = self._call("members", None, _Members)
        return found.members

    def join(self, addresses: Sequence[str]) -> int:
        """Let the agent exchange all it knows with those at ``addresses`` now; returns how many there answered."""
        found: _Joined = self._call("join", {"Existing": list(addresses), "Replay": False}, _Joined)
        return found.num

    def alive(self) -> list[str]:
        """The names of the members that answer, in order."""
        return sorted(member.name for member in self.members() if member.status == ALIVE)

    def stats(self) -> dict[str, dict[str, str]]:
        """What the agent counts, as text by part: ``["serf"]["coordinate_resets"]``."""
        found: dict[str, dict[str, str]] = self._call("stats", None, dict[str, dict[str, str]])
        return found

    def _call(self, command: str, arguments: dict[str, Any] | None, answer: Any) -> Any:
        try:
            if self._socket is None:
                self._socket = self._connect(self._timeout_s)
                self._socket.settimeout(self._timeout_s)
                self._ask("handshake", {"Version": VERSION}, None)
            return self._ask(command, arguments, answer)
        except OSError as error:
            self.close()
            what = f"the Serf agent {self._name} does not answer to {command}: {error or type(error).__name__}"
            raise MachineError(what, "see its log") from None
        except MachineError:
            self.close()
            raise

    def _ask(self, command: str, arguments: dict[str, Any] | None, answer: Any) -> Any:
        """Send one request and read its answer, of the type ``answer`` (None: a header alone)."""
        assert self._socket is not None
        self._seq += 1
        request = msgspec.msgpack.encode({"Command": command, "Seq": self._seq})
        self._socket.sendall(request if arguments is None else request + msgspec.msgpack.encode(arguments))
        came = b""
        while True:
            part = self._socket.recv(_PART_BYTES)
            if not part:
                raise ConnectionError("it hung up")
            came += part
            header, body = self._read(came, answer)
            if header is None:
                continue
            if header.seq != self._seq:
                raise ConnectionError(f"it answered number {header.seq}, asked was {self._seq}")
            if header.error:
                raise MachineError(f"the Serf agent {self._name} refuses {command}: {header.error}", "see its log")
            if answer is None or body is not None:
                return body

    def _read(self, came: bytes, answer: Any) -> tuple[_Header | None, Any]:
        """The header and the body, as far as they are there whole: msgspec reads an array of known length."""
        try:
            if answer is not None:
                with _whole_or_nothing():
                    header, body = msgspec.msgpack.decode(_TWO + came, type=tuple[_Header, answer])
                    return header, body
            with _whole_or_nothing():
                (header,) = msgspec.msgpack.decode(_ONE + came, type=tuple[_Header])
                return header, None
        except msgspec.ValidationError as error:
            raise ConnectionError(f"its answer is not Serf's: {error}") from None
        return None, None


@contextmanager
def _whole_or_nothing() -> Iterator[None]:
    """Nothing comes of bytes that are not whole yet, or too many; those of a wrong type are an error."""
    try:
        yield
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        pass
