"""What goes wrong in a live run: everything when it is due, and in order.  No process starts, and no time passes."""

from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.live import Trouble
from testbed.faults import Crash, Fault, Handover, Heal, Partition, Restart
from testbed.hosts.agent import AgentGone

MS = MILLISECOND_NS
CUT, HEALED = Partition(MS, ("b1",)), Heal(2 * MS)
CRASHED, BACK = Crash(3 * MS, "b2"), Restart(4 * MS, "b2")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """One that only sleep moves: however long this process stands still, each thing happens at its instant."""
    now_ns = 0

    def sleep(seconds: float) -> None:
        nonlocal now_ns
        now_ns += round(seconds * SECOND_NS)

    monkeypatch.setattr("testbed.play.time", SimpleNamespace(time_ns=lambda: now_ns, sleep=sleep))
    monkeypatch.setattr("testbed.play.Clock", lambda epoch_ns: SimpleNamespace(now_ns=lambda: now_ns - epoch_ns))
    return sleep


def test_servers_go_before_their_node_and_come_before_it() -> None:
    done: list[tuple[str, object]] = []

    def note(what: str, of: object, waits: bool = True) -> None:
        assert waits != (what == "restart"), "what hinders a node's start may end only later"
        done.append((what, of))

    site: Any = SimpleNamespace(apply=partial(note, "apply"))
    doings = {name: partial(note, name) for name in ("crash", "restart")}
    fleet: Any = SimpleNamespace(check=lambda: None, coming={}, **doings)
    handover = Handover(0, "uav-1", "site2")
    faults = (CUT, HEALED, CRASHED, BACK)
    trouble = Trouble(site, fleet, [handover], faults, partial(note, "kill"), partial(note, "start"))
    trouble.play.begin(0)
    trouble.play.until(10 * MS)
    assert done == [
        ("apply", handover), ("apply", CUT), ("apply", HEALED),
        ("kill", "b2"), ("crash", "b2"), ("start", "b2"), ("restart", BACK),
    ]  # fmt: skip
    assert [fault for _, fault in trouble.faults] == [CUT, HEALED, CRASHED], "the restart is told when it came"
    assert trouble.samples == [(0, "uav-1", "handover_lateness_ns", 0.0)]


def test_a_crash_is_told_when_all_of_it_is_down(clock: Callable[[float], None]) -> None:
    fleet: Any = SimpleNamespace(check=lambda: None, coming={}, crash=lambda node: clock(2e-3))
    site: Any = SimpleNamespace()
    trouble = Trouble(site, fleet, (), [CRASHED], lambda node: clock(1e-3))
    trouble.play.begin(0)
    trouble.play.until(10 * MS)
    assert trouble.faults == [(6 * MS, CRASHED)], "what a broker opens until then ends with it"


def restarted(came: Mapping[str, int | MachineError], *faults: Fault) -> Trouble:
    """Played to its end; ``came``: when nodes began, or why not."""

    def begun_ns(node: str) -> int:
        fleet.coming = {other: process for other, process in fleet.coming.items() if other != node}
        if isinstance(of := came[node], MachineError):
            raise of
        return of

    def restart(fault: Restart, waits: bool) -> None:
        fleet.coming = {**fleet.coming, fault.node: f"node-{fault.node}.1"}

    fleet: Any = SimpleNamespace(
        check=lambda: None, coming={}, begun_ns=begun_ns, restart=restart, crash=lambda node: None
    )
    site: Any = SimpleNamespace(apply=lambda fault: None)
    trouble = Trouble(site, fleet, (), faults, lambda node: None)
    trouble.play.begin(0)
    trouble.play.until(10 * MS)
    trouble.arrive()
    return trouble


def test_a_restart_is_when_the_node_had_come_up() -> None:
    trouble = restarted({"b2": 7 * MS}, CRASHED, BACK, Heal(5 * MS))
    assert [fault for _, fault in trouble.faults] == [CRASHED, Heal(5 * MS), BACK] and trouble.faults[-1][0] == 7 * MS
    assert not trouble.never_up and not trouble.notes


def test_a_node_that_never_comes_up_is_no_restart_and_is_told() -> None:
    trouble = restarted({"b2": MachineError("agent node-b2.1, connect: no ZooKeeper")}, CRASHED, BACK)
    assert [fault for _, fault in trouble.faults] == [CRASHED]
    assert trouble.never_up == ["node-b2.1"] and "no ZooKeeper" in trouble.notes[0]


def test_a_node_that_is_crashed_before_it_came_up_was_never_restarted() -> None:
    again = Crash(6 * MS, "b2")
    trouble = restarted({"b2": AgentGone("agent node-b2.1 has ended")}, CRASHED, BACK, again)
    assert [fault for _, fault in trouble.faults] == [CRASHED, again]
    assert not trouble.never_up and len(trouble.notes) == 1
    trouble = restarted({"b2": 5 * MS}, CRASHED, BACK, again)
    assert [fault for _, fault in trouble.faults] == [CRASHED, BACK, again] and not trouble.notes


def test_a_node_that_came_up_while_it_was_crashed_again_stays_down() -> None:
    again = Crash(6 * MS, "b2")
    trouble = restarted({"b2": 6 * MS + 10}, CRASHED, BACK, again)
    assert trouble.faults[1:] == [(6 * MS, BACK), (6 * MS, again)], "in this order, or its outage would end here"
