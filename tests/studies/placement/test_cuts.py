"""When partitions lie between a site and a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.clients import Moved
from core.errors import SpecError
from studies.placement.virtual import _apart, _cut_spans, check
from testbed.faults import Fault, Heal, LinkDelay, LinkLoss, Partition

HOSTS = {"proxy1": "site1", "broker1": "site1", "broker2": "site2", "broker2-agent": "site2"}
END_NS = 100


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


def test_links_that_take_longer_do_so_for_modelled_messages_too() -> None:
    def asked(*faults: Fault) -> Any:
        return SimpleNamespace(config=SimpleNamespace(drain=False), faults=faults)

    testbed: Any = None
    check(testbed, asked(LinkLoss(1, "*", "*", 0.5), LinkDelay(1, "*", "*", 0)))
    with pytest.raises(SpecError, match="modelled messages take as long as the topology says"):
        check(testbed, asked(LinkDelay(1, "*", "*", 40)))


def cut(*faults: Fault) -> tuple[tuple[int, int], ...]:
    asked: Any = SimpleNamespace(topology=SimpleNamespace(host_of=HOSTS.__getitem__), faults=faults, duration_ns=END_NS)
    place: Any = SimpleNamespace(proxy="proxy1")
    return _cut_spans(asked, place, "broker2")


@pytest.mark.parametrize(
    ("faults", "spans"),
    [
        ((Partition(10, ("broker2",)), Heal(40, ("broker2",))), ((10, 40),)),
        ((Partition(10, ("broker2",)), Heal(40, ())), ((10, 40),)),
        ((Partition(10, ("broker2",)),), ((10, END_NS),)),
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
