"""Publishers and subscribers at real brokers: what is offered is delivered, or accounted for."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest

from core.records import Block
from testbed.brokers.brokerd.client import BrokerClient
from tests.live import needs
from tests.testbed.brokers.running import recorded
from tests.testbed.brokers.with_clients import TOKEN, TOPIC, Stage, second, stage, steady, until

pytestmark = [needs("linux", "brokerd"), pytest.mark.slow]


def connect(its: Stage, publishers: int, targets: str | list[str | None]) -> None:
    found = its.publish.ask("connect", token=TOKEN, publishers=list(range(publishers)), targets=targets)
    assert found["failed"] == [], found


def check_order(received: dict[str, np.ndarray]) -> None:
    """Brokers took each publisher's messages in the order of their numbers."""
    order = np.argsort(received["timestamp_ns"], kind="stable")
    for publisher in np.unique(received["publisher"]):
        assert (np.diff(received["message"][order][received["publisher"][order] == publisher]) > 0).all()


@pytest.mark.parametrize("port", ["ingress", "nsqd"])
def test_everything_arrives_and_every_instant_is_kept(tmp_path: Path, port: str) -> None:
    with stage(tmp_path, 2) as its:
        targets: list[str | None] = [getattr(its.brokers[publisher % 2], port) for publisher in range(200)]
        connect(its, 200, targets)
        for broker in its.brokers:
            broker.client.record(TOPIC, 10_000)
        block = steady(200, 3_000, second(1), batch=3)
        epoch_ns = its.load(block)
        its.wait_sent()
        its.wait_received(3_000)
        sent, received, found = its.collect()
        assert (found.delivered_count, found.delivered_unacknowledged_count) == (3_000, 0)
        at_ns, publisher, _ = block.messages()
        assert (sent["message"] == np.arange(3_000)).all()
        assert (sent["publisher"] == publisher).all()
        assert (sent["intended_at_ns"] == at_ns + epoch_ns).all()
        assert (sent["sent_at_ns"] >= sent["intended_at_ns"]).all()
        assert (sent["acknowledged_at_ns"] > sent["sent_at_ns"] - second(1)).all()
        assert [str(sent["brokers"][its]) for its in sent["broker"]] == [str(targets[one]) for one in publisher]
        order = np.argsort(received["message"])
        for name in ("message", "publisher", "intended_at_ns"):
            assert (received[name][order] == sent[name]).all()
        assert (received["received_at_ns"] > received["intended_at_ns"]).all()
        assert (received["timestamp_ns"] > received["intended_at_ns"]).all()
        assert (received["attempts"] == 1).all()
        check_order(received)
        if port == "ingress":
            rows = [recorded(broker.client, tmp_path / "rows")[0] for broker in its.brokers]
            kept = np.concatenate([row["message"] for row in rows])
            stamps = np.concatenate([row["stamp_ns"] for row in rows])
            assert (np.sort(kept) == np.arange(3_000)).all()
            by_message = received["timestamp_ns"][order]
            assert (stamps[np.argsort(kept)] == by_message).all(), "the stamp travels to the subscriber"


def test_loads_may_follow_each_other_and_overlap(tmp_path: Path) -> None:
    with stage(tmp_path, 1) as its:
        connect(its, 20, its.brokers[0].ingress)
        its.load(steady(20, 500, second(0.5)), tag=1)
        its.load(steady(20, 400, second(0.3)), tag=2)
        its.wait_sent()
        its.wait_received(900)
        counters = its.subscribe.ask("collect", path=str(tmp_path / "received.npz"))
        assert (counters["delivery_count"], counters["out_of_order_count"]) == (900, 0)
        received = dict(np.load(tmp_path / "received.npz"))
        for tag, count in ((1, 500), (2, 400)):
            assert (np.sort(received["message"][received["tag"] == tag]) == np.arange(count)).all()
            its.publish.ask("collect", path=str(tmp_path / "sent.npz"), tag=tag)
            sent = np.load(tmp_path / "sent.npz")
            assert (sent["message"] == np.arange(count)).all() and (sent["acknowledged_at_ns"] >= 0).all()


def test_migration_under_load_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    with stage(tmp_path, 2) as its:
        first, other = its.brokers
        connect(its, 50, first.ingress)
        its.load(steady(50, 20_000, second(10)))  # long enough for a busy machine to move them twice
        until(lambda: its.subscribe.ask("status")["delivery_count"] > 500, "the first deliveries")
        told = first.client.move(TOPIC, None, other.ingress)
        assert (told["told_count"], told["missing"]) == (50, [])
        until(lambda: other.client.stats()["connection_count"] == 50, "the broker's migration")
        came = other.client.stats()["message_count"]
        until(lambda: other.client.stats()["message_count"] > came + 150, "each publisher's next messages")
        # Back, by the harness, without the brokers' help.
        its.publish.ask("move", token=TOKEN, publishers=list(range(25)), targets=first.ingress)
        its.wait_sent()
        its.wait_received(20_000)
        counters = its.publish.ask("status")["counters"]
        assert (counters["moves"], counters["broken"], counters["connections"]) == (75, 0, 125)
        sent, received, found = its.collect()
        assert found.delivered_count == 20_000
        check_order(received)
        assert (sent["acknowledged_at_ns"] >= 0).all()
        assert set(sent["broker"]) == {0, 1}
        for publisher in range(50):
            mine = sent["publisher"] == publisher
            assert np.count_nonzero(np.diff(sent["broker"][mine])) == (2 if publisher < 25 else 1)
            assert (np.diff(sent["sent_at_ns"][mine]) >= 0).all()


def test_many_moves_of_anybody_at_any_time(tmp_path: Path) -> None:
    draws = np.random.default_rng(5)
    with stage(tmp_path, 2) as its:
        connect(its, 30, its.brokers[0].ingress)
        epoch_ns = its.load(steady(30, 6_000, second(2), batch=2))
        rounds = 0
        while time.time_ns() < epoch_ns + second(1.9):
            chosen = np.flatnonzero(draws.random(30) < 0.5).tolist()
            target = its.brokers[rounds % 2]
            if rounds % 3:
                its.publish.ask("move", token=TOKEN, publishers=chosen, targets=target.ingress, wait_s=0)
            else:
                its.brokers[1 - rounds % 2].client.move(TOPIC, chosen, target.ingress)
            rounds += 1
            time.sleep(0.02)
        its.wait_sent()
        its.wait_received(6_000)
        counters = its.publish.ask("status")["counters"]
        assert counters["broken"] == counters["unacknowledged_emissions"] == 0
        assert counters["moves"] > 3 * rounds
        _, received, found = its.collect()
        assert found.delivered_count == 6_000
        check_order(received)


def test_a_broker_that_is_killed(tmp_path: Path) -> None:
    with stage(tmp_path, 2) as its:
        doomed, other = its.brokers
        connect(its, 40, [doomed.ingress] * 20 + [other.ingress] * 20)
        its.load(steady(40, 20_000, second(5)))  # long enough for who gives up late to find another
        until(lambda: its.subscribe.ask("status")["delivery_count"] > 1_000, "the first deliveries")
        doomed.signal(signal.SIGKILL)
        until(lambda: its.publish.ask("status")["counters"]["given_up"] == 20, "the publishers' giving up")
        # Publishers 0 to 9 find another broker; the others stay without.
        its.publish.ask("move", token=TOKEN, publishers=list(range(10)), targets=other.ingress)
        its.wait_sent()
        its.wait_quiet()
        sent, received, found = its.collect()
        safe = sent["publisher"] >= 20
        assert np.isin(sent["message"][safe], received["message"]).all(), (
            "the other broker's publishers are not touched"
        )
        lost = sent["sent_at_ns"] < 0
        assert found.not_sent_count == lost.sum() > 0
        assert set(sent["publisher"][lost]) == set(range(20))
        assert found.duplicated_count == 0
        assert (sent["broker"][~lost] >= 0).all()
        assert (sent["broker"][lost] == -1).all()
        moved = (sent["publisher"] < 10) & (sent["broker"] == list(sent["brokers"]).index(other.ingress))
        assert np.isin(sent["message"][moved], received["message"]).all()
        assert moved.sum() > 0


def test_a_publisher_process_that_is_frozen_shows_its_lateness(tmp_path: Path) -> None:
    with stage(tmp_path, 1) as its:
        connect(its, 20, its.brokers[0].ingress)
        epoch_ns = its.load(steady(20, 3_000, second(3)))
        time.sleep(max(0, (epoch_ns - time.time_ns()) / 1e9) + 0.3)
        its.publish.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        its.publish.process.send_signal(signal.SIGCONT)
        its.wait_sent()
        its.wait_received(3_000)
        sent, received, found = its.collect()
        assert found.delivered_count == 3_000
        lateness_ns = sent["sent_at_ns"] - sent["intended_at_ns"]
        assert lateness_ns.max() > second(0.4)
        assert np.count_nonzero(lateness_ns > second(0.1)) > 300, "all that was due in the pause is late, not moved"
        check_order(received)


def test_a_broker_that_does_not_read_is_waited_for_in_a_queue(tmp_path: Path) -> None:
    with stage(tmp_path, 2) as its:
        slow, other = its.brokers
        connect(its, 2, [slow.ingress, other.ingress])
        slow.signal(signal.SIGSTOP)
        block = steady(2, 200, second(0.5), size_bytes=200_000)  # more than both sockets' buffers take
        its.load(block)
        until(
            lambda: (left := its.publish.ask("status")["loads"]["0"])["due_later"] == 0 and left["waiting"], "a queue"
        )
        its.wait_received(100)  # the other publisher does not wait for it
        until(lambda: sum(its.publish.ask("status")["loads"]["0"].values()) == 100, "the answers to it")
        # The harness moves it meanwhile: not before its command is whole and everything is acknowledged.
        its.publish.ask("move", token=TOKEN, publishers=[0], targets=other.ingress, wait_s=0)
        assert its.publish.ask("status")["states"]["draining"] == 1
        continued_at_ns = time.time_ns()
        slow.signal(signal.SIGCONT)
        its.wait_sent()
        its.wait_received(200)
        sent, received, found = its.collect()
        assert found.delivered_count == 200
        blocked = sent["publisher"] == 0
        assert set(sent["broker"][blocked]) == {0, 1}
        assert (sent["acknowledged_at_ns"][~blocked] < continued_at_ns).all()
        assert (sent["acknowledged_at_ns"][blocked] > continued_at_ns).all()
        assert (sent["sent_at_ns"][blocked] > continued_at_ns).any(), "written late, and recorded so"
        # Of the other publisher alone: what lay in a stopped broker's socket can have its stamps merged and swapped.
        other_way = received["publisher"] != 0
        check_order({name: received[name][other_way] for name in ("message", "publisher", "timestamp_ns")})


def test_a_topic_that_is_released_closes_its_publishers(tmp_path: Path) -> None:
    with stage(tmp_path, 1) as its:
        connect(its, 10, its.brokers[0].ingress)
        its.load(steady(10, 10_000, second(10)))
        until(lambda: its.subscribe.ask("status")["delivery_count"] > 200, "the first deliveries")
        client: BrokerClient = its.brokers[0].client
        assert client.release(TOPIC) == 0, "nothing is left unfinished"
        its.wait_sent()
        assert its.publish.ask("status")["states"]["idle"] == 10
        _, _, found = its.collect()
        assert found.delivered_count > 200
        assert found.not_sent_count == 10_000 - found.delivered_count > 0


def test_publishers_without_a_broker_and_a_load_without_messages(tmp_path: Path) -> None:
    with stage(tmp_path, 1) as its:
        nobody = "127.0.0.1:9"
        found = its.publish.ask(
            "connect", token=TOKEN, publishers=[0, 1, 2], targets=[its.brokers[0].ingress, nobody, None]
        )
        assert found["failed"] == [1]
        assert "refused" in found["last_problem"]
        its.load(Block(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)))
        assert its.publish.ask("status")["done"]
        assert its.collect()[2].offered_count == 0
        its.load(steady(3, 30, second(0.1)))
        its.wait_sent()
        its.wait_received(10)
        sent, _, account = its.collect()
        assert set(sent["publisher"]) == {0}, "publishers without a broker are another process' business"
        assert (account.delivered_count, account.not_sent_count) == (10, 20)
