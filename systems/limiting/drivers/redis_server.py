"""A Redis, for the drivers of limiters that keep their counts in one: in memory only, behind the run's password."""

from systems.limiting.deployed import LOOPBACK, Cluster, Process, resp

PORT = 6379
PROGRAMS = {"redis-server": "apt-get install redis-server"}
VERSIONS = {"redis-server": "--version"}
PONG = b"+OK\r\n+PONG\r\n"


def redis(cluster: Cluster, node: str = "", name: str = "redis", words: tuple[str, ...] = ()) -> Process:
    """One beside a node ("": the main one); ``words``: further settings, a line each."""
    node = node or cluster.main
    port, folder = cluster.port_of(node, name, PORT), cluster.folder_of(node, name)
    addresses = dict.fromkeys((cluster.addresses[node], LOOPBACK))
    settings = (
        f"bind {' '.join(addresses)}",
        f"port {port}",
        f"requirepass {cluster.secret}",
        'save ""',
        "appendonly no",
        "daemonize no",
        f'dir "{folder}"',
        *words,
    )
    question = resp("AUTH", cluster.secret) + resp("PING")
    files = {"redis.conf": "".join(f"{line}\n" for line in settings)}
    return Process(node, name, ("redis-server", f"{folder}/redis.conf"), port, question, PONG, files)
