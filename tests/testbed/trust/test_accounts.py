"""The account of a load: parts that are disjoint and sum to what was offered, against a plain count.

And hand-written histories: what senders, brokers and subscribers might have written, and what it amounts to.
"""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.records import Envelope
from testbed.trust.accounts import (
    ABSENT,
    DeliveryAccount,
    Fate,
    Got,
    Interest,
    Receipt,
    Sent,
    account,
    copies,
    fate,
    lateness_ns,
    of_topic,
    out_of_order_count,
    passage,
    receipt,
    shifted,
)

MS = 1_000_000
UNTIL_NS = 1_000

NUMBERS = st.lists(st.integers(-3, 20), max_size=40)


def array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.int64)


@given(
    offered=st.sets(st.integers(0, 15)), sent=NUMBERS, acked=NUMBERS, delivered=NUMBERS, arrived=NUMBERS, out=NUMBERS
)
def test_every_message_is_counted_once(
    offered: set[int], sent: list[int], acked: list[int], delivered: list[int], arrived: list[int], out: list[int]
) -> None:
    found = account(*map(array, (list(offered), sent, acked, delivered, arrived, out)))
    times = Counter(delivered)
    plain: Counter[str] = Counter()
    for number in offered:
        if times[number]:
            kind = "delivered" if times[number] == 1 else "duplicated"
            plain["late answer"] += number not in acked
        elif number in acked:
            kind = "undelivered"
            plain["released"] += number in out
        elif number in sent:
            kind = "unacknowledged"
            plain["at broker"] += number in arrived
        else:
            kind = "not sent"
        plain[kind] += 1
    assert found == DeliveryAccount(
        *(plain[kind] for kind in ("not sent", "unacknowledged", "undelivered", "delivered", "duplicated")),
        offered_count=len(offered),
        unacknowledged_at_broker_count=plain["at broker"],
        undelivered_released_count=plain["released"],
        delivered_unacknowledged_count=plain["late answer"],
        surplus_count=sum(times[number] - 1 for number in offered if times[number]),
        foreign_count=sum(number not in offered for number in delivered),
    )
    assert found.accounted_count == found.offered_count == len(offered)
    assert (found + found).accounted_count == 2 * len(offered)


def test_a_message_that_arrived_twice_after_a_lost_answer() -> None:
    found = account(array([0, 1, 2, 3]), array([0, 1, 2]), array([0]), array([1, 1, 7]), array([0, 2]), array([0]))
    assert (found.not_sent_count, found.unacknowledged_count, found.undelivered_count) == (1, 1, 1)
    assert (found.delivered_count, found.duplicated_count, found.surplus_count, found.foreign_count) == (0, 1, 1, 1)
    assert (found.unacknowledged_at_broker_count, found.undelivered_released_count) == (1, 1)


def test_a_stranger_with_the_largest_number_there_is() -> None:
    """Whoever finds the broker's port may publish anything."""
    largest = 2**63 - 1
    assert out_of_order_count(array([0, 2, largest, 1, -largest]), array([5, 5, 9, 5, 8])) == 1


@given(rows=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=40))
def test_out_of_order_against_a_plain_count(rows: list[tuple[int, int]]) -> None:
    # A message has one publisher, whatever was drawn for its later rows.
    publisher_of: dict[int, int] = {}
    rows = [(number, publisher_of.setdefault(number, publisher)) for number, publisher in rows]
    seen: set[int] = set()
    highest: dict[int, int] = {}
    late = 0
    for number, publisher in rows:
        if number not in seen:
            late += number < highest.get(publisher, -1)
            highest[publisher] = max(number, highest.get(publisher, -1))
            seen.add(number)
    assert (
        out_of_order_count(array([number for number, _ in rows]), array([publisher for _, publisher in rows])) == late
    )


# --- hand-written histories --------------------------------------------------------------------------------------


def test_lateness_counts_from_the_intended_instant_of_what_was_done() -> None:
    assert lateness_ns(array([10, 20, 30]), array([10, ABSENT, 37])).tolist() == [0, 7]


def test_what_did_not_happen_has_no_instant_by_any_clock() -> None:
    assert shifted(array([100, ABSENT, 5]), 30).tolist() == [70, ABSENT, -25]


def rows(stamps: list[int], read: list[int], released: list[int]) -> dict[str, np.ndarray]:
    """A broker's, in the order of tokens; it writes 0 for a release that did not come."""
    columns = {"message": list(range(len(stamps))), "stamp_ns": stamps, "arrived_at_ns": stamps, "read_at_ns": read}
    return {name: array(values) for name, values in {**columns, "released_at_ns": released}.items()}


def test_a_message_that_still_waits_at_its_broker_has_no_release() -> None:
    """Three come at once to a bucket of one token a millisecond: the first goes through, the last waits for ever."""
    history = rows([5 * MS] * 3, [5 * MS + 9] * 3, [5 * MS + 20, 6 * MS + 20, 0])
    made = passage(history, Envelope(1_000.0, 1.0), is_steady=True)
    assert made.released_at_ns.tolist() == [5 * MS + 20, 6 * MS + 20, ABSENT]
    assert made.access_delay_ns.tolist() == [0, MS + 20, ABSENT]
    assert made.stamp_error_ns.tolist() == [9, 9, 9]
    for delays in made.undue_delay_ns.values():
        assert delays.tolist() == [0, ABSENT, ABSENT], "what does not conform has none, nor what still waits"


def test_with_buckets_that_change_all_of_the_time_at_the_broker_is_access_delay() -> None:
    made = passage(rows([100, 200], [110, 210], [150, 0]), Envelope(1_000.0, 1.0), is_steady=False)
    assert made.access_delay_ns.tolist() == [50, ABSENT] and made.undue_delay_ns == {}


def test_without_a_bucket_nobody_waits() -> None:
    made = passage(rows([100, 100], [110, 130], [150, 160]), None, is_steady=True)
    assert made.access_delay_ns.tolist() == [0, 0] and made.undue_delay_ns == {}


def test_copies_of_a_span() -> None:
    """Due before, in and after the span [100, 200): the third never came, the second came twice, a stranger's once."""
    made = copies(array([50, 110, 150, 199, 200]), array([0, 1, 1, 3, 4, 77, -3]),
                  array([105, 130, 140, 260, 199, 150, 150]), (100, 200))  # fmt: skip
    assert made.latency_ns.tolist() == [20, 30, 61], "from the intended instant, whenever it came"
    assert (made.due_count, made.lost_count, made.came_count) == (3, 1, 4)


def sent(*answered_ns: int) -> Sent:
    """Message n is due at 100 n, late by 1, sent after 2; ``ABSENT``: no broker ever said that it has it."""
    born = 100 * np.arange(len(answered_ns), dtype=np.int64)
    return Sent(born, born + 1, born + 2, array(list(answered_ns)), 0 * born, 0 * born)


def got(*deliveries: tuple[int, int]) -> Got:
    """(message of producer 0, when), among some of producer 1."""
    mixed = [row for number, at_ns in deliveries for row in ((0, number, 0, at_ns), (1, number, 0, at_ns))]
    return Got(*np.array(mixed, np.int64).reshape(-1, 4).T)


def told(*told_ns: int, spans: tuple[tuple[int, int], ...] = ((0, UNTIL_NS),)) -> Interest:
    return Interest(spans, array(list(told_ns)), UNTIL_NS)


def plain(made: Receipt) -> tuple[list[int], list[bool], int, int, int]:
    counts = made.gap_count, made.duplicate_count, made.reordered_count
    return made.received_ns.tolist(), made.is_owed.tolist(), *counts


def test_a_consumer_is_owed_what_was_accepted_once_it_was_told() -> None:
    """Told at 150: message 1 went before, message 3 nobody ever accepted, message 4 is missing."""
    made = receipt(sent(3, 103, 203, ABSENT, 403), got((2, 230)), 0, told(150))
    assert plain(made) == ([ABSENT, ABSENT, 230, ABSENT, ABSENT], [False, False, True, True, True], 2, 0, 0)


def test_a_consumer_that_was_told_nothing_is_owed_what_lies_between_what_it_got() -> None:
    made = receipt(sent(3, 103, 203, 303, 403), got((1, 130), (3, 330), (3, 340), (2, 350)), 0, told())
    assert plain(made) == ([ABSENT, 130, 350, 330, ABSENT], [False, True, True, True, False], 0, 1, 1)


def test_a_consumer_that_left_is_owed_nothing_of_the_time_in_between() -> None:
    spans = ((0, 150), (350, UNTIL_NS))
    for answers in ((3, 103, 203, 303, 403), (3, 103, ABSENT, ABSENT, 403)):
        made = receipt(sent(*answers), got((0, 10), (1, 110), (4, 410)), 0, told(0, 350, spans=spans))
        assert plain(made) == ([10, 110, ABSENT, ABSENT, 410], [True, True, False, False, True], 0, 0, 0)


def test_the_fate_of_messages_is_that_of_the_last_consumer_who_is_owed_them() -> None:
    history = sent(3, 103, 203, ABSENT, 403)
    first = receipt(history, got((0, 10), (1, 110), (2, 210), (4, 410)), 0, told(0))
    other = receipt(history, got((0, 60), (2, 290), (2, 295)), 0, told(0))
    fates, whole = fate(history, [first, other], bound_ns=50)
    assert fates.born_ns.tolist() == [0, 100, 200, 300, 400]
    assert fates.latency_ns.tolist() == [60, -1, 90, -1, -1], "message 3 no broker took: nobody had it"
    assert fates.late_count.tolist() == [1, 1, 1, 2, 1] and fates.consumer_count.tolist() == [2] * 5
    counts = whole.not_sent_count, whole.unacknowledged_count, whole.undelivered_count, whole.delivered_count
    assert counts == (0, 1, 2, 1) and whole.duplicated_count == whole.surplus_count == 1
    assert whole.accounted_count == whole.offered_count == 5


def test_what_came_though_no_answer_did_is_delivered() -> None:
    history = sent(ABSENT, 103)
    _, whole = fate(history, [receipt(history, got((0, 10), (1, 110)), 0, told(0))], bound_ns=50)
    assert (whole.delivered_count, whole.delivered_unacknowledged_count, whole.unacknowledged_count) == (2, 1, 0)


def test_producers_of_a_topic_are_put_in_order() -> None:
    one, other = (Fate(array([at]), array([at + 1]), array([0]), array([2])) for at in (30, 20))
    assert of_topic([one, other]).born_ns.tolist() == [20, 30]
    assert of_topic([one, other]).latency_ns.tolist() == [21, 31]
    assert len(of_topic([]).born_ns) == 0
