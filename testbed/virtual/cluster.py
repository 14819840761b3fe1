"""Brokers with many topics that come and go, in virtual time: what each topic's messages take on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collectors.histogram import BUCKET_COUNT
from core.records import Envelope, Int32, Int64, Schedule
from systems.parts import token_bucket
from testbed.brokers.counts import Counts
from testbed.brokers.model import BrokerModel
from testbed.virtual import cluster_kernel
from testbed.virtual.cluster_kernel import SPLIT
from workloads.chunks import piece_ns


@dataclass
class Placed:
    """A topic on the brokers: its publishers' (-1: on none), and until when it is there."""

    schedule: Schedule
    assignment: Int32
    until_ns: int


class TopicCluster:
    """Brokers, and topics by their numbers; ``slos_ns``: of each topic that may ever come, int64 (topics,).

    What residents send before ``end_ns`` is counted: ``latency`` and ``broker_latency`` are histogram counts by topic
    and by broker; ``message_count`` and ``late_count`` (messages above the topic's SLO) are (topics, windows).
    """

    def __init__(self, model: BrokerModel, brokers: int, slos_ns: Int64, window_ns: int, end_ns: int):
        topics, windows = len(slos_ns), -(-end_ns // window_ns)
        self.costs, self.slos_ns, self.window_ns, self.end_ns = model.costs(), slos_ns, window_ns, end_ns
        self.now_ns = 0
        self.placed: dict[int, Placed] = {}
        self.latency = np.zeros((topics, BUCKET_COUNT), np.int64)
        self.broker_latency = np.zeros((brokers, BUCKET_COUNT), np.int64)
        self.message_count = np.zeros((topics, windows), np.int64)
        self.late_count = np.zeros((topics, windows), np.int64)
        self._free_at_ns = np.zeros((brokers, model.cores), np.int64)
        self._pump_free_at_ns = np.zeros((topics, brokers), np.int64)
        self._level, self._level_at_ns = np.zeros((2, topics, brokers), np.int64)
        self._rate = np.ones((topics, brokers), np.int64)
        self._capacity = np.full((topics, brokers), token_bucket.TOKEN, np.int64)
        self._ask_ns = np.full(topics, SPLIT, np.int64)
        self._is_resident = np.zeros(topics, np.bool_)
        self._record(-1, 0, 0)

    def place(self, topic: int, placed: Placed, buckets: Sequence[Envelope | None], ask_ns: int = SPLIT) -> None:
        """Put a topic's publishers on brokers, with full buckets: of each broker or, with ``ask_ns``, one.

        ``ask_ns``: to the store that has the one bucket, and back, the same from all brokers.  What still waits there
        of a topic that was placed before goes first.
        """
        self.placed[topic], self._ask_ns[topic] = placed, ask_ns
        for broker, envelope in enumerate(buckets):
            if envelope is not None:
                self._rate[topic, broker], self._capacity[topic, broker] = token_bucket.units(envelope)
                self._level[topic, broker] = self._capacity[topic, broker]
                self._level_at_ns[topic, broker] = self.now_ns

    def admit(self, topic: int) -> None:
        """A topic that was placed is resident from now on."""
        self._is_resident[topic] = True

    def remove(self, topic: int) -> None:
        """A topic is gone."""
        self.placed.pop(topic, None)

    def measure(self, topic: int, until_ns: int, from_ns: int, before_ns: int) -> Counts:
        """Advance, and count what a topic sent from ``from_ns`` on and before ``before_ns``, by broker."""
        self._record(topic, from_ns, before_ns)
        self.advance(until_ns)
        counts = Counts(self._trial_latency, self._trial_delay, np.zeros(len(self._free_at_ns), np.int64))
        self._record(-1, 0, 0)
        return counts

    def advance(self, until_ns: int) -> None:
        """Carry all that is sent before ``until_ns``."""
        while self.now_ns < until_ns:
            end_ns = min(until_ns, self.now_ns + piece_ns(its.schedule for its in self.placed.values()))
            self._carry(end_ns)
            self.now_ns = end_ns
            for topic in [number for number, its in self.placed.items() if its.until_ns <= end_ns]:
                self.remove(topic)

    def _record(self, trial: int, from_ns: int, until_ns: int) -> None:
        self._trial = trial, from_ns, until_ns
        self._trial_latency, self._trial_delay = np.zeros((2, len(self._free_at_ns), BUCKET_COUNT), np.int64)

    def _carry(self, end_ns: int) -> None:
        parts: list[tuple[Int64, Int32, Int32, Int32]] = []
        for number, its in self.placed.items():
            block = its.schedule.block(self.now_ns, max(self.now_ns, min(end_ns, its.until_ns)))
            broker = its.assignment[block.publisher]
            on = broker >= 0
            parts.append((block.at_ns[on], np.full(int(on.sum()), number, np.int32), broker[on], block.count[on]))
        if not parts:
            return
        at_ns, topic, broker, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(at_ns, kind="stable")
        trial, from_ns, until_ns = self._trial
        cluster_kernel.carry(
            at_ns[order], topic[order], broker[order], count[order], self.costs, self._free_at_ns,
            self._pump_free_at_ns, self._level, self._level_at_ns, self._rate, self._capacity,
            self._ask_ns, self.slos_ns, self._is_resident,
            self.latency, self.broker_latency, self.message_count, self.late_count, self.window_ns, self.end_ns,
            trial, self._trial_latency, self._trial_delay, from_ns, until_ns,
        )  # fmt: skip
