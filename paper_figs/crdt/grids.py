"""Points that several figures of the thesis share, so that their runs are made once.

All run on the thesis' testbed in virtual time: 30 nodes, full mesh, gossip every 300 ms, no delay, no
loss (Table 4.1).  The capacity c is secret there and 300 here (150 and 600 as sensitivity): it must be
a multiple of 30, and the frequency threshold of 2.4 s is only "suspicious" for c of about 150 to 420.

The scale ``small`` is for nodes that are processes, on a machine of two cores: ten of them, a part of the long
data sets, and grids so thin that no figure takes more than 20 minutes of real time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from harness.experiment import RunSpec, Scale

NODES = 30  # Table 4.1
ROUND_MS = 300  # between a node's rounds of gossip, Table 4.1
RANDOM_PHASES = "random phases"  # of the nodes' rounds: the default
CAPACITY = 300  # ours, see above
CAPACITIES = (150, 300, 600)
COUNTER, QUEUE, L, F, FL = "counter", "queue", "queue+L", "queue+F", "queue+F+L"
EXTENSIONS = (COUNTER, QUEUE, L, F, FL)
LOG = "sliding-log"  # 4.1.1, on many nodes
ORACLE, CENTRAL_COUNTER, CENTRAL_QUEUE = "centralised", "central counter", "central queue"

SMALL_NODES = 10  # instead of NODES
SMALL_SPANS = {"A": "60s", "B-not-limited": "60s"}  # of data sets that last longer
SMALL_DRAIN = "20s"  # nodes that never fall silent are waited for no longer

D_LIMIT: dict[str, Any] = {"capacity": 5, "rate": "1"}  # Table 4.2
C_USERS = 5_000  # thesis 4.3.4
C_SMALLER: dict[str, dict[str, int | str]] = {  # scale -> options of data set C; the paper scale has the full one
    "small": {"users": 40, "requests": 4_000, "duration": "3min"},
    "tiny": {"users": 100, "requests": 10_000, "duration": "6min"},
    "quick": {"users": 120, "requests": 12_000, "duration": "8min"},
}

# label -> (system, its options)
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    COUNTER: ("crdt-counter", {}),
    QUEUE: ("crdt-queue", {}),
    L: ("crdt-queue", {"linf": True}),
    F: ("crdt-queue", {"frequency": True}),
    FL: ("crdt-queue", {"frequency": True, "linf": True}),
    LOG: ("sliding-log", {}),
}


def rate(capacity: int) -> str:
    """0.001 c tokens a second (Table 4.1), as text."""
    return f"{capacity / 1000:g}"


def limited(variant: str, data_set: str, capacity: int = CAPACITY, nodes: int = NODES, **more: Any) -> RunSpec:
    """One variant on one data set; ``more``: further options of the system (``gossip="900ms"``)."""
    system, options = VARIANTS[variant]
    return _point(system, data_set, capacity, nodes, {**options, **more})


def oracle(data_set: str, capacity: int = CAPACITY, **limit: Any) -> RunSpec:
    """The centralised limiter with zero delay: the ground truth (thesis 4.3.1)."""
    return _point("centralised", data_set, capacity, NODES, limit)


def central(variant: str, data_set: str, capacity: int = CAPACITY, **more: Any) -> RunSpec:
    """A system on one node alone: the thesis' centralised counter and queue (5.1.2); ``more`` as above."""
    system, options = VARIANTS[variant]
    return _point(system, data_set, capacity, 1, {**options, **more})


def _point(system: str, data_set: str, capacity: int, nodes: int, options: dict[str, Any]) -> RunSpec:
    load: dict[str, Any] = {"set": data_set}
    limit: dict[str, Any] = {}
    if capacity != CAPACITY:  # defaults are left out, so that equal points are one run
        load["capacity"] = capacity
        limit = {"capacity": capacity, "rate": rate(capacity)}
    return on_mesh(system, {**limit, **options}, "data-set", load, nodes)


def on_mesh(
    system: str,
    system_options: Mapping[str, Any],
    workload: str,
    workload_options: Mapping[str, Any],
    nodes: int = NODES,
    delay: str = "0ms",
) -> RunSpec:
    """A system under a load, on a full mesh."""
    return RunSpec(
        system=system,
        system_options=dict(system_options),
        workload=workload,
        workload_options=dict(workload_options),
        topology="full-mesh",
        topology_options={"nodes": nodes, "delay": delay},
        study="limiting",
    )


def on_d(system: str, nodes: int = NODES, delay: str = "0ms", draw: int = 0, **options: Any) -> RunSpec:
    """A system on data set D; ``options``: of the system, beside the limit; ``draw``: of the gossip."""
    spec = on_mesh(system, {**D_LIMIT, **options}, "data-set", {"set": "D", **D_LIMIT}, nodes, delay)
    return msgspec.structs.replace(spec, study_options={"draw": draw}) if draw else spec


def on_c(scale: Scale) -> list[RunSpec]:
    """Centralised limiter, counter and queue with both extensions on data set C, or what stands for it at ``scale``."""
    specs = [oracle("C"), *(limited(variant, "C") for variant in (COUNTER, FL))]
    smaller = C_SMALLER.get(scale.name, {})
    specs = [msgspec.structs.replace(spec, workload_options={**spec.workload_options, **smaller}) for spec in specs]
    return at(scale, specs)


def on_ten(variant: str, data_set: str, capacity: int = 150, **more: Any) -> RunSpec:
    """A variant, or the centralised limiter, on ten nodes: for what is slow on thirty."""
    if variant == ORACLE:
        spec = oracle(data_set, capacity)
        return msgspec.structs.replace(spec, topology_options={**spec.topology_options, "nodes": 10})
    return limited(variant, data_set, capacity, 10, **more)


def label(system: str, nodes: int, linf: object = None, frequency: object = None) -> str:
    """The variant that a run's factors mean (None: the option is absent)."""
    if system == "centralised":
        return ORACLE
    if nodes == 1:
        return {"crdt-counter": CENTRAL_COUNTER, "crdt-queue": CENTRAL_QUEUE}.get(system, system)
    if system != "crdt-queue":
        return {"crdt-counter": COUNTER}.get(system, system)
    return QUEUE + ("+F" if frequency else "") + ("+L" if linf else "")


def at(scale: Scale, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """The specs with the physics of ``scale``."""
    return [_small(spec) for spec in specs] if scale.physics == "small" else list(specs)


def same(specs: Sequence[RunSpec]) -> Callable[[Scale, Mapping[str, Any]], list[RunSpec]]:
    """A figure's points that are the same at every scale but for small."""
    return lambda scale, options: at(scale, specs)


def _small(spec: RunSpec) -> RunSpec:
    topology, study = dict(spec.topology_options), {"drain": SMALL_DRAIN, **spec.study_options}
    if topology.get("nodes") == NODES:
        topology["nodes"] = SMALL_NODES
    span = SMALL_SPANS.get(spec.workload_options.get("set", ""))
    if span:
        study.setdefault("duration", span)
    return msgspec.structs.replace(spec, topology_options=topology, study_options=study)
