"""The account of a load: parts that are disjoint and sum to what was offered, against a plain count."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.trust.accounts import DeliveryAccount, account, sequence

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
    found = sequence(array([0, 2, largest, 1, -largest]), array([5, 5, 9, 5, 8]))
    assert (found.row_count, found.distinct_count, found.out_of_order_count) == (5, 5, 1)


@given(rows=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=40))
def test_sequences_against_a_plain_count(rows: list[tuple[int, int]]) -> None:
    # A message has one publisher, whatever was drawn for its later rows.
    publisher_of: dict[int, int] = {}
    rows = [(number, publisher_of.setdefault(number, publisher)) for number, publisher in rows]
    found = sequence(array([number for number, _ in rows]), array([publisher for _, publisher in rows]))
    seen: set[int] = set()
    highest: dict[int, int] = {}
    late = 0
    for number, publisher in rows:
        if number not in seen:
            late += number < highest.get(publisher, -1)
            highest[publisher] = max(number, highest.get(publisher, -1))
            seen.add(number)
    assert found.row_count == len(rows)
    assert found.distinct_count == len(seen)
    assert found.duplicate_count == len(rows) - len(seen)
    assert found.gap_count == len(set(range(max(seen, default=-1) + 1)) - seen)
    assert found.out_of_order_count == late
