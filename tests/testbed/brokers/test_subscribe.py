"""The subscriber: slow, cut off, or handed what is not ours; nothing is lost without being counted."""

import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from testbed.brokers import nsq
from tests.live import needs
from tests.testbed.brokers.with_clients import TOKEN, TOPIC, Stage, second, stage, steady, until

pytestmark = [needs("linux", "brokerd"), pytest.mark.slow]


def states(its: Stage) -> list[str]:
    """Of the subscriptions."""
    return [state for _, _, state in its.subscribe.ask("status")["states"]]


def test_a_subscriber_that_is_frozen_gets_everything_later(tmp_path: Path) -> None:
    with stage(tmp_path, 1) as its:
        its.publish.ask("connect", token=TOKEN, publishers=list(range(20)), targets=its.brokers[0].ingress)
        its.load(steady(20, 6_000, second(3)))
        until(lambda: its.subscribe.ask("status")["delivery_count"] > 100, "the first deliveries")
        its.subscribe.process.send_signal(signal.SIGSTOP)
        its.wait_sent()
        time.sleep(0.3)
        its.subscribe.process.send_signal(signal.SIGCONT)
        its.wait_received(6_000)
        sent, received, found = its.collect()
        assert found.delivered_count == 6_000
        assert (sent["acknowledged_at_ns"] >= 0).all(), "the publishers do not wait for a subscriber"
        assert (received["received_at_ns"] - received["timestamp_ns"]).max() > second(0.25)


def test_a_subscriber_that_takes_one_at_a_time(tmp_path: Path) -> None:
    with stage(tmp_path, 1, rdy=1) as its:
        its.publish.ask("connect", token=TOKEN, publishers=[0], targets=its.brokers[0].ingress)
        its.load(steady(1, 300, second(0.1)))
        its.wait_received(300)
        _, received, found = its.collect()
        assert found.delivered_count == 300
        assert (received["message"] == np.arange(300)).all()


def test_a_subscriber_whose_broker_is_gone_keeps_the_others(tmp_path: Path) -> None:
    with stage(tmp_path, 2) as its:
        gone, other = its.brokers
        found = its.subscribe.ask("subscribe", brokers=["127.0.0.1:9"], topic=TOPIC, token=TOKEN, tries=1)
        assert found["failed"] == ["127.0.0.1:9"]
        assert "refused" in found["last_problem"]
        gone.signal(signal.SIGKILL)
        until(lambda: states(its).count("receiving") == 1, "the subscriber's notice")
        its.publish.ask("connect", token=TOKEN, publishers=[0], targets=other.ingress)
        its.load(steady(1, 100, second(0.1)))
        its.wait_received(100)
        until(lambda: sorted(states(its)) == ["gone", "gone", "receiving"], "the giving up")
        assert its.collect()[2].delivered_count == 100


def test_other_clients_messages_are_told_apart(tmp_path: Path) -> None:
    with stage(tmp_path, 1) as its:
        with socket.create_connection(nsq.address(its.brokers[0].nsqd), 5) as client:
            client.sendall(nsq.MAGIC + nsq.auth(TOKEN) + nsq.pub(TOPIC, b"short") + nsq.pub(TOPIC, b"x" * 100))
            its.wait_received(2)
        assert its.subscribe.ask("collect", path=str(tmp_path / "rows.npz"))["delivery_count"] == 2
        rows = dict(np.load(tmp_path / "rows.npz"))
        assert rows["message"][0] == rows["publisher"][0] == -1 != rows["message"][1]
