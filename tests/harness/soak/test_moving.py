"""Publishers that move under the soak's faults: some schedules hold, and what loses or overtakes is found."""

from collections import Counter
from collections.abc import Callable
from itertools import islice

import msgspec
import numpy as np
import pytest

from core.errors import SystemFault
from core.records import Int64, Schedule
from core.units import SECOND_NS
from harness.soak.draw import draw
from harness.soak.moving import play, schedules
from harness.soak.schedule import SoakSchedule
from harness.soak.trial import RULES
from systems.api import Delivery, Effect, Event, Timer
from systems.distribution.tb_adaptor import ADAPTOR, BrokerAgent, NewLimit
from testbed.nodes.journal import NodeJournal
from testbed.nodes.member import Member
from testbed.virtual.moving import Emissions, MovingPlane, Outbox
from testbed.virtual.scheduler import EventLoop


def test_nothing_is_lost_and_order_is_kept() -> None:
    seen = Counter[str]()
    for schedule in islice(schedules(9_001), 16):
        played = play(schedule)
        assert played.breaches == (), schedule.seed
        seen += played.seen
    assert min(seen[name] for name in ("moves", "orders", "resent", "settled")) > 0


def test_a_broker_that_is_cut_off_for_long_is_judged_when_all_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partition lasts until 42.6 s, the load until 14 s."""
    instants_ns = list[int]()
    run = EventLoop.run

    def told(loop: EventLoop, until_ns: int) -> NodeJournal:
        instants_ns.append(until_ns)
        return run(loop, until_ns)

    monkeypatch.setattr(EventLoop, "run", told)
    schedule = draw(1_150)
    assert play(schedule).breaches == ()
    assert instants_ns[0] >= max(schedule.instants_ns()) > schedule.load_end_ns


def found(count: int) -> set[str]:
    return {breach.invariant for schedule in islice(schedules(9_001), count) for breach in play(schedule).breaches}


def test_publishers_that_do_not_wait_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(plane: MovingPlane) -> Int64:
        closed: Int64 = np.where(plane.up_ns[plane.fleet.broker_of] > plane.fleet.now_ns, 2**62, 0)
        return closed

    monkeypatch.setattr(MovingPlane, "opens_ns", at_once)
    assert "order is kept" in found(6)


def test_publishers_that_forget_what_was_not_acknowledged_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(outbox: Outbox, unacknowledged: Emissions) -> None:
        return None

    monkeypatch.setattr(Outbox, "again", forgotten)
    assert "nothing is lost" in found(16)


def test_a_broker_that_keeps_its_first_limit_is_found_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = BrokerAgent.handle

    def deaf(agent: BrokerAgent, event: Event, now_ns: int) -> list[Effect]:
        limits = isinstance(event, Delivery) and isinstance(event.message, NewLimit)
        return [] if limits and agent.node_id == "broker1" and agent.limits else handle(agent, event, now_ns)

    monkeypatch.setattr(BrokerAgent, "handle", deaf)
    assert "tokens conserved" in found(10)


def test_a_timer_that_outlives_its_node_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ring(member: Member, timer: str, serial: int, true_ns: int) -> None:
        member._body.occur(member, Timer(timer, true_ns + member.clock_offset_ns))

    monkeypatch.setattr(Member, "_ring", ring)
    crash = ({"kind": "crash", "at": "3100ms", "node": ADAPTOR}, {"kind": "restart", "at": "3200ms", "node": ADAPTOR})
    schedule = msgspec.structs.replace(next(schedules(9_001)), troubles=(crash,))
    assert "timers die in a crash" in {breach.invariant for breach in play(schedule).breaches}


def test_a_fault_of_a_system_is_a_breach_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def report(plane: MovingPlane) -> None:
        raise SystemFault("broker1 said nothing", "have it report")

    monkeypatch.setattr(MovingPlane, "report", report)
    (breach,) = play(next(schedules(9_001))).breaches
    assert (breach.invariant, breach.what) == (RULES, "broker1 said nothing; have it report")


def kill_of(broker: str) -> SoakSchedule:
    kill = ({"kind": "crash", "at": "3100ms", "node": broker}, {"kind": "restart", "at": "3200ms", "node": broker})
    return msgspec.structs.replace(next(schedules(9_001)), troubles=(kill,))


def test_publishers_of_a_broker_that_never_opens_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their messages are not lost, they wait; but for ever."""
    restart = MovingPlane.restart

    def shut(plane: MovingPlane, node: str) -> None:
        up_ns = plane.up_ns.copy()
        restart(plane, node)
        plane.up_ns[:] = up_ns

    monkeypatch.setattr("harness.soak.moving.PATIENCE_NS", 5 * SECOND_NS)
    assert "what waits will be sent" not in {breach.invariant for breach in play(kill_of("broker1")).breaches}
    monkeypatch.setattr(MovingPlane, "restart", shut)
    names = {breach.invariant for breach in play(kill_of("broker1")).breaches}
    assert "what waits will be sent" in names
    assert "nothing is lost" not in names


def test_a_publisher_that_is_open_and_sends_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Outbox.__init__

    def with_a_sleeper(
        outbox: Outbox, topic: Schedule, end_ns: int, opens_ns: Callable[[], Int64], make_room: Callable[[int], None]
    ) -> None:
        def heard_ns() -> Int64:
            heard = opens_ns().copy()
            heard[0] = 2**61
            return heard

        make(outbox, topic, end_ns, heard_ns, make_room)

    monkeypatch.setattr("harness.soak.moving.PATIENCE_NS", 5 * SECOND_NS)
    monkeypatch.setattr(Outbox, "__init__", with_a_sleeper)
    names = {breach.invariant for breach in play(kill_of("broker1")).breaches}
    assert "what waits will be sent" in names
    assert "nothing is lost" not in names
