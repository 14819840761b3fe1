"""The peer: the same broker model in SimPy, a process a message's way through queues."""

import simpy
from simpy.events import ProcessGenerator

from core.records import Block, Envelope
from systems.parts import token_bucket
from testbed.brokers.model import BrokerModel


class SimpyBroker:
    """One broker: two cores as a resource, the token bucket, and a pump that serves in order of arrival.

    Conformance at the kernel's receive time only (``read_time_stamps = false``).
    """

    def __init__(self, model: BrokerModel, bucket: Envelope):
        assert not model.read_time_stamps
        self.env = simpy.Environment()
        self.model = model
        self.cores = simpy.Resource(self.env, capacity=model.cores)
        self.queue: simpy.Store = simpy.Store(self.env)
        self.rate, self.capacity = token_bucket.units(bucket)
        self.level, self.level_at_ns = self.capacity, 0
        self.latencies_ns: list[int] = []

    def run(self, block: Block) -> list[int]:
        """End-to-end latencies of all messages of ``block``, in the order of their receipt."""
        self.env.process(self._publishers(block))
        self.env.process(self._pump())
        self.env.run()
        return self.latencies_ns

    def _publishers(self, block: Block) -> ProcessGenerator:
        for at_ns, count in zip(block.at_ns.tolist(), block.count.tolist(), strict=True):
            arrived_ns = at_ns + self.model.network_ns
            yield self.env.timeout(arrived_ns - self.env.now)
            # Queued now, read later: batches that are read at once, or overtake each other on the
            # cores, still leave whole and in order of arrival.
            read = self.env.process(self._ingress(count))
            for released_at_ns in self._conformance(arrived_ns, count):
                self.queue.put((at_ns, read, released_at_ns))

    def _conformance(self, arrived_ns: int, count: int) -> list[int]:
        """When each message of a batch has its token."""
        released = []
        for _ in range(count):
            elapsed_ns, self.level_at_ns = arrived_ns - self.level_at_ns, arrived_ns
            self.level, wait_ns = token_bucket.take(self.level, elapsed_ns, self.rate, self.capacity)
            released.append(arrived_ns + wait_ns)
        return released

    def _ingress(self, count: int) -> ProcessGenerator:
        with self.cores.request() as core:
            yield core
            yield self.env.timeout(self.model.wakeup_ns + count * self.model.message_ns)

    def _pump(self) -> ProcessGenerator:
        while True:
            at_ns, read, released_at_ns = yield self.queue.get()
            if not read.processed:
                yield read
            if released_at_ns > self.env.now:
                yield self.env.timeout(released_at_ns - self.env.now)
            yield self.env.timeout(self.model.pump_ns)
            self.latencies_ns.append(int(self.env.now) + self.model.network_ns - at_ns)
