"""Brokers whose messages are released by somebody else: one bucket that all see at once, or verdicts of nodes.

``broker_kernel`` keeps a bucket a broker and does all in one pass; here the instants at which messages may go come
first, and then the brokers' work is reckoned, by the same rules.  A test compares the two where both can be asked.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np

from core.compiled import njit
from core.records import Int32, Int64
from core.units import NEVER_NS
from testbed.virtual.broker_kernel import TOKEN, _ingress, _other, refill, wait_ns

_UNCOUNTED = np.zeros((0, 1), np.int64)  # nobody asks for the latency of other topics


@njit(cache=True)
def one_bucket(at_ns: Int64, start_ns: int, rate: int, capacity: int) -> Int64:
    """When each message that asks a bucket at ``at_ns`` (ascending) has its token, first come first served.

    The bucket is full at ``start_ns``; ``rate`` and ``capacity`` in units of ``systems.parts.token_bucket``.
    """
    released_ns = np.empty_like(at_ns)
    level, level_at_ns = capacity, start_ns
    for i in range(at_ns.shape[0]):
        if at_ns[i] > level_at_ns:
            level = refill(level, at_ns[i] - level_at_ns, rate, capacity)
            level_at_ns = at_ns[i]
        level -= TOKEN
        released_ns[i] = at_ns[i] + (0 if level >= 0 else wait_ns(level, rate))
    return released_ns


@njit(cache=True)
def sub_bucket(at_ns: Int64, changes: Int64) -> Int64:
    """The same of a bucket that changes under those who wait; it keeps its tokens, cut to the new size.

    ``changes``: (n, 3), instant, rate and capacity from then on, ascending; the first makes it, full.
    """
    released_ns = np.full(at_ns.shape[0], NEVER_NS)
    now_ns, rate, capacity = changes[0, 0], changes[0, 1], changes[0, 2]
    level, head, tail, change = capacity, 0, 0, 1
    while head < at_ns.shape[0]:
        arrival_ns = at_ns[tail] if tail < at_ns.shape[0] else NEVER_NS
        change_ns = changes[change, 0] if change < changes.shape[0] else NEVER_NS
        next_ns = min(arrival_ns, change_ns)
        while head < tail:
            wait = wait_ns(level - TOKEN, rate)
            if now_ns + wait > next_ns:
                break
            level, now_ns = level + wait * rate - TOKEN, now_ns + wait
            released_ns[head] = now_ns
            head += 1
        if next_ns == NEVER_NS:
            break
        level, now_ns = refill(level, next_ns - now_ns, rate, capacity), next_ns
        if change_ns == next_ns:  # who arrives at the very instant finds it so
            rate, capacity = changes[change, 1], changes[change, 2]
            level, change = min(level, capacity), change + 1
        else:
            tail += 1
    return released_ns


@njit(cache=True)
def received(
    at_ns: Int64, broker: Int32, count: Int32, released_ns: Int64,  # emissions in order, and each message's release
    other_at_ns: Int64, other_count: Int32, other_begin: Int64, other_end: Int64,  # one span a broker
    costs: Int64, free_at_ns: Int64, pump_free_at_ns: Int64, uncounted: Int64,
) -> Int64:  # fmt: skip
    """When each message reaches its subscriber, ``NEVER_NS`` if it is not released; see ``broker_kernel.advance``.

    On a broker messages are released in the order in which they arrive.
    """
    network_ns, wakeup_ns, message_ns, pump_ns = costs[0], costs[1], costs[2], costs[3]
    received_ns = np.full(released_ns.shape[0], NEVER_NS)
    message = 0
    for i in range(at_ns.shape[0]):
        here, arrived_ns = broker[i], at_ns[i] + network_ns
        while other_begin[here] < other_end[here] and other_at_ns[other_begin[here]] + network_ns <= arrived_ns:
            _other(other_at_ns[other_begin[here]], other_count[other_begin[here]], here, costs, free_at_ns,
                   pump_free_at_ns, uncounted, 0, 0)  # fmt: skip
            other_begin[here] += 1
        ready_ns = _ingress(free_at_ns, here, arrived_ns, wakeup_ns + count[i] * message_ns)
        for _ in range(count[i]):
            if released_ns[message] != NEVER_NS:
                begun_ns = max(ready_ns, released_ns[message], pump_free_at_ns[here])
                pump_free_at_ns[here] = begun_ns + pump_ns
                received_ns[message] = pump_free_at_ns[here] + network_ns
            message += 1
    return received_ns


def received_at(
    emissions: tuple[Int64, Int32, Int32],
    released_ns: Int64,
    others: tuple[Int64, Int32, Int64, Int64],
    costs: Int64,
    free_at_ns: Int64,
) -> Int64:
    """``received`` of idle pumps; ``free_at_ns``: (brokers, cores)."""
    pump_free_at_ns = np.zeros(len(free_at_ns), np.int64)
    at_ns, broker, count = emissions
    answer: Int64 = received(at_ns, broker, count, released_ns, *others, costs, free_at_ns, pump_free_at_ns, _UNCOUNTED)
    return answer
