"""What a topic whose publishers move has shown, counted: window by window, by the messages' intended instants."""

from collections.abc import Sequence

import numpy as np

from core.records import Int64
from studies.moving.asked import Moving
from testbed.brokers.counts import histogram
from testbed.trust.accounts import ABSENT
from testbed.trust.moved import MovedMessages, PublisherMove


def windows_of(
    asked: Moving, found: MovedMessages, transfers: Sequence[PublisherMove], brokers: int
) -> list[dict[str, Int64]]:
    """See ``MovingShown.windows``.  ``transfers``: in order of when publishers were told."""
    ends_ns = np.arange(0, asked.duration_ns + 1, asked.window_ns)
    edges = np.searchsorted(found.intended_ns, ends_ns)
    told_ns = np.array([one.told_ns for one in transfers], np.int64)
    closed_ns = np.array([one.opens_ns - one.told_ns for one in transfers], np.int64)
    source = np.array([one.source for one in transfers], np.int32)
    moves = np.searchsorted(told_ns, ends_ns)
    everything = np.ones(len(found.number), bool)
    released = found.released_ns != ABSENT
    spans = {
        "end_to_end_latency": (found.received_ns - found.intended_ns, everything),
        "access_delay": (found.released_ns - found.arrived_ns, released),
        "held_time": (found.sent_ns - found.intended_ns, found.held),
    }
    windows = []
    for number in range(len(ends_ns) - 1):
        here = np.zeros(len(everything), bool)
        here[edges[number] : edges[number + 1]] = True
        counts = {
            name: histogram(values[here & those], found.broker[here & those], brokers)
            for name, (values, those) in spans.items()
        }
        gone = slice(moves[number], moves[number + 1])
        windows.append({**counts, "closed_time": histogram(closed_ns[gone], source[gone], brokers)})
    return windows
