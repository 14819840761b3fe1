"""The batch kernel of brokers with many topics, each limited and each counted, compiled by Numba.

The costs are ``broker_kernel``'s: topics share a broker's cores, and each has a pump of its own there.  A test compares
the two: one topic of several is what ``broker_kernel`` says of it beside the others' load.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from core.compiled import njit
from testbed.virtual.broker_kernel import TOKEN, _ingress, bucket, refill, wait_ns

SPLIT = -1  # a topic's span to its store: there is none, each broker has a bucket


@njit(cache=True)
def carry(
    at_ns, topic, broker, count,                            # emissions of all topics, in order of time
    costs, free_at_ns,                                      # BrokerModel.costs(); (brokers, cores)
    pump_free_at_ns, level, level_at_ns, rate, capacity,    # (topics, brokers); of one bucket: at broker 0
    ask_ns, slo_ns, is_resident,                            # (topics,): span to its store and back, or SPLIT
    latency, broker_latency, message_count, late_count, window_ns, end_ns,
    trial, trial_latency, trial_delay, from_ns, until_ns,
):  # fmt: skip
    """Carry emissions through the brokers; state arrays are changed in place.

    A resident topic's messages sent before ``end_ns`` are counted: ``latency`` (topics, buckets), ``broker_latency``
    (brokers, buckets), ``message_count`` and ``late_count`` (topics, windows).  Those of topic ``trial`` with
    ``from_ns`` <= instant < ``until_ns`` are counted by broker: ``trial_latency``, ``trial_delay``.
    """
    network_ns, wakeup_ns, message_ns, pump_ns = costs[0], costs[1], costs[2], costs[3]
    for i in range(at_ns.shape[0]):
        its, here, sent_ns = topic[i], broker[i], at_ns[i]
        arrived_ns = sent_ns + network_ns
        ready_ns = _ingress(free_at_ns, here, arrived_ns, wakeup_ns + count[i] * message_ns)
        place, asked_ns = here, 0
        if ask_ns[its] != SPLIT:
            place, asked_ns = 0, ask_ns[its]
        elapsed_ns = arrived_ns - level_at_ns[its, place]
        balance = refill(level[its, place], max(0, elapsed_ns), rate[its, place], capacity[its, place])
        level_at_ns[its, place] = max(arrived_ns, level_at_ns[its, place])
        tried = its == trial and from_ns <= sent_ns < until_ns
        counted = is_resident[its] and sent_ns < end_ns
        for _ in range(count[i]):
            balance -= TOKEN
            wait = asked_ns + (0 if balance >= 0 else wait_ns(balance, rate[its, place]))
            begun_ns = max(ready_ns, arrived_ns + wait, pump_free_at_ns[its, here])
            pump_free_at_ns[its, here] = begun_ns + pump_ns
            took_ns = begun_ns + pump_ns + network_ns - sent_ns
            if tried:
                trial_latency[here, bucket(took_ns)] += 1
                trial_delay[here, bucket(wait)] += 1
            if counted:
                latency[its, bucket(took_ns)] += 1
                broker_latency[here, bucket(took_ns)] += 1
                window = sent_ns // window_ns
                message_count[its, window] += 1
                late_count[its, window] += took_ns > slo_ns[its]
        level[its, place] = balance
