"""The same questions to modelled agents and to real ones, over the same delays: the same answers, near enough."""

import heapq
import time
from collections.abc import Callable
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Delivery, Effect, Sample, Send, SetTimer, Start, Timer
from systems.parts.vivaldi import Coordinate, distance_s
from systems.placement.agent import AgentNode
from systems.placement.messages import Here, WhereAmI
from testbed.hosts.mininet.site import MininetSite
from testbed.servers.serf import SerfCluster
from testbed.servers.serf_agent import SerfAgent
from testbed.servers.serf_rpc import SerfRpc
from testbed.topologies.topology import Link, Topology, mesh
from tests.live import needs

NAMES = ["broker1-agent", "broker2-agent", "proxy1"]
ONE_WAY_MS = dict(zip(combinations(NAMES, 2), (10, 20, 25), strict=True))
TOPOLOGY = Topology(
    "triangle",
    mesh("triangle", NAMES, 0).hosts,
    tuple(Link(a, b, ms * MILLISECOND_NS) for (a, b), ms in ONE_WAY_MS.items()),
)
Ask = Callable[[str], Coordinate]  # WhereAmI to a node


def after(seconds: int) -> Ask:
    """The modelled agents, so many seconds after their start."""
    nodes, serial = {name: AgentNode(name, NAMES, SECOND_NS, 1) for name in NAMES}, count()
    heap: list[tuple[int, int, str, Any]] = [(0, next(serial), name, Start(None)) for name in NAMES]
    while heap[0][0] < seconds * SECOND_NS:
        now_ns, _, name, event = heapq.heappop(heap)
        for effect in nodes[name].handle(event, now_ns):
            match effect:
                case Send(target, message):
                    at_ns = now_ns + TOPOLOGY.path(name, target).one_way_delay_ns
                    heapq.heappush(heap, (at_ns, next(serial), target, Delivery(name, message)))
                case SetTimer(timer, at_ns):
                    heapq.heappush(heap, (at_ns, next(serial), name, Timer(timer, at_ns)))
    return lambda name: answer(nodes[name].handle(Delivery("client1", WhereAmI()), seconds * SECOND_NS))


def answer(effects: list[Effect]) -> Coordinate:
    (effect,) = effects
    assert isinstance(effect, Send) and effect.target == "client1" and isinstance(effect.message, Here)
    coordinate = effect.message.coordinate
    assert coordinate.is_finite and len(coordinate.vec) == 8
    return coordinate


def worst_error(ask: Ask) -> float:
    found = {name: ask(name) for name in NAMES}
    return max(abs(distance_s(found[a], found[b]) / (2e-3 * ms) - 1) for (a, b), ms in ONE_WAY_MS.items())


@needs("serf", "root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
@pytest.mark.slow
def test_real_agents_answer_as_modelled_ones_do(tmp_path: Path) -> None:
    with MininetSite(TOPOLOGY, tmp_path / "run", tmp_path) as site, SerfCluster(site, NAMES) as cluster:
        cluster.start()
        began_s = time.monotonic()
        real = {name: SerfAgent(name, server.reached_at()) for name, server in cluster.servers.items()}
        for name, agent in real.items():  # from outside of their namespaces
            server = cluster.servers[name]
            secret = server.reached_at().secret
            agent.rpc = SerfRpc(server.rpc.connect, name, secret, timeout_s=10.0)  # a busy machine takes its time
        assert all(node.handle(Start(None), 0) == [] for node in real.values())

        def ask(name: str) -> Coordinate:
            return answer(real[name].handle(Delivery("client1", WhereAmI()), 0))

        assert worst_error(after(0)) > 0.5
        modelled = worst_error(after(12))
        assert modelled < 0.25
        while worst_error(ask) > 0.25:
            assert time.monotonic() < began_s + 120
            time.sleep(0.2)
        cluster.servers["proxy1"].kill()
        assert real["proxy1"].handle(Delivery("client1", WhereAmI()), 0) == [Sample("unanswered_count", 1.0)]
        for node in real.values():
            node.close()
