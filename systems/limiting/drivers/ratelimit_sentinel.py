"""ratelimit-sentinel: ratelimit, with a replica of its Redis that Redis Sentinels promote where the first one is gone.

A Sentinel beside each node; a majority decides.  Replication is asynchronous: what was not passed on is forgotten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from core.units import MILLISECOND_NS
from systems.limiting.deployed import Cluster, Process, Quota, deployed
from systems.limiting.drivers import ratelimit
from systems.limiting.drivers.redis_server import SENTINEL_PORT, redis, replica, sentinel
from systems.parts.options import choice, span_ns


@dataclass(frozen=True)
class Config(ratelimit.Config):
    """Options of ratelimit-sentinel."""

    replica: str = ""  # ours: the node beside which the replica stands; "": the last
    down_after: str = "5s"  # down-after-milliseconds, as in Redis' documentation; its shipped settings say 30 s
    failover_timeout: str = "180s"  # failover-timeout, as shipped: who is not elected tries again after twice that


class RatelimitSentinel(ratelimit.Ratelimit):
    """See ``Driver``."""

    key, summary, config = "ratelimit-sentinel", "ratelimit, its Redis with a replica and Redis Sentinels", Config

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:
        super().check(quota, config, nodes)
        _spans_ms(self.key, config)
        if choice(self.key, "replica", config.replica or nodes[-1], nodes) == (config.server or nodes[0]):
            raise SpecError(f"{self.key}: its replica stands where the first Redis does", "set replica to another node")

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        _, *services = super().servers(cluster, quota, config)
        sentinels = [sentinel(cluster, node, *_spans_ms(self.key, config)) for node in cluster.nodes]
        told = {"REDIS_TYPE": "sentinel", "REDIS_SENTINEL_AUTH": cluster.secret}
        told["REDIS_URL"] = ",".join(["main", *(cluster.at(node, "sentinel", SENTINEL_PORT) for node in cluster.nodes)])
        return [
            redis(cluster, words=(f"masterauth {cluster.secret}",)),  # for when it comes back as a replica
            replica(cluster, config.replica or cluster.nodes[-1]),
            *sentinels,
            *(service._replace(environment={**service.environment, **told}) for service in services),
        ]

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        for name, said in answers.items():
            if name.endswith("/sentinel") and b"+OK %d usable" % len(cluster.nodes) not in said:
                return f"{name} does not know the others"
            if name.endswith("/replica") and b"link_status:up" not in said and b"role:master" not in said:
                return f"{name} does not follow"
        return super().ready(cluster, answers)


def _spans_ms(key: str, config: Config) -> list[int]:
    """down_after and failover_timeout."""
    spans = {"down_after": config.down_after, "failover_timeout": config.failover_timeout}
    return [span_ns(key, name, text, "1ms") // MILLISECOND_NS for name, text in spans.items()]


DRIVER = RatelimitSentinel()
SYSTEM = deployed(DRIVER)
