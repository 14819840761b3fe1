"""What goes wrong in a live run: everything when it is due, and in order.  No process is started."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from core.units import MILLISECOND_NS
from studies.placement.live import Trouble
from testbed.faults import Crash, Handover, Heal, Partition, Restart

MS = MILLISECOND_NS
CUT, HEALED = Partition(MS, ("b1",)), Heal(2 * MS)
CRASHED, BACK = Crash(3 * MS, "b2"), Restart(4 * MS, "b2")


def test_servers_go_before_their_node_and_come_before_it() -> None:
    done: list[tuple[str, object]] = []

    def note(what: str, of: object, waits: bool = True) -> None:
        assert waits != (what == "restart"), "what hinders a node's start may end only later"
        done.append((what, of))

    site: Any = SimpleNamespace(apply=partial(note, "apply"))
    doings = {name: partial(note, name) for name in ("crash", "restart")}
    fleet: Any = SimpleNamespace(check=lambda: None, **doings)
    handover = Handover(0, "uav-1", "site2")
    faults = (CUT, HEALED, CRASHED, BACK)
    trouble = Trouble(site, fleet, [handover], faults, partial(note, "kill"), partial(note, "start"))
    trouble.play.begin(0)
    trouble.play.until(10 * MS)
    assert done == [
        ("apply", handover), ("apply", CUT), ("apply", HEALED),
        ("kill", "b2"), ("crash", "b2"), ("start", "b2"), ("restart", BACK),
    ]  # fmt: skip
    assert [fault for _, fault in trouble.faults] == list(faults)
    (late,) = trouble.samples
    assert late[:3] == (0, "uav-1", "handover_lateness_ns") and late[3] >= 0
