"""How a node's messages travel on real sockets: datagrams, or one TCP connection a pair of nodes.

Both carry what the codec makes, and nothing else.  What cannot be delivered is lost, and counted where
the sender's host knows of it: a datagram that the kernel refused, a message to a peer that is down.
"""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.hosts.directory import Address, Directory
from testbed.hosts.loop import Loop
from testbed.nodes.frames import FRAME_BYTES_MAXIMUM, FrameSocket, Hello
from testbed.nodes.sockets import ignore

RECEIVE_BYTES = 16 * 2**20  # of a socket's buffer: a burst must not be lost on its own host
REDIAL_NS = 50 * MILLISECOND_NS
DIAL_NS = 3 * SECOND_NS  # a call that is not answered by then begins anew
PATIENCE_NS = 2 * SECOND_NS  # how long messages wait for a peer that never called
STRANGERS_MAXIMUM = 256  # at the door at once: more of them than a run has nodes and users
HELLO_BYTES_MAXIMUM = 4096  # of their first frame; what they send is kept until it is whole
_BATCH = 64  # datagrams read at most before the loop looks at its timers
_SO_RCVBUFFORCE = 33  # socket(7): as root, beyond rmem_max

Received = Callable[[str, bytes], None]  # source, content


class Peers:
    """A node's ways to its peers: ``own``, the others by the directory, and who takes what comes from them."""

    def __init__(self, loop: Loop, directory: Directory, own: str, received: Received):
        self.lost_count = 0
        self.garbage_count = 0  # what came from strangers
        self._loop, self._directory, self._own, self._received = loop, directory, own, received

    def send(self, target: str, content: bytes) -> bool:
        """Send, or lose it; returns whether it is on its way."""
        raise NotImplementedError

    def connected_count(self) -> int:
        """Peers that can be reached right now."""
        return len(self._directory.addresses) - 1

    def unsent_bytes(self) -> int:
        """What this host still holds for its peers; not what is on its way, or lost."""
        return 0


def big_buffer(sock: socket.socket) -> None:
    """A receive buffer of ``RECEIVE_BYTES``, or of as much as this user may have."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BYTES)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)


class Datagrams(Peers):
    """UDP; a datagram comes from the node whose address it bears."""

    def __init__(self, loop: Loop, directory: Directory, own: str, received: Received, sock: socket.socket):
        super().__init__(loop, directory, own, received)
        self._socket = sock
        sock.setblocking(False)
        loop.on_readable(sock.fileno(), self._read)

    def send(self, target: str, content: bytes) -> bool:
        """See ``Peers``."""
        try:
            self._socket.sendto(content, self._directory.addresses[target])
        except OSError:
            self.lost_count += 1
            return False
        return True

    def _read(self) -> None:
        for _ in range(_BATCH):
            try:
                content, address = self._socket.recvfrom(1 << 16)
            except OSError:
                return
            source = self._directory.name_at(address)
            if source is None:
                self.garbage_count += 1
            else:
                self._received(source, content)


@dataclass
class _Peer:
    """The other end of a stream.  ``waiting``: messages before the first connection; None = it is down."""

    address: Address
    connection: FrameSocket | None = None
    waiting: list[bytes] | None = field(default_factory=list)


class Streams(Peers):
    """One TCP connection a pair of nodes: of two, the first in the directory calls, again and again."""

    def __init__(self, loop: Loop, directory: Directory, own: str, received: Received):
        super().__init__(loop, directory, own, received)
        self._peers = {name: _Peer(address) for name, address in directory.addresses.items() if name != own}
        for name in directory.calls(own):
            self._dial(name)
        loop.call_at(time.monotonic_ns() + PATIENCE_NS, self._lose_patience)

    def send(self, target: str, content: bytes) -> bool:
        """See ``Peers``."""
        peer = self._peers[target]
        if peer.connection is not None:
            peer.connection.send(content)
        elif peer.waiting is not None:
            peer.waiting.append(content)
        else:
            self.lost_count += 1
            return False
        return True

    def connected_count(self) -> int:
        """Peers with a connection."""
        return sum(peer.connection is not None for peer in self._peers.values())

    def unsent_bytes(self) -> int:
        """See ``Peers``."""
        held = sum(len(content) for peer in self._peers.values() for content in peer.waiting or ())
        return held + sum(peer.connection.unsent_bytes() for peer in self._peers.values() if peer.connection)

    def adopt(self, name: str, connection: FrameSocket) -> None:
        """``name`` has called; what was there before is over."""
        peer = self._peers[name]
        if peer.connection is not None:
            peer.connection.close()
        peer.connection = connection
        connection.on_frame = lambda content: self._received(name, content)
        connection.on_close = lambda why: self._broken(name, connection)
        connection.on_drained = ignore
        for content in peer.waiting or ():
            connection.send(content)
        peer.waiting = None

    def _dial(self, name: str) -> None:
        """Call a peer, unless it is there; the connection is ours once it has taken the greeting."""
        peer = self._peers[name]
        if peer.connection is None:
            connection = FrameSocket(self._loop, peer.address)
            connection.on_close = lambda why: self._broken(name, connection)
            connection.on_drained = lambda: self.adopt(name, connection)
            connection.expect(lambda: peer.connection is connection, DIAL_NS, "no answer in time")
            connection.send(msgspec.json.encode(Hello(self._directory.token, self._own)))

    def _broken(self, name: str, connection: FrameSocket) -> None:
        """It has gone, or was never reached: whose business that is calls again."""
        peer = self._peers[name]
        if peer.connection is connection:
            peer.connection = None
        self._give_up(peer)
        if name in self._directory.calls(self._own):
            self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial, name)

    def _give_up(self, peer: _Peer) -> None:
        """What waits for a peer that is not there is lost."""
        self.lost_count += len(peer.waiting or ())
        peer.waiting = None

    def _lose_patience(self) -> None:
        for peer in self._peers.values():
            if peer.connection is None:
                self._give_up(peer)


class Doorstep:
    """The port that a node listens on: connections that have not said yet who they are."""

    def __init__(self, loop: Loop, listener: socket.socket, greeted: Callable[[FrameSocket, Hello], bool]):
        self.garbage_count = 0
        self._stranger_count = 0
        self._loop, self._listener, self._greeted = loop, listener, greeted
        listener.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        self._loop.on_readable(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:  # it has gone again
            return
        except OSError:  # out of descriptors: who waits would wake the loop again and again
            self._loop.forget(self._listener.fileno())
            self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._listen)
            return
        if self._stranger_count == STRANGERS_MAXIMUM:
            sock.close()
            self.garbage_count += 1
            return
        self._stranger_count += 1
        connection = FrameSocket(self._loop, sock)
        connection.frame_bytes_maximum = HELLO_BYTES_MAXIMUM
        connection.on_frame = lambda frame: self._hello(connection, frame)
        connection.on_close = self._refuse
        connection.expect(lambda: connection.on_close != self._refuse, DIAL_NS, "who is it?")

    def _hello(self, connection: FrameSocket, frame: bytes) -> None:
        try:
            hello = msgspec.json.decode(frame, type=Hello)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # no JSON, no UTF-8, endless nesting
            hello = Hello("")
        connection.on_frame = connection.on_close = ignore
        connection.frame_bytes_maximum = FRAME_BYTES_MAXIMUM
        if self._greeted(connection, hello):
            self._stranger_count -= 1
        else:
            connection.close()
            self._refuse("nobody of ours")

    def _refuse(self, why: str) -> None:
        self._stranger_count -= 1
        self.garbage_count += 1
