"""The accounts of a placement run count what is missing, what came twice, and who had which topic."""

import json
from pathlib import Path

import numpy as np
import pytest

from core.clients import Role, TopicLoad
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.accounts import Accounts, read_accounts, read_ownership
from studies.placement.asked import Spell
from studies.placement.script import BrokerAt, Deed, Script, TopicAt

UNTIL_NS, STEP_NS = SECOND_NS, 100 * MILLISECOND_NS
TOPIC = TopicLoad("t", 10.0, 100, 50 * MILLISECOND_NS)
COUNT = UNTIL_NS // STEP_NS


@pytest.fixture
def script(tmp_path: Path) -> Script:
    deeds = {
        "p": (Deed(0, "proxy1"), Deed(0, "", "t", Role.PRODUCER)),
        "c": (Deed(0, "proxy1"), Deed(0, "", "t", Role.CONSUMER)),
    }
    at = {"broker1": BrokerAt("", "", 0), "broker2": BrokerAt("", "", 0)}
    topics = {"t": TopicAt(10.0, 100)}
    return Script(1, UNTIL_NS, str(tmp_path), "", topics, deeds, at, "store", ("", 0), SECOND_NS, {})


def accounts(script: Script, got: list[tuple[int, int]], first: int = 0) -> Accounts:
    """``got``: (message, delay in ms), in order of arrival; ``first``: the message before which c was subscribed."""
    folder = Path(script.folder)
    born = np.arange(COUNT) * STEP_NS
    sent = np.stack([born, born + 1, born + 2, born + 3, 0 * born, 0 * born], axis=1)
    rows = [(0, n, n * STEP_NS, n * STEP_NS + delay * MILLISECOND_NS) for n, delay in got]
    np.savez(folder / "p.npz", **{"sent:t": sent})
    told = np.array([first * STEP_NS])
    received = np.array(rows, np.int64).reshape(-1, 4)
    np.savez(folder / "c.npz", **{"got:t": received, "subscribed:t": told})
    return read_accounts(script)


def totals(found: Accounts) -> tuple[int, int, int]:
    values = {metric: value for _, _, metric, value in found.samples()}
    return int(values["gap_count"]), int(values["duplicate_count"]), int(values["reordered_count"])


def test_all_came_once(script: Script) -> None:
    found = accounts(script, [(n, 20) for n in range(COUNT)])
    fate = found.fates([TOPIC])["t"]
    assert totals(found) == (0, 0, 0)
    assert (fate.latency_ns == 20 * MILLISECOND_NS).all() and not fate.late_count.any()
    assert list(found.lateness_ns()) == [1] * COUNT
    assert found.account.delivered_count == found.account.accounted_count == COUNT


def test_gaps_duplicates_and_order_are_seen(script: Script) -> None:
    found = accounts(script, [(0, 20), (2, 20), (2, 30), (1, 300), (4, 60)])
    fate = found.fates([TOPIC])["t"]
    assert totals(found) == (COUNT - 4, 1, 1)
    assert list(fate.latency_ns[:5]) == [20_000_000, 300_000_000, 20_000_000, -1, 60_000_000]
    assert list(fate.late_count) == [0, 1, 0, *[1] * (COUNT - 3)]
    account = found.account
    assert (account.delivered_count, account.undelivered_count, account.duplicated_count) == (3, COUNT - 4, 1)
    assert account.accounted_count == account.offered_count == COUNT


def test_nothing_is_owed_before_the_subscription(script: Script) -> None:
    found = accounts(script, [(n, 20) for n in range(4, COUNT)], first=4)
    fate = found.fates([TOPIC])["t"]
    assert totals(found) == (0, 0, 0)
    assert list(fate.born_ns) == [n * STEP_NS for n in range(4, COUNT)]


def write_events(script: Script, broker: str, *events: tuple[int, str]) -> None:
    lines = [json.dumps([at_ns, kind, "t"]) for at_ns, kind in events]
    (Path(script.folder) / f"{broker}.events").write_text("\n".join(lines) + "\n")


def test_who_had_the_topic(script: Script) -> None:
    write_events(script, "broker1", (10, "open"), (100, "fence"), (130, "drained"))
    write_events(script, "broker2", (200, "open"))
    found = read_ownership(script, [(900, "broker2")])
    assert found.spells == [Spell("t", "broker1", 10, 100), Spell("t", "broker2", 200, 900)]
    assert (130, "t", "drain_ns", 30.0) in found.samples
    assert sum(value for _, _, metric, value in found.samples if metric == "early_open_count") == 0


def test_a_topic_that_is_opened_before_it_is_drained_is_seen(script: Script) -> None:
    write_events(script, "broker1", (10, "open"), (100, "fence"), (230, "drained"))
    write_events(script, "broker2", (200, "open"))
    found = read_ownership(script, [])
    assert sum(value for _, _, metric, value in found.samples if metric == "early_open_count") == 1
    assert found.spells[-1] == Spell("t", "broker2", 200, UNTIL_NS)
