"""Producers and consumers at real brokers: a fence amid the traffic loses, doubles and overtakes nothing."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers import clients
from testbed.brokers.brokerd.client import BrokerClient
from testbed.brokers.clients import STAY_NS, Consumer, Producer, Spares
from testbed.brokers.connection import Connection
from testbed.hosts.loop import Clock, Loop
from tests.live import needs
from tests.testbed.brokers.running import TOKEN, Broker, Client, broker, numbered

pytestmark = [pytest.mark.slow, needs("go")]
TOPIC, RATE_RPS = "moves", 1_000
SPAN_NS = 1_500 * MILLISECOND_NS
MOVE_NS = 400 * MILLISECOND_NS
LATEST_NS = 20 * SECOND_NS
SHORT_NS = 300 * MILLISECOND_NS  # a stay
NAMES = {"ingress": "-data", "nsqd": "-nsqd", "control": "-control"}  # port -> switch


class Scene:
    """Two brokers, two producers of a topic, and two consumers of it, in one loop."""

    def __init__(self, brokers: dict[str, Broker]):
        self.loop, self.brokers, self.is_moving = Loop(), brokers, False
        self.control: dict[str, BrokerClient] = {name: its.client() for name, its in brokers.items()}
        addresses = {name: its.addresses for name, its in brokers.items()}
        self.outward = [self._spares("ingress", client_id=f"p{n}", heartbeat_interval=-1) for n in (0, 1)]
        self.inward = self._spares("nsqd", feature_negotiation=True, output_buffer_size=-1)
        self.producers = [
            Producer(self.loop, TOPIC, n, 100, lambda to, n=n: self.outward[n].take(addresses[to]["ingress"]))
            for n in (0, 1)
        ]
        self.consumers = [
            Consumer(self.loop, TOPIC, name, lambda at: self.inward.take(addresses[at]["nsqd"])) for name in "ab"
        ]

    def _spares(self, port: str, **features: Any) -> Spares:
        return Spares(self.loop, [its.addresses[port] for its in self.brokers.values()], TOKEN, **features)

    def run(
        self, happenings: dict[int, Callable[[], None]], end_ns: int, enough: Callable[[], bool] = lambda: True
    ) -> None:
        """Begin at the first broker, let things happen at instants, and end when it is enough, LATEST_NS at most."""
        clock = Clock(time.time_ns() + 300 * MILLISECOND_NS)
        self.control["first"].open(TOPIC, ["a", "b"])
        for consumer in self.consumers:
            consumer.go(clock)
            consumer.follow("first")
        born = range(0, SPAN_NS, SECOND_NS // RATE_RPS)
        for producer in self.producers:
            producer.attach("first")
            producer.go(clock, list(born))
        for at_ns, happen in happenings.items():
            self.loop.call_at(clock.zero_ns + at_ns, happen)
        self.loop.call_at(clock.zero_ns + end_ns, self._end, clock.zero_ns + LATEST_NS, enough)
        self.loop.run()

    def _end(self, latest_ns: int, enough: Callable[[], bool]) -> None:
        if enough() or time.monotonic_ns() > latest_ns:
            self.loop.stop()
        else:
            self.loop.call_at(time.monotonic_ns() + 10 * MILLISECOND_NS, self._end, latest_ns, enough)

    def all_arrived(self) -> bool:
        """Whether each consumer has got the last message of each producer, and each producer all answers."""
        last = SPAN_NS * RATE_RPS // SECOND_NS - 1
        answered = all(len(its.rows) > last and its.rows[-1][3] >= 0 for its in self.producers)
        return answered and all(numbers(its, producer)[-1:] == [last] for its in self.consumers for producer in (0, 1))

    def move(self, source: str, target: str) -> None:
        """As a broker's node and clients do: fence, drain, open at the next broker, connect there."""
        if self.is_moving:  # on a busy machine the move before is not over yet
            self.loop.call_at(time.monotonic_ns() + 10 * MILLISECOND_NS, self.move, source, target)
            return
        self.is_moving = True
        self.control[source].fence(TOPIC)
        soon_ns = time.monotonic_ns() + 20 * MILLISECOND_NS  # so that some messages meet the fence
        self.loop.call_at(soon_ns, self._when_drained, source, target, time.monotonic())

    def _when_drained(self, source: str, target: str, since_s: float) -> None:
        assert time.monotonic() - since_s < 15, self.control[source].queues()
        if not (self.control[source].queues()[TOPIC]["drained"] and self.has_met_a_fence()):
            self.loop.call_at(time.monotonic_ns() + MILLISECOND_NS, self._when_drained, source, target, since_s)
            return
        self.control[target].open(TOPIC, ["a", "b"])
        for producer in self.producers:
            producer.detach()
            producer.attach(target)  # before the consumers, whose channels are there
        for consumer in self.consumers:
            consumer.unfollow()
            consumer.follow(target)
        self.is_moving = False

    def has_met_a_fence(self) -> bool:
        """Whether a message has been refused so far."""
        return any(row[4] for producer in self.producers for row in producer.rows)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with broker(tmp_path / "first") as first, broker(tmp_path / "second") as second:
        yield Scene({"first": first, "second": second})


def numbers(consumer: Consumer, producer: int) -> list[int]:
    return [message for its, message, _, _ in consumer.rows if its == producer]


def test_every_message_once_and_in_order_over_moves_there_and_back(scene: Scene) -> None:
    scene.run(
        {MOVE_NS: lambda: scene.move("first", "second"), 2 * MOVE_NS: lambda: scene.move("second", "first")},
        SPAN_NS,
        scene.all_arrived,
    )
    count = SPAN_NS * RATE_RPS // SECOND_NS
    for consumer in scene.consumers:
        for producer in (0, 1):
            assert numbers(consumer, producer) == list(range(count))
    for producer in scene.producers:
        rows = np.array(producer.rows)
        assert (rows[:, 3] >= rows[:, 2]).all() and (rows[:, 1] >= rows[:, 0]).all()
        assert not rows[:, 5].any(), "every answer came"
    assert sum(row[4] for producer in scene.producers for row in producer.rows), "the fence was met by traffic"


def test_a_fenced_broker_refuses_for_ever_until_somebody_says_where_to_go(scene: Scene) -> None:
    def reopen() -> None:
        if all(any(row[4] for row in producer.rows) for producer in scene.producers):
            scene.control["first"].open(TOPIC, ["a", "b"])
        else:  # on a busy machine nobody has met the fence yet
            scene.loop.call_at(time.monotonic_ns() + 10 * MILLISECOND_NS, reopen)

    scene.run({MOVE_NS: lambda: scene.control["first"].fence(TOPIC), 2 * MOVE_NS: reopen}, SPAN_NS)
    for producer in scene.producers:
        accepted = [row[3] >= 0 for row in producer.rows]
        assert accepted == sorted(accepted, reverse=True), "what was refused is the end of what was sent"
        assert not accepted[-1]


def test_a_broker_that_dies_takes_with_it_only_what_it_had(scene: Scene) -> None:
    answered = list[set[int]]()  # by the broker that died, of each producer

    def die() -> None:
        scene.brokers["first"].process.kill()

    def go_on() -> None:
        answered.extend({number for number, row in enumerate(its.rows) if row[3] >= 0} for its in scene.producers)
        scene.control["second"].open(TOPIC, ["a", "b"])
        for producer in scene.producers:
            producer.detach()
            producer.attach("second")
        for consumer in scene.consumers:
            consumer.unfollow()
            consumer.follow("second")

    scene.run({MOVE_NS: die, 2 * MOVE_NS: go_on}, SPAN_NS, scene.all_arrived)
    for producer in (0, 1):
        rows = np.array(scene.producers[producer].rows)
        assert (rows[:, 3] >= 0).all()
        later = set(range(len(rows))) - answered[producer]
        assert later
        for consumer in scene.consumers:
            got = numbers(consumer, producer)
            assert later <= set(got)
            firsts = list(dict.fromkeys(got))
            assert firsts == sorted(firsts)
            twice = [number for number, count in Counter(got).items() if count > 1]
            assert (rows[twice, 5] > 0).all(), "only what was sent again, as its answer died with the broker"


def test_the_subscription_at_a_broker_that_was_left_ends(scene: Scene) -> None:
    left = list[Connection | None]()

    def move() -> None:
        left.extend(consumer._now for consumer in scene.consumers)
        scene.move("first", "second")

    def ended() -> bool:
        return all(connection is not None and connection.is_closed for connection in left)

    scene.run({MOVE_NS: move}, SPAN_NS + STAY_NS + SECOND_NS, ended)
    assert len(left) == 2 and ended()
    scene.control["first"].leave(TOPIC, ["a", "b"])  # nobody is there to be cut off
    assert all(len(consumer.subscribed_ns) == 2 for consumer in scene.consumers)


class Return:
    """A consumer that leaves a broker and comes back to it, and a publisher that sends while the loop stands still."""

    def __init__(self, its: Broker, control: BrokerClient, publisher: Client, away_ns: int):
        self.loop, self.control, self.publisher, self.away_ns = Loop(), control, publisher, away_ns
        spares = Spares(self.loop, [its.addresses["nsqd"]], TOKEN, feature_negotiation=True, output_buffer_size=-1)
        self.consumer = Consumer(self.loop, TOPIC, "a", spares.take)
        self.broker, self._numbers, self.sent_count = its.addresses["nsqd"], count(), 0
        control.open(TOPIC, ["a"])
        self.consumer.go(Clock(time.time_ns()))
        self.consumer.follow(self.broker)

    def run(self) -> None:
        """Until all has come and is finished, LATEST_NS at most."""
        self.loop.call_at(time.monotonic_ns() + SHORT_NS, self._leave)
        self.loop.run()

    def _leave(self) -> None:
        self.consumer.unfollow()
        left_ns = time.monotonic_ns()
        self.loop.call_at(left_ns + self.away_ns, self.consumer.follow, self.broker)
        # It stands still from before the third to after the stay's end, which follows that burst at once.
        for tenths, still_s in ((1, 0.05), (4, 0.2), (9, 0.05), (25, 0.05)):
            self.loop.call_at(left_ns + tenths * SHORT_NS // 10, self._burst, still_s)
        self.loop.call_at(left_ns + 3 * SHORT_NS, self._end, left_ns + LATEST_NS)

    def _burst(self, still_s: float) -> None:
        for _ in range(50):
            self.publisher.publish(TOPIC, numbered(next(self._numbers)))
            self.sent_count += 1
        time.sleep(still_s)  # by then they are in the consumer's sockets

    def _end(self, latest_ns: int) -> None:
        is_finished = not self.control.queues()[TOPIC]["unfinished_count"]
        if is_finished or time.monotonic_ns() > latest_ns:
            self.loop.stop()
        else:
            self.loop.call_at(time.monotonic_ns() + 10 * MILLISECOND_NS, self._end, latest_ns)


@pytest.mark.parametrize("away_ns", [0, SHORT_NS, 2 * SHORT_NS], ids=["at once", "as its stay ends", "later"])
def test_who_comes_back_to_a_broker_gets_all_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_ns: int
) -> None:
    monkeypatch.setattr(clients, "STAY_NS", SHORT_NS)
    with (
        broker(tmp_path / "its") as its,
        closing(its.client()) as control,
        closing(Client(its.connect("ingress"), publisher=0)) as publisher,
    ):
        scene = Return(its, control, publisher, away_ns)
        scene.run()
        assert numbers(scene.consumer, 0) == list(range(scene.sent_count))
        assert control.queues()[TOPIC]["in_flight_count"] == 0


def test_a_broker_that_is_started_again_serves_nothing_before_it_opens_the_topic(tmp_path: Path) -> None:
    held = list[dict[str, dict[str, int]]]()

    def restart() -> None:
        first.process.kill()
        first.process.wait()
        ports = [word for port, at in first.addresses.items() if port != "ok" for word in (NAMES[port], at)]
        again = stack.enter_context(broker(tmp_path / "again", "-commanded", *ports))
        scene.control["first"] = again.client()

    def go_on() -> None:
        if not all(any(row[4] for row in producer.rows) for producer in scene.producers):
            scene.loop.call_at(time.monotonic_ns() + 10 * MILLISECOND_NS, go_on)
            return
        held.append(scene.control["first"].queues())
        scene.control["first"].open(TOPIC, ["a", "b"])
        for producer in scene.producers:
            producer.attach("first")
        for consumer in scene.consumers:
            consumer.follow("first")

    with ExitStack() as stack:
        first = stack.enter_context(broker(tmp_path / "first", "-commanded"))
        scene = Scene({"first": first})
        scene.run({MOVE_NS: restart, 2 * MOVE_NS: go_on}, SPAN_NS, scene.all_arrived)
    assert held == [{}] and scene.all_arrived()
    assert all(len(consumer.subscribed_ns) <= 2 for consumer in scene.consumers)
