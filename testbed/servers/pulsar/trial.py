"""``python -m testbed.servers.pulsar.trial``: topics of a real cluster moved under load, and what that did, as JSON.

Every other topic is persistent.  Each is moved once before it counts: a cold broker's first moves take seconds.  With
``--kill`` the broker that leads the cluster is killed in the middle of the moves, and does not come back.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import add
from secrets import token_hex
from threading import Timer

import numpy as np
import psutil

from core.errors import MachineError
from core.records import Json
from core.units import MILLISECOND_NS, SECOND_NS
from testbed import load_testbed
from testbed.hosts.lock import machine_lock
from testbed.servers.pulsar.admin import WHOLE, Topic
from testbed.servers.pulsar.cluster import PulsarCluster
from testbed.servers.pulsar.transfers import Bundled, SeenByClients, TopicTraffic, Transfer, transfer_all
from testbed.topologies.topology import mesh

CLIENTS = "clients"  # their host
TESTBEDS = ("local", "mininet", "docker")
TAKEN_OVER_S = 60.0  # ours: every topic has a living broker again after so long, at the latest
_LEAD_S, _REST_S, _KILLED_AFTER_S, _LOOK_AGAIN_S = 2.0, 120.0, 0.05, 0.02


@dataclass(frozen=True)
class Transferred:
    """What a trial showed; ``victim``: the id of the broker that was killed in it.

    ``taken_over_ns``: from the beginning of the round in which it was to when all topics were known to have a living
    broker.  That is at most how long it took: the round itself waits for answers of the dead.
    """

    transfers: Sequence[Transfer]
    seen: SeenByClients
    victim: str = ""
    taken_over_ns: int = 0

    def told(self) -> Json:
        """In numbers: of REST's answers and of what clients saw, of persistent topics and of the others."""
        asked = [one for one in self.transfers if one.source != one.target]
        answer_ms = [(one.answered_at_ns - one.asked_at_ns) / MILLISECOND_NS for one in asked]
        return {
            "asked": len(asked),
            "landed": sum(one.landed for one in asked),
            "problems": sorted({one.problem[:200] for one in asked if one.problem}),
            "answer_ms": _spread(answer_ms),
            "killed": self.victim,
            "taken_over_s": self.taken_over_ns / SECOND_NS,
            "out_of_order": self.seen.out_of_order(),
            **{kind: self._of(kind, asked) for kind in ("persistent", "non-persistent")},
        }

    def _of(self, kind: str, asked: Sequence[Transfer]) -> Json:
        accounts = [one for topic, one in self.seen.accounts().items() if topic.kind == kind]
        if not accounts:
            return {}
        total = reduce(add, accounts)
        gaps_ms = [self.seen.gap_ns(one) / MILLISECOND_NS for one in asked if one.topic.kind == kind]
        return {
            "sent": total.offered_count,
            "lost": total.undelivered_count,
            "unacknowledged": total.unacknowledged_count,
            "duplicates": total.surplus_count,
            "gap_ms": _spread(gaps_ms),
        }


def _spread(values: Sequence[float]) -> Json:
    if not values:
        return {}
    parts = np.percentile(values, [50, 95, 100])
    return {name: round(float(part), 1) for name, part in zip(("median", "p95", "max"), parts, strict=True)}


class TransferTrial:
    """Topics of a fresh tenant, a namespace each, with a producer and a consumer each on the host ``clients``."""

    def __init__(self, cluster: PulsarCluster, clients: str, topic_count: int):
        self.cluster, self._clients = cluster, clients
        self.tenant = f"trial-{token_hex(4)}"
        self.topics = [Topic(self.tenant, f"n{number}", "t", number % 2 == 0) for number in range(topic_count)]
        cluster.admin.make_tenant(self.tenant)
        for topic in self.topics:
            cluster.admin.make_namespace(self.tenant, topic.namespace)

    def carry_out(self, count: int, executors: int, rate_rps: float, pause_s: float, kill: bool = False) -> Transferred:
        """Move topics so many times under load, all in turn, and then again after a pause.

        MachineError where a topic is left without a broker.
        """
        cluster, moved, victim, taken_over_ns = self.cluster, list[Transfer](), "", 0
        traffic = TopicTraffic(cluster, self._clients, self.topics, self.tenant)
        try:
            self._round(executors, cluster.brokers)
            traffic.play(rate_rps)
            time.sleep(_LEAD_S)
            while len(moved) < count:
                living = [broker for broker in cluster.brokers if broker != victim]
                if kill and not victim and len(moved) >= count // 2:
                    victim, begun_ns = cluster.admin.leader(), time.time_ns()
                    killer = Timer(_KILLED_AFTER_S, cluster.kill_broker, [cluster.node_of(victim)])
                    killer.start()
                    moved += self._round(executors, living)
                    killer.join()
                    self._await_owners(victim)
                    taken_over_ns = time.time_ns() - begun_ns
                else:
                    moved += self._round(executors, living)
                time.sleep(pause_s)
            time.sleep(_LEAD_S)
            traffic.end()
            traffic.rest(_REST_S)
            return Transferred(moved[:count], traffic.seen(), victim, taken_over_ns)
        finally:
            traffic.close()

    def _round(self, executors: int, brokers: Sequence[str]) -> list[Transfer]:
        """Each topic to the broker after its own."""
        plan = []
        for topic in self.topics:
            owner = self.cluster.admin.owner_of(topic)
            number = brokers.index(owner) + 1 if owner in brokers else 0
            plan.append((Bundled(topic, WHOLE), brokers[number % len(brokers)]))
        return transfer_all(self.cluster.admin, plan, executors)

    def _await_owners(self, dead: str) -> None:
        until_s = time.monotonic() + TAKEN_OVER_S
        for topic in self.topics:
            owner = ""
            while not owner or owner == dead:
                if time.monotonic() > until_s:
                    raise MachineError(f"{topic} has no living broker", "see the brokers' logs")
                with suppress(MachineError):
                    owner = self.cluster.admin.owner_of(topic)
                time.sleep(_LOOK_AGAIN_S)


def main() -> None:
    """Start a cluster, carry a trial out, print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--testbed", choices=TESTBEDS, default="local")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--topics", type=int, default=16)
    parser.add_argument("--transfers", type=int, default=200)
    parser.add_argument("--executors", type=int, default=16, help="moves at a time (ePulsar 3.6)")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second, to each topic")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two moves of a topic")
    parser.add_argument("--kill", action="store_true", help="a second trial, with the leading broker killed in it")
    words = parser.parse_args()
    names = [f"broker{number}" for number in range(1, words.brokers + 1)]
    with machine_lock():
        topology, begun_s = mesh("trial", [*names, CLIENTS], 0), time.monotonic()
        with load_testbed(words.testbed).site(topology, 0) as site, PulsarCluster(site, names, names[0]) as cluster:
            resident = sum(psutil.Process(process.pid).memory_info().rss for _, process in cluster.processes)
            machine = {
                "cores": os.cpu_count(),
                "load": os.getloadavg()[0],
                "up_after_s": round(time.monotonic() - begun_s, 1),
                "resident_mb": round(resident / 1e6),
            }
            print(json.dumps(machine), flush=True)
            for kill in [False, True] if words.kill else [False]:
                trial = TransferTrial(cluster, CLIENTS, words.topics)
                moved = trial.carry_out(words.transfers, words.executors, words.rate, words.pause, kill)
                print(json.dumps(moved.told(), indent=2), flush=True)


if __name__ == "__main__":
    main()
