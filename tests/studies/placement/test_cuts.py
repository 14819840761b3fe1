"""When partitions lie between a site and a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from studies.placement.virtual import _cut_spans
from testbed.faults import Fault, Heal, Partition

HOSTS = {"proxy1": "site1", "broker1": "site1", "broker2": "site2", "broker2-agent": "site2"}
END_NS = 100


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
