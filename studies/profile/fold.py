"""What a run's records come to: the span's counts, latencies, and an account of every copy.  Arrays in, rows out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.records import Int64, Sample
from testbed.trust.accounts import ABSENT, DeliveryAccount, account, copies, lateness_ns, within


class FanOut(NamedTuple):
    """Messages of one size and their copies: int64 arrays, instants since the load's time 0.

    ``message``, ``sent_ns``, ``acknowledged_ns``: senders' rows, ``ABSENT`` where it did not happen.  ``deliveries``:
    of each consumer, the message and the instant of each that came.
    """

    size_bytes: int
    intended_ns: Int64  # by message number
    message: Int64
    sent_ns: Int64
    acknowledged_ns: Int64
    deliveries: Sequence[tuple[Int64, Int64]]


class Fold(NamedTuple):
    """``latency_ns``, ``samples``: as ``Profiled`` has them; ``late_ns``: of what was sent, in the order of loads;
    ``accounts``: one a load and consumer.
    """

    latency_ns: Int64
    samples: list[Sample]
    late_ns: list[Int64]
    accounts: list[DeliveryAccount]


def folded(loads: Iterable[FanOut], span_ns: tuple[int, int], broker: str, cpu_ns: Mapping[str, float]) -> Fold:
    """``span_ns``: the one that is measured, begin and end; ``cpu_ns``: by node, processor time in it."""
    counts = Counter(in_count=0, in_bytes=0, out_count=0, out_bytes=0, offered_count=0, lost_count=0)
    latencies, late_ns, accounts = [np.empty(0, np.int64)], list[Int64](), list[DeliveryAccount]()
    for load in loads:
        accepted = int(within(load.acknowledged_ns, span_ns).sum())
        counts.update(in_count=accepted, in_bytes=accepted * load.size_bytes)
        late_ns.append(lateness_ns(load.intended_ns[load.message], load.sent_ns))
        sent, acknowledged = (load.message[at_ns != ABSENT] for at_ns in (load.sent_ns, load.acknowledged_ns))
        for message, received_ns in load.deliveries:
            made = copies(load.intended_ns, message, received_ns, span_ns)
            counts.update(out_count=made.came_count, out_bytes=made.came_count * load.size_bytes)
            counts.update(offered_count=made.due_count, lost_count=made.lost_count)
            latencies.append(made.latency_ns)
            accounts.append(account(np.arange(len(load.intended_ns)), sent, acknowledged, message))
    begin_ns, end_ns = span_ns
    counts["ns"] = end_ns - begin_ns
    samples = [(end_ns, broker, f"span_{name}", float(value)) for name, value in counts.items()]
    samples += [(end_ns, node, "span_cpu_ns", value) for node, value in cpu_ns.items()]
    return Fold(np.concatenate(latencies), samples, late_ns, accounts)
