"""NSQ's framing: what is put together comes apart again, in pieces of any size; garbage is told."""

import itertools
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.brokers import nsq
from tests.testbed.brokers.running import message_data

FRAMES = st.lists(st.tuples(st.sampled_from([nsq.RESPONSE, nsq.ERROR, nsq.MESSAGE]), st.binary(max_size=200)))


@given(frames=FRAMES, cuts=st.lists(st.integers(0, 400)))
def test_frames_come_whole_however_the_bytes_are_cut(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(nsq.frame(kind, data) for kind, data in frames)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    parser, found = nsq.FrameParser(), []
    for low, high in itertools.pairwise(edges):
        found += parser.feed(stream[low:high])
    assert found == frames
    assert parser.rest == b""


@given(frames=FRAMES, more=st.binary(min_size=1, max_size=7))
def test_an_unfinished_frame_waits(frames: list[tuple[int, bytes]], more: bytes) -> None:
    unfinished = nsq.frame(nsq.MESSAGE, b"x" * 20)[: 8 + len(more)]
    parser = nsq.FrameParser()
    assert list(parser.feed(b"".join(nsq.frame(kind, data) for kind, data in frames) + unfinished)) == frames
    assert parser.rest == unfinished


@given(size=st.integers(-(2**31), 2**31 - 1), kind=st.integers(-(2**31), 2**31 - 1))
def test_sizes_and_kinds_that_cannot_be_are_refused(size: int, kind: int) -> None:
    sound = 4 <= size <= nsq.FRAME_BYTES_MAXIMUM and 0 <= kind <= 2
    head = struct.pack(">ii", size, kind)
    if sound and size > 4:
        assert list(nsq.FrameParser().feed(head)) == []
    elif sound:
        assert list(nsq.FrameParser().feed(head)) == [(kind, b"")]
    else:
        found = []
        with pytest.raises(nsq.ProtocolError, match="no frame"):
            found += nsq.FrameParser().feed(nsq.OK_FRAME + head)
        assert found == [(nsq.RESPONSE, nsq.OK)], "what came before the garbage counts"


@given(
    stamp_ns=st.integers(-(2**63), 2**63 - 1),
    attempts=st.integers(0, 2**16 - 1),
    its_id=st.binary(min_size=16, max_size=16),
    body=st.binary(max_size=100),
)
def test_messages_come_apart_as_they_were(stamp_ns: int, attempts: int, its_id: bytes, body: bytes) -> None:
    whole = nsq.Delivered(stamp_ns, attempts, its_id, body)
    assert nsq.message(message_data(whole)) == whole
    with pytest.raises(nsq.ProtocolError, match="too short"):
        nsq.message(message_data(whole)[:25])


@given(bodies=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=9))
def test_mpub_read_back_by_hand(bodies: list[bytes]) -> None:
    line, _, rest = nsq.mpub("some.topic", bodies).partition(b"\n")
    assert line == b"MPUB some.topic"
    total, count = struct.unpack_from(">ii", rest)
    assert total == len(rest) - 4
    assert count == len(bodies)
    at = 8
    for body in bodies:
        (size,) = struct.unpack_from(">i", rest, at)
        assert rest[at + 4 : at + 4 + size] == body
        at += 4 + size
    assert at == len(rest)


def test_commands_as_the_protocol_writes_them() -> None:
    assert nsq.pub("t", b"abc") == b"PUB t\n\x00\x00\x00\x03abc"
    assert nsq.sub("t#ephemeral", "c-1") == b"SUB t#ephemeral c-1\n"
    assert nsq.rdy(25) == b"RDY 25\n"
    its_id = b"0123456789abcdef"
    assert nsq.fin(its_id) == b"FIN 0123456789abcdef\n"
    line, _, sized = nsq.identify(client_id="p7", output_buffer_size=-1).partition(b"\n")
    assert line == b"IDENTIFY"
    assert struct.unpack(">i", sized[:4])[0] == len(sized) - 4
    assert json.loads(sized[4:]) == {"client_id": "p7", "output_buffer_size": -1}


@pytest.mark.parametrize("name", ["", "a b", "a\n", "ä", "x" * 65, "a#other", "#ephemeral"])
def test_names_that_nsq_refuses(name: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        nsq.pub(name, b"x")


@pytest.mark.parametrize("bodies", [[], [b""], [bytes(nsq.MESSAGE_BYTES_MAXIMUM + 1)], [bytes(1 << 20)] * 6])
def test_batches_that_nsq_refuses(bodies: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"NSQ takes|at least one|too many"):
        nsq.mpub("t", bodies)


def test_addresses() -> None:
    assert nsq.address(" 10.0.0.7:4150\n") == ("10.0.0.7", 4150)
    for text in ("10.0.0.7", ":4150", "10.0.0.7:", "10.0.0.7:0", "10.0.0.7:65536", "10.0.0.7:٣", "a:-1"):
        with pytest.raises(nsq.ProtocolError, match="no address"):
            nsq.address(text)
