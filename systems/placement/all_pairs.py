"""all-pairs: ePulsar with every client's coordinate reported, and every pair's delay reckoned with (ePulsar, 5.5).

Exact where centroids approximate, at the price of reports that grow with the number of clients.
"""

from collections.abc import Sequence

import numpy as np

from core.records import Float64, Int64
from systems.parts.coordinates import Coordinates, stacked
from systems.parts.topic_placement import Members, expected_pairs_s
from systems.parts.vivaldi import Coordinate
from systems.placement.cluster import system
from systems.placement.epulsar import Config, policy_of
from systems.placement.latency_aware import LatencyAware
from systems.placement.monitoring import Clients, Rates, UnitRecord


class AllPairs(LatencyAware):
    """Everybody's coordinate."""

    def record(self, clients: Clients, broker: Coordinate | None, rates: Rates) -> UnitRecord:
        """See ``Strategy``: as long as the topic has clients."""
        return UnitRecord(*rates, producers=tuple(clients.producers), consumers=tuple(clients.consumers))

    def expected_s(self, records: Sequence[UnitRecord], places: Coordinates) -> Float64:
        """See ``LatencyAware``: the worst of all pairs."""
        producers, consumers = (
            _members([getattr(record, role) for record in records]) for role in ("producers", "consumers")
        )
        return expected_pairs_s(len(records), producers, consumers, places, self.policy)

    def worst_s(self, records: Sequence[UnitRecord], expected: Float64, here: Int64) -> Float64:
        """See ``LatencyAware``: what the present broker is expected to offer, as brokers report no delay."""
        worst: Float64 = expected[np.arange(len(records)), here]
        return worst


def _members(topics: Sequence[Sequence[Coordinate]]) -> Members:
    number = np.repeat(np.arange(len(topics)), [len(clients) for clients in topics])
    return Members(number, stacked([client for clients in topics for client in clients]))


SYSTEM = system(
    "all-pairs",
    "topics near their clients, told by every client's network coordinate",
    Config,
    lambda brokers, config: AllPairs(brokers, config, policy_of(config)),
)
