"""The batch kernel of brokers whose pumps run on the cores too (``BrokerModel.pump_takes_core``), compiled by Numba.

``broker_kernel`` gives each topic's pump a server of its own, so that a broker of two cores does the work of three and
more.  Here everything is a job of one queue a broker: wake-ups of publishers, and turns of the topics' pumps.  A pump
becomes ready when its next message has been read and has its token, and its turn before is over; when it gets a core it
passes on, in order, all messages that are ready by then, as a goroutine does that gives nothing up while it has work.
Cores take jobs in the order in which they become ready, the first free core each.

That order is kept by waiting: a turn is not begun before everything is known that is ready earlier, so
messages wait in ``Line`` between calls, and ``finish`` ends what is left when nothing more comes.  The tests'
``shared_twin`` is the same in plain Python.

What is called for every message takes arrays, not the tuples below: handing those over costs more than the work.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from typing import NamedTuple

import numpy as np

from core.compiled import njit
from core.records import Int32, Int64
from testbed.virtual.broker_kernel import TOKEN, bucket, refill, rounded_debt, wait_ns

NEVER = 2**62
READY, SENT, WAIT, ROW = 0, 1, 2, 3  # columns of the own topic's jobs: instants, access delay, row of the journal or -1
COUNT = 2  # of the other topics': ready, sent, messages
COLUMNS = 4


class Line(NamedTuple):
    """What waits for a topic's pump on each broker, in order: those from ``head`` up to ``tail``."""

    jobs: Int64  # (brokers, room, COLUMNS)
    head: Int64  # (brokers,)
    tail: Int64
    free_at_ns: Int64  # when the pump is done with the one before


class Cores(NamedTuple):
    """The cores of each broker."""

    free_at_ns: Int64  # (brokers, cores)
    busy_ns: Int64  # (brokers,): work given to them


class Others(NamedTuple):
    """Emissions of the topics that brokers carry already, one span a broker."""

    at_ns: Int64
    batch: Int32  # messages of each
    begin: Int64  # (brokers,): moves on as they are served
    end: Int64


class Shown(NamedTuple):
    """What is counted: messages with ``from_ns`` <= instant < ``until_ns``, in histograms of a row a broker."""

    from_ns: int
    until_ns: int
    latency: Int64
    access_delay: Int64
    resident_latency: Int64  # of the other topics; no rows: not counted
    journal: Int64  # as ``broker_kernel.advance`` has it


class Buckets(NamedTuple):
    """Token buckets and what is reported of them, one entry a broker."""

    level: Int64
    level_at_ns: Int64
    rate: Int64
    capacity: Int64
    quantum: Int64
    lowest_level: Int64
    lowest_balance: Int64
    message_count: Int64
    dropped_count: Int64


@njit(cache=True, inline="always")
def _first_core(free_at_ns, broker):
    """The core that is free first."""
    core = 0
    for other in range(1, free_at_ns.shape[1]):
        if free_at_ns[broker, other] < free_at_ns[broker, core]:
            core = other
    return core


@njit(cache=True, inline="always")
def _next_ns(jobs, head, tail, pump_free_at_ns, broker):
    """When the pump's next turn is due."""
    if head[broker] == tail[broker]:
        return NEVER
    return max(jobs[broker, head[broker], READY], pump_free_at_ns[broker])


@njit(cache=True, inline="always")
def _turn(jobs, head, tail, broker, begun_ns, is_own, costs, shown):
    """A pump has a core: it passes on all messages that are ready by then; returns when it is done."""
    network_ns, pump_ns = costs[0], costs[3]
    n, end_ns = head[broker], begun_ns
    while n < tail[broker] and jobs[broker, n, READY] <= begun_ns:
        sent_ns = jobs[broker, n, SENT]
        counted = shown.from_ns <= sent_ns < shown.until_ns
        if is_own:
            end_ns += pump_ns
            if counted:
                shown.latency[broker, bucket(end_ns + network_ns - sent_ns)] += 1
                shown.access_delay[broker, bucket(jobs[broker, n, WAIT])] += 1
            if jobs[broker, n, ROW] >= 0:
                shown.journal[jobs[broker, n, ROW], 4] = end_ns + network_ns
        elif counted and shown.resident_latency.shape[0]:
            for _ in range(jobs[broker, n, COUNT]):
                end_ns += pump_ns
                shown.resident_latency[broker, bucket(end_ns + network_ns - sent_ns)] += 1
        else:
            end_ns += jobs[broker, n, COUNT] * pump_ns
        n += 1
    head[broker] = n
    return end_ns


@njit(cache=True, inline="always")
def _pump(
    jobs, head, tail, pump_free_at_ns,                                          # Line of the topic
    resident_jobs, resident_head, resident_tail, resident_pump_free_at_ns,      # of the topics that were there before
    free_at_ns, busy_ns, broker, costs, shown, until_ns,
):  # fmt: skip
    """All turns of both pumps that are due at ``until_ns``; returns when the next one is."""
    while True:
        own_ns = _next_ns(jobs, head, tail, pump_free_at_ns, broker)
        resident_ns = _next_ns(resident_jobs, resident_head, resident_tail, resident_pump_free_at_ns, broker)
        due_ns = min(own_ns, resident_ns)
        if due_ns > until_ns or due_ns == NEVER:
            return due_ns
        core = _first_core(free_at_ns, broker)
        begun_ns = max(due_ns, free_at_ns[broker, core])
        if own_ns <= resident_ns:
            end_ns = _turn(jobs, head, tail, broker, begun_ns, True, costs, shown)
            pump_free_at_ns[broker] = end_ns
        else:
            end_ns = _turn(resident_jobs, resident_head, resident_tail, broker, begun_ns, False, costs, shown)
            resident_pump_free_at_ns[broker] = end_ns
        free_at_ns[broker, core] = end_ns
        busy_ns[broker] += end_ns - begun_ns


@njit(cache=True, inline="always")
def _read(free_at_ns, busy_ns, broker, arrived_ns, work_ns):
    """Read an emission; returns when that is done."""
    core = _first_core(free_at_ns, broker)
    read_ns = max(arrived_ns, free_at_ns[broker, core]) + work_ns
    free_at_ns[broker, core] = read_ns
    busy_ns[broker] += work_ns
    return read_ns


@njit(cache=True)
def _serve_others(others, own, resident, cores, broker, costs, shown, due_ns, until_ns):
    """Read the other topics' emissions that arrive up to ``until_ns``; returns when the next turn of a pump is due."""
    network_ns, wakeup_ns, message_ns = costs[0], costs[1], costs[2]
    at_ns, batch, begin, end = others
    own_jobs, own_head, own_tail, own_pump_free_at_ns = own
    jobs, head, tail, pump_free_at_ns = resident
    free_at_ns, busy_ns = cores
    n = begin[broker]
    while n < end[broker] and at_ns[n] + network_ns <= until_ns:
        arrived_ns, work_ns = at_ns[n] + network_ns, wakeup_ns + batch[n] * message_ns
        if due_ns <= arrived_ns:
            due_ns = _pump(
                own_jobs, own_head, own_tail, own_pump_free_at_ns, jobs, head, tail, pump_free_at_ns,
                free_at_ns, busy_ns, broker, costs, shown, arrived_ns,
            )  # fmt: skip
        read_ns = _read(free_at_ns, busy_ns, broker, arrived_ns, work_ns)
        place = tail[broker]
        jobs[broker, place, READY], jobs[broker, place, SENT], jobs[broker, place, COUNT] = read_ns, at_ns[n], batch[n]
        tail[broker] = place + 1
        if place == head[broker]:
            due_ns = min(due_ns, max(read_ns, pump_free_at_ns[broker]))
        n += 1
    begin[broker] = n
    return due_ns


@njit(cache=True)
def advance(at_ns, publisher, count, broker_of, others, costs, own, resident, cores, buckets, drop, shown, rows):
    """Read a block of emissions, and do what is due until then; see ``broker_kernel.advance``.

    Returns the journal's next free row.
    """
    network_ns, wakeup_ns, message_ns, read_time = costs[0], costs[1], costs[2], costs[4]
    jobs, head, tail, pump_free_at_ns = own
    resident_jobs, resident_head, resident_tail, resident_pump_free_at_ns = resident
    free_at_ns, busy_ns = cores
    other_at_ns, _, begin, end = others
    level, level_at_ns, rate, capacity, quantum, lowest_level, lowest_balance, message_count, dropped_count = buckets
    journal = shown.journal
    due_ns = np.zeros(head.shape[0], np.int64)  # when a pump's next turn is, on each broker
    for i in range(at_ns.shape[0]):
        broker = broker_of[publisher[i]]
        if broker < 0:
            continue
        arrived_ns, work_ns = at_ns[i] + network_ns, wakeup_ns + count[i] * message_ns
        if begin[broker] < end[broker] and other_at_ns[begin[broker]] + network_ns <= arrived_ns:
            due_ns[broker] = _serve_others(
                others, own, resident, cores, broker, costs, shown, due_ns[broker], arrived_ns
            )
        if due_ns[broker] <= arrived_ns:
            due_ns[broker] = _pump(
                jobs, head, tail, pump_free_at_ns,
                resident_jobs, resident_head, resident_tail, resident_pump_free_at_ns,
                free_at_ns, busy_ns, broker, costs, shown, arrived_ns,
            )  # fmt: skip
        read_ns = _read(free_at_ns, busy_ns, broker, arrived_ns, work_ns)
        stamp_ns = read_ns if read_time else arrived_ns
        balance = level[broker]
        if stamp_ns > level_at_ns[broker]:  # read-time stamps of two cores may cross
            balance = refill(balance, stamp_ns - level_at_ns[broker], rate[broker], capacity[broker])
            level_at_ns[broker] = stamp_ns
        for _ in range(count[i]):
            if drop and balance < TOKEN:
                dropped_count[broker] += shown.from_ns <= at_ns[i] < shown.until_ns
                continue
            balance -= TOKEN
            wait = 0 if balance >= 0 else wait_ns(rounded_debt(balance, quantum[broker]), rate[broker])
            place, row = tail[broker], -1
            if rows < journal.shape[0]:
                row, rows = rows, rows + 1
                journal[row, 0], journal[row, 1], journal[row, 2], journal[row, 3] = (
                    i,
                    broker,
                    stamp_ns,
                    stamp_ns + wait,
                )
            ready_ns = max(read_ns, stamp_ns + wait)
            jobs[broker, place, READY], jobs[broker, place, SENT] = ready_ns, at_ns[i]
            jobs[broker, place, WAIT], jobs[broker, place, ROW] = wait, row
            tail[broker] = place + 1
            if place == head[broker]:
                due_ns[broker] = min(due_ns[broker], max(ready_ns, pump_free_at_ns[broker]))
        level[broker] = balance
        message_count[broker] += count[i]
        lowest_level[broker] = min(lowest_level[broker], balance - capacity[broker])
        lowest_balance[broker] = min(lowest_balance[broker], balance)
    for broker in range(head.shape[0]):
        _serve_others(others, own, resident, cores, broker, costs, shown, 0, NEVER)
    return rows


@njit(cache=True)
def finish(own, resident, cores, costs, shown):
    """Do all that is left: nothing more is sent."""
    jobs, head, tail, pump_free_at_ns = own
    resident_jobs, resident_head, resident_tail, resident_pump_free_at_ns = resident
    free_at_ns, busy_ns = cores
    for broker in range(busy_ns.shape[0]):
        _pump(
            jobs, head, tail, pump_free_at_ns,
            resident_jobs, resident_head, resident_tail, resident_pump_free_at_ns,
            free_at_ns, busy_ns, broker, costs, shown, NEVER,
        )  # fmt: skip


def line_of(brokers: int) -> Line:
    """Nobody waits."""
    return Line(np.zeros((brokers, 0, COLUMNS), np.int64), *(np.zeros(brokers, np.int64) for _ in range(3)))


def with_room(line: Line, more: int) -> Line:
    """The same jobs, those done forgotten, and room for ``more`` on each broker."""
    waiting = line.tail - line.head
    room = int(waiting.max(initial=0)) + more
    jobs = np.empty((len(line.head), room, COLUMNS), np.int64)
    for broker, count in enumerate(waiting):
        jobs[broker, :count] = line.jobs[broker, line.head[broker] : line.tail[broker]]
    return Line(jobs, np.zeros_like(line.head), waiting, line.free_at_ns)
