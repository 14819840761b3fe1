"""static-topics: topics whose clients never change (ours; ePulsar 5.4, 5.6 and 5.7 sweep such).

Clients are ``producer-T-N`` and ``consumer-T-N`` of ``topic-T``, numbered from 1; each has one topic.
"""

from dataclasses import dataclass

from core.clients import Happening, Role
from core.limits import CLIENTS, ByteCount, ClientCount, HostCount, Rps, check_product
from core.seeds import generator
from workloads.api import Offer, Workload, require
from workloads.client_load import check_counts, check_topics, in_order, interval, topic

PLACES = ("home", "round-robin", "by-topic", "random")


@dataclass(frozen=True)
class StaticTopicsConfig:
    """Options of topics; all of them are ours.  Raises SpecError when made."""

    topics: ClientCount = 8
    producers: ClientCount = 1  # of a topic
    consumers: ClientCount = 1  # of a topic
    rate_rps: Rps = 100.0  # of a producer
    size_bytes: ByteCount = 1_000
    bound: str = "100ms"  # end to end
    sites: HostCount = 4
    # Where clients are: all at site ``home``; in turn over the sites (round-robin); all of a topic together, topics
    # in turn (by-topic); or drawn uniformly (random).
    placement: str = "round-robin"
    home: int = 0  # a site, 0 = the first

    def __post_init__(self) -> None:
        check_counts(topics=self.topics, sites=self.sites)
        for name in ("producers", "consumers"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "give 0 or more")
        require(self.producers + self.consumers >= 1, "consumers", self.consumers, "give a topic at least one client")
        check_product("workload", CLIENTS, topics=self.topics, clients=self.producers + self.consumers)
        check_topics(self.rate_rps, self.size_bytes, self.bound)
        require(self.placement in PLACES, "placement", self.placement, f"choose one of {', '.join(PLACES)}")
        require(0 <= self.home < self.sites, "home", self.home, f"give a site from 0 to below sites={self.sites}")

    def members(self, number: int) -> list[tuple[str, Role]]:
        """The clients of topic ``number``, its producers first."""
        made = [(f"producer-{number}-{n}", Role.PRODUCER) for n in range(1, self.producers + 1)]
        return made + [(f"consumer-{number}-{n}", Role.CONSUMER) for n in range(1, self.consumers + 1)]


class StaticTopics:
    """The topics of a config; all clients are there from the start, for good."""

    def __init__(self, config: StaticTopicsConfig, seed: int):
        self.config, self.site_count, self._seed = config, config.sites, seed
        self.numbers = range(1, config.topics + 1)
        names = [f"topic-{number}" for number in self.numbers]
        self.topics = tuple(topic(name, config.rate_rps, config.size_bytes, config.bound) for name in names)
        self.homes: dict[str, int] = {}
        for number in self.numbers:
            for client, _ in config.members(number):
                self.homes[client] = self._home(number, client)

    def happenings(self, until_ns: int) -> list[Happening]:
        """Everybody joins at 0."""
        happenings = [
            happening
            for number in self.numbers
            for client, role in self.config.members(number)
            for happening in interval(0, None, client, f"topic-{number}", role)
        ]
        return in_order(happenings, self.homes, self.topics, until_ns)

    def _home(self, number: int, client: str) -> int:
        config = self.config
        if config.placement == "random":
            return int(generator(self._seed, "topics", "site", client).integers(config.sites))
        turn = {"home": config.home, "round-robin": len(self.homes), "by-topic": number - 1}
        return turn[config.placement] % config.sites


WORKLOAD = Workload(
    "static-topics", "topics whose clients never change", StaticTopicsConfig, StaticTopics, Offer.CLIENTS
)
