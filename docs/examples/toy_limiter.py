"""toy: a limiter of one's own, a program with an HTTP port (``toy_server.py``), beside each node.

docs/deployed.md builds it step by step.

    ratebed run --system docs/examples/toy_limiter.py:SYSTEM --workload hot-keys --topology full-mesh --testbed local
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from systems.limiting.deployed import LOOPBACK, Cluster, DeployedConfig, Driver, Entry, Process, Quota, deployed, http
from systems.parts.drivers import counts_requests, word

PORT = 8080
SERVER = __file__.removesuffix("toy_limiter.py") + "toy_server.py"


@dataclass(frozen=True)
class Config(DeployedConfig):
    """20 requests of a user a second, unless told otherwise."""

    capacity: int = 20
    rate: str = "20"


class Toy(Driver):
    """See ``Driver``."""

    key, summary, config = "toy", "thirty lines of Python that count", Config
    programs: ClassVar = {"python3": "apt-get install python3"}
    contract, coordinates = "split", False  # they know nothing of each other: each has an n-th of the limit

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        share, processes = quota.count // len(cluster.nodes), []
        for node in cluster.nodes:
            port = cluster.port_of(node, self.key, PORT)
            command = "python3", SERVER, str(port), str(share), str(float(quota.period))
            processes.append(Process(node, self.key, command, port, http("/"), b"200 OK"))
        return processes

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return Entry(LOOPBACK, cluster.port_of(node, self.key, PORT), (http("/"),))

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        return ", ".join(name for name, answer in answers.items() if b"200 OK" not in answer)

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        counts_requests(self.key, cost)
        return http(f"/{word(user)}")

    def verdict(self, answer: Any) -> bool | None:
        return {(200, b""): True, (429, b""): False}.get(answer)


DRIVER = Toy()
SYSTEM = deployed(DRIVER)
