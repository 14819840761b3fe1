"""The batch kernel of the broker model: one pass over a block of emissions, compiled by Numba.

The tests' ``broker_twin`` is the same in plain Python; they compare the two.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np

from core.compiled import njit
from systems.parts import token_bucket

refill = njit(cache=True, inline="always")(token_bucket.refill)
rounded_debt = njit(cache=True, inline="always")(token_bucket.rounded_debt)
wait_ns = njit(cache=True, inline="always")(token_bucket.wait_ns)
TOKEN = token_bucket.TOKEN


@njit(cache=True, inline="always")
def bucket(value):
    """``collectors.histogram.bucket_index`` of one value, from the bits of its floating-point form."""
    if value < 128:
        return value
    return (np.float64(value).view(np.int64) >> 45) - (1029 << 7)


@njit(cache=True, inline="always")
def _ingress(free_at_ns, broker, at_ns, work_ns):
    """Serve one wake-up on the first free core; returns when it is done."""
    core = 0
    free = free_at_ns[broker, 0]
    for other in range(1, free_at_ns.shape[1]):
        if free_at_ns[broker, other] < free:
            core, free = other, free_at_ns[broker, other]
    done = (at_ns if at_ns > free else free) + work_ns
    free_at_ns[broker, core] = done
    return done


@njit(cache=True, inline="always")
def _other(sent_ns, messages, broker, costs, free_at_ns, resident_free_at_ns, resident_latency, from_ns, until_ns):
    """Serve another topic's emission; where its latency is counted, through a pump of its own, without a limit."""
    network_ns, wakeup_ns, message_ns, pump_ns = costs[0], costs[1], costs[2], costs[3]
    ready = _ingress(free_at_ns, broker, sent_ns + network_ns, wakeup_ns + messages * message_ns)
    if resident_latency.shape[0]:
        pump_free = max(ready, resident_free_at_ns[broker])
        for _ in range(messages):
            pump_free += pump_ns
            if from_ns <= sent_ns < until_ns:
                resident_latency[broker, bucket(pump_free + network_ns - sent_ns)] += 1
        resident_free_at_ns[broker] = pump_free


@njit(cache=True)
def background(at_ns, count, begin, broker, free_at_ns, costs, resident_free_at_ns, resident_latency, span):
    """Serve the other topics' emissions of one broker from ``begin`` on; ``span``: of the messages counted."""
    for n in range(begin, at_ns.shape[0]):
        _other(
            at_ns[n], count[n], broker, costs, free_at_ns, resident_free_at_ns, resident_latency, span[0], span[1]
        )  # fmt: skip


@njit(cache=True)
def advance(
    at_ns, publisher, count,                               # the topic's emissions, in order
    broker_of,                                             # int32 (publishers,): broker or -1
    other_at_ns, other_count, other_begin, other_end,      # other topics' emissions, one span a broker
    costs,                                                 # BrokerModel.costs()
    free_at_ns, pump_free_at_ns, level, level_at_ns, rate, capacity,
    lowest_level, lowest_balance, message_count,
    quantum, drop, dropped_count,
    latency, access_delay, resident_free_at_ns, resident_latency, record_from_ns, record_until_ns,
    journal, rows,                                         # int64 (n, 5 or more), n may be 0, and its next row
):  # fmt: skip
    """Carry a block of emissions through the brokers; state arrays are changed in place.

    ``other_begin`` moves on as the other topics' emissions are served.  Messages with
    ``record_from_ns <= at < record_until_ns`` are counted in the histograms, or as dropped (those of other topics where
    ``resident_latency`` has rows).  Each message is written to ``journal`` (emission, broker, conforming at, released
    at, received at) while there is room.  Returns the next free row.
    """
    network_ns, wakeup_ns, message_ns, pump_ns, read_time = costs[0], costs[1], costs[2], costs[3], costs[4]
    for i in range(at_ns.shape[0]):
        broker = broker_of[publisher[i]]
        if broker < 0:
            continue
        now = at_ns[i]
        arrived = now + network_ns
        begin, end = other_begin[broker], other_end[broker]
        while begin < end and other_at_ns[begin] + network_ns <= arrived:
            _other(other_at_ns[begin], other_count[begin], broker, costs, free_at_ns,
                   resident_free_at_ns, resident_latency, record_from_ns, record_until_ns)  # fmt: skip
            begin += 1
        other_begin[broker] = begin

        messages = count[i]
        ready = _ingress(free_at_ns, broker, arrived, wakeup_ns + messages * message_ns)
        stamp = ready if read_time else arrived
        elapsed = stamp - level_at_ns[broker]
        if elapsed > 0:
            balance = refill(level[broker], elapsed, rate[broker], capacity[broker])
            level_at_ns[broker] = stamp
        else:  # read-time stamps of two cores may cross
            balance = level[broker]
        pump_free = pump_free_at_ns[broker]
        recorded = record_from_ns <= now < record_until_ns
        for _ in range(messages):
            if drop and balance < TOKEN:
                dropped_count[broker] += recorded
                continue
            balance -= TOKEN
            wait = 0 if balance >= 0 else wait_ns(rounded_debt(balance, quantum[broker]), rate[broker])
            released = stamp + wait
            begun = ready if ready > released else released
            if pump_free > begun:
                begun = pump_free
            pump_free = begun + pump_ns
            received = pump_free + network_ns
            if recorded:
                latency[broker, bucket(received - now)] += 1
                access_delay[broker, bucket(wait)] += 1
            if rows < journal.shape[0]:
                journal[rows, 0], journal[rows, 1], journal[rows, 2] = i, broker, stamp
                journal[rows, 3], journal[rows, 4] = released, received
                rows += 1
        pump_free_at_ns[broker] = pump_free
        level[broker] = balance
        message_count[broker] += messages
        if balance - capacity[broker] < lowest_level[broker]:
            lowest_level[broker] = balance - capacity[broker]
        if balance < lowest_balance[broker]:
            lowest_balance[broker] = balance
    return rows
