"""What becomes of messages over arrays, against the same one by one; and cases that can be reckoned by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clients import Happening, Joined, Left, Moved, Role, TopicLoad
from core.errors import SystemFault
from core.units import MILLISECOND_NS, NEVER_NS, SECOND_NS
from systems.placement.messages import Attach, Detach, Fence, Open, Subscribed, Traffic, Unsubscribed, Used
from testbed.brokers.machine import BrokerMachine
from testbed.virtual.topic_kernel import Roads, fates
from testbed.virtual.topic_plane import VirtualTopicPlane
from tests.testbed.virtual import topic_twin

MS = MILLISECOND_NS
BROKERS = ("broker1", "broker2")
ROADS = Roads(BROKERS, 8 * MS, np.array([[0, 15], [15, 0]], np.int64) * MS, {})


class Load:
    """One topic, or several; one producer ``p``, consumers ``c1`` ..."""

    site_count = 2

    def __init__(self, topics: int = 1, consumers: int = 1, rate_rps: float = 100.0):
        self.topics = tuple(TopicLoad(f"t{n}", rate_rps, 1_000, 40 * MS) for n in range(topics))
        self.homes = {"p": 0, **{f"c{n}": n % 2 for n in range(1, consumers + 1)}}
        self.joins = [Joined(0, "p", topic.name, Role.PRODUCER) for topic in self.topics]
        self.joins += [
            Joined(0, name, topic.name, Role.CONSUMER) for topic in self.topics for name in self.homes if name != "p"
        ]

    def happenings(self, until_ns: int) -> list[Happening]:
        return list(self.joins)


def plane_of(load: Any, *more: Happening) -> VirtualTopicPlane:
    return VirtualTopicPlane(load, BROKERS, [*load.joins, *more])


def start(plane: VirtualTopicPlane, broker: str, at_ns: int, consumers: int = 1, topic: str = "t0") -> None:
    plane.actuate(broker, Open(topic), at_ns)
    plane.actuate("p", Attach(topic, broker), at_ns)
    for n in range(1, consumers + 1):
        plane.actuate(broker, Subscribed(topic, f"c{n}"), at_ns)


def test_a_message_takes_both_ways() -> None:
    plane = plane_of(Load(consumers=2))
    start(plane, "broker1", 0, consumers=2)
    fate = fates(plane, ROADS, SECOND_NS, 1e15, 1)["t0"]
    assert len(fate.born_ns) == 100
    assert set(fate.latency_ns) == {(8 + 0 + 15 + 8) * MS}  # c1 is at the other site; c2 has it sooner
    assert set(fate.consumer_count) == {2} and not fate.late_count.any()


def test_what_comes_after_the_fence_is_sent_again_and_what_is_cut_off_waits() -> None:
    plane = plane_of(Load())
    start(plane, "broker1", 0)
    plane.actuate("broker1", Fence("t0"), 500 * MS)
    plane.actuate("p", Detach("t0"), 520 * MS)
    start(plane, "broker2", 600 * MS)
    fate = fates(plane, ROADS, SECOND_NS, 1e15, 1)["t0"]
    assert len(fate.born_ns) == 100 and (np.diff(fate.born_ns) > 0).all()  # each once, none lost
    late = (fate.born_ns + 8 * MS >= 500 * MS) & (fate.born_ns < 600 * MS)
    expected = np.where(late, 600 * MS - fate.born_ns, 0) + (8 + 15 + 0 + 8) * MS
    expected[fate.born_ns + 8 * MS < 500 * MS] = (8 + 0 + 15 + 8) * MS
    np.testing.assert_array_equal(fate.latency_ns, expected)
    assert fate.late_count.sum() == np.count_nonzero(expected > 40 * MS)


def test_a_handover_changes_the_way_at_its_instant() -> None:
    plane = plane_of(Load(), Moved(500 * MS, "p", 1), Moved(500 * MS, "c1", 0))
    start(plane, "broker1", 0)
    fate = fates(plane, ROADS, SECOND_NS, 1e15, 1)["t0"]
    # Sent from where the producer was; delivered where the consumer is when the broker sends it on.
    up = np.where(fate.born_ns < 500 * MS, 8, 23)
    down = np.where(fate.born_ns + up * MS < 500 * MS, 23, 8)
    received_ns = np.maximum.accumulate(fate.born_ns + (up + down) * MS)  # nothing overtakes
    np.testing.assert_array_equal(fate.latency_ns, received_ns - fate.born_ns)


def test_an_overloaded_broker_queues() -> None:
    plane = plane_of(Load(consumers=2))
    start(plane, "broker1", 0, consumers=2)
    fate = fates(plane, ROADS, SECOND_NS, 100.0, 1)["t0"]  # 200 a second are wanted of it
    waits_ns = fate.latency_ns - fate.latency_ns[0]
    np.testing.assert_allclose(waits_ns, np.arange(100) * 10 * MS, atol=3)


def test_who_never_comes_back_loses_messages_and_who_has_left_is_owed_none() -> None:
    plane = plane_of(Load(consumers=2), Left(700 * MS, "c2", "t0", Role.CONSUMER))
    start(plane, "broker1", 0, consumers=2)
    plane.actuate("broker1", Unsubscribed("t0", "c2"), 710 * MS)
    plane.crash("c1", 300 * MS)
    fate = fates(plane, ROADS, SECOND_NS, 1e15, 1)["t0"]
    assert (fate.latency_ns[fate.born_ns > 300 * MS] == -1).all()
    assert set(fate.consumer_count[fate.born_ns + 8 * MS < 700 * MS]) == {2}
    assert set(fate.consumer_count[fate.born_ns + 8 * MS >= 700 * MS]) == {1}


def test_what_no_broker_ever_accepts_is_late_for_everybody_who_still_wants_it() -> None:
    plane = plane_of(Load(consumers=2, rate_rps=10.0), Left(7 * SECOND_NS, "c2", "t0", Role.CONSUMER))
    start(plane, "broker1", 0, consumers=2)
    plane.actuate("broker1", Fence("t0"), 5 * SECOND_NS)  # and nobody opens it again
    plane.actuate("p", Detach("t0"), 5 * SECOND_NS + 20 * MS)
    fate = fates(plane, ROADS, 20 * SECOND_NS, 1e15, 1)["t0"]
    assert len(fate.born_ns) == 100 and (np.diff(fate.born_ns) > 0).all(), "the last 10 s may be taken yet"
    lost = fate.born_ns + 8 * MS >= 5 * SECOND_NS
    np.testing.assert_array_equal(fate.latency_ns == -1, lost)
    np.testing.assert_array_equal(fate.late_count[lost], np.where(fate.born_ns[lost] < 7 * SECOND_NS, 2, 1))
    np.testing.assert_array_equal(fate.consumer_count[lost], fate.late_count[lost])


def test_a_cut_holds_messages_until_its_end() -> None:
    plane = plane_of(Load())
    start(plane, "broker1", 0)
    roads = Roads(BROKERS, 8 * MS, ROADS.delay_ns, {(0, 0): ((200 * MS, 400 * MS),)})
    fate = fates(plane, roads, SECOND_NS, 1e15, 1)["t0"]
    held = (fate.born_ns >= 200 * MS) & (fate.born_ns < 400 * MS)
    np.testing.assert_array_equal(fate.latency_ns[held], 400 * MS - fate.born_ns[held] + 31 * MS)
    assert (fate.latency_ns[~held] >= 31 * MS).all()


def test_cuts_that_overlap_hold_messages_until_the_last_one_ends() -> None:
    plane = plane_of(Load())
    start(plane, "broker1", 0)
    roads = Roads(BROKERS, 8 * MS, ROADS.delay_ns, {(0, 0): ((200 * MS, 400 * MS), (300 * MS, 600 * MS))})
    fate = fates(plane, roads, SECOND_NS, 1e15, 1)["t0"]
    held = (fate.born_ns >= 200 * MS) & (fate.born_ns < 600 * MS)
    np.testing.assert_array_equal(fate.latency_ns[held], 600 * MS - fate.born_ns[held] + 31 * MS)


def test_what_is_sent_into_a_cut_that_lasts_never_comes() -> None:
    """The producer is cut off from the one broker, a consumer from the other."""
    for cut, broker in (((0, 0), "broker1"), ((1, 1), "broker2")):
        plane = plane_of(Load())
        start(plane, broker, 0)
        roads = Roads(BROKERS, 8 * MS, ROADS.delay_ns, {cut: ((5 * SECOND_NS, NEVER_NS),)})
        fate = fates(plane, roads, 20 * SECOND_NS, 1e15, 1)["t0"]
        before = fate.latency_ns >= 0
        assert fate.born_ns[before].max() == pytest.approx(5 * SECOND_NS, abs=40 * MS)
        assert (fate.born_ns[~before].min() > fate.born_ns[before].max()) and (fate.late_count[~before] == 1).all()
        assert fate.born_ns[~before].max() > 9.9 * SECOND_NS


def test_what_waits_in_a_broker_that_crashes_goes_with_it() -> None:
    """20 a second come, 10 go on: 110 of 220 wait after 11 s."""
    at_ns, back_ns = 11 * SECOND_NS, 15 * SECOND_NS
    plane = plane_of(Load(rate_rps=20.0))
    start(plane, "broker1", 0)
    plane.crash("broker1", at_ns)
    plane.actuate("p", Detach("t0"), at_ns)
    start(plane, "broker1", back_ns)
    for persist, lost_count in ((None, 110), (lambda topic, broker, count: np.zeros(count, np.int64), 0)):
        fate = fates(plane, ROADS, 30 * SECOND_NS, 10.0, 1, persist)["t0"]
        assert len(fate.born_ns) == 600
        received_ns = np.where(fate.latency_ns < 0, NEVER_NS, fate.born_ns + fate.latency_ns)
        old_ns, new_ns = np.split(received_ns, [np.searchsorted(fate.born_ns, at_ns - 8 * MS)])
        assert np.count_nonzero(old_ns == NEVER_NS) == pytest.approx(lost_count, abs=2)
        assert not ((old_ns > at_ns + 31 * MS) & (old_ns < back_ns)).any()
        assert lost_count == 0 or old_ns[old_ns < NEVER_NS].max() <= at_ns + 31 * MS
        begin_ns = back_ns if lost_count else back_ns + 11 * SECOND_NS  # what is stored comes first
        assert new_ns.min() == pytest.approx(begin_ns + (100 + 31) * MS, abs=250 * MS)


def test_what_waited_in_a_broker_that_crashed_is_nothing_to_its_next_life() -> None:
    plane = VirtualTopicPlane(Load(), BROKERS, Load().joins, BrokerMachine(), out_rps=10.0)
    start(plane, "broker1", 0)
    plane.advance(SECOND_NS)
    assert plane.report()
    plane.crash("broker1", SECOND_NS)
    plane.advance(SECOND_NS + MS)
    assert dict(plane.report())["broker1"] == Used(0.0, 0.0, 0.0)


def test_rates_are_those_of_who_is_connected() -> None:
    plane = plane_of(Load(consumers=2))

    def rates() -> list[tuple[str, object]]:
        return [told for told in plane.report() if isinstance(told[1], Traffic)]

    assert rates() == []
    start(plane, "broker1", 0, consumers=2)
    assert rates() == [("broker1", Traffic("t0", 100.0, 200.0))]
    plane.actuate("broker1", Fence("t0"), MS)
    assert rates() == []


def test_a_broker_uses_its_machine_by_what_it_takes_in_and_sends_out() -> None:
    """Messages of 1,000 bytes, 200 in and 400 out a second; 320 can be sent out, so that 80 a second wait."""
    load = Load(topics=2, consumers=2)
    machine = BrokerMachine(memory_bytes=1e6, network_bytes=1e6, topic_bytes=1e5)
    plane = VirtualTopicPlane(load, BROKERS, load.joins, machine, out_rps=320.0)
    for topic in ("t0", "t1"):
        start(plane, "broker1", 0, consumers=2, topic=topic)

    def told(second: int) -> dict[str, Used]:
        plane.advance(second * SECOND_NS)
        return {broker: report for broker, report in plane.report() if isinstance(report, Used)}

    idle = Used(0.0, 0.0, 0.0)
    assert told(1) == {"broker1": Used(1.0, pytest.approx(0.28), 0.32), "broker2": idle}
    assert told(3)["broker1"].memory == pytest.approx(0.44)
    plane.actuate("broker1", Fence("t1"), 3 * SECOND_NS)  # 200 a second are left
    assert told(4)["broker1"] == Used(0.625, pytest.approx(0.1 + 0.12), 0.2)
    assert told(6)["broker1"].memory == pytest.approx(0.1)
    plane.actuate("broker1", Fence("t0"), 6 * SECOND_NS)
    assert told(7) == {"broker1": idle, "broker2": idle}


def test_a_command_about_nothing_is_refused() -> None:
    with pytest.raises(SystemFault, match="commanded"):
        plane_of(Load()).actuate("broker1", Open("no such topic"), 0)


INSTANTS = st.integers(0, 1_000).map(lambda n: n * MS)


@st.composite
def histories(draw: st.DrawFn) -> VirtualTopicPlane:
    """Two topics that wander between two brokers, which may crash; clients that move, or are cut off."""
    load = Load(topics=2, consumers=2, rate_rps=draw(st.sampled_from((40.0, 137.0))))
    moves = sorted(
        draw(st.lists(st.tuples(INSTANTS, st.sampled_from(tuple(load.homes)), st.integers(0, 1)), max_size=4))
    )
    leaves = draw(st.sampled_from((None, 600 * MS)))
    happenings: list[Happening] = [Moved(*move) for move in moves]
    if leaves:
        happenings += [Left(leaves, "c1", "t0", Role.CONSUMER), Joined(leaves + 1, "c1", "t0", Role.CONSUMER)]
    deeds: list[tuple[int, str, object]] = []  # a command of a node, or its crash
    for topic in ("t0", "t1"):
        broker, now_ns = draw(st.sampled_from(BROKERS)), draw(st.integers(0, 200)) * MS
        begun = [(broker, Open(topic)), ("p", Attach(topic, broker))]
        deeds += [(now_ns, *deed) for deed in [*begun, *((broker, Subscribed(topic, name)) for name in ("c1", "c2"))]]
        for _ in range(draw(st.integers(0, 3))):
            now_ns += draw(st.integers(1, 300)) * MS
            deeds.append((now_ns, broker, draw(st.sampled_from((Fence(topic), None)))))
            deeds.append((now_ns + draw(st.integers(0, 20)) * MS, "p", Detach(topic)))
            broker, now_ns = draw(st.sampled_from(BROKERS)), now_ns + draw(st.integers(20, 200)) * MS
            deeds.append((now_ns, broker, Open(topic)))
            deeds.append((now_ns + draw(st.integers(0, 30)) * MS, "p", Attach(topic, broker)))
            for name in draw(st.permutations(("c1", "c2")))[: draw(st.integers(1, 2))]:
                deeds.append((now_ns + draw(st.integers(0, 30)) * MS, broker, Subscribed(topic, name)))
    plane = plane_of(load, *happenings)
    for at_ns, node, command in sorted(deeds, key=lambda deed: deed[0]):
        if command is None:
            plane.crash(node, at_ns)
        else:
            plane.actuate(node, command, at_ns)
    return plane


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from((1e15, 3_000.0, 300.0)), st.integers(0, 5))
def test_arrays_are_as_one_by_one(plane: VirtualTopicPlane, out_rps: float, seed: int) -> None:
    roads = Roads(
        BROKERS,
        8 * MS,
        ROADS.delay_ns,
        {(1, 0): ((100 * MS, 250 * MS), (200 * MS, 300 * MS)), (0, 1): ((700 * MS, NEVER_NS),)},
    )
    until_ns = SECOND_NS if seed else 11 * SECOND_NS
    found = fates(plane, roads, until_ns, out_rps, seed)
    for name, expected in topic_twin.fates(plane, roads, until_ns, out_rps, seed).items():
        rows = sorted(zip(*(column.tolist() for column in found[name]), strict=True))
        assert [row[0] for row in rows] == [one.born_ns for one in expected]
        for row, one in zip(rows, expected, strict=True):
            assert row[1] == pytest.approx(one.latency_ns, abs=3) and row[2:] == (one.late_count, one.consumer_count)
