"""The kernel's packet queues (NFQUEUE) by netlink, without a library: what the delayer needs and nothing else.

A message is a netlink header (length, type, flags, sequence, port: native order), a netfilter header (family, version,
resource: the queue's number) and attributes (length, type, value, padded to four bytes).  Netfilter's values are in
network order.  The kernel sends one message a packet; of verdicts it takes any number in one ``send``.
"""

import os
import socket
import struct

NETLINK_NETFILTER = 12
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
SO_RCVBUFFORCE = 33
PACKET, VERDICT, CONFIG = 0x300, 0x301, 0x302
REQUEST, ACK = 1, 4
BIND = 1
COPY_PACKET = 2
F_GSO = 4  # big segments stay whole: half the work, twice the rate of TCP
CFG_CMD, CFG_PARAMS, CFG_QUEUE_MAXLEN, CFG_MASK, CFG_FLAGS = 1, 2, 3, 4, 5
ATTRIBUTE_TIMESTAMP, ATTRIBUTE_PAYLOAD = 4, 10
DROP, ACCEPT = 0, 1

QUEUE_PACKETS_MAXIMUM = 131_072  # the kernel's own 1,024 lose half of 50,000 packets/s at 40 ms
RECEIVE_BUFFER_BYTES = 64 << 20
IP_HEADER_BYTES = 20  # what is copied of a packet: enough to see its protocol
WHOLE_BYTES = 65_535

QUEUE_AT, ID_AT, ATTRIBUTES_AT = 18, 24, 20  # in a packet's message; the packet's header is its first attribute

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_STAMP = struct.Struct(">QQ")  # seconds, microseconds
_PACKET = struct.pack("=H", PACKET)


def open_queues() -> socket.socket:
    """A socket for the queues of the network namespace that this thread is in."""
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    opened.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
    opened.bind((0, 0))
    opened.setblocking(False)
    return opened


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + bytes(-len(value) % 4)


def _config(queue: int, *attributes: bytes) -> bytes:
    body = struct.pack(">BBH", socket.AF_UNSPEC, 0, queue) + b"".join(attributes)
    return _HEADER.pack(_HEADER.size + len(body), CONFIG, REQUEST | ACK, queue, 0) + body


def bind_message(queue: int) -> bytes:
    """Take a queue over: packets come in whole segments, as many as may wait.  The kernel answers it."""
    return (
        _config(queue, _attribute(CFG_CMD, struct.pack(">BxH", BIND, socket.AF_INET)))
        + _config(queue, _attribute(CFG_QUEUE_MAXLEN, struct.pack(">I", QUEUE_PACKETS_MAXIMUM)))
        + _config(queue, *(_attribute(each, struct.pack(">I", F_GSO)) for each in (CFG_MASK, CFG_FLAGS)))
        + copy_message(queue, IP_HEADER_BYTES)
    )


def copy_message(queue: int, size_bytes: int) -> bytes:
    """From now on so much of each packet comes with its message."""
    return _config(queue, _attribute(CFG_PARAMS, struct.pack(">IB", size_bytes, COPY_PACKET)))


def verdict_prefix(queue: int, verdict: int) -> bytes:
    """A verdict up to the packet's id, which is to follow in four bytes as it came."""
    body = struct.pack(">BBH", socket.AF_UNSPEC, 0, queue)
    body += _ATTRIBUTE.pack(12, 2) + struct.pack(">I", verdict)
    return _HEADER.pack(_HEADER.size + len(body) + 4, VERDICT, REQUEST, 0, 0) + body


def is_packet(message: bytes) -> bool:
    """Whether the kernel hands us a packet; otherwise it acknowledges or refuses something."""
    return message[4:6] == _PACKET


def error_text(message: bytes) -> str:
    """What a message says that is no packet; empty for an acknowledgement."""
    (number,) = struct.unpack_from("=i", message, _HEADER.size)
    return os.strerror(-number) if number else ""


def attribute_at(message: bytes, wanted: int) -> int:
    """Where the value of an attribute begins in a packet's message; 0 if it has none."""
    at = ATTRIBUTES_AT
    while at + 4 <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == wanted:
            return at + 4
        if size < 4:
            break
        at += size + (-size % 4)
    return 0


_STAMP_HEADER = _ATTRIBUTE.pack(4 + _STAMP.size, ATTRIBUTE_TIMESTAMP)


class Stamps:
    """Finds the arrival stamp of packets.  Messages of one length mostly have it in one place."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}

    def arrived_at_ns(self, message: bytes) -> int:
        """CLOCK_REALTIME at the interface; 0 where the kernel stamped nothing."""
        at = self._place.get(len(message), 0)
        if message[at - 4 : at] != _STAMP_HEADER:
            at = self._place[len(message)] = attribute_at(message, ATTRIBUTE_TIMESTAMP)
            if not at:
                return 0
        seconds, microseconds = _STAMP.unpack_from(message, at)
        return int(seconds * 1_000_000_000 + microseconds * 1_000)
