"""What brokers report and load managers decide from: the entries of the coordination store, and the strategy's side.

A *strategy* is what makes one system of the family differ from another: what is a unit, what is reported of it, where
a new one goes, and which are to move.  Nodes know nothing else of the system that they belong to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from systems.parts.topic_placement import Summary
from systems.parts.vivaldi import Coordinate

OWNERS = "/owner/"  # entries of the store: unit -> broker
LOADS = "/load/"  # broker -> BrokerReport in JSON
LEADER = "/leader"  # the elected load manager


class Rates(NamedTuple):
    """Message rates of a topic or unit at its broker."""

    in_rps: float = 0.0
    out_rps: float = 0.0


class Clients(NamedTuple):
    """Where the clients of a unit are, as far as they have said so."""

    producers: Sequence[Coordinate]
    consumers: Sequence[Coordinate]


class UnitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A broker's report on one unit; what a system does not report is left out."""

    in_rps: float = 0.0
    out_rps: float = 0.0
    summary: Summary | None = None  # ePulsar: of constant size
    producers: tuple[Coordinate, ...] = ()  # AllPairs: everybody
    consumers: tuple[Coordinate, ...] = ()


class BrokerReport(msgspec.Struct, frozen=True):
    """A broker's entry in the store.  ``coordinate``: None until its agent has said; ``utilisation``: of resources."""

    coordinate: Coordinate | None
    out_rps: float
    units: dict[str, UnitRecord]
    utilisation: float = 0.0


@dataclass
class View:
    """What the load manager sees."""

    brokers: dict[str, BrokerReport] = field(default_factory=dict)  # those alive, by name
    owners: dict[str, str] = field(default_factory=dict)  # unit -> broker
    held: frozenset[str] = frozenset()  # units that are not to move now
    rates: dict[str, Rates] = field(default_factory=dict)  # of units, as last reported by whoever owned them

    def reported(self, broker: str, report: BrokerReport) -> None:
        """Take a broker's report in; a silent unit that is new in it has not been measured yet."""
        before = self.brokers.get(broker)
        for unit, record in report.units.items():
            rates = Rates(record.in_rps, record.out_rps)
            if any(rates) or (before is not None and unit in before.units):
                self.rates[unit] = rates
        self.brokers[broker] = report

    def owned(self) -> dict[str, UnitRecord]:
        """The units with a report by the broker that owns them now: what is older than a migration does not count."""
        return {
            unit: self.brokers[broker].units[unit]
            for unit, broker in self.owners.items()
            if broker in self.brokers and unit in self.brokers[broker].units
        }


class Strategy(Protocol):
    """One system's way of placing topics; without state."""

    def unit_of(self, topic: str) -> str:
        """The unit that a topic belongs to."""
        ...

    def record(self, clients: Clients, broker: Coordinate | None, rates: Rates) -> UnitRecord:
        """A broker's report on a unit that it owns; ``broker``: where it is."""
        ...

    def first(self, unit: str, view: View, client: Coordinate | None) -> str:
        """The broker of a unit that nobody owns; "": none is known.  ``client``: where the one who asks is."""
        ...

    def moves(self, view: View) -> Mapping[str, str]:
        """Unit -> its next broker, of those that shall leave theirs; "": to be found when a client asks."""
        ...
