"""epulsar: topics go where their clients are, told by centroids of network coordinates (ePulsar, 3.2-3.6).

A broker reports of each topic the producers' and the consumers' mean coordinate, the largest deviations from them and
the worst delay, however many clients there are; Algorithm 1 moves topics that violate their bound, or burden their
broker; up to 16 move at a time, each told where to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.records import Float64, Int64
from systems.parts.coordinates import Coordinates
from systems.parts.topic_placement import Policy, collected, expected_s, summarised
from systems.parts.vivaldi import Coordinate
from systems.placement.cluster import system
from systems.placement.latency_aware import LatencyAware
from systems.placement.monitoring import Clients, Rates, UnitRecord
from systems.placement.options import Options


@dataclass(frozen=True)
class Config(Options):
    """Options of ePulsar; those that it shares with its family are in ``Options``."""

    literal: bool = False  # delays as printed, sums of round trips; else halved, as in the public code's last version
    shortcut: bool = False  # public code: equal vectors are at distance 0, heights or not
    stay: bool = True  # 3.4.1: the present broker is a candidate; the public code moves even where that is worse
    hysteresis_s: float = 0.0  # ours: a move must gain more than this


class EPulsar(LatencyAware):
    """Centroids."""

    def record(self, clients: Clients, broker: Coordinate | None, rates: Rates) -> UnitRecord:
        """See ``Strategy``: of constant size."""
        if broker is None:
            return UnitRecord(*rates)
        return UnitRecord(*rates, summary=summarised(*clients, broker, self.policy, *rates))

    def expected_s(self, records: Sequence[UnitRecord], places: Coordinates) -> Float64:
        """See ``LatencyAware``: W(t, b)."""
        return expected_s(collected([record.summary for record in records if record.summary]), places, self.policy)

    def worst_s(self, records: Sequence[UnitRecord], expected: Float64, here: Int64) -> Float64:
        """See ``LatencyAware``: as the broker reported it."""
        return np.array([record.summary.worst_s for record in records if record.summary])


def policy_of(config: Config) -> Policy:
    """The rules of a config that has them."""
    return Policy(config.literal, config.shortcut, config.stay, config.hysteresis_s)


SYSTEM = system(
    "epulsar",
    "topics near their clients, told by centroids of network coordinates",
    Config,
    lambda brokers, config: EPulsar(brokers, config, policy_of(config)),
)
