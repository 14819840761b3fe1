"""What a topic whose publishers move has shown, counted: window by window, by the messages' intended instants."""

from collections.abc import Sequence

import numpy as np

from core.records import Int64
from studies.moving.asked import Moving
from testbed.brokers.counts import histogram
from testbed.trust.accounts import ABSENT
from testbed.trust.moved import MovedMessages, PublisherMove


def windows_of(
    asked: Moving, deliveries: MovedMessages, transfers: Sequence[PublisherMove], brokers: int
) -> list[dict[str, Int64]]:
    """See ``MovingShown.windows``.  ``transfers``: in order of when publishers were told."""
    ends_ns = np.arange(0, asked.duration_ns + 1, asked.window_ns)
    edges = np.searchsorted(deliveries.intended_ns, ends_ns)
    told_ns = np.array([one.told_ns for one in transfers], np.int64)
    closed_ns = np.array([one.opens_ns - one.told_ns for one in transfers], np.int64)
    source = np.array([one.source for one in transfers], np.int32)
    moves = np.searchsorted(told_ns, ends_ns)
    everything = np.ones(len(deliveries.number), bool)
    released = deliveries.released_ns != ABSENT
    spans = {
        "end_to_end_latency": (deliveries.received_ns - deliveries.intended_ns, everything),
        "access_delay": (deliveries.released_ns - deliveries.arrived_ns, released),
        "held_time": (deliveries.sent_ns - deliveries.intended_ns, deliveries.held),
    }
    windows = []
    for number in range(len(ends_ns) - 1):
        here = slice(edges[number], edges[number + 1])
        counts = {
            name: histogram(values[here][those[here]], deliveries.broker[here][those[here]], brokers)
            for name, (values, those) in spans.items()
        }
        gone = slice(moves[number], moves[number + 1])
        windows.append({**counts, "closed_time": histogram(closed_ns[gone], source[gone], brokers)})
    return windows
