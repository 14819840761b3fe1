"""What is made of the words of nodes and users: each request's fate, who waited how long, what is counted, and lost."""

from collections.abc import Sequence
from typing import Any

import pytest

from core.records import Request
from studies.limiting.accounts import lost_on_the_way, records_of
from studies.limiting.asked import RequestJournal
from studies.limiting.users import NEVER
from systems.api import Verdict
from testbed.faults import Fault, LinkDelay, Partition, ServerCrash
from testbed.nodes.journal import NodeJournal
from testbed.nodes.records import NodeRecords
from testbed.trust.answers import AnswerAccount

ADMIT, REJECT = Verdict.ADMIT, Verdict.REJECT
SECOND = 1_000_000_000


def folded(
    offered: dict[str, Sequence[tuple[int, int]]],
    users: Sequence[Sequence[int]] = (),
    nodes: dict[str, NodeRecords] | None = None,
    faults: Sequence[tuple[int, Fault]] = (),
    samples: Sequence[tuple[int, str, str, float]] = (),
) -> RequestJournal:
    """``offered``: of each node the requests as (number, due in seconds); one user each, and a time-out of a second."""
    requests = {node: [Request(number, "u", due * SECOND) for number, due in rows] for node, rows in offered.items()}
    happened = NodeJournal(samples=list(samples), faults=list(faults))
    return records_of(requests, nodes or {}, users, happened, timeout_ns=SECOND)


def fates(shown: RequestJournal) -> list[tuple[int, str, str, int | None]]:
    columns = shown.requests()
    names = "request_id", "node", "decision", "decided_at_ns"
    return list(zip(*(columns[name] for name in names), strict=True))


# A history: at n1 five requests, a second apart.  Row of a user: number, sent, received, decided, admitted, alone.
OFFERED: dict[str, Sequence[tuple[int, int]]] = {"n1": [(10, 1), (11, 2), (12, 3), (13, 4), (14, 5)]}
USERS = [
    [10, SECOND + 1, SECOND + 9, SECOND + 5, 1, 0],  # admitted
    [11, 2 * SECOND + 1, 2 * SECOND + 9, 2 * SECOND + 5, 0, 0],  # rejected
    [12, 3 * SECOND + 1, NEVER, NEVER, 0, 0],  # nobody answered
    [13, 4 * SECOND + 1, 30 * SECOND, 29 * SECOND, 1, 0],  # late, and no less decided
    [14, NEVER, NEVER, NEVER, 0, 0],  # its node was down: it was not even sent
]


def test_each_request_has_its_fate() -> None:
    shown = folded(OFFERED, USERS)
    assert fates(shown) == [
        (10, "n1", "admit", SECOND + 5),
        (11, "n1", "reject", 2 * SECOND + 5),
        (12, "n1", "lost", None),
        (13, "n1", "admit", 29 * SECOND),
        (14, "n1", "lost", None),
    ]
    assert shown.answers == AnswerAccount(
        decided_count=3, unanswered_count=0, decided_in_faults_count=0, unanswered_in_faults_count=0, lost_count=2
    )
    assert shown.journal.samples == [], "nobody decided alone"


def test_users_know_when_they_sent_and_heard() -> None:
    shown = folded(OFFERED, USERS)
    columns = shown.requests()
    assert columns["intended_at_ns"] == [SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND]
    assert columns["sent_at_ns"] == [SECOND + 1, 2 * SECOND + 1, 3 * SECOND + 1, 4 * SECOND + 1, None]
    assert columns["received_at_ns"] == [SECOND + 9, 2 * SECOND + 9, None, 30 * SECOND, None]
    assert shown.lateness_ns() == [1, 1, 1, 1], "of those that were sent"


def test_a_decision_that_failed_open_is_a_decision_and_counted_by_its_second() -> None:
    users = [[10, SECOND, SECOND + 9, SECOND + 5, 1, 1], *USERS[1:4], [14, 5 * SECOND, 6 * SECOND, 5 * SECOND, 0, 1]]
    shown = folded(OFFERED, users)
    assert [row[2] for row in fates(shown)] == ["admit", "reject", "lost", "admit", "reject"]
    assert shown.answers == AnswerAccount(4, 2, 0, 0, 1)
    assert shown.journal.samples == [
        (2 * SECOND, "n1", "unanswered_count", 1.0),
        (6 * SECOND, "n1", "unanswered_count", 1.0),
    ]


def test_what_faults_excuse_is_counted_apart() -> None:
    """The servers are gone from 2 s on, for good; a request that was due a second before may have been lost by it."""
    users = [[number, at, at + 9, at + 5, 1, alone] for number, at, alone in ((10, SECOND, 1), (11, 2 * SECOND, 1))]
    cut = folded(OFFERED, users, faults=[(2 * SECOND, ServerCrash(2 * SECOND, "n1"))])
    assert cut.answers == AnswerAccount(1, 1, 1, 1, 0, 3)
    assert cut.journal.faults == [(2 * SECOND, ServerCrash(2 * SECOND, "n1"))]
    early = folded(OFFERED, users, faults=[(4 * SECOND, Partition(4 * SECOND, ("n1",)))])
    assert early.answers == AnswerAccount(2, 2, 0, 0, 0, 3), "12 was due within the second before"


def test_a_delay_far_below_the_time_out_excuses_no_missing_answer() -> None:
    def unanswered_share(hold_ns: int) -> float | None:
        shown = folded({"n1": [(10, 0)]}, [[10, 1, 9, 6, 1, 1]], faults=[(0, LinkDelay(0, "*", "*", hold_ns))])
        assert shown.answers is not None
        return shown.answers.unanswered_share

    assert unanswered_share(1) == unanswered_share(SECOND // 11) == 1
    assert unanswered_share(SECOND // 10) is None


def test_requests_are_in_the_order_in_which_they_were_due_on_all_nodes() -> None:
    shown = folded({"n2": [(20, 2), (21, 3)], "n1": [(10, 1), (11, 2)]})
    assert [row[:2] for row in fates(shown)] == [(10, "n1"), (20, "n2"), (11, "n1"), (21, "n2")]


def test_what_was_handed_on_is_decided_where_it_came_to() -> None:
    """n1 handed 10 to n2, which wrote its verdict down; its user heard nothing."""
    nodes = {"n1": NodeRecords(), "n2": NodeRecords(verdicts=[(7, 10, REJECT, False)])}
    shown = folded({"n1": [(10, 0)]}, [[10, 1, NEVER, NEVER, 0, 0]], nodes)
    assert shown.journal.verdicts == {10: (7, "n2", REJECT)}
    assert fates(shown) == [(10, "n1", "reject", 7)]
    assert shown.users == {10: (1, None)}


@pytest.mark.parametrize(
    ("user", "verdict", "alone"),
    [
        ([10, 1, NEVER, NEVER, 0, 0], (8, "n2", ADMIT), 0),  # the last one that was written down
        ([10, 1, 9, 6, 0, 1], (6, "n1", REJECT), 1),  # what the user was told
    ],
)
def test_a_request_that_was_decided_twice_counts_once(
    user: list[int], verdict: tuple[int, str, Verdict], alone: int
) -> None:
    """It came to n2 twice, over a link that doubles what passes: the first time n2 decided alone."""
    nodes = {"n2": NodeRecords(verdicts=[(7, 10, REJECT, True), (8, 10, ADMIT, False)])}
    shown = folded({"n1": [(10, 0)]}, [user], nodes)
    assert shown.journal.verdicts == {10: verdict}
    assert shown.answers == AnswerAccount(1, alone, 0, 0)
    assert shown.journal.samples == [(SECOND, verdict[1], "unanswered_count", 1.0)][:alone]


def test_an_answer_to_no_question_is_no_decision() -> None:
    nodes = {"n1": NodeRecords(verdicts=[(7, 99, ADMIT, True)])}
    shown = folded({"n1": [(10, 0)]}, [], nodes)
    assert shown.journal.verdicts == {} and fates(shown) == [(10, "n1", "lost", None)]
    assert shown.answers == AnswerAccount(0, 0, 0, 0, 1) and shown.answers.unanswered_share is None


def test_samples_and_commands_of_nodes_carry_their_names_and_samples_are_in_order() -> None:
    nodes = {
        "n2": NodeRecords(samples=[(5, "sent_count", 1.0)], commands=[(4, "Ask(1)")]),
        "n1": NodeRecords(samples=[(9, "sent_count", 2.0), (5, "sent_count", 3.0)]),
    }
    shown = folded({}, [], nodes, samples=[(6, "", "load_end_ns", 6.0)])
    assert shown.journal.samples == [
        (5, "n1", "sent_count", 3.0),
        (5, "n2", "sent_count", 1.0),
        (6, "", "load_end_ns", 6.0),
        (9, "n1", "sent_count", 2.0),
    ]
    assert shown.journal.commands == [(4, "n2", "Ask(1)")]


# --- datagrams --------------------------------------------------------------------------------------


def said(sent_to: dict[str, int], received_from: dict[str, int]) -> dict[str, Any]:
    return {"sent_to": sent_to, "received_from": received_from}


@pytest.mark.parametrize(
    ("came", "lost"),
    [
        (5, []),
        (4, [(9, "a", "lost_count", 1.0)]),
        (0, [(9, "a", "lost_count", 5.0)]),
    ],
)
def test_a_datagram_that_was_sent_and_did_not_come_is_lost(came: int, lost: list[Any]) -> None:
    statuses = {"a": said({"b": 5}, {}), "b": said({"a": 0}, {"a": came} if came else {})}
    assert lost_on_the_way(statuses, 9) == lost


def test_datagrams_that_came_twice_make_up_for_none_that_did_not_come() -> None:
    statuses = {"a": said({"b": 1_000, "c": 1_000}, {}), "b": said({}, {"a": 1_100}), "c": said({}, {"a": 900})}
    assert lost_on_the_way(statuses, 9) == [(9, "a", "lost_count", 100.0)]


def test_what_was_sent_to_a_node_that_has_died_is_nobodys_loss() -> None:
    assert lost_on_the_way({"a": said({"b": 5, "c": 3}, {}), "c": said({}, {"a": 3})}, 9) == []
