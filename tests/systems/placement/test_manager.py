"""A load manager alone: known answers."""

from types import SimpleNamespace
from typing import Any

from core.units import SECOND_NS
from systems.api import Delivery, Send, Start, Timer
from systems.placement.manager import ManagerNode
from systems.placement.messages import Changed, Done, Release
from systems.placement.monitoring import OWNERS
from systems.placement.options import Options


def test_a_migration_that_never_ends_is_given_up_though_the_clock_is_set_back() -> None:
    anywhere: Any = SimpleNamespace(moves=lambda view: dict.fromkeys(view.owners.keys() - view.held, "broker2"))
    node = ManagerNode("manager1", "store", ("broker1", "broker2"), anywhere, Options(executors=1), 0)
    node.handle(Start(None), 0)
    node.handle(Delivery("store", Done(0, True)), 100 * SECOND_NS)
    node.handle(Delivery("store", Changed(f"{OWNERS}red", "broker1")), 101 * SECOND_NS)
    released = []
    for now_s in (105, 50, 55, 60):  # every 5 s, and 60 s back
        effects = node.handle(Timer("place", now_s * SECOND_NS), now_s * SECOND_NS)
        released.append([one.message for one in effects if isinstance(one, Send)])
    assert released == [[Release("red", "broker2")], [], [], [Release("red", "broker2")]]
