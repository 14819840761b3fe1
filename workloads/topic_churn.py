"""topic-churn: topics and subscriptions that come and go (ours).

Each topic of a pool is there for an exponential time and then away for another; so is each of its consumers while the
topic is there.  Over many topics, births are a Poisson process of rate (topics away) / ``topic_gap``.  The
process is stationary: it has always been going on.
"""

import math
from dataclasses import dataclass

from core.clients import Happening, Role
from core.limits import ClientCount
from core.seeds import generator
from core.units import SECOND_NS
from workloads.api import Offer, Workload, require, span_of
from workloads.client_load import in_order, interval, seconds_ns
from workloads.static_topics import StaticTopics, StaticTopicsConfig

FOREVER = "forever"

Interval = tuple[int, int | None]  # from, until before; None: later than was asked for


@dataclass(frozen=True)
class TopicChurnConfig(StaticTopicsConfig):
    """Options of topics that come and go; all of them are ours.  Raises SpecError when made."""

    topics: ClientCount = 32  # of the pool
    consumers: ClientCount = 4
    placement: str = "random"
    topic_life: str = "60s"  # mean; or forever
    topic_gap: str = "20s"  # mean
    consumer_life: str = "30s"  # mean; or forever
    consumer_gap: str = "15s"  # mean

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("topic_life", "topic_gap", "consumer_life", "consumer_gap"):
            text = getattr(self, name)
            if not (text == FOREVER and name.endswith("_life")):
                require(span_of(name, text) > 0, name, text, "give a span above 0" + " or forever" * ("life" in name))


class TopicChurn(StaticTopics):
    """The topics of a config; each comes and goes by a stream of its own."""

    config: TopicChurnConfig

    @property
    def change_rps(self) -> float:
        """Clients come and go with their topic; consumers of their own accord, too."""
        config = self.config
        of_topics = (config.producers + config.consumers) * _turns_rps(config.topic_life, config.topic_gap)
        return config.topics * (of_topics + config.consumers * _turns_rps(config.consumer_life, config.consumer_gap))

    def happenings(self, until_ns: int) -> list[Happening]:
        """Producers are on a topic whenever it is there; consumers when they want it, too."""
        config = self.config
        happenings: list[Happening] = []
        for number in self.numbers:
            name = f"topic-{number}"
            there = self._spans(name, config.topic_life, config.topic_gap, until_ns)
            for client, role in config.members(number):
                spans = there
                if role is Role.CONSUMER:
                    wanted = self._spans(client, config.consumer_life, config.consumer_gap, until_ns)
                    spans = _common(there, wanted)
                for start_ns, end_ns in spans:
                    happenings += interval(start_ns, end_ns, client, name, role)
        return in_order(happenings, self.homes, self.topics, until_ns)

    def _spans(self, name: str, life: str, gap: str, until_ns: int) -> list[Interval]:
        """When it is there, from 0 to ``until_ns``."""
        if life == FOREVER:
            return [(0, None)]
        rng = generator(self._seed, "topic-churn", name)
        mean_s = {True: span_of("life", life) / 1e9, False: span_of("gap", gap) / 1e9}
        there = bool(rng.random() < mean_s[True] / (mean_s[True] + mean_s[False]))
        spans: list[Interval] = []
        at_ns = 0
        while at_ns <= until_ns:
            end_ns = at_ns + seconds_ns(rng.exponential(mean_s[there]))
            if there:
                spans.append((at_ns, end_ns if end_ns <= until_ns else None))
            at_ns, there = end_ns, not there
        return spans


def _turns_rps(life: str, gap: str) -> float:
    """How often a second somebody comes or goes."""
    return 0.0 if life == FOREVER else 2 * SECOND_NS / (span_of("life", life) + span_of("gap", gap))


def _common(left: list[Interval], right: list[Interval]) -> list[Interval]:
    """What both cover; both are in order."""
    overlaps: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        ends_ns = [math.inf if end is None else end for _, end in (left[i], right[j])]
        start_ns, end_ns = max(left[i][0], right[j][0]), min(ends_ns)
        if start_ns < end_ns:
            overlaps.append((start_ns, None if end_ns == math.inf else int(end_ns)))
        if ends_ns[0] <= ends_ns[1]:
            i += 1
        else:
            j += 1
    return overlaps


WORKLOAD = Workload(
    "topic-churn", "topics and subscriptions that come and go", TopicChurnConfig, TopicChurn, Offer.CLIENTS
)
