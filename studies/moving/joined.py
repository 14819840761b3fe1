"""What became of a live topic's messages whose publishers moved: records of senders, brokers and subscribers, joined.

Arrays in, arrays out.  Instants of the records are CLOCK_REALTIME; those that come out are the schedule's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.records import Block, Columns, Int32, Int64
from studies.distribution.window import RECORDED, UNDUE_DELAYS, Window
from testbed.trust.accounts import ABSENT, Bools, account, shifted
from testbed.trust.moved import MovedMessages, PublisherMove

MOVES = ("move_told_at_ns", "move_publisher", "move_source", "move_target", "move_opened_at_ns")


@dataclass(frozen=True)
class MoveRecords:
    """Of one load.  ``ingress``, ``nsqd``: addresses of the brokers, in order."""

    sent: Sequence[Columns]  # of each process that publishes: ``testbed.brokers.moving.publish_host``
    received: Sequence[Columns]  # of each that subscribes
    passed: Sequence[Mapping[str, Int64]]  # of each broker; nothing of what one had before it was killed
    ingress: Sequence[str]
    nsqd: Sequence[str]
    tag: int


@dataclass(frozen=True)
class MovesJoined:
    """``window``: as of a topic whose publishers stay.  ``lateness_ns``: when processes came to messages, too late."""

    window: Window
    deliveries: MovedMessages
    transfers: list[PublisherMove]
    lateness_ns: Int64


def joined(block: Block, epoch_ns: int, assignment: Int32, records: MoveRecords) -> MovesJoined:
    """``epoch_ns``: CLOCK_REALTIME of the schedule's instant 0; ``assignment``: where publishers began."""
    intended_ns, publisher, _ = block.messages()
    count = len(intended_ns)
    columns = {name: np.full(count, ABSENT, np.int64) for name in RECORDED}
    broker = assignment[publisher].astype(np.int32)
    fired_ns, held, waits = np.full(count, ABSENT, np.int64), np.zeros(count, bool), np.zeros(count, bool)
    for rows in records.sent:
        mine = rows["message"]
        columns["sent_at_ns"][mine] = shifted(rows["sent_at_ns"], epoch_ns)
        columns["acknowledged_at_ns"][mine] = shifted(rows["acknowledged_at_ns"], epoch_ns)
        fired_ns[mine] = shifted(rows["fired_at_ns"], epoch_ns)
        held[mine], waits[mine] = rows["held"] > 0, rows["waits"] > 0
    message, received_ns, where = _deliveries(records, count, epoch_ns)
    number, first = np.unique(message, return_index=True)
    columns["received_at_ns"][number], broker[number] = received_ns[first], where[first]
    sendings = _sendings(records, epoch_ns)
    sent_ns, again = _sent_as_it_came(sendings, number, received_ns[first], where[first])
    columns["sent_at_ns"][number] = sent_ns
    held[number] |= again
    is_in_line = _pass(records, epoch_ns, broker, columns)
    came = columns["received_at_ns"] != ABSENT
    sent, arrived, released, received = (
        columns[f"{name}_at_ns"][number] for name in ("sent", "arrived", "released", "received")
    )
    deliveries = MovedMessages(
        number, publisher[number], broker[number], intended_ns[number], sent, arrived, released, received, held[number],
        offered_count=count,
        waiting_count=int(np.count_nonzero(~came & (waits | is_in_line))),
        resent_count=len(sendings) - len(np.unique(sendings[:, 0])),
        surplus_count=len(message) - len(number),
        place=first,
    )  # fmt: skip
    known = {name: np.flatnonzero(column != ABSENT) for name, column in columns.items()}
    whole = account(np.arange(count), known["sent_at_ns"], known["acknowledged_at_ns"], message,
                    known["arrived_at_ns"], known["released_at_ns"])  # fmt: skip
    undue = {name: np.full(count, ABSENT, np.int64) for name in UNDUE_DELAYS}
    window = Window(0, np.ones(count, bool), publisher, broker, intended_ns, undue, whole, **columns)
    fired = fired_ns != ABSENT
    return MovesJoined(window, deliveries, _transfers(records, epoch_ns), fired_ns[fired] - intended_ns[fired])


def _deliveries(records: MoveRecords, count: int, epoch_ns: int) -> tuple[Int64, Int64, Int32]:
    """Message, instant and broker of each, in the order in which they came."""
    parts = [np.zeros((3, 0), np.int64)]
    for rows in records.received:
        broker = _places(rows["brokers"], records.nsqd)[rows["broker"]]
        mine = (rows["tag"] == records.tag) & (rows["message"] >= 0) & (rows["message"] < count)
        parts.append(np.stack([rows["message"], rows["received_at_ns"] - epoch_ns, broker])[:, mine])
    message, received_ns, where = np.concatenate(parts, axis=1)
    order = np.argsort(received_ns, kind="stable")
    return message[order], received_ns[order], where[order].astype(np.int32)


def _sendings(records: MoveRecords, epoch_ns: int) -> Int64:
    """A row each: message, instant, broker; by message, and then by instant."""
    parts = [np.zeros((0, 3), np.int64)]
    for rows in records.sent:
        broker = _places(rows["brokers"], records.ingress)[rows["sending_broker"]]
        parts.append(np.stack([rows["sending_message"], rows["sending_at_ns"] - epoch_ns, broker], axis=1))
    whole = np.concatenate(parts)
    ordered: Int64 = whole[np.lexsort((whole[:, 1], whole[:, 0]))]
    return ordered


def _sent_as_it_came(sendings: Int64, number: Int64, received_ns: Int64, where: Int32) -> tuple[Int64, Bools]:
    """When what came was sent: the last time that it went to that broker before; and whether that was not the first."""
    begin, end = (np.searchsorted(sendings[:, 0], number, side) for side in ("left", "right"))
    sent_ns, again = np.full(len(number), ABSENT, np.int64), np.zeros(len(number), bool)
    once = end - begin == 1
    sent_ns[once] = sendings[begin[once], 1]
    for row in np.flatnonzero(end - begin > 1):
        tries = sendings[begin[row] : end[row]]
        fitting = np.flatnonzero((tries[:, 2] == where[row]) & (tries[:, 1] <= received_ns[row]))
        if len(fitting):
            sent_ns[row], again[row] = tries[fitting[-1], 1], fitting[-1] > 0
    return sent_ns, again


def _pass(records: MoveRecords, epoch_ns: int, broker: Int32, columns: dict[str, Int64]) -> Bools:
    """Instants at the broker from which each message came, into ``columns``; returns which wait in a line for tokens.

    A broker that was killed and is back may have a row of a copy that came second: that is not the one.
    """
    is_in_line = np.zeros(len(broker), bool)
    received_ns = columns["received_at_ns"]
    for number, rows in enumerate(records.passed):
        ours = (rows["message"] >= 0) & (rows["message"] < len(broker))
        message, arrived, released = (rows[name][ours] for name in ("message", "arrived_at_ns", "released_at_ns"))
        is_in_line[message[released == 0]] = True
        out = (released != 0) & (broker[message] == number) & (released - epoch_ns <= received_ns[message])
        message, arrived_ns, released_ns = message[out], arrived[out] - epoch_ns, released[out] - epoch_ns
        message, first = np.unique(message, return_index=True)
        columns["arrived_at_ns"][message], columns["released_at_ns"][message] = arrived_ns[first], released_ns[first]
        columns["access_delay_ns"][message] = np.maximum(released_ns[first] - arrived_ns[first], 0)
    return is_in_line


def _transfers(records: MoveRecords, epoch_ns: int) -> list[PublisherMove]:
    """Moves of the run, those of before left out, in order of when publishers were told."""
    moves = []
    for rows in records.sent:
        place = _places(rows["brokers"], records.ingress)
        for told, who, source, target, opened in zip(*(rows[name].tolist() for name in MOVES), strict=True):
            if told >= epoch_ns:
                moves.append(
                    PublisherMove(told - epoch_ns, who, int(place[source]), int(place[target]), opened - epoch_ns)
                )
    return sorted(moves, key=lambda one: (one.told_ns, one.publisher))


def _places(told: np.ndarray, addresses: Sequence[str]) -> Int64:
    """Of a process' list of brokers, their numbers here."""
    return np.array([addresses.index(str(address)) for address in told] or [0], np.int64)
