"""When partitions lie between a site and a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.clients import Moved
from core.errors import SpecError
from core.units import NEVER_NS
from studies.placement.virtual import _apart, _cut_spans, check
from testbed.faults import Crash, Fault, Handover, Heal, LinkDelay, LinkLoss, Partition, Restart

HOSTS = {"proxy1": "site1", "broker1": "site1", "broker2": "site2", "broker2-agent": "site2"}


def apart(*side: str) -> str:
    """``uav`` begins at the first site, and comes to the second."""
    hosts = {**HOSTS, "proxy2": "site2", "uav": "uav"}
    asked: Any = SimpleNamespace(
        topology=SimpleNamespace(host_of=hosts.__getitem__),
        places=[SimpleNamespace(proxy="proxy1"), SimpleNamespace(proxy="proxy2")],
        load=SimpleNamespace(homes={"uav": 0}),
        happenings=[Moved(5, "uav", 1)],
    )
    return _apart(asked, Partition(10, side))


def test_clients_are_on_the_side_of_their_sites() -> None:
    assert apart("broker1") == "uav", "its host is the proxy's"
    assert apart("uav") == "uav" and apart("proxy1", "uav") == "uav", "it leaves that site"
    assert apart("proxy1", "proxy2", "uav") == ""


def checked(*faults: Fault) -> None:
    asked: Any = SimpleNamespace(config=SimpleNamespace(drain=False), faults=faults, homes={"uav": 0})
    testbed: Any = None
    check(testbed, asked)


def test_links_that_take_longer_do_so_for_modelled_messages_too() -> None:
    checked(LinkLoss(1, "*", "*", 0.5), LinkDelay(1, "*", "*", 0))
    with pytest.raises(SpecError, match="modelled messages take as long as the topology says"):
        checked(LinkDelay(1, "*", "*", 40))


def test_clients_neither_crash_nor_move_but_as_the_workload_says() -> None:
    checked(Crash(1, "broker1"), Restart(2, "broker1"), Handover(3, "broker1", "cloud"))
    with pytest.raises(SpecError, match="clients are not crashed"):
        checked(Crash(1, "uav"), Restart(2, "uav"))
    with pytest.raises(SpecError, match="its messages would not move"):
        checked(Handover(1, "uav", "cloud"))


def cut(*faults: Fault) -> tuple[tuple[int, int], ...]:
    asked: Any = SimpleNamespace(topology=SimpleNamespace(host_of=HOSTS.__getitem__), faults=faults)
    place: Any = SimpleNamespace(proxy="proxy1")
    return _cut_spans(asked, place, "broker2")


@pytest.mark.parametrize(
    ("faults", "spans"),
    [
        ((Partition(10, ("broker2",)), Heal(40, ("broker2",))), ((10, 40),)),
        ((Partition(10, ("broker2",)), Heal(40, ())), ((10, 40),)),
        ((Partition(10, ("broker2",)),), ((10, NEVER_NS),)),
        ((Partition(10, ("broker2", "proxy1")),), ()),  # on one side
        ((Partition(10, ("broker2",)), Partition(15, ("broker2",)), Heal(20, ("broker2",))), ((10, 20),)),
        ((Partition(10, ("broker2",)), Heal(40, ("broker2-agent",))), ((10, 40),)),  # on one host
        (
            (Partition(10, ("proxy1",)), Partition(15, ("broker2",)), Heal(20, ("proxy1",)), Heal(40, ("broker2",))),
            ((10, 20), (15, 40)),
        ),
    ],
)
def test_cuts_are_of_hosts_and_end_when_they_heal(
    faults: tuple[Fault, ...], spans: tuple[tuple[int, int], ...]
) -> None:
    assert cut(*faults) == spans
