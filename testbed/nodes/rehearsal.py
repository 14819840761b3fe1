"""A node by its system's name, made as in virtual time, and warm: what is compiled or loaded on use has been used.

For that the system's nodes run for two seconds of made-up time.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence

from core.errors import SpecError
from core.records import Json
from core.registry import configure
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Event, Node, System
from systems.loader import load_system
from testbed.nodes.member import Body, Group, Member
from workloads.requests import poisson_requests

SPAN_NS = 2 * SECOND_NS
DELAY_NS = MILLISECOND_NS
SEED, USER_COUNT, RATE_RPS = 1, 3, 20.0


class Stage(Body):
    """The smallest body: nothing is kept, time passes at once, and each message arrives a millisecond later."""

    now_ns = 0

    def __init__(self, nodes: Mapping[str, Node], group: Group):
        self._alarms: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._serial = 0
        self.members = {name: Member(name, node, group, self) for name, node in nodes.items()}
        for member in self.members.values():
            self.call_at(0, self.occur, member, member.start_from(None))

    def run(self, until_ns: int) -> None:
        """Everything up to an instant."""
        while self._alarms and self._alarms[0][0] <= until_ns:
            self.now_ns, _, action, arguments = heapq.heappop(self._alarms)
            action(*arguments)

    def occur(self, member: Member, event: Event) -> None:
        """See ``Body.occur``."""
        if member.alive:
            member.handle(event)

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """See ``Body.call_at``."""
        self._serial += 1
        heapq.heappush(self._alarms, (at_ns, self._serial, action, arguments))

    def send(self, source: str, target: str, content: bytes, by_datagram: bool) -> None:
        """See ``Body.send``."""
        self.call_at(self.now_ns + DELAY_NS, self._deliver, source, target, content)

    def _deliver(self, source: str, target: str, content: bytes) -> None:
        member = self.members[target]
        self.occur(member, member.event_of(source, content))


def rehearse(system: System, config: object, names: list[str]) -> None:
    """Start the nodes, ask them, let the last crash and re-join with the first one's state."""
    assert system.nodes is not None
    nodes = system.nodes(names, config, SEED)
    stage = Stage(nodes, Group(frozenset(nodes), system.messages, system.transport))
    if Arrival in system.inputs:
        for name, requests in poisson_requests(names, USER_COUNT, RATE_RPS, SPAN_NS, SEED, sticky=False).items():
            for request in requests:
                stage.call_at(request.at_ns, stage.occur, stage.members[name], Arrival(request))
    stage.run(SPAN_NS // 2)
    if len(names) > 1:
        last, peer = stage.members[names[-1]], stage.members[names[0]]
        last.crash()
        last.rejoin(system.nodes(names, config, SEED)[last.name])
        stage.occur(last, last.start_from(peer.state_content(), again=True))
    stage.run(SPAN_NS)
    for member in stage.members.values():
        member.tell_weight()


def load_node(name: str, system: str, options: Json, names: Sequence[str], seed: int) -> tuple[System, Node]:
    """Node ``name`` of the nodes that the system makes for ``names``; SpecError where there is none."""
    loaded = load_system(system)
    if loaded.nodes is None:
        raise SpecError(f"system {loaded.key} has no nodes", "it distributes publishers; run it as a distributor")
    config = configure(f"system {loaded.key}", loaded.config, options)
    nodes = loaded.nodes(list(names), config, seed)
    if name not in nodes:
        raise SpecError(f"system {loaded.key} made no node {name!r}", f"nodes: {', '.join(nodes)}")
    if not loaded.servers:  # a rehearsal has none
        rehearse(loaded, config, list(names))
    return loaded, nodes[name]
