"""A limiter's nodes beside a topic's brokers, as they are: two plugs.

``GatedLoop``: messages wait for verdicts.  A broker asks the node beside it once for each message, in order.  A verdict
says that a token was taken, not whose: the one that admits releases the broker's oldest message, so that order is kept
whatever order verdicts come in.  One that rejects makes the broker pause, and then ask again for all that wait.  A node
that decides at once is so asked until it rejects; one that asks a store has as many questions under way as messages
wait.

``GrantedLoop``: grants become sub-buckets.  Of limiters that divide the bucket by what nodes are asked for: a message
that asked again would count as demand again.  The node hears of each message once; its verdict does not matter, its
part of the bucket is the broker's sub-bucket.

A limiter whose node has crashed admits nothing there: no verdicts, and no part of the bucket, until it is back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from core.records import Int32, Int64, Json, Request
from core.units import NEVER_NS
from systems.api import Arrival, Decide, Event, Node, System, Verdict
from testbed.faults import Crash, Fault
from testbed.nodes.member import Member, node_seed
from testbed.topologies.topology import Topology
from testbed.virtual.network import Network
from testbed.virtual.scheduler import EventLoop

DRAIN_STEP_NS = 100_000_000


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of a system, to be run on a topology; see ``scheduler.event_loop``."""

    system: System
    config: object
    topology: Topology
    names: Sequence[str]
    seed: int
    start_ns: int = 0
    keep_steps: bool = False
    clock_offsets_ns: Mapping[str, int] = field(default_factory=dict)

    def parts(self) -> Json:
        """What an event loop is made of, by its parameters' names."""
        make = self.system.nodes
        assert make is not None, f"{self.system.key} has no nodes"

        def boot(restart: int) -> Mapping[str, Node]:
            return make(list(self.names), self.config, node_seed(self.seed, restart))

        network = Network(self.topology, self.seed, self.system.transport)
        shown: Json = {"keep_steps": self.keep_steps, "clock_offsets_ns": self.clock_offsets_ns}
        return {"boot": boot, "network": network, "messages": self.system.messages, "start_ns": self.start_ns, **shown}


@dataclass
class Gate:
    """What waits at one broker: numbers of messages, oldest first; ``asked``: questions without a verdict."""

    member: Member
    waiting: deque[int] = field(default_factory=deque)
    asked: int = 0
    pauses: bool = False


class GatedLoop(EventLoop):
    """The event loop, with a gate before each of ``brokers``.

    ``retry_ns``: how long a broker that was rejected pauses (ours).  A broker outlives its node's crash: it forgets
    what it had asked and asks anew, pausing as long as nobody is there.
    """

    def __init__(self, deployed: NodeGroup, brokers: Sequence[str], topic: str, retry_ns: int):
        super().__init__(**deployed.parts())
        self.topic, self.retry_ns, self._question = topic, retry_ns, 0
        self.gates = {name: Gate(self._known(name)) for name in brokers}
        self.released_ns: Int64 = np.zeros(0, np.int64)

    def arrive(self, at_ns: Int64, broker: Int32, count: Int32) -> None:
        """Messages come to brokers, by their place in ``brokers``: emissions in order of time."""
        gates, first = list(self.gates.values()), np.cumsum(count) - count
        self.released_ns = np.full(int(count.sum()), NEVER_NS)
        for when, where, number, messages in zip(
            at_ns.tolist(), broker.tolist(), first.tolist(), count.tolist(), strict=True
        ):
            self.call_at(when, self._come, gates[where], number, messages)

    def drain(self, until_ns: int) -> None:
        """Go on while messages wait, and no longer."""
        while self.now_ns < until_ns and any(gate.waiting for gate in self.gates.values()):
            self.run(min(self.now_ns + DRAIN_STEP_NS, until_ns))

    def fail(self, faults: Iterable[Fault]) -> None:
        """See ``EventLoop``."""
        faults = list(faults)
        super().fail(faults)
        for fault in faults:
            if isinstance(fault, Crash) and fault.node in self.gates:
                self.call_at(fault.at_ns, self._forget, self.gates[fault.node])

    def decide(self, node: str, decision: Decide) -> None:
        """A node has decided for one of its broker's messages."""
        gate = self.gates[node]
        gate.asked -= 1
        if decision.verdict is Verdict.ADMIT:
            self.released_ns[gate.waiting.popleft()] = self.now_ns
        else:
            self._pause(gate)

    def _come(self, gate: Gate, number: int, messages: int) -> None:
        gate.waiting.extend(range(number, number + messages))
        self._ask(gate)

    def _ask(self, gate: Gate) -> None:
        while not gate.pauses and gate.asked < len(gate.waiting):
            if not gate.member.alive:
                self._pause(gate)
                return
            self._question += 1
            gate.asked += 1
            self.occur(gate.member, Arrival(Request(self._question, self.topic, self.now_ns)))

    def _pause(self, gate: Gate) -> None:
        if not gate.pauses:
            gate.pauses = True
            self.call_at(self.now_ns + self.retry_ns, self._resume, gate)

    def _resume(self, gate: Gate) -> None:
        gate.pauses = False
        self._ask(gate)

    def _forget(self, gate: Gate) -> None:
        gate.asked = 0
        self._pause(gate)


class GrantedLoop(EventLoop):
    """The event loop, which writes down how the nodes' parts of the topic's bucket change.

    ``part_of(node, topic)``: a node's part, in millionths of an even share; None: it has none yet.  ``parts``: of each
    node, instants and parts from then on.
    """

    def __init__(self, deployed: NodeGroup, topic: str, part_of: Callable[[Node, str], int | None]):
        super().__init__(**deployed.parts())
        self.topic, self.part_of = topic, part_of
        self.parts: dict[str, list[tuple[int, int]]] = {name: [] for name in deployed.names}

    def arrive(self, at_ns: Int64, broker: Int32, count: Int32) -> None:
        """See ``GatedLoop``."""
        names = list(self.parts)
        for place, name in enumerate(names):
            mine = np.flatnonzero(broker == place)
            rows = zip(mine.tolist(), at_ns[mine].tolist(), count[mine].tolist(), strict=True)
            self.offer(name, (Request(number, self.topic, when, messages) for number, when, messages in rows))

    def fail(self, faults: Iterable[Fault]) -> None:
        """See ``EventLoop``."""
        faults = list(faults)
        super().fail(faults)
        for fault in faults:
            if isinstance(fault, Crash) and fault.node in self.parts:
                self.call_at(fault.at_ns, self._withdraw, fault.node)

    def _withdraw(self, node: str) -> None:
        self.parts[node].append((self.now_ns, 0))

    def occur(self, member: Member, event: Event) -> None:
        """See ``EventLoop``."""
        super().occur(member, event)
        if not member.alive:
            return
        part, told = self.part_of(member.node, self.topic), self.parts[member.name]
        if part is not None and (not told or told[-1][1] != part):
            told.append((self.now_ns, part))
