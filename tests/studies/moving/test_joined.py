"""MoveRecords of hand-made processes, joined: fates, first copies, what was offered again, held, out of order."""

import numpy as np

from core.records import Block
from studies.moving.joined import MOVES, MoveRecords, MovesJoined, joined
from testbed.trust.accounts import ABSENT

EPOCH_NS = 1_000_000
INGRESS, NSQD = ["i1", "i2"], ["n1", "n2"]
COUNT = 6  # messages, 100 ns apart, of publisher 0
EARLY, LATE = 450, 900  # a broker dies, and is back


def sender(waits: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
    """Broker 1 gets messages 0 to 3, and dies; 3 goes again to broker 2, where the publisher was moving to."""
    numbers = np.arange(COUNT)
    sent_at = EPOCH_NS + np.array([0, 100, 200, 920, 930, 940])
    return {
        "brokers": np.array(["i2", "i1"]),  # in the order in which this process met them
        "message": numbers,
        "sent_at_ns": sent_at,
        "acknowledged_at_ns": sent_at + 1,
        "fired_at_ns": EPOCH_NS + numbers * 100 + 5,
        "held": np.array([0, 0, 0, 0, 1, 1]),
        "waits": np.isin(numbers, waits).astype(np.int64),
        "sending_message": np.array([0, 1, 2, 3, 3, 4, 5]),
        "sending_at_ns": EPOCH_NS + np.array([0, 100, 200, 300, 920, 930, 940]),
        "sending_broker": np.array([1, 1, 1, 1, 0, 0, 0]),
        **{
            name: np.array([EPOCH_NS + before, EPOCH_NS + at] if "at_ns" in name else values)
            for name, before, at, values in zip(
                MOVES, (-90, 0, 0, 0, -80), (400, 0, 0, 0, LATE), ([], [0, 0], [0, 1], [1, 0], []), strict=True
            )
        },
    }


def subscriber(broker: str, *rows: tuple[int, int]) -> dict[str, np.ndarray]:
    message, at_ns = np.array(rows, np.int64).reshape(-1, 2).T
    ours = np.zeros(len(message), np.int64)
    return {
        "brokers": np.array([broker]), "topics": np.array(["topic"]), "broker": ours, "topic": ours,
        "message": message, "publisher": ours, "tag": ours + 1, "received_at_ns": at_ns + EPOCH_NS,
    }  # fmt: skip


def passed(*rows: tuple[int, int, int]) -> dict[str, np.ndarray]:
    message, arrived, released = np.array(rows, np.int64).reshape(-1, 3).T
    stamped = {"arrived_at_ns": arrived, "released_at_ns": released}
    return {"message": message, **{name: np.where(at == 0, 0, at + EPOCH_NS) for name, at in stamped.items()}}


def told(first: list[tuple[int, int]], second: list[tuple[int, int]], waits: tuple[int, ...] = ()) -> MovesJoined:
    block = Block(np.arange(COUNT) * 100, np.zeros(COUNT, np.int32), np.ones(COUNT, np.int32))
    rows = passed((3, 925, 926), (4, 935, 936), (5, 945, 0 if len(second) < 3 else 946))
    records = MoveRecords(
        [sender(waits)], [subscriber("n1", *first), subscriber("n2", *second)], [passed(), rows], INGRESS, NSQD, 1
    )
    return joined(block, EPOCH_NS, np.zeros(1, np.int32), records)


WHOLE = [(3, 927), (4, 937), (5, 947)]


def test_each_message_has_the_instants_of_its_first_copy() -> None:
    whole = told([(0, 50), (1, 150), (2, 250)], WHOLE)
    found = whole.deliveries
    assert found.number.tolist() == list(range(COUNT)) and found.broker.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.sent_ns.tolist() == [0, 100, 200, 920, 930, 940]
    assert found.held.tolist() == [False, False, False, True, True, True], (
        "3 was sent at once, and came by a later copy"
    )
    assert found.arrived_ns.tolist() == [ABSENT] * 3 + [925, 935, 945]
    assert (found.offered_count, found.resent_count, found.surplus_count, found.lost_count) == (COUNT, 1, 0, 0)
    assert found.out_of_order_count == found.waiting_count == 0
    ((told_ns, opens_ns, source, target),) = {(m.told_ns, m.opens_ns, m.source, m.target) for m in whole.transfers}
    assert (told_ns, opens_ns, source, target) == (400, LATE, 0, 1), "the move before the run is not one of it"
    assert (whole.lateness_ns == 5).all()
    assert whole.window.account.delivered_count == COUNT


def test_a_copy_that_came_before_counts_as_first_and_is_not_measured_by_the_second() -> None:
    """3 had come from the broker that died, and its receipt had not."""
    found = told([(0, 50), (1, 150), (2, 250), (3, 350)], WHOLE).deliveries
    assert found.broker[3] == 0 and found.sent_ns[3] == 300 and found.arrived_ns[3] == ABSENT and not found.held[3]
    assert (found.resent_count, found.surplus_count, found.lost_count) == (1, 1, 0)


def test_what_is_gone_is_lost_and_what_waits_is_not() -> None:
    first = [(0, 50), (2, 250)]
    assert told(first, WHOLE).deliveries.lost_count == 1
    waiting = told(first, WHOLE, waits=(1,)).deliveries
    assert (waiting.lost_count, waiting.waiting_count) == (0, 1)
    in_line = told([(0, 50), (1, 150), (2, 250)], WHOLE[:2]).deliveries
    assert (in_line.lost_count, in_line.waiting_count) == (0, 1), "5 waits for its token"


def test_order_is_that_of_the_rows_where_instants_are_equal() -> None:
    assert told([(0, 50), (2, 250), (1, 250)], WHOLE).deliveries.out_of_order_count == 1
    assert told([(0, 50), (1, 250), (2, 250)], WHOLE).deliveries.out_of_order_count == 0
