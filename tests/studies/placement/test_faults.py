"""Brokers, the store and agents are killed and started again, servers and all; clients come and go: the run ends."""

import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from testbed.faults import Crash, Partition, Restart, ServerCrash
from testbed.hosts.places import LOCAL
from tests.live import needs
from tests.testbed.brokers.pair import RATE_RPS, Pair, placed, sums

pytestmark = [pytest.mark.slow, needs("go", "serf", "java", "zookeeper")]

FAULTS = (
    Crash(1 * SECOND_NS, "proxy1"),
    Crash(2 * SECOND_NS, "store"),
    Restart(3 * SECOND_NS, "store"),
    Crash(14 * SECOND_NS, "broker1"),  # a busy machine takes seconds to start ZooKeeper
    Restart(15 * SECOND_NS, "broker1"),
)
SPAN_NS = 28 * SECOND_NS


def test_a_topic_outlives_its_broker_and_the_store() -> None:
    journal = placed(LOCAL, 1, Pair(), SPAN_NS, 0, FAULTS)
    assert [fault for _, fault in journal.faults] == list(FAULTS)
    (died_ns,) = (at_ns for at_ns, fault in journal.faults if fault == FAULTS[3])
    # Where ZooKeeper was slow to come back, the broker's session had ended, and the broker may own nothing now.
    lives_on = [spell for spell in journal.spells if spell.start_ns < died_ns < spell.end_ns]
    assert not lives_on and journal.spells[0].end_ns <= died_ns, "a crash ends what the broker had"
    assert journal.spells[-1].start_ns > died_ns and journal.spells[-1].end_ns == SPAN_NS
    fate = journal.fates["orders"]
    last = fate.born_ns > SPAN_NS - SECOND_NS
    assert last.sum() == RATE_RPS and (fate.latency_ns[last] >= 0).all(), "all is well at the end"
    # What waited for the broker came when it was back.
    back_ns = FAULTS[4].at_ns  # at the earliest; a busy machine is late with either
    waited = (fate.born_ns > died_ns + SECOND_NS // 10) & (fate.born_ns < back_ns)
    assert (waited.any() or died_ns > back_ns - SECOND_NS // 2) and (fate.latency_ns[waited] >= 0).all()
    open_ns = min(spell.start_ns for spell in journal.spells if spell.start_ns > died_ns)
    assert (fate.born_ns[waited] + fate.latency_ns[waited] >= open_ns).all(), "a process alone serves nothing"
    assert sums(journal)["elected_count"] >= 2, "the manager stands again after the store's loss"


def test_a_subscription_ends_and_begins_again() -> None:
    left_ns, back_ns, span_ns = 12 * SECOND_NS, 17 * SECOND_NS, 24 * SECOND_NS
    journal = placed(LOCAL, 1, Pair(away_ns=(left_ns, back_ns)), span_ns, 0)
    counts, fate = sums(journal), journal.fates["orders"]
    assert counts["gap_count"] == counts["duplicate_count"] == counts["unacknowledged_count"] == 0
    margin_ns = 4 * SECOND_NS  # a busy machine is late with either
    assert not ((fate.born_ns > left_ns + margin_ns) & (fate.born_ns < back_ns)).any(), "nobody was owed those"
    owed_ns = 5 * SECOND_NS  # from then on for certain: it subscribes after 0.6 s where nothing is busy
    for since_ns, until_ns in ((owed_ns, left_ns - margin_ns), (back_ns + margin_ns, span_ns)):
        here = (fate.born_ns >= since_ns) & (fate.born_ns < until_ns)
        assert here.sum() == (until_ns - since_ns) * RATE_RPS // SECOND_NS and (fate.latency_ns[here] >= 0).all()


@pytest.mark.parametrize(
    ("faults", "options", "complaint"),
    [
        ((Crash(1, "uav-1"),), {}, "clients are not crashed"),
        ((Partition(1, ("broker1",)),), {}, "no links to change"),
        ((ServerCrash(1, "store"),), {}, "the servers of a node go with it"),
        ((), {"probe": "2s"}, "do not probe every 2s"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(faults: tuple, options: dict, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        placed(LOCAL, 1, Pair(), SPAN_NS, 0, faults, **options)
