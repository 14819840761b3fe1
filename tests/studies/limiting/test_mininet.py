"""Limiters as real processes over real delays: verdicts take the path's time, partitions cut, streams catch up."""

from collections import Counter
from pathlib import Path

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting import live
from studies.limiting.asked import RequestJournal
from systems.limiting.queue_common import unpack
from systems.loader import load_system
from testbed.faults import Heal, Partition
from testbed.hosts.mininet.site import MininetSite
from testbed.topologies.topology import load_topology
from tests.live import needs
from tests.studies.limiting.admissions import least_and_most
from tests.studies.limiting.given import asked as asked_for
from tests.studies.limiting.given import run_requests, run_requests_live
from workloads.requests import poisson_requests

pytestmark = [
    pytest.mark.slow,
    needs("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue", "redis-gcra"),
]

DELAY_NS = 25 * MILLISECOND_NS
TOPOLOGY = load_topology("full-mesh", {"nodes": 3, "delay": "25ms"})
LOAD_NS = 2 * SECOND_NS
REQUESTS = poisson_requests(TOPOLOGY.node_names(), 6, 10.0, LOAD_NS, 1, sticky=False)
CAPACITY = 8
OPTIONS = {"capacity": CAPACITY, "rate": "0.05"}
SENT = "interface_sent_bytes"


def test_limiters_over_delays(tmp_path: Path) -> None:
    """One network for all: Redis answers after a round trip; cut-off replicas differ, and agree after the drain."""
    cut = (Partition(300 * MILLISECOND_NS, ("n3",)), Heal(1_500 * MILLISECOND_NS))

    def run(name: str, **more: object) -> RequestJournal:
        system = load_system(name)
        return run_requests_live(
            site, system, system.config(**OPTIONS), TOPOLOGY, REQUESTS, LOAD_NS, 1, drain_ns=10 * SECOND_NS, **more
        )

    with MininetSite(TOPOLOGY, tmp_path, tmp_path) as site:
        site.verify()
        asked = run("redis-gcra")
        for _ in range(5):  # until a busy machine cuts before users have spent what they have
            gossiped = run("crdt-queue", faults=cut)
            if gossiped.journal.faults[0][0] < 600 * MILLISECOND_NS:
                break

    rows = asked.requests()
    assert set(rows["decision"]) == {"admit", "reject"}
    for node, sent, received in zip(rows["node"], rows["sent_at_ns"], rows["received_at_ns"], strict=True):
        if node != "n1":  # where Redis is
            assert received - sent >= 2 * DELAY_NS - MILLISECOND_NS
    near = sorted(
        received - sent
        for node, sent, received in zip(rows["node"], rows["sent_at_ns"], rows["received_at_ns"], strict=True)
        if node == "n1"
    )
    assert near[0] < DELAY_NS

    states = [unpack(state) for state in gossiped.states.values()]
    admitted = gossiped.requests()["decision"].count("admit")
    assert states[0] == states[1] == states[2] and sum(map(len, states[0].values())) == admitted
    assert [type(fault) for _, fault in gossiped.journal.faults] == [Partition, Heal]
    queue = load_system("crdt-queue")
    calm = run_requests(queue, queue.config(**OPTIONS), TOPOLOGY, REQUESTS, LOAD_NS, 1, (), 10 * SECOND_NS)
    _, apart = least_and_most(REQUESTS, CAPACITY)
    # The cut let users have more than their tokens, at most what three buckets of their own would have given.
    assert calm.requests()["decision"].count("admit") < admitted <= apart


def test_bytes_on_the_wire_are_those_of_the_load_each_once(tmp_path: Path) -> None:
    """Of a limiter that says nothing, none; of one that asks, its messages and the headers of their packets."""

    def run(site: MininetSite, name: str) -> tuple[float, Counter[str], Counter[str]]:
        """Bytes that hosts sent before the load; how much counters grew in it; what nodes say that they sent."""
        system = load_system(name)
        load = asked_for(system, system.config(**OPTIONS), TOPOLOGY, REQUESTS, LOAD_NS, 1, drain_ns=SECOND_NS)
        for _ in range(5):
            shown = live.run(site, load)
            ends = sorted(at_ns for at_ns, _, metric, _ in shown.journal.samples if metric.startswith("counted_"))
            assert len(ends) == 2
            instants = [at_ns for user in shown.users.values() for at_ns in user if at_ns is not None]
            if ends[0] < min(instants) and max(instants) < ends[1]:
                break
        else:
            raise AssertionError("this machine is too busy: five times the load was not between its two counts")
        sums: dict[int, Counter[str]] = {at_ns: Counter() for at_ns in ends}
        for at_ns, host, metric, value in shown.evidence.samples:
            if at_ns in sums and host in TOPOLOGY.node_names():
                sums[at_ns][metric] += value
        said: Counter[str] = Counter()
        for _, _, metric, value in shown.journal.samples:
            said[metric] += value
        before, after = (sums[at_ns] for at_ns in ends)
        return before[SENT], Counter({name: after[name] - before[name] for name in after}), said

    with MininetSite(TOPOLOGY, tmp_path, tmp_path) as site:
        before, silent, _ = run(site, "static-split")
        _, asking, said = run(site, "centralised")
        _, at_redis, _ = run(site, "redis-gcra")
    assert before > 10_000, "the check of the links, which is no load"
    assert silent[SENT] == 0 < silent["loopback_sent_bytes"], "users ask their node over the loopback"
    # Each message has its length before it, each packet 66 bytes of headers, be it an acknowledgement alone.  All
    # of it once, and not again where the delayer takes it from the receiver's queue and puts it back.
    wanted = said["sent_bytes"] + 4 * said["sent_count"] + 66 * asking["interface_sent_count"]
    anew = 1_000 + 1_514 * asking["tcp_retransmitted_count"]
    assert wanted <= asking[SENT] <= wanted + anew
    assert asking["interface_received_bytes"] == pytest.approx(asking[SENT], abs=anew)
    afar = sum(len(offered) for node, offered in REQUESTS.items() if node != TOPOLOGY.node_names()[0])
    assert 2 * 66 * afar < at_redis[SENT] < 1_000 * afar
