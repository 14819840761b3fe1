"""The account of a placement run, from hand-written records: the samples, who had which topic, and what comes home."""

import json
from pathlib import Path

import numpy as np
import pytest

from core.clients import Role, TopicLoad
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.accounts import Accounts, Event, Records, accounts, ownership, read_events, read_records
from studies.placement.asked import Spell
from studies.placement.script import BrokerAt, Deed, Script, TopicAt, client_file, events_file
from studies.placement.tables import window_rows
from testbed.brokers.machine import BrokerMachine
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import full_mesh
from testbed.trust.accounts import Got, Sent

UNTIL_NS, STEP_NS = SECOND_NS, 100 * MILLISECOND_NS
TOPIC = TopicLoad("t", 10.0, 100, 50 * MILLISECOND_NS)
COUNT = UNTIL_NS // STEP_NS
DEEDS = {
    "p": (Deed(0, "proxy1"), Deed(0, "", "t", Role.PRODUCER)),
    "c": (Deed(0, "proxy1"), Deed(0, "", "t", Role.CONSUMER)),
}
AT = {"broker1": BrokerAt("", "", 0), "broker2": BrokerAt("", "", 0)}
SCRIPT = Script(1, UNTIL_NS, "", {"t": TopicAt(10.0, 100)}, DEEDS, AT, "store", ("", 0), SECOND_NS, {}, BrokerMachine())
BORN_NS = np.arange(COUNT) * STEP_NS
SENT = Sent(BORN_NS, BORN_NS + 5, BORN_NS + 7, BORN_NS + 9, 0 * BORN_NS, 0 * BORN_NS)


def records(got: list[tuple[int, int]], first: int = 0) -> Records:
    """``got``: (message, delay in ms), in order of arrival; ``first``: the message before which c was subscribed."""
    rows = [(0, n, n * STEP_NS, n * STEP_NS + delay * MILLISECOND_NS) for n, delay in got]
    table = np.array(rows, np.int64).reshape(-1, 4)
    return Records({("p", "t"): SENT}, {("c", "t"): Got(*table.T)}, {("c", "t"): np.array([first * STEP_NS])})


def account(*got: tuple[int, int], first: int = 0) -> Accounts:
    return accounts(SCRIPT, records(list(got), first), [TOPIC])


def totals(made: Accounts) -> tuple[int, int, int]:
    values = {metric: value for _, _, metric, value in made.samples}
    return int(values["gap_count"]), int(values["duplicate_count"]), int(values["reordered_count"])


def test_all_came_once() -> None:
    made = account(*((n, 20) for n in range(COUNT)))
    assert totals(made) == (0, 0, 0)
    assert (made.fates["t"].latency_ns == 20 * MILLISECOND_NS).all() and not made.fates["t"].late_count.any()
    assert made.account.delivered_count == made.account.accounted_count == COUNT


def test_lateness_counts_from_the_intended_instant() -> None:
    """The process came to each 5 ns late, and sent it 2 ns after that: 5 is the generator's."""
    assert account((0, 20)).lateness_ns.tolist() == [5] * COUNT


def test_gaps_duplicates_and_order_are_seen() -> None:
    made = account((0, 20), (2, 20), (2, 30), (1, 300), (4, 60))
    assert totals(made) == (COUNT - 4, 1, 1)
    assert list(made.fates["t"].latency_ns[:5]) == [20_000_000, 300_000_000, 20_000_000, -1, 60_000_000]
    assert list(made.fates["t"].late_count) == [0, 1, 0, *[1] * (COUNT - 3)]
    whole = made.account
    assert (whole.delivered_count, whole.undelivered_count, whole.duplicated_count) == (3, COUNT - 4, 1)
    assert whole.accounted_count == whole.offered_count == COUNT


def test_nothing_is_owed_before_the_subscription() -> None:
    made = account(*((n, 20) for n in range(4, COUNT)), first=4)
    assert totals(made) == (0, 0, 0)
    assert list(made.fates["t"].born_ns) == [n * STEP_NS for n in range(4, COUNT)]


def test_what_came_before_it_was_due_by_another_clock_is_not_lost() -> None:
    made = account(*((n, -1 if n in (0, 3) else 20) for n in range(COUNT)))
    assert list(made.fates["t"].latency_ns[:4]) == [0, 20_000_000, 20_000_000, 0]
    assert not np.any(window_rows(made.fates, UNTIL_NS)["lost_count"]) and made.account.delivered_count == COUNT


def of_first(*events: tuple[int, str]) -> list[Event]:
    return [Event(at_ns, "broker1", kind, "t") for at_ns, kind in events]


def test_who_had_the_topic() -> None:
    first = [
        Event(10, "broker1", "open", "t"),
        Event(100, "broker1", "fence", "t"),
        Event(130, "broker1", "drained", "t"),
    ]
    spells, samples = ownership([*first, Event(200, "broker2", "open", "t"), Event(900, "broker2", "crash")], UNTIL_NS)
    assert spells == [Spell("t", "broker1", 10, 100), Spell("t", "broker2", 200, 900)]
    assert (130, "t", "drain_ns", 30.0) in samples
    assert sum(value for _, _, metric, value in samples if metric == "early_open_count") == 0


def test_a_topic_that_is_opened_before_it_is_drained_is_seen() -> None:
    first = [
        Event(10, "broker1", "open", "t"),
        Event(100, "broker1", "fence", "t"),
        Event(230, "broker1", "drained", "t"),
    ]
    spells, samples = ownership([*first, Event(200, "broker2", "open", "t")], UNTIL_NS)
    assert sum(value for _, _, metric, value in samples if metric == "early_open_count") == 1
    assert spells[-1] == Spell("t", "broker2", 200, UNTIL_NS)


def test_two_owners_at_once_are_seen_where_the_first_was_never_fenced() -> None:
    both = [Event(10, "broker1", "open", "t"), Event(200, "broker2", "open", "t"), Event(300, "broker2", "open", "t")]
    _, samples = ownership(both, UNTIL_NS)
    assert [value for _, _, metric, value in samples if metric == "early_open_count"] == [0, 1, 1]


def test_what_a_broker_did_after_its_crash_it_did_before_by_another_clock() -> None:
    late = of_first((501, "open"), (502, "fence"))
    after = [Event(500, "broker1", "crash"), *late, Event(900, "broker2", "open", "t")]
    spells, samples = ownership(after, 10_000)
    assert spells == [Spell("t", "broker2", 900, 10_000)] and samples == [(900, "t", "early_open_count", 0.0)]
    back = [Event(600, "broker1", "restart"), *of_first((700, "open"), (800, "fence"), (801, "drained"))]
    spells, _ = ownership([*after, *back], 10_000)
    assert spells == [Spell("t", "broker1", 700, 800), Spell("t", "broker2", 900, 10_000)]


@pytest.fixture
def site(tmp_path: Path):
    with LocalSite(full_mesh(2, "0ms"), tmp_path / "run", tmp_path) as made:
        yield made


def test_what_clients_and_brokers_wrote_is_read_back(site: LocalSite) -> None:
    wanted = records([(0, 20), (1, 20)])
    ((_, sent),), ((_, got),) = wanted.sent.items(), wanted.got.items()
    np.savez(client_file(site.folder, "p"), **{"sent:t": np.stack(sent, axis=1)})
    np.savez(client_file(site.folder, "c"), **{"got:t": np.stack(got, axis=1), "subscribed:t": np.array([7])})
    read = read_records(site, site.folder, ["p", "c"])
    assert np.array_equal(read.sent["p", "t"], sent) and np.array_equal(read.got["c", "t"], got)
    assert read.subscribed_ns["c", "t"].tolist() == [7]
    lines = [json.dumps([10, "open", "t"]), json.dumps([90, "left", "t", 3])]
    events_file(site.folder, "broker1").write_text("\n".join(lines) + "\n")
    events = read_events(site, site.folder, ["broker1", "broker2"])
    assert events == [Event(10, "broker1", "open", "t"), Event(90, "broker1", "left", "t", 3)]
