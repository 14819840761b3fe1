"""Decisions without an answer: by whose fault, on histories written by hand."""

import numpy as np
import pytest

from testbed.faults import (
    ClockSkew,
    Crash,
    Fault,
    Handover,
    Heal,
    LinkDelay,
    LinkDuplication,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
    ServerCrash,
)
from testbed.topologies.topology import Link
from testbed.trust.answers import (
    ENDLESS,
    UNDER_WAY_NS,
    AnswerAccount,
    account_of_answers,
    fault_windows,
    unanswered_rows,
)

TIMEOUT = 10


def windows(*faults: Fault) -> list[tuple[int, int]]:
    return fault_windows([(fault.at_ns, fault) for fault in faults], TIMEOUT)


def account(history: str, *excused: tuple[int, int]) -> AnswerAccount:
    """A character an instant: a decision with an answer (+), without one (-), or none; ``x``: a request without any."""
    decided = [(at_ns, mark == "-") for at_ns, mark in enumerate(history) if mark in "+-"]
    at_ns, unanswered = zip(*decided, strict=True) if decided else ((), ())
    lost = np.array([at_ns for at_ns, mark in enumerate(history) if mark == "x"], np.int64)
    return account_of_answers(np.array(at_ns, np.int64), np.array(unanswered, bool), excused, lost)


def test_what_lasts_excuses_until_a_time_out_after_its_end():
    assert windows(Crash(100, "n1"), Restart(150, "n1")) == [(100, 160)]
    assert windows(Partition(100, ("n1", "n2")), Heal(150, ("n1", "n2"))) == [(100, 160)]
    assert windows(Partition(100, ("n1",)), Partition(120, ("n2",)), Heal(150)) == [(100, 160), (120, 160)]
    assert windows(LinkLoss(100, "a", "b", 0.5), LinkLoss(120, "b", "a", 0.9), LinkLoss(150, "b", "a", 0.0)) == [
        (100, 160)
    ]
    assert windows(LinkDelay(100, "a", "b", 7), LinkDelay(120, "b", "a", 9), LinkDelay(150, "b", "a", 0)) == [
        (100, 160)
    ]
    assert windows(LinkReordering(5, "a", "b", 0.5, 7), LinkReordering(9, "*", "*", 0.0, 7)) == [(5, 19)]


def test_a_restart_brings_a_nodes_servers_back_as_well():
    assert windows(ServerCrash(100, "n1"), Crash(150, "n1"), Restart(200, "n1")) == [(100, 210)]
    assert windows(ServerCrash(100, "n1"), Crash(150, "n2"), Restart(200, "n2")) == [(100, ENDLESS), (150, 210)]


def test_a_delay_that_is_far_below_what_matters_excuses_nothing():
    def excused(*holds_ns):
        faults = [(100 * number, LinkDelay(100 * number, "*", "*", hold)) for number, hold in enumerate(holds_ns, 1)]
        return fault_windows(faults, TIMEOUT, 1000)

    assert excused(1) == excused(99, 0) == []
    assert excused(100) == [(100, ENDLESS)] and excused(100, 99, 0) == [(100, 200 + TIMEOUT)]


def test_a_disturbed_link_is_called_otherwise_once_its_host_is_handed_over():
    for before, after in (("s1", "s2"), ("*", "*")):
        loss = LinkLoss(100, "h", before, 0.1), Handover(120, "h", "s2"), LinkLoss(130, "h", after, 0.0)
        assert windows(*loss) == [(100, 140), (120, 130)]
    assert windows(Crash(100, "h"), Handover(120, "h", "s2"), Restart(130, "h")) == [(100, 140), (120, 130)]


def test_a_loss_ends_where_a_link_loses_as_its_topology_says():
    def excused(*losses: Fault) -> list[tuple[int, int]]:
        links = Link("h", "s1", 0, loss_probability=0.01), Link("s1", "s2", 0, loss_probability=0.05)
        return fault_windows([(fault.at_ns, fault) for fault in losses], TIMEOUT, links=links)

    assert excused(LinkLoss(100, "h", "s1", 0.2), LinkLoss(150, "s1", "h", 0.01)) == [(100, 160)]
    assert excused(LinkLoss(100, "h", "s1", 0.2), LinkLoss(150, "s1", "h", 0.05)) == [(100, ENDLESS)]
    assert excused(LinkLoss(100, "*", "*", 0.2), LinkLoss(150, "*", "*", 0.05)) == [(100, 160)]
    moved = LinkLoss(100, "h", "s1", 0.2), Handover(120, "h", "s2"), LinkLoss(150, "h", "s2", 0.01)
    assert excused(*moved) == [(100, 160), (120, 130)]
    assert excused(LinkDuplication(100, "h", "s1", 0.01)) == [(100, ENDLESS)], "of itself no link does that"


def test_what_is_done_to_all_links_may_end_link_by_link():
    def excused(*losses: Fault) -> list[tuple[int, int]]:
        links = Link("h", "s1", 0), Link("s1", "s2", 0)
        return fault_windows([(fault.at_ns, fault) for fault in losses], TIMEOUT, links=links)

    all_of_them, one = LinkLoss(100, "*", "*", 0.5), LinkLoss(150, "s2", "s1", 0)
    assert excused(all_of_them, one, LinkLoss(170, "h", "s1", 0)) == [(100, 160), (100, 180)]
    assert excused(all_of_them, one) == [(100, 160), (100, ENDLESS)]
    assert excused(all_of_them, one, LinkLoss(170, "*", "*", 0)) == [(100, 160), (100, 180)]
    moved = Handover(120, "h", "s2"), LinkLoss(170, "h", "s2", 0)
    assert excused(all_of_them, one, *moved) == [(100, 160), (100, 180), (120, 130)]


def test_what_does_not_end_excuses_all_the_rest():
    assert windows(Crash(100, "n1"), Restart(150, "n2")) == [(100, ENDLESS)]
    assert windows(Partition(100, ("n1",)), Heal(150, ("n2",))) == [(100, ENDLESS)]
    assert windows(LinkLoss(100, "*", "*", 0.5), LinkLoss(150, "a", "b", 0.0)) == [(100, ENDLESS)]
    assert windows(LinkLoss(100, "a", "b", 0.5), LinkDuplication(150, "a", "b", 0.0)) == [(100, ENDLESS)]


def test_what_is_over_at_once_excuses_a_time_out():
    assert windows(ClockSkew(100, "n1", 5), Handover(200, "a", "s")) == [(100, 110), (200, 210)]
    assert windows() == []


def test_faults_count_from_when_they_were_to_happen_until_they_were_really_over():
    assert fault_windows([(155, Restart(150, "n1")), (103, Crash(100, "n1"))], TIMEOUT) == [(100, 165)]
    assert fault_windows([(103, ClockSkew(100, "n1", 5))], TIMEOUT) == [(100, 113)]


def test_decisions_are_told_apart_by_their_instants():
    assert account("+-+ -", (10, 20)) == AnswerAccount(4, 2, 0, 0)
    assert account("-+-+-+-", (2, 4)) == AnswerAccount(4, 2, 3, 2)  # 2 and 4 are in it
    assert account("-+-+-+-", (1, 3), (2, 5)) == AnswerAccount(2, 2, 5, 2)  # once, where windows meet
    assert account("+++---", (3, ENDLESS)) == AnswerAccount(3, 0, 3, 3)


def test_requests_that_nobody_decides_are_told_apart_by_when_they_were_due():
    found = account("+xx+", (UNDER_WAY_NS + 2, ENDLESS))
    assert found == AnswerAccount(2, 0, 0, 0, 1, 1), "the second was under way when the fault began"
    assert found.lost_share == pytest.approx(1 / 3)
    assert account(" x ", (0, 5)).lost_share is None


def test_a_share_is_of_what_was_decided_outside_of_faults():
    assert account("-+++").unanswered_share == 0.25
    assert account("---+", (0, 2)).unanswered_share == 0
    assert account("---", (0, 2)).unanswered_share is None
    assert account("   ").unanswered_share is None


def test_rows_are_of_seconds_and_nodes():
    second = 10**9
    decided = [(second - 1, "n2"), (0, "n1"), (5, "n2"), (second, "n1")]
    assert unanswered_rows(decided) == [
        (second, "n1", "unanswered_count", 1.0),
        (second, "n2", "unanswered_count", 2.0),
        (2 * second, "n1", "unanswered_count", 1.0),
    ]
    assert unanswered_rows([]) == []
