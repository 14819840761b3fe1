"""A broker whose pumps run on its cores, in plain Python: what ``testbed.virtual.shared_kernel`` must compute.

Events in order of time; a queue of jobs; cores that take the first one when they are idle.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from core.records import Envelope
from systems.parts import token_bucket
from testbed.brokers.model import BrokerModel

OWN_PUMP, RESIDENT_PUMP, OTHER, OWN, DONE = 1, 2, 3, 4, 0  # events at one instant come in this order


@dataclass
class Pump:
    """A topic's pump, and what waits for it."""

    event: int
    waiting: deque[tuple[int, Any]] = field(default_factory=deque)  # ready_ns, message (of the residents: emission)
    busy: bool = False  # or about to be


class SharedTwin:
    """One broker, one topic's sub-bucket, another topic beside it; ``spans``: when cores worked."""

    def __init__(self, model: BrokerModel, bucket: Envelope, own: list, other: list):
        self.model, self.events, self.queue = model, [], deque()
        self.rate, self.capacity = token_bucket.units(bucket)
        self.level, self.level_at_ns = self.capacity, 0
        self.idle, self.number = model.cores, 0
        self.pumps = {OWN_PUMP: Pump(OWN_PUMP), RESIDENT_PUMP: Pump(RESIDENT_PUMP)}
        self.received: list[tuple[int, int, int]] = []  # sent, released, received of the topic's messages, in order
        self.residents: list[tuple[int, int]] = []  # sent, received of the others'
        self.spans: list[tuple[int, int]] = []
        for kind, rows in ((OWN, own), (OTHER, other)):
            for at_ns, count in rows:
                self._at(at_ns + model.network_ns, kind, (at_ns, count))

    def _at(self, time_ns: int, kind: int, what: Any) -> None:
        self.number += 1
        heapq.heappush(self.events, (time_ns, kind, self.number, what))

    def run(self) -> None:
        """Everything, to its end."""
        while self.events:
            now_ns, kind, _, what = heapq.heappop(self.events)
            if kind == DONE:
                self.idle += 1
                if what in self.pumps:
                    self.pumps[what].busy = False
                    self._next(now_ns, self.pumps[what])
            else:
                self.queue.append((kind, what))
            self._begin(now_ns)

    def _begin(self, now_ns: int) -> None:
        while self.idle and self.queue and not (self.events and self.events[0][:2] == (now_ns, DONE)):
            kind, what = self.queue.popleft()
            if kind in self.pumps:
                end_ns = self._turn(now_ns, self.pumps[kind])
            else:
                end_ns = now_ns + self.model.wakeup_ns + what[1] * self.model.message_ns
                self._read(now_ns, end_ns, kind, *what)
            self.idle -= 1
            self.spans.append((now_ns, end_ns))
            self._at(end_ns, DONE, kind)

    def _turn(self, now_ns: int, pump: Pump) -> int:
        """A pump passes on all that is ready now; returns when it is done."""
        end_ns = now_ns
        while pump.waiting and pump.waiting[0][0] <= now_ns:
            _, what = pump.waiting.popleft()
            for _ in range(1 if pump.event == OWN_PUMP else what[1]):
                end_ns += self.model.pump_ns
                received_ns = end_ns + self.model.network_ns
                if pump.event == OWN_PUMP:
                    self.received.append((*what, received_ns))
                else:
                    self.residents.append((what[0], received_ns))
        return end_ns

    def _read(self, now_ns: int, read_ns: int, kind: int, sent_ns: int, count: int) -> None:
        """An emission that will have been read at ``read_ns`` gets its tokens, and its place before the pump."""
        if kind == OTHER:
            pump = self.pumps[RESIDENT_PUMP]
            pump.waiting.append((read_ns, (sent_ns, count)))
        else:
            pump = self.pumps[OWN_PUMP]
            stamp_ns = read_ns if self.model.read_time_stamps else sent_ns + self.model.network_ns
            pump.waiting.extend(self._take(stamp_ns, sent_ns, read_ns, count))
        self._next(now_ns, pump)

    def _next(self, now_ns: int, pump: Pump) -> None:
        if pump.waiting and not pump.busy:
            pump.busy = True
            self._at(max(now_ns, pump.waiting[0][0]), pump.event, None)

    def _take(self, stamp_ns: int, sent_ns: int, read_ns: int, count: int) -> list[tuple[int, tuple[int, int]]]:
        """Tokens for a batch: (ready, (sent, released)) of each message."""
        self.level = token_bucket.refill(self.level, max(0, stamp_ns - self.level_at_ns), self.rate, self.capacity)
        self.level_at_ns = max(self.level_at_ns, stamp_ns)
        taken = []
        for _ in range(count):
            self.level, _ = token_bucket.take(self.level, 0, self.rate, self.capacity)
            released_ns = stamp_ns + token_bucket.wait_ns(token_bucket.rounded_debt(self.level, 1), self.rate)
            taken.append((max(read_ns, released_ns), (sent_ns, released_ns)))
        return taken
