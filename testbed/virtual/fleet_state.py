"""What the broker kernel carries from one call to the next."""

import numpy as np

from collectors.histogram import BUCKET_COUNT
from core.records import Envelope
from systems.parts import token_bucket


class FleetState:
    """Everything that the kernel carries from one call to the next, for all brokers of one topic.

    int64 arrays of one entry a broker (``free_at_ns``: one a broker and core).  Counts are kept in
    histograms, shape (brokers, BUCKET_COUNT).
    """

    def __init__(self, brokers: int, cores: int):
        self.free_at_ns = np.zeros((brokers, cores), np.int64)
        self.pump_free_at_ns = np.zeros(brokers, np.int64)
        self.level = np.zeros(brokers, np.int64)
        self.level_at_ns = np.zeros(brokers, np.int64)
        self.rate = np.ones(brokers, np.int64)
        self.capacity = np.full(brokers, token_bucket.TOKEN, np.int64)
        self.quantum = np.ones(brokers, np.int64)  # debts are repaid in multiples of it; 1 = to the unit
        self.dropped_count = np.zeros(brokers, np.int64)  # of the messages counted in the histograms
        self.lowest_level = np.zeros(brokers, np.int64)  # since the last report, relative to the capacity
        self.lowest_balance = np.zeros(brokers, np.int64)  # since the last report; negative = messages wait
        self.message_count = np.zeros(brokers, np.int64)  # since the last report
        self.latency = np.zeros((brokers, BUCKET_COUNT), np.int64)
        self.access_delay = np.zeros((brokers, BUCKET_COUNT), np.int64)

    def set_bucket(self, broker: int, envelope: Envelope, at_ns: int, full: bool) -> None:
        """A new sub-bucket: full, or with the tokens it has, cut to its new size."""
        rate, capacity = token_bucket.units(envelope)
        if full:
            level = capacity
        else:
            elapsed_ns = max(0, at_ns - int(self.level_at_ns[broker]))
            level = token_bucket.refill(
                int(self.level[broker]), elapsed_ns, int(self.rate[broker]), int(self.capacity[broker])
            )
        # The last message may be stamped later than now: it is on its way to the broker.
        filled_at_ns = at_ns if full else max(at_ns, int(self.level_at_ns[broker]))
        self.level[broker], self.level_at_ns[broker] = min(level, capacity), filled_at_ns
        self.rate[broker], self.capacity[broker] = rate, capacity

    def clear_histograms(self) -> None:
        """Forget the counts: a new round begins."""
        self.latency[:] = self.access_delay[:] = 0
        self.dropped_count[:] = 0
