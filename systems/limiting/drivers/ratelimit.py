"""ratelimit: envoyproxy/ratelimit beside each node, all of which count in one Redis.

What Envoy asks by default.  Its README: fixed windows by each service's own clock, INCRBY and EXPIRE in one pipeline.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from systems.limiting import deployed
from systems.limiting.deployed import LOOPBACK, Cluster, Driver, Entry, Process, Quota, http
from systems.limiting.drivers import redis_server

NAME, HEALTHY, CODES = "ratelimit", b"HTTP/1.1 200 OK", {200: "OK", 429: "OVER_LIMIT"}
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000, "year": 31536000}
PORTS = {"PORT": 8080, "GRPC_PORT": 8081, "DEBUG_PORT": 6070}  # it listens at all three
SETTINGS = dict.fromkeys(("HOST", "GRPC_HOST", "DEBUG_HOST"), LOOPBACK) | {"RUNTIME_SUBDIRECTORY": NAME}
SETTINGS |= dict.fromkeys(("USE_STATSD", "RUNTIME_WATCH_ROOT"), "false") | {"REDIS_SOCKET_TYPE": "tcp"}
SETTINGS |= dict.fromkeys(("DISABLE_STATS", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"), "true")
LIMITS = "domain: d\ndescriptors:\n- key: u\n  rate_limit: {{unit: {unit}, requests_per_unit: {count}}}\n"
QUESTION = '{"domain": "d", "descriptors": [{"entries": [{"key": "u", "value": %s}]}], "hitsAddend": %d}'


@dataclass(frozen=True)
class Config(deployed.DeployedConfig):
    """Options of ratelimit, those of its README."""

    rate: str = "5"  # ours: 300 a minute, a period that it knows
    cache: bool = False  # LOCAL_CACHE_SIZE_IN_BYTES = 1 MiB: who is over the limit is not asked for again
    pool: int = 10  # REDIS_POOL_SIZE: connections of each service, each with many requests under way


class Ratelimit(Driver):
    """See ``Driver``."""

    key, summary, config = NAME, "envoyproxy/ratelimit beside each node, with one Redis", Config
    programs = redis_server.PROGRAMS | {NAME: "make live (or python -m testbed.servers.ratelimit.build)"}
    versions, contract = redis_server.VERSIONS | {NAME: "github.com/envoyproxy/ratelimit"}, "fixed-window"

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:
        deployed.whole(self.key, quota, UNITS)

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        return [redis_server.redis(cluster), *(self._service(cluster, node, quota, config) for node in cluster.nodes)]

    def _service(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Process:
        ports = {name: cluster.port_of(node, NAME, usual) for name, usual in PORTS.items()}
        environment = SETTINGS | {name: str(port) for name, port in ports.items()}
        environment |= {"RUNTIME_ROOT": cluster.folder_of(node, NAME), "REDIS_POOL_SIZE": str(config.pool)}
        environment |= {"REDIS_URL": cluster.at(cluster.main, "redis", redis_server.PORT), "REDIS_AUTH": cluster.secret}
        environment["LOCAL_CACHE_SIZE_IN_BYTES"] = str(2**20 if config.cache else 0)
        limits = LIMITS.format(unit=deployed.whole(self.key, quota, UNITS), count=quota.count)
        files = {f"{NAME}/config/limits.yaml": limits}
        return Process(node, NAME, (NAME,), ports["PORT"], http("/healthcheck"), HEALTHY, files, environment)

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        greeting = [http("/json", QUESTION % (json.dumps(f"ratebed:{node}:{i}"), 1)) for i in range(config.pool)]
        return Entry(LOOPBACK, cluster.port_of(node, NAME, PORTS["PORT"]), tuple(greeting))

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        silent = [name for name, said in answers.items() if redis_server.PONG not in said and HEALTHY not in said]
        return f"no answer of {', '.join(silent)}" if silent else ""

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        return http("/json", QUESTION % (json.dumps("u:" + user.encode(errors="backslashreplace").decode()), cost))

    def verdict(self, answer: Any) -> bool | None:
        try:
            said = json.loads(answer.body) if answer.status in CODES else None
        except (ValueError, RecursionError):
            return None
        match said:  # where it finds no limit for a request it says OK as well, but names none
            case {"overallCode": code, "statuses": [{"currentLimit": {}}]} if code == CODES[answer.status]:
                return bool(answer.status == 200)
        return None


DRIVER = Ratelimit()
SYSTEM = deployed.deployed(DRIVER)
