"""bucket4j: Bucket4j's token buckets in a Hazelcast grid with a member beside each node; partitions own the keys.

Whoever owns a key's partition decides, by its own clock of milliseconds: a request for a key that is owned elsewhere
costs a round trip, the first one of a key two, and what takes a token another to wherever its backups are, which take
over when the owner is gone.  The member is a main program of ours around both libraries (``testbed.servers.bucket4j``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from core.errors import SpecError
from systems.limiting import deployed
from systems.limiting.deployed import LOOPBACK, Cluster, DeployedConfig, Driver, Entry, Process, Quota
from systems.parts.options import span_ns

HTTP, GRID = 8080, 5701  # ports; 5701 is Hazelcast's own
MOST_BACKUPS, FASTEST_RPS = 6, 10**9  # Hazelcast's; Bucket4j's: a token a nanosecond
GREETINGS = 32  # ours: on as many connections, for as many keys, so that each owner has been asked by each member
SETTINGS = """hazelcast:
  cluster-name: "{secret}"
  network:
    port: {{port: {port}, auto-increment: false}}
    interfaces: {{enabled: true, interfaces: ["{address}"]}}
    join: {{multicast: {{enabled: false}}, tcp-ip: {{enabled: true, member-list: {members}}}}}
  map: {{buckets: {{backup-count: {backups}}}}}
"""


@dataclass(frozen=True)
class Config(DeployedConfig):
    """Options of bucket4j."""

    backups: int = 1  # Hazelcast's default: members beside the owner that have a bucket before an answer is given


class Bucket4j(Driver):
    """See ``Driver``."""

    key, summary, config = "bucket4j", "a Hazelcast grid whose members own the buckets", Config
    programs, versions = {"bucket4j-member": "make live, with a JDK and Maven"}, {"bucket4j-member": "--version"}

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:
        if not 0 <= config.backups <= MOST_BACKUPS:
            raise SpecError(f"{self.key}: backups = {config.backups}", f"give 0 to {MOST_BACKUPS}")
        if quota.count / quota.period > FASTEST_RPS:
            raise SpecError(f"{self.key} cannot say {quota}", f"the nearest that it can: rate = {FASTEST_RPS}")

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        members = [cluster.at(node, self.key, GRID) for node in cluster.nodes]
        rate, timeout_ms = quota.count / quota.period, -(-span_ns(self.key, "timeout", config.timeout) // 10**6)
        limit = str(quota.count), str(rate.numerator), str(rate.denominator * 10**9), str(timeout_ms)
        told = {"secret": cluster.secret, "members": members, "backups": config.backups}
        return [self._member(cluster, node, told, limit) for node in cluster.nodes]

    def _member(self, cluster: Cluster, node: str, told: Mapping[str, Any], limit: tuple[str, ...]) -> Process:
        grid, port = cluster.port_of(node, self.key, GRID), cluster.port_of(node, self.key, HTTP)
        settings = SETTINGS.format(**told, address=cluster.addresses[node], port=grid)
        command = "bucket4j-member", "Member", f"{cluster.folder_of(node, self.key)}/hazelcast.yaml", str(port), *limit
        return Process(node, self.key, command, port, deployed.http("/status"), b"}", {"hazelcast.yaml": settings})

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        greetings = (deployed.http(f"/?u=ratebed:{number}&n=1") for number in range(GREETINGS))  # no user has a colon
        return Entry(LOOPBACK, cluster.port_of(node, self.key, HTTP), tuple(greetings))

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        wanted = f'{{"members": {len(cluster.nodes)}, "settled": true}}'
        said = {name: answer.rpartition(b"\n")[2].decode(errors="replace") for name, answer in answers.items()}
        return next((f"{name} says {its[:60]!r}, and not {wanted}" for name, its in said.items() if its != wanted), "")

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        return deployed.http(f"/?u={quote(user, safe='', errors='surrogatepass')}&n={cost}")

    def verdict(self, answer: Any) -> bool | None:
        return {(200, b""): True, (429, b""): False}.get(answer)


DRIVER = Bucket4j()
SYSTEM = deployed.deployed(DRIVER)
