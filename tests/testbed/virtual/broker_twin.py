"""The broker model in plain Python, one message at a time: what ``testbed.virtual.broker_kernel`` must compute.

Slow and obvious.  A test feeds both the same emissions and compares every instant.
"""

from dataclasses import dataclass, field

from core.records import Envelope
from systems.parts import token_bucket
from testbed.brokers.model import BrokerModel


@dataclass(frozen=True)
class Carried:
    """One message: when it was stamped for conformance, had its token, and was received."""

    stamped_at_ns: int
    released_at_ns: int
    received_at_ns: int


@dataclass
class BrokerTwin:
    """One broker and one topic's sub-bucket."""

    model: BrokerModel
    bucket: Envelope
    started_at_ns: int = 0
    quantum: int = 1
    drop: bool = False
    dropped_count: int = 0
    core_free_at_ns: list[int] = field(default_factory=list)
    pump_free_at_ns: int = 0
    other_pump_free_at_ns: int = 0

    def __post_init__(self) -> None:
        self.rate, self.capacity = token_bucket.units(self.bucket)
        self.level, self.level_at_ns = self.capacity, self.started_at_ns
        self.core_free_at_ns = [0] * self.model.cores

    def _ingress(self, at_ns: int, count: int) -> int:
        """The first core that is free reads the whole wake-up; returns when it is done."""
        core = min(range(self.model.cores), key=self.core_free_at_ns.__getitem__)
        begin_ns = max(at_ns + self.model.network_ns, self.core_free_at_ns[core])
        self.core_free_at_ns[core] = begin_ns + self.model.wakeup_ns + count * self.model.message_ns
        return self.core_free_at_ns[core]

    def other(self, at_ns: int, count: int) -> list[int]:
        """Another topic's emission, with a pump of its own and no limit: when each message is received."""
        self.other_pump_free_at_ns = max(self._ingress(at_ns, count), self.other_pump_free_at_ns)
        received_at_ns = []
        for _ in range(count):
            self.other_pump_free_at_ns += self.model.pump_ns
            received_at_ns.append(self.other_pump_free_at_ns + self.model.network_ns)
        return received_at_ns

    def emission(self, at_ns: int, count: int) -> list[Carried]:
        """One of the topic's emissions, sent at ``at_ns``; one entry a message."""
        read_at_ns = self._ingress(at_ns, count)
        stamp_ns = read_at_ns if self.model.read_time_stamps else at_ns + self.model.network_ns
        carried = []
        for _ in range(count):
            elapsed_ns = max(0, stamp_ns - self.level_at_ns)
            self.level = token_bucket.refill(self.level, elapsed_ns, self.rate, self.capacity)
            self.level_at_ns = max(self.level_at_ns, stamp_ns)
            if self.drop and self.level < token_bucket.TOKEN:
                self.dropped_count += 1
                continue
            self.level, _ = token_bucket.take(self.level, 0, self.rate, self.capacity)
            wait_ns = token_bucket.wait_ns(token_bucket.rounded_debt(self.level, self.quantum), self.rate)
            ready_at_ns = max(read_at_ns, stamp_ns + wait_ns)
            self.pump_free_at_ns = max(ready_at_ns, self.pump_free_at_ns) + self.model.pump_ns
            carried.append(Carried(stamp_ns, stamp_ns + wait_ns, self.pump_free_at_ns + self.model.network_ns))
        return carried
