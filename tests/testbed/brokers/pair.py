"""A pair of clients of one topic, and runs of it on live testbeds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from core.clients import Happening, Joined, Left, Moved, Role, TopicLoad
from core.units import MILLISECOND_NS, duration_text
from studies.placement.asked import Config, PlacementJournal, PlacementRequest
from studies.placement.live import check, run
from systems.loader import load_system
from testbed.api import Testbed
from testbed.faults import Fault
from testbed.topologies.topology import load_topology

RATE_RPS, BOUND_NS = 40, 40 * MILLISECOND_NS
QUICK = {"locate": "500ms", "report": "500ms", "place": "500ms", "guard": "2s", "session": "3s", "dead": "2s"}
EVERYBODY = ("uav-1", "uav-2")


@dataclass
class Pair:
    """Two clients at the first site, a producer and a consumer of one topic; they may move to the second."""

    move_ns: int = 0  # 0: they stay
    away_ns: tuple[int, int] = (0, 0)  # when the consumer leaves the topic, and when it comes back
    homes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVERYBODY, 0))
    topics: tuple[TopicLoad, ...] = (TopicLoad("orders", RATE_RPS, 200, BOUND_NS),)
    site_count: int = 1

    def happenings(self, until_ns: int) -> list[Happening]:
        first, second = EVERYBODY
        joins = [Joined(0, first, "orders", Role.PRODUCER), Joined(0, second, "orders", Role.CONSUMER)]
        moves = [Moved(self.move_ns, client, 1) for client in EVERYBODY if self.move_ns]
        left_ns, back_ns = self.away_ns
        away = [Left(left_ns, second, "orders", Role.CONSUMER), Joined(back_ns, second, "orders", Role.CONSUMER)]
        return [each for each in [*joins, *moves, *(away if back_ns else ())] if each.at_ns <= until_ns]


def placed(
    testbed: Testbed, sites: int, load: Pair, span_ns: int, warm_up_s: int, faults: Sequence[Fault] = (), **options: Any
) -> PlacementJournal:
    """Let ePulsar place the topic of ``load`` on the brokers of so many sites, 35 ms (one way) from each other."""
    topology = load_topology("city-mec", {"sites": sites, "site_rtt": "70ms", "cloud_delay": "20ms"})
    system = load_system("epulsar")
    config = system.config(**{**QUICK, "access": "1ms", "bounds": {"orders": "40ms"}, **options})
    rule = Config(duration=duration_text(span_ns), access="1ms", warm_up_rounds=warm_up_s)
    asked = PlacementRequest(system, config, topology, load, 1, rule, tuple(faults))
    check(testbed, asked)
    with testbed.site(asked.topology, asked.seed) as site:
        return run(site, asked)


def sums(journal: PlacementJournal) -> Counter[str]:
    """Sums of the samples' values by metric."""
    found: Counter[str] = Counter()
    for _, _, metric, value in journal.samples:
        found[metric] += int(value)
    return found
