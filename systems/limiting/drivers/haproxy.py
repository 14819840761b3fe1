"""haproxy: a load balancer a node, whose stick tables tell each other every change (HAProxy's peers).

In the community edition an entry that comes from a peer *overwrites* the local one (documentation, "Global Profiling
Engine").  Rates are those of its sliding approximation: this period's count and the previous one's, weighted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from systems.limiting.deployed import LOOPBACK, Cluster, DeployedConfig, Driver, Entry, Process, Quota, deployed, http
from systems.parts.drivers import counts_requests, word
from systems.parts.options import choice

ADMITTED = ("gpc0,gpc0_rate", "gpc0_rate", "    http-request sc-inc-gpc0(0)\n")  # stored, fetched, done for each
COUNTERS = {"admitted": ADMITTED, "all": ("http_req_rate", "http_req_rate", "")}
HTTP, PEERS, STATS, LONGEST = 8080, 10_000, 9_999, 64  # ports; characters of a key, of which HAProxy keeps no more
# Who connect to each other at once hang up a second later; with RESYNC_LOCAL and RESYNC_REMOTE both done, that is past.
LEARNED = re.compile(rb"id=nodes disabled=0 flags=0x[0-9a-f]*[37bf]\b")


@dataclass(frozen=True)
class Config(DeployedConfig):
    """Options of haproxy."""

    counter: str = "admitted"  # gpc0_rate counts admitted requests alone; "all": http_req_rate, rejected ones too


class HAProxy(Driver):
    """See ``Driver``."""

    key, summary, config = "haproxy", "stick tables that overwrite each other", Config
    programs, versions, contract = {"haproxy": "apt-get install haproxy"}, {"haproxy": "-v"}, "sliding-window"

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:
        choice(self.key, "counter", config.counter, COUNTERS)
        if (nearest := round(quota.period, 3)) != quota.period:
            fix = f"the nearest that it can: rate = {quota.count / nearest if nearest else 1000 * quota.count}"
            raise SpecError(f"{self.key} cannot say {quota}: it counts by whole milliseconds", fix)

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        return [self._process(cluster, node, quota, config) for node in cluster.nodes]

    def _process(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Process:
        (kept, rate, rule), ms = COUNTERS[config.counter], int(quota.period * 1000)
        keep_s = max(10, -(-2 * ms // 1000))  # of an entry that nobody touches: two periods at least
        operator = "ge" if config.counter == "admitted" else "gt"  # the request itself is counted before it is asked
        peers = "".join(f"  peer {each} {cluster.at(each, self.key, PEERS)}\n" for each in cluster.nodes)
        stats, port = cluster.port_of(node, self.key, STATS), cluster.port_of(node, self.key, HTTP)
        text = (
            f"global\n  nbthread 1\n  stats socket ipv4@{LOOPBACK}:{stats} level operator\ndefaults\n  mode http\n"
            "  timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n  timeout http-keep-alive 60s\n"
            f"peers nodes\n{peers}backend users\n  stick-table type string len {LONGEST} size 2m expire {keep_s}s "
            f"peers nodes store {kept}({ms})\nfrontend limit\n  bind {LOOPBACK}:{port}\n    http-request track-sc0 "
            f"url_param(u) table users\n    http-request return status 429 if {{ sc_{rate}(0) {operator} "
            f"{quota.count} }}\n{rule}    http-request return status 200\n"
        )
        command = ("haproxy", "-db", "-L", node, "-f", f"{cluster.folder_of(node, self.key)}/haproxy.cfg")
        return Process(node, self.key, command, stats, b"show peers\n", b"\n\n", {"haproxy.cfg": text})

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return Entry(LOOPBACK, cluster.port_of(node, self.key, HTTP), (http("/?u=ratebed:warm"),) * 4)

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        met = {name: said.count(b"state=EST") if LEARNED.search(said) else 0 for name, said in answers.items()}
        alone, others = min(met, key=lambda name: met[name]), len(met) - 1
        return f"{alone} has met {met[alone]} of {others} peers for good" if met[alone] < others else ""

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        counts_requests(self.key, cost)
        return http(f"/?u={word(user, LONGEST)}")

    def verdict(self, answer: Any) -> bool | None:
        return {(200, b""): True, (429, b""): False}.get(answer)


DRIVER = HAProxy()
SYSTEM = deployed(DRIVER)
