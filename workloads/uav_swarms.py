"""uav-swarms: swarms of drones over the zones of a city, each with a leader (ePulsar 5.1.1, 5.8.1).

A swarm flies together, by random waypoint over the box of the city's towers; its members change their site when they
cross the border between two zones.  Zones are the cells of the k-means centres of the towers.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from core.clients import Happening, Joined, Moved, Role
from core.limits import CLIENTS, ByteCount, ClientCount, Factor, HostCount, Rps, check_product
from core.seeds import generator
from workloads.api import INPUT_FILE, Offer, Workload, require, span_of
from workloads.client_load import check_counts, check_topics, in_order, topic
from workloads.text_columns import column_map
from workloads.towers import ROLES, Towers, generated, read_towers
from workloads.waypoint import Track
from workloads.zones import Zones, k_means


@dataclass(frozen=True)
class UavSwarmsConfig:
    """Options of swarms; the numbers are those of ePulsar, Fig. 8.  Raises SpecError when made."""

    swarms: ClientCount = 8
    members: ClientCount = 8  # of a swarm, its leader included
    zones: HostCount = 4  # = sites
    speed_mps: Factor = 50.0  # printed as "50 meters/sec2": the 2 is a footnote's
    pause: str = "0s"  # ours: at a waypoint; not given
    rate_rps: Rps = 200.0  # of each UAV
    size_bytes: ByteCount = 1_000  # "1 KB"
    bound: str = "40ms"  # end to end, Section 5.1.1
    towers: str = field(default="", metadata=INPUT_FILE)  # a list of cell towers; empty = a generated city
    columns: dict[str, str | int] | str = field(default_factory=dict)  # of the list: "latitude=lat,longitude=lon"
    skip_bad: bool = False  # pass over lines of the list that are no towers, and count them
    city: int = 1  # ours: number of the generated city, and of the draws of k-means; seeds share their map
    tower_count: ClientCount = 400  # ours: of the generated city
    city_km: Factor = 20.0  # ours: width of the generated city, of about the area of Atlanta; not given

    def __post_init__(self) -> None:
        check_counts(swarms=self.swarms, zones=self.zones, tower_count=self.tower_count)
        check_product("workload uav-swarms", CLIENTS, swarms=self.swarms, members=self.members)
        require(self.members >= 2, "members", self.members, "give a leader and at least one follower")
        require(0 < self.speed_mps < math.inf, "speed_mps", self.speed_mps, "give a finite speed above 0")
        require(span_of("pause", self.pause) >= 0, "pause", self.pause, "give a span such as 5s")
        check_topics(self.rate_rps, self.size_bytes, self.bound)
        require(0 < self.city_km < math.inf, "city_km", self.city_km, "give a finite width above 0")
        column_map(self.columns, ROLES)

    def map(self) -> Towers:
        """The towers of the list, or of the generated city."""
        if self.towers:
            return read_towers(self.towers, column_map(self.columns, ROLES), self.skip_bad)
        return generated(self.city, self.tower_count, self.city_km)


class UavSwarms:
    """The swarms of a config.

    Positions are in km to the east and north of the towers' south-west corner: ``towers``, float64 (towers, 2), and
    ``centres`` of the zones, float64 (zones, 2).  ``skipped``: lines of the list of towers left out, by reason.
    """

    def __init__(self, config: UavSwarmsConfig, seed: int):
        towers = config.map()
        self.towers, self.skipped = towers.km, towers.skipped
        self.zones = _zones(self.towers.tobytes(), config.zones, config.city)
        self.centres, self.site_count = self.zones.centres, config.zones
        self.config = config
        low, high = self.towers.min(axis=0), self.towers.max(axis=0)
        pause_ns = span_of("pause", config.pause)
        self._numbers = range(1, config.swarms + 1)
        self._tracks = {
            swarm: Track(generator(seed, "uav-swarms", "track", swarm), low, high, config.speed_mps, pause_ns)
            for swarm in self._numbers
        }
        self.homes = {
            client: self._tracks[swarm].crossings(self.zones, 0)[0][1]
            for swarm in self._numbers
            for client in self.members(swarm)
        }
        names = [name for swarm in self._numbers for name in topics_of(swarm)]
        self.topics = tuple(topic(name, config.rate_rps, config.size_bytes, config.bound) for name in names)

    @property
    def change_rps(self) -> float:
        """A leg crosses as many zones as there are in a row, or fewer."""
        moves = self.config.members * math.sqrt(self.config.zones)
        return sum(track.legs_rps * (1 + moves) for track in self._tracks.values())

    def members(self, swarm: int) -> list[str]:
        """The clients of a swarm, its leader first."""
        return [leader_of(swarm), *(f"uav-{swarm}-{member}" for member in range(2, self.config.members + 1))]

    def happenings(self, until_ns: int) -> list[Happening]:
        """Everybody is on the topics of the swarm from the start; moves at the borders of zones."""
        happenings: list[Happening] = []
        for swarm in self._numbers:
            leader, *followers = self.members(swarm)
            orders, data = topics_of(swarm)
            happenings += [Joined(0, leader, orders, Role.PRODUCER), Joined(0, leader, data, Role.CONSUMER)]
            for follower in followers:
                happenings += [Joined(0, follower, orders, Role.CONSUMER), Joined(0, follower, data, Role.PRODUCER)]
            for at_ns, zone in self._tracks[swarm].crossings(self.zones, until_ns)[1:]:
                happenings += [Moved(at_ns, client, zone) for client in (leader, *followers)]
        return in_order(happenings, self.homes, self.topics, until_ns)


@lru_cache(maxsize=4)
def _zones(km: bytes, count: int, city: int) -> Zones:
    """Of towers at these places: runs of all seeds have them, and a check of one asks twice."""
    return Zones(k_means(np.frombuffer(km).reshape(-1, 2), count, generator(city, "zones", count)))


def leader_of(swarm: int) -> str:
    """The client that leads a swarm."""
    return f"uav-{swarm}-1"


def topics_of(swarm: int) -> tuple[str, str]:
    """From the leader to the others, and from the others to the leader."""
    return f"follow-leader-{swarm}", f"sensor-data-{swarm}"


WORKLOAD = Workload(
    "uav-swarms", "swarms of drones over the zones of a city", UavSwarmsConfig, UavSwarms, Offer.CLIENTS
)
