"""Serf's RPC protocol, version 1: MessagePack over TCP, a header with a sequence number and then perhaps a body.

A small blocking client with one call under way at a time: an agent answers within a tenth of a millisecond.
"""

import socket
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

import msgspec

from core.errors import MachineError
from core.reading import reading
from core.records import Json
from systems.parts.vivaldi import Coordinate

RPC_TIMEOUT_S = 2.0
VERSION = 1
ALIVE = "alive"  # the status of a member that answers; others are leaving, left, failed, none
_PART_BYTES = 1 << 16
_ONE, _TWO = b"\x91", b"\x92"  # what makes of one or two objects in a row one array, of which msgspec knows the length

Body = TypeVar("Body")


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


class _Peer(msgspec.Struct, rename="pascal"):
    """What an agent knows of another.  Its address is not read: old MessagePack has no type of its own for bytes."""

    name: str
    status: str


class _Joined(msgspec.Struct, rename="pascal"):
    num: int


class _Peers(msgspec.Struct, rename="pascal"):
    members: list[_Peer]


class SerfRpc:
    """A connection to one agent, made by ``connect`` when it is needed; a context manager.  ``secret``: its key.

    MachineError where nobody answers in time, or where the agent refuses.  After that the next call connects anew.
    """

    def __init__(
        self, connect: Callable[[float], socket.socket], name: str, secret: str, timeout_s: float = RPC_TIMEOUT_S
    ):
        self.connect, self._name, self._secret, self._timeout_s = connect, name, secret, timeout_s
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
        located = self._call("get-coordinate", _Located, {"Node": node})
        if not located.ok or located.coord.vec is None:
            return None
        return Coordinate(located.coord.vec, located.coord.error, located.coord.adjustment, located.coord.height)

    def join(self, addresses: Sequence[str]) -> int:
        """Let the agent exchange all it knows with those at ``addresses`` now; returns how many there answered."""
        return self._call("join", _Joined, {"Existing": list(addresses), "Replay": False}).num

    def alive(self) -> list[str]:
        """The names of the members that answer, in order."""
        return sorted(peer.name for peer in self._call("members", _Peers).members if peer.status == ALIVE)

    def stats(self) -> dict[str, dict[str, str]]:
        """What the agent counts, as text by part: ``["serf"]["coordinate_resets"]``."""
        return self._call("stats", dict[str, dict[str, str]])

    def _call(self, command: str, answer: type[Body], arguments: Json | None = None) -> Body:
        try:
            with reading(f"the Serf agent {self._name} does not answer to {command}", "see its log", MachineError):
                if self._socket is None:
                    self._socket = self.connect(self._timeout_s)
                    self._socket.settimeout(self._timeout_s)
                    self._ask(self._socket, "handshake", {"Version": VERSION}, has_body=False)
                    self._ask(self._socket, "auth", {"AuthKey": self._secret}, has_body=False)
                return msgspec.msgpack.decode(self._ask(self._socket, command, arguments), type=answer)
        except MachineError:
            self.close()
            raise

    def _ask(self, sock: socket.socket, command: str, arguments: Json | None, has_body: bool = True) -> msgspec.Raw:
        """Send one request and read its answer; returns the body, empty where there is none."""
        self._seq += 1
        request = msgspec.msgpack.encode({"Command": command, "Seq": self._seq})
        sock.sendall(request if arguments is None else request + msgspec.msgpack.encode(arguments))
        came = b""
        while part := sock.recv(_PART_BYTES):
            came += part
            header, body = _read(came)
            if header is None:
                continue
            if header.seq != self._seq:
                raise ConnectionError(f"it answered number {header.seq}, asked was {self._seq}")
            if header.error:
                raise MachineError(f"the Serf agent {self._name} refuses {command}: {header.error}", "see its log")
            if body or not has_body:
                return body
        raise ConnectionError("it hung up")


def _read(came: bytes) -> tuple[_Header | None, msgspec.Raw]:
    for count in (_ONE, _TWO):
        try:
            head, *bodies = msgspec.msgpack.decode(count + came, type=list[msgspec.Raw])
        except msgspec.DecodeError:  # not whole yet, or more than that
            continue
        return msgspec.msgpack.decode(head, type=_Header), bodies[0] if bodies else msgspec.Raw()
    return None, msgspec.Raw()
