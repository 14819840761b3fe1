"""The runs that are disturbed: small ones, of a kind each, and who is there to be disturbed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.records import Json
from core.units import duration_text
from studies.spec import RunSpec

_NODES = ("n1", "n2", "n3")
_QUICK = {"locate": "500ms", "report": "500ms", "place": "500ms", "guard": "2s", "session": "3s", "dead": "2s"}


@dataclass(frozen=True)
class Ground:
    """``make``: testbed, seed, length of the load (ns), faults -> the spec.

    ``processes``: whom the nemesis strikes, by their names on the site; ``servers``: those of them that
    start again with a node, and that node; ``nodes``: whom faults crash; ``sides``: whom they cut off;
    ``restarts``: whether the crashed may come back; ``weight``: how often.
    """

    study: str
    make: Callable[[str, int, int, tuple[Json, ...]], RunSpec]
    processes: tuple[str, ...]
    nodes: tuple[str, ...]
    sides: tuple[str, ...]
    restarts: bool = True
    weight: float = 1.0
    servers: Mapping[str, str] = field(default_factory=dict)


def _topic(testbed: str, seed: int, load_ns: int, faults: tuple[Json, ...]) -> RunSpec:
    """300 messages a second, over two brokers."""
    return RunSpec(
        system="lb",
        workload="poisson",
        workload_options={"publishers": 30, "batch": 5, "group_size": 5},
        topology_options={"brokers": 2},
        testbed=testbed,
        calibration="small",
        slo="calibrated",
        round=duration_text(load_ns),
        study_options={"profile": "5s", "faults": list(faults)},
        seed=seed,
        keep=("messages",),
    )


def _limiter(system: str) -> Ground:
    """120 requests a second, a third of them more than the limit."""

    def make(testbed: str, seed: int, load_ns: int, faults: tuple[Json, ...]) -> RunSpec:
        return RunSpec(
            system=system,
            system_options={"capacity": 10, "rate": "10"},
            workload="requests",
            workload_options={"users": 8, "rate_rps": 15.0, "sticky": False},
            topology="full-mesh",
            topology_options={"nodes": len(_NODES), "delay": "5ms"},
            testbed=testbed,
            study="limiting",
            study_options={"duration": duration_text(load_ns), "drain": "5s", "faults": list(faults)},
            seed=seed,
        )

    servers = {"redis-n1": _NODES[0]} if system == "redis-gcra" else {}
    processes = tuple(f"{kind}-{node}" for kind in ("node", "users") for node in _NODES)
    return Ground("limiting", make, (*servers, *processes), _NODES, _NODES, servers=servers)


def _placement(system: str) -> Ground:
    """Two topics, 50 messages a second each, at two sites."""

    def make(testbed: str, seed: int, load_ns: int, faults: tuple[Json, ...]) -> RunSpec:
        return RunSpec(
            system=system,
            system_options=_QUICK,
            workload="static-topics",
            workload_options={"topics": 2, "rate_rps": 50.0, "size_bytes": 200, "sites": 2, "placement": "by-topic"},
            topology="city-mec",
            topology_options={"sites": 2, "site_rtt": "20ms", "cloud_delay": "10ms"},
            testbed=testbed,
            study="placement",
            study_options={
                "duration": duration_text(load_ns), "access": "1ms", "warm_up_rounds": 0, "faults": list(faults)
            },
            seed=seed,
        )  # fmt: skip

    brokers, clients = (
        ("broker1", "broker2"),
        tuple(f"{role}-{n}-1" for n in (1, 2) for role in ("producer", "consumer")),
    )
    agents = ("broker1-agent", "broker2-agent", "proxy1", "proxy2")
    processes = (
        "zookeeper-store",
        *(f"broker-{name}" for name in brokers),
        *(f"serf-{name}" for name in agents),
        *(f"node-{name}" for name in ("store", "manager1", *brokers, *clients)),
    )
    servers = {"zookeeper-store": "store", "serf-proxy1": "proxy1"}
    return Ground("placement", make, processes, (*brokers, *servers.values()), brokers, weight=0.75, servers=servers)


GROUNDS: dict[str, Ground] = {
    "lb": Ground(
        "distribution",
        _topic,
        tuple(
            f"{kind}{n}" for n in (1, 2)
            for kind in ("broker-broker", "publish-publishers", "subscribe-subscribers")
        ),
        ("broker1", "broker2", "publishers1", "subscribers2"),
        ("publishers1", "publishers2", "subscribers1", "subscribers2", "brokers1"),
        restarts=False,
        weight=2.5,
    ),
    **{name: _limiter(name) for name in ("crdt-counter", "crdt-queue", "centralised", "redis-gcra")},
    **{name: _placement(name) for name in ("pulsar", "epulsar")},
}  # fmt: skip
