"""Points that several figures of the thesis share, so that their runs are made once.

All run on the thesis' testbed in virtual time: 30 nodes, full mesh, gossip every 300 ms, no delay, no
loss (Table 4.1).  What the thesis leaves open stands in ``readings``, the secret capacity c among it: it must be
a multiple of 30, and the frequency threshold of 2.4 s is only "suspicious" for c of about 150 to 420.

The scale ``small`` is for nodes that are processes, on a machine of two cores: ten of them, a part of the long
data sets, and grids so thin that no figure takes more than 20 minutes of real time.
"""

from collections.abc import Callable, Sequence

import msgspec

from core.defaults import CAPACITY
from core.records import Options
from harness.experiment import RunSpec, Scale
from paper_figs.crdt import readings
from paper_figs.crdt.published import D_CAPACITY, D_RATE_RPS, FILL_S, NODES
from paper_figs.crdt.variants import VARIANTS

RANDOM_PHASES = "random phases"  # of the nodes' rounds
CAPACITIES = (150, CAPACITY, 600)

SMALL_NODES = 10  # instead of NODES
SMALL_SPANS = {"A": "60s", "B-not-limited": "60s"}  # of data sets that last longer
SMALL_DRAIN = "20s"  # nodes that never fall silent are waited for no longer

D_LIMIT: Options = {"capacity": D_CAPACITY, "rate": f"{D_RATE_RPS}"}
C_SMALLER: dict[str, Options] = {  # scale -> options of data set C; the paper scale has the full one
    "small": {"users": 40, "requests": 4_000, "duration": "3min"},
    "tiny": {"users": 100, "requests": 10_000, "duration": "6min"},
    "quick": {"users": 120, "requests": 12_000, "duration": "8min"},
}


def limited(
    variant: str,
    data_set: str,
    options: Options | None = None,
    capacity: int | None = None,
    nodes: int = NODES,
    **more: object,
) -> RunSpec:
    """One variant on one data set under the readings ``options``; ``more``: of the system (``gossip="900ms"``).

    On one node, where nothing is gossiped, it is the thesis' centralised counter or queue (5.1.2).  ``capacity``:
    instead of that reading.
    """
    chosen = options or {}
    tokens = readings.CAPACITY.of(chosen) if capacity is None else capacity
    load: Options = {} if tokens == CAPACITY else {"capacity": tokens}  # without defaults: equal points are one run
    limit = {**load, "rate": f"{tokens / FILL_S:g}"} if load else {}
    own = dict(VARIANTS[variant])
    system = own.pop("system")
    told = readings.of_system(system, chosen) if nodes > 1 else {}
    offered = {"set": data_set, **load, **readings.of_load(data_set, chosen)}
    return on_mesh(system, {**limit, **own, **told, **more}, "data-set", offered, nodes)


def on_mesh(
    system: str, options: Options, workload: str, load: Options, nodes: int = NODES, delay: str = "0ms"
) -> RunSpec:
    """A system with its options under a workload with its own, on a full mesh."""
    return RunSpec(
        system=system,
        system_options=dict(options),
        workload=workload,
        workload_options=dict(load),
        topology="full-mesh",
        topology_options={"nodes": nodes, "delay": delay},
        study="limiting",
    )


def on_d(system: str, nodes: int = NODES, delay: str = "0ms", draw: int = 0, **options: object) -> RunSpec:
    """A system on data set D; ``options``: of the system, beside the limit; ``draw``: of the gossip."""
    spec = on_mesh(system, {**D_LIMIT, **options}, "data-set", {"set": "D", **D_LIMIT}, nodes, delay)
    return msgspec.structs.replace(spec, study_options={"draw": draw}) if draw else spec


def at(scale: Scale, specs: Sequence[RunSpec]) -> list[RunSpec]:
    """The specs with the physics of ``scale``."""
    return [_small(spec) for spec in specs] if scale.physics == "small" else list(specs)


def same(data_set: str, variants: Sequence[str]) -> Callable[[Scale, Options], list[RunSpec]]:
    """A figure's points: variants on one data set, the same at every scale but for small."""
    return lambda scale, options: at(scale, [limited(variant, data_set, options) for variant in variants])


def _small(spec: RunSpec) -> RunSpec:
    topology, study = dict(spec.topology_options), {"drain": SMALL_DRAIN, **spec.study_options}
    if topology.get("nodes") == NODES:
        topology["nodes"] = SMALL_NODES
    if span := SMALL_SPANS.get(spec.workload_options.get("set", "")):
        study.setdefault("duration", span)
    return msgspec.structs.replace(spec, topology_options=topology, study_options=study)
