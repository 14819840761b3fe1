"""A subscriber against a broker that does by script what real ones do rarely."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from testbed.brokers import nsq
from testbed.brokers.subscribe_host import SubscribeHost
from tests.live import needs
from tests.testbed.brokers.running import TOKEN, message_data
from tests.testbed.brokers.with_clients import until

pytestmark = needs("linux")

ROWS = 5
AUTHORIZED = nsq.frame(nsq.RESPONSE, b'{"identity":"","identity_url":"","permission_count":1}')


@pytest.fixture
def host() -> Iterator[SubscribeHost]:
    found = SubscribeHost(ROWS)
    yield found
    found.stop()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(10)
        yield found


def address(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def welcome(listener: socket.socket, rdy_maximum: int = 3) -> tuple[socket.socket, bytes]:
    """Accept the subscriber and answer up to its SUB; returns the connection and what it said after AUTH."""
    peer, _ = listener.accept()
    peer.settimeout(10)
    with peer.makefile("rb") as stream:
        assert stream.readline() == b"  V2IDENTIFY\n"
        wishes = json.loads(stream.read(int.from_bytes(stream.read(4))))
        assert wishes["output_buffer_size"] == -1
        assert stream.readline() == b"AUTH\n" and stream.read(int.from_bytes(stream.read(4))) == TOKEN.encode()
        peer.sendall(nsq.frame(nsq.RESPONSE, json.dumps({"max_rdy_count": rdy_maximum}).encode()) + AUTHORIZED)
        said = stream.readline() + stream.readline()
    peer.sendall(nsq.OK_FRAME)
    return peer, said


def delivery(number: int, attempts: int = 1) -> tuple[bytes, bytes]:
    """A message frame, and the FIN that it wants."""
    its_id = b"%016x" % number
    body = nsq.HEADER.pack(number, number % 3, 4, 1_000 + number) + b"rest"
    data = message_data(nsq.Delivered(2_000 + number, attempts, its_id, body))
    return nsq.frame(nsq.MESSAGE, data), nsq.fin(its_id)


def receive(peer: socket.socket, size: int) -> bytes:
    with peer.makefile("rb") as stream:
        return stream.read(size)


def begin(host: SubscribeHost, listener: socket.socket, tries: int = 10) -> None:
    """Subscribe, without waiting."""
    host.subscribe([address(listener)], "t", TOKEN, "c", rdy=100, tries=tries, wait_s=0)


def test_frames_in_pieces_hearts_and_harmless_errors(
    host: SubscribeHost, listener: socket.socket, tmp_path: Path
) -> None:
    begin(host, listener)
    peer, said = welcome(listener)
    with peer:
        assert said == b"SUB t c\nRDY 3\n", "never more than the broker allows: that would be fatal"
        first, second, repeated = delivery(0), delivery(2), delivery(0, attempts=2)
        for byte in first[0]:
            peer.sendall(bytes([byte]))
        assert receive(peer, len(first[1])) == first[1]
        heart = nsq.frame(nsq.RESPONSE, nsq.HEARTBEAT)
        peer.sendall(heart + nsq.frame(nsq.ERROR, b"E_FIN_FAILED") + second[0] + repeated[0])
        wanted = nsq.NOP + second[1] + repeated[1]
        assert receive(peer, len(wanted)) == wanted
        status = host.status()
        assert (status["delivery_count"], status["last_problem"]) == (3, "E_FIN_FAILED")
        assert [state for _, _, state in status["states"]] == ["receiving"]
    found = host.collect(str(tmp_path / "rows.npz"))
    assert found == {"delivery_count": 3, "dropped_rows": 0, "out_of_order_count": 0}
    rows = dict(np.load(tmp_path / "rows.npz"))
    assert rows["topics"].tolist() == ["t"] and set(rows["tag"]) == {4}
    assert rows["message"].tolist() == [0, 2, 0]
    assert rows["publisher"].tolist() == [0, 2, 0]
    assert rows["intended_at_ns"].tolist() == [1_000, 1_002, 1_000]
    assert rows["timestamp_ns"].tolist() == [2_000, 2_002, 2_000]
    assert rows["attempts"].tolist() == [1, 1, 2]
    assert (np.diff(rows["received_at_ns"]) >= 0).all()
    assert rows["brokers"][rows["broker"]].tolist() == [address(listener)] * 3


def test_more_deliveries_than_rows_are_counted(host: SubscribeHost, listener: socket.socket, tmp_path: Path) -> None:
    begin(host, listener)
    peer, _ = welcome(listener)
    with peer:
        frames, answers = zip(*map(delivery, range(ROWS + 2)), strict=True)
        peer.sendall(b"".join(frames))
        assert receive(peer, len(b"".join(answers))) == b"".join(answers)
        found = host.collect(str(tmp_path / "rows.npz"))
        assert (found["delivery_count"], found["dropped_rows"]) == (ROWS + 2, 2)
        more = delivery(99)
        peer.sendall(more[0])
        assert receive(peer, len(more[1])) == more[1]
        assert host.collect(str(tmp_path / "rows.npz"))["dropped_rows"] == 0, "there is room again"


def test_garbage_ends_a_connection_and_the_next_one_goes_on(host: SubscribeHost, listener: socket.socket) -> None:
    begin(host, listener, tries=2)
    peer, _ = welcome(listener)
    with peer:
        peer.sendall(delivery(0)[0] + b"HTTP/1.1 400 Bad Request\r\n\r\n")
        again, _ = welcome(listener)
    with again:
        again.sendall(delivery(1)[0])
        until(lambda: host.status()["delivery_count"] == 2, "both deliveries")
        assert "no frame" in host.status()["last_problem"]
    listener.close()
    until(lambda: host.status()["states"][0][2] == "gone", "the giving up")


@pytest.mark.parametrize("answer", [b"[]", b"7", b'{"max_rdy_count": {}}', b"{", b"\xff"])
def test_a_broker_that_answers_nonsense_is_given_up(
    host: SubscribeHost, listener: socket.socket, answer: bytes
) -> None:
    begin(host, listener, tries=1)
    peer, _ = listener.accept()
    with peer:
        peer.sendall(nsq.frame(nsq.RESPONSE, answer) + AUTHORIZED)
        until(lambda: host.status()["states"][0][2] == "gone", "the giving up")
    with pytest.raises(nsq.ProtocolError, match="no address"):
        host.subscribe(["nonsense"], "t", TOKEN)
    assert len(host.status()["states"]) == 1, "and the process goes on"


def test_a_released_topic_is_not_asked_for_again(host: SubscribeHost, listener: socket.socket) -> None:
    begin(host, listener, tries=1)
    peer, _ = welcome(listener)
    until(lambda: host.status()["states"][0][2] == "receiving", "the subscription")
    peer.close()
    until(lambda: host.status()["states"][0][2] == "gone", "the end")
    listener.settimeout(0.5)
    with pytest.raises(TimeoutError):
        listener.accept()
