"""Messages of modelled topics: known ways, a known fence; and clients that move, come and go, in whole runs."""

import msgspec
import numpy as np
import pytest

from core.clients import Moved, Role
from core.units import MILLISECOND_NS, SECOND_NS
from harness.run import asked_of, resolve
from studies.placement.asked import Spell
from studies.placement_on_pulsar import virtual
from studies.placement_on_pulsar.asked import Config, PulsarRequest
from studies.placement_on_pulsar.modelled_messages import ClientWays, Fenced, ModelledMessages, TopicPast
from systems.loader import load_system
from testbed.topologies.topology import load_topology
from tests.studies.placement_on_pulsar.test_asked import points
from workloads.client_load import in_order, interval, topic

BROKERS = ["broker1", "broker2"]
FENCED = Fenced(1_000 * MILLISECOND_NS, 1_500 * MILLISECOND_NS)
UNTIL_NS = 4 * SECOND_NS


class Pair:
    """A producer at the first site, which goes to the second after 3 s; a consumer there, which leaves after 2 s."""

    site_count, homes = 2, {"one": 0, "other": 1}
    topics = (topic("t", 10, 100, "40ms"),)

    def happenings(self, until_ns: int) -> list[object]:
        """See ``core.clients.ClientLoad``."""
        found = [
            *interval(0, None, "one", "t", Role.PRODUCER),
            *interval(0, 2 * SECOND_NS, "other", "t", Role.CONSUMER),
        ]
        return in_order([*found, Moved(3 * SECOND_NS, "one", 1)], self.homes, self.topics, until_ns)  # type: ignore[list-item, return-value]


def request() -> PulsarRequest:
    system, topology = load_system("epulsar"), load_topology("city-mec", {"sites": 2, "site_rtt": "30ms"})
    return PulsarRequest(system, system.config(), topology, Pair(), 1, Config(duration="4s", access="8ms"))  # type: ignore[arg-type]


def test_a_message_takes_its_ways_and_waits_for_its_fence() -> None:
    spells = [Spell("t", "broker1", 0, FENCED.end_ns), Spell("t", "broker2", FENCED.end_ns, UNTIL_NS)]
    asked = request()
    fates, latency_ns = ModelledMessages(asked, ClientWays(asked, BROKERS), {"t": TopicPast(spells, [FENCED])}).told()
    fate, way_ns = fates["t"], (8 + 15 + 8) * MILLISECOND_NS  # over either broker: one of the two clients is beside it
    assert (fate.born_ns < 2 * SECOND_NS).all() and len(fate.born_ns) == 20, "who has left is owed nothing"
    caught = (fate.born_ns >= FENCED.start_ns) & (fate.born_ns < FENCED.end_ns)
    assert caught.sum() == 5 and (fate.latency_ns[~caught] == way_ns).all()
    assert (fate.latency_ns[caught] == way_ns + FENCED.end_ns - fate.born_ns[caught]).all()
    assert fate.late_count.tolist() == caught.astype(int).tolist()
    assert sorted(latency_ns) == sorted(fate.latency_ns)


def test_who_moves_has_other_ways_from_then_on() -> None:
    ways = ClientWays(request(), BROKERS)
    at_ns = np.array([0, 3 * SECOND_NS - 1, 3 * SECOND_NS, UNTIL_NS])
    assert (ways.ns("one", at_ns, np.zeros(4, int)) / MILLISECOND_NS).tolist() == [8, 8, 23, 23]
    assert (ways.ns("other", at_ns, np.ones(4, int)) / MILLISECOND_NS).tolist() == [8, 8, 8, 8]


@pytest.mark.parametrize("figure", ["epulsar-fig8", "epulsar-fig9"])
def test_topics_follow_clients_that_move_or_come_and_go(figure: str) -> None:
    late = {}
    for spec in points(figure, "tiny", "pulsar"):
        asked = asked_of(resolve(msgspec.structs.replace(spec, seed=3)))[1]
        journal = virtual.run(asked)
        moves = sum(spell.start_ns > 0 for spell in journal.spells)
        assert bool(moves) == (spec.system == "epulsar"), "Pulsar moves what overloads a broker, and nothing does"
        owed = sum(int(fate.consumer_count.sum()) for fate in journal.fates.values())
        assert len(journal.latency_ns) == owed > 0 and journal.latency_ns.min() > 0
        late[spec.system] = sum(int(fate.late_count.sum()) for fate in journal.fates.values()) / owed
    assert late["epulsar"] < late["pulsar"]


def test_what_is_not_persistent_is_open_when_its_clients_are_there() -> None:
    [_, spec] = points("epulsar-fig8", "tiny", "pulsar")
    medians = {}
    for persistent in (True, False):
        options = {**spec.study_options, "persistent": persistent}
        asked = asked_of(resolve(msgspec.structs.replace(spec, seed=3, study_options=options)))[1]
        spans = [one.end_ns - one.start_ns for one in virtual.run(asked).downtimes]
        medians[persistent] = float(np.median(spans)) / MILLISECOND_NS
    assert medians[False] == pytest.approx(16.0), "a round trip of a drone to the broker of its own zone"
    assert medians[True] > 400.0, "a ledger is closed and another opened, over the way to the store"
