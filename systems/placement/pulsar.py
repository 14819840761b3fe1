"""pulsar: Pulsar's control plane, the baseline of ePulsar's evaluation (3.1, 3.6).

Bundles of topics, by the hash of their names, are what is watched and moved.  A bundle goes where its hash falls; an
overloaded broker gives up its busiest bundles, one after the other, and clients find out by asking the load manager
again, which then picks the broker of the least load.  Latency is nobody's concern.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.errors import SpecError
from systems.parts.consistent_hash import name_hash, range_of
from systems.parts.topic_placement import UTILISATION
from systems.parts.vivaldi import Coordinate
from systems.placement.cluster import system
from systems.placement.monitoring import Clients, Rates, UnitRecord, View
from systems.placement.options import Options


@dataclass(frozen=True)
class Config(Options):
    """Options of Pulsar's control plane; those that it shares with its family are in ``Options``."""

    bundles: int = 128  # Pulsar: at most so many a namespace; 0: one a topic, as in the migration experiment
    executors: int = 1  # ePulsar 3.6: the baseline migrates sequentially
    hint: bool = False  # ... does not tell clients the new broker
    proactive: bool = False  # ... nor the new broker
    first: str = "hash"  # ePulsar 5.5

    def __post_init__(self) -> None:
        """SpecError for what makes no sense."""
        super().__post_init__()
        if self.bundles < 0:
            raise SpecError(f"pulsar: bundles = {self.bundles}", "give 1 or more, or 0 for one a topic")
        if self.first != "hash":
            raise SpecError(f"pulsar: first = {self.first!r}", "leave it out: Pulsar places by hash")


class Pulsar:
    """Load alone counts."""

    def __init__(self, brokers: Sequence[str], config: Config):
        self.brokers, self.config = brokers, config

    def unit_of(self, topic: str) -> str:
        """See ``Strategy``: a bundle is a range of the names' hashes."""
        if not self.config.bundles:
            return topic
        return f"bundle-{range_of(name_hash(topic), self.config.bundles)}"

    def record(self, clients: Clients, broker: Coordinate | None, rates: Rates) -> UnitRecord:
        """See ``Strategy``: rates."""
        return UnitRecord(*rates)

    def first(self, unit: str, view: View, client: Coordinate | None) -> str:
        """See ``Strategy``: where the hash falls, or where that broker is dead or overloaded, the least load.

        That is as last reported, and no account is kept of what was given out since: all that one round has shed, and
        clients ask for before the next reports, goes to one broker.
        """
        if not view.brokers:
            return ""
        if self.config.bundles:
            by_hash = self.brokers[int(unit.removeprefix("bundle-")) * len(self.brokers) // self.config.bundles]
        else:
            by_hash = self.brokers[range_of(name_hash(unit), len(self.brokers))]
        overloaded = {name for name, report in view.brokers.items() if report.out_rps > self._mark_rps(name, view)}
        if by_hash in view.brokers and by_hash not in overloaded:
            return by_hash
        return min(view.brokers, key=lambda name: (view.brokers[name].out_rps, name))

    def moves(self, view: View) -> Mapping[str, str]:
        """See ``Strategy``: overloaded brokers shed bundles, the busiest first, until the rest is below the mark."""
        targets: dict[str, str] = {}
        owned = view.owned()
        for name, report in view.brokers.items():
            left_rps, mark_rps = report.out_rps, self._mark_rps(name, view)
            here = [unit for unit in owned if view.owners[unit] == name]
            free = [unit for unit in here if unit not in view.held]
            for unit in sorted(free, key=lambda unit: -(owned[unit].in_rps + owned[unit].out_rps)):
                if left_rps <= mark_rps or len(here) == 1:
                    break
                targets[unit] = ""
                left_rps -= owned[unit].out_rps
        return targets

    def _mark_rps(self, name: str, view: View) -> float:
        """The output rate beyond which the broker is overloaded: by rate, or in proportion to its resources."""
        report = view.brokers[name]
        by_resources = report.out_rps * UTILISATION / report.utilisation if report.utilisation > UTILISATION else 1e18
        return min(self.config.out_maximum_rps, by_resources)


SYSTEM = system("pulsar", "Pulsar's control plane: bundles by hash, moved by load alone", Config, Pulsar)
