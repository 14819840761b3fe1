"""A Redis, for the drivers of limiters that keep their counts in one: in memory only, behind the run's password.

And what makes another one follow it, and take its place: replicas, and Redis Sentinels.
"""

from systems.limiting.deployed import LOOPBACK, Cluster, Process, resp

PORT, SENTINEL_PORT = 6379, 26_379
PROGRAMS = {"redis-server": "apt-get install redis-server"}
VERSIONS = {"redis-server": "--version"}
PONG = b"+PONG\r\n"  # the answer to the last question


def redis(
    cluster: Cluster, node: str = "", name: str = "redis", words: tuple[str, ...] = (), asked: bytes = b""
) -> Process:
    """One beside a node ("": the main one); ``words``: further settings, a line each; ``asked``: before PING."""
    return _server(cluster, node or cluster.main, name, PORT, ('save ""', "appendonly no", *words), asked)


def replica(cluster: Cluster, node: str) -> Process:
    """One that follows the main one; it says whether its link to that is up."""
    words = (f"replicaof {_first(cluster)}", f"masterauth {cluster.secret}")
    return redis(cluster, node, "replica", words, resp("INFO", "replication"))


def sentinel(cluster: Cluster, node: str, down_after_ms: int, failover_timeout_ms: int) -> Process:
    """One that watches the main one, called ``main``; it says whether it knows enough of the others."""
    words = (
        f"sentinel monitor main {_first(cluster)} {len(cluster.nodes) // 2 + 1}",
        f"sentinel auth-pass main {cluster.secret}",
        f"sentinel down-after-milliseconds main {down_after_ms}",
        f"sentinel failover-timeout main {failover_timeout_ms}",
    )
    return _server(cluster, node, "sentinel", SENTINEL_PORT, words, resp("SENTINEL", "CKQUORUM", "main"), "--sentinel")


def _first(cluster: Cluster) -> str:
    return cluster.at(cluster.main, "redis", PORT).replace(":", " ")


def _server(
    cluster: Cluster, node: str, name: str, usual: int, words: tuple[str, ...], asked: bytes, *flags: str
) -> Process:
    port, folder = cluster.port_of(node, name, usual), cluster.folder_of(node, name)
    addresses = dict.fromkeys((cluster.addresses[node], LOOPBACK))
    settings = (
        f"bind {' '.join(addresses)}",
        f"port {port}",
        f"requirepass {cluster.secret}",
        "daemonize no",
        f'dir "{folder}"',
        *words,
    )
    question = resp("AUTH", cluster.secret) + asked + resp("PING")
    files = {"redis.conf": "".join(f"{line}\n" for line in settings)}
    return Process(node, name, ("redis-server", f"{folder}/redis.conf", *flags), port, question, PONG, files)
