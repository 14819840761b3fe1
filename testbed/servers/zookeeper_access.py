"""ZooKeeper for those alone who know the run's secret: by digest, its own means for that.

ZooKeeper takes a session from anybody, and a new server lets anybody make entries.  So the root is shut as soon as the
server answers, and whatever clients of the run make is theirs alone.  What is left to a stranger: to hold sessions, and
to ask for counters (four-letter words).
"""

import socket
import struct
from typing import TYPE_CHECKING

from core.errors import MachineError

if TYPE_CHECKING:
    from kazoo.security import ACL

USER = "ratebed"
OF_EVERYBODY = ("/", "/zookeeper", "/zookeeper/quota")  # where a new server lets anybody write
_SESSION_MS = 5_000
_AUTH_ID, _CLOSE_TYPE = -4, -11  # of the protocol
_REQUEST, _REPLY, _SIZE = struct.Struct(">ii"), struct.Struct(">iqi"), struct.Struct(">i")


def credentials(secret: str) -> list[tuple[str, str]]:
    """What a client of the run says of itself."""
    return [("digest", f"{USER}:{secret}")]


def access(secret: str) -> "list[ACL]":
    """Who may do anything with what such a client makes: those who know the secret."""
    from kazoo.security import make_digest_acl

    return [make_digest_acl(USER, secret, all=True)]


def shut(connection: socket.socket, secret: str) -> None:
    """Take away what a new server lets everybody do, by requests on a connection of the harness.

    MachineError where the server refuses: somebody else was there before.
    """
    from kazoo.protocol.serialization import Auth, Connect, SetACL

    _exchange(connection, bytes(Connect(0, 0, _SESSION_MS, 0, bytes(16), False).serialize()))
    requests = [(_AUTH_ID, Auth(0, *pair)) for pair in credentials(secret)]
    requests += [(number, SetACL(path, access(secret), -1)) for number, path in enumerate(OF_EVERYBODY, 1)]
    for number, request in requests:
        reply = _exchange(connection, _REQUEST.pack(number, request.type) + bytes(request.serialize()))
        _, _, error = _REPLY.unpack_from(reply)
        if error:
            raise MachineError(f"ZooKeeper keeps its root open (error {error})", "see its log")
    _exchange(connection, _REQUEST.pack(len(requests), _CLOSE_TYPE))


def _exchange(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(_SIZE.pack(len(request)) + request)
    with connection.makefile("rb") as stream:
        (size,) = _SIZE.unpack(stream.read(_SIZE.size))
        return stream.read(size)
