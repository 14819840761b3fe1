"""nginx: ``limit_req`` beside each node, with an n-th of the limit; they tell each other nothing.

What everybody has without coordination.  Its documentation (ngx_http_limit_req_module): a bucket that leaks at a
``rate`` of whole requests a second or a minute, with room for ``burst`` more.  It leaks by thousandths, rounded down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from core.errors import SpecError
from systems.limiting.deployed import LOOPBACK, Cluster, DeployedConfig, Driver, Entry, Process, Quota, deployed, http
from systems.parts.drivers import counts_requests, word

PORT, TEMPORARY = 8080, ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")  # folders, made at its start, used or not
SETTINGS = """daemon off; master_process off;  # a master that is killed leaves its workers behind
user root root; pid "{folder}/pid"; error_log stderr error; events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_timeout 1h; keepalive_requests 1000000000; {temporary}
  limit_req_zone $arg_u zone=users:10m rate={rate};
  server {{ listen 127.0.0.1:{port}; root "{folder}"; location = /health {{ return 200 healthy; }}
    location / {{  # an answer by return would come before the limit
      limit_req zone=users{burst}; limit_req_status 429; limit_req_log_level info; try_files /admitted =404; }} }} }}
"""


@dataclass(frozen=True)
class Config(DeployedConfig):
    """Options of nginx; ``server`` says nothing here."""


def share(quota: Quota, node_count: int) -> tuple[int, str]:
    """A node's N / n, and its rate as nginx takes it; SpecError where it cannot say these exactly."""
    count, rate = Fraction(quota.count, node_count), quota.count / quota.period / node_count
    if count.denominator == (20 * rate).denominator == 1:  # so many threes a minute
        return int(count), f"{rate}r/s" if rate.denominator == 1 else f"{60 * rate}r/m"
    nearest = max(1, round(count)) * node_count, Fraction(max(1, round(20 * rate)) * node_count, 20)
    what = f"nginx cannot say {quota} at {node_count} nodes: each has an n-th, so many a second or threes a minute"
    raise SpecError(what, f"the nearest that it can: capacity = {nearest[0]}, rate = {nearest[1]}")


class Nginx(Driver):
    """See ``Driver``."""

    key, summary, config = "nginx", "limit_req of nginx beside each node, with an n-th of the limit", Config
    programs, versions = {"nginx": "apt-get install nginx-light"}, {"nginx": "-v"}
    contract, coordinates = "split", False

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:
        share(quota, len(nodes))

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        count, rate = share(quota, len(cluster.nodes))
        processes = []
        for node in cluster.nodes:
            port, folder = cluster.port_of(node, self.key, PORT), cluster.folder_of(node, self.key)
            temporary = " ".join(f'{name}_temp_path "{folder}/{name}";' for name in TEMPORARY)
            burst = f" burst={count - 1} nodelay" if count > 1 else ""
            settings = SETTINGS.format(folder=folder, temporary=temporary, rate=rate, burst=burst, port=port)
            files, command = {"nginx.conf": settings, "admitted": "yes"}, ("nginx", "-c", f"{folder}/nginx.conf")
            processes.append(Process(node, self.key, command, port, http("/health"), b"healthy", files))
        return processes

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return Entry(LOOPBACK, cluster.port_of(node, self.key, PORT), (http("/health"),))

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        return ", ".join(f"no answer of {name}" for name, said in answers.items() if b"healthy" not in said)

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        counts_requests(self.key, cost)
        return http(f"/?u=-{word(user)}")  # what is empty it would not count

    def verdict(self, answer: Any) -> bool | None:
        return True if answer == (200, b"yes") else False if answer.status == 429 else None


DRIVER = Nginx()
SYSTEM = deployed(DRIVER)
