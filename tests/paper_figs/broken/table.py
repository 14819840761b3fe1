"""Claim, broken system: what takes each comparative claim away.  Declarative, a ``Play`` a figure.

``identical``: one is the other under a name of its own; ``reversed``: each is the other; ``frozen``: one never acts.
Where a claim compares points and not systems, the points are: more brokers, longer periods.
"""

from collections.abc import Callable
from typing import Any

from harness.experiment import RunSpec
from systems.parts.laplacian import optimal_cycle
from systems.parts.throttling_graphs import Graph, laplacian, weighted
from tests.paper_figs.broken.machine import Broken, Play, Swap, frozen, identical, reversed_
from workloads.uav_swarms import topics_of

LB, CONC, MAX_MIN, SRTM = ({"system": name} for name in ("lb", "conc", "max-min", "srtm"))
COUNTER, QUEUE, CENTRAL, LOG = (
    {"system": name} for name in ("crdt-counter", "crdt-queue", "centralised", "sliding-log")
)
EPULSAR, PULSAR, ALL_PAIRS = ({"system": name} for name in ("epulsar", "pulsar", "all-pairs"))
GOSSIP_PLACER = {"system": "gossip-placer"}


def only(key: str, *values: object) -> Callable[[RunSpec], bool]:
    """Keep the points with these values of an option, and those that lack it."""

    def keeps(spec: RunSpec) -> bool:
        axis, _, option = key.partition(".")
        told = getattr(spec, f"{axis}_options")
        return option not in told or told[option] in values

    return keeps


def set_to(key: str, value: object, *others: object) -> Broken:
    """All these values of an option are another: what it does never shows."""
    swaps = tuple(Swap({key: other}, {key: value}) for other in others)
    return Broken(f"frozen: {key.partition('.')[2]} is always {value}", swaps)


def exchanged(key: str, one: object, other: object) -> Broken:
    """Two values of an option change names."""
    return reversed_({key: one}, {key: other}, f"{key.partition('.')[2]} {one} and {other}")


def rows_of(name: str, order: tuple[int, ...]) -> Broken:
    """Placement policies, which one run compares, in another order (``studies.policies.study.POLICIES``)."""

    def change(original: Any) -> Any:
        return lambda results: original(results[:, list(order)])

    return Broken(name, patches={"studies.policies.study.policy_rows": change})


UNSPLIT = set_to("topology.brokers", 1, 2, 3, 4, 5, 6)
NEVER_AT_ONCE = set_to("workload.group_size", 1, 60)
NO_BENEFIT = identical(LB, CONC)
BLIND = identical(SRTM, MAX_MIN)
AS_SRTM, SRTM_REVERSED = identical(MAX_MIN, SRTM), reversed_(MAX_MIN, SRTM)
ONE_SPREAD = set_to("workload.spread", "2ms", "4ms", "8ms", "12ms", "16ms")
BATCHES, SIZES = exchanged("workload.batch", 1, 10), exchanged("workload.publishers", 8_000, 10_000)
SAME_QUEUE = identical(QUEUE, COUNTER)
SWAPPED = reversed_(QUEUE, COUNTER)
POLICIES_ALIKE = rows_of("identical: pulsar and all-pairs are epulsar", (2, 2, 2, 3))
POLICIES_REVERSED = rows_of("reversed: epulsar and pulsar", (2, 1, 0, 3))

BY_RATE = identical({"system.start": "model"}, {"system.start": "capacity"}, "no search starts from a model")
WASTEFUL = frozen({"system.start": "model"}, {"system.drain": 5.0}, "the model takes brokers for five times as slow")

SRTM_PLAYS = (
    Play(("srtm-eq1",), (UNSPLIT, identical(SRTM, LB), NEVER_AT_ONCE),
         {"R2": (UNSPLIT.name,), "R22": (UNSPLIT.name,), "R21": (NEVER_AT_ONCE.name, "identical: srtm is lb")}),
    Play(("srtm-fig4",), (UNSPLIT,), {"R3": (UNSPLIT.name,)}),
    Play(("srtm-fig4-1000",), (UNSPLIT,), {"R4": (UNSPLIT.name,)}),
    Play(("srtm-fig5",), (NO_BENEFIT, identical(CONC, LB), reversed_(LB, CONC)),
         {"R5": (NO_BENEFIT.name, "identical: conc is lb", "reversed: lb is conc"), "R6": (NO_BENEFIT.name,),
          "R7": (NO_BENEFIT.name,)}),
    Play(("srtm-fig6",),
         (identical(MAX_MIN, CONC), BATCHES, SIZES),
         {"R8": ("identical: max-min is conc",), "R9": ("identical: max-min is conc",),
          "R10": (BATCHES.name,), "R11": (SIZES.name,)}),
    Play(("srtm-fig7",), (AS_SRTM, SRTM_REVERSED),
         {claim: (AS_SRTM.name, SRTM_REVERSED.name) for claim in ("R13", "R27")}),
    Play(("srtm-fig8",), (AS_SRTM, SRTM_REVERSED),
         {"R14": (AS_SRTM.name, SRTM_REVERSED.name)}, keep=only("workload.group_size", 10, 20, 30)),
    Play(("srtm-fig9",), (BLIND, SRTM_REVERSED, ONE_SPREAD),
         {"R15": (BLIND.name, SRTM_REVERSED.name), "R16": (ONE_SPREAD.name,)}),
    Play(("srtm-table1",), (set_to("workload.group_size", 5, 10, 15, 20, 25, 30),),
         {claim: ("frozen: group_size is always 5",) for claim in ("R12", "R17")}),
    Play(("srtm-sweep",), (NO_BENEFIT, identical(MAX_MIN, CONC), BLIND),
         {**{claim: (NO_BENEFIT.name,) for claim in ("M1", "M7")}, "M2": ("identical: max-min is conc",),
          **{claim: (BLIND.name,) for claim in ("M3", "M4", "M5", "M6")}}),
    Play(("srtm-starts",), (BY_RATE, WASTEFUL),
         {"M10": (BY_RATE.name,), "M11": (BY_RATE.name,), "M12": (WASTEFUL.name,)}),
    Play(("srtm-adaptor",), (identical({"system.enabled": True}, {"system.enabled": False}, "the adaptor is off"),),
         {"R20": ("identical: the adaptor is off",)}, tier="fast"),
)  # fmt: skip


def shared_as(one: str, other: str) -> Broken:
    """A way of sharing is another."""
    return identical({"study.sharing": one}, {"study.sharing": other})


NO_STORE, FREE_COUNT, PAID = shared_as("central", "split"), shared_as("counter", "split"), shared_as("leases", "ideal")
SPREAD = identical(SRTM, LB)
KEYS_RIGHT = set_to("workload.wrong", 0.0, 0.5, 1.0)
NO_ADAPTOR = frozen({"system": "tb-adaptor"}, {"system.enabled": False}, "TB Adaptor only reports")
NO_MOVES = frozen({"study.migrates": True}, {"study.migrates": False}, "nobody moves")
NO_SHIFT = set_to("workload.share_after", 0.5, 0.6, 0.9)
EVERYBODY = frozen({"study.migrates": True}, {"study.high": 0.5}, "half a capacity is too much")
SLOW = set_to("study.interval", "10s", "100ms")
STORE_IS_SPLIT = shared_as("store", "split")
SELDOM = set_to("study.gap", "300s", "30s", "60s")
NEVER_FAST, NEVER_SLOW = set_to("study.interval", "1s", "10ms"), set_to("study.interval", "10ms", "1s")
DRL_PLAYS = (
    Play(("drl-frontier",), (NO_STORE, FREE_COUNT, PAID, SPREAD),
         {"F1": (PAID.name,), "F2": (FREE_COUNT.name,), "F3": (NO_STORE.name,), "F4": (SPREAD.name,),
          "F5": (NO_STORE.name, SPREAD.name), "F6": (NO_STORE.name,), "F7": (NO_STORE.name,)}),
    Play(("drl-shift",), (NO_ADAPTOR, NO_MOVES, NO_SHIFT, EVERYBODY),
         {"F8": (NO_ADAPTOR.name, NO_SHIFT.name), "F9": (NO_SHIFT.name,), "F10": (NO_MOVES.name,),
          "F11": (NO_ADAPTOR.name, NO_MOVES.name), "F12": (NO_MOVES.name, EVERYBODY.name)}),
    Play(("drl-interval",), (PAID, FREE_COUNT, SLOW, NEVER_FAST, NEVER_SLOW),
         {"F13": (PAID.name,), "F14": (FREE_COUNT.name, NEVER_FAST.name, NEVER_SLOW.name),
          "F15": (FREE_COUNT.name, NEVER_FAST.name), "F16": (SLOW.name,)}),
    Play(("drl-topics",), (SPREAD, BLIND, STORE_IS_SPLIT, SELDOM),
         {"F17": (SPREAD.name,), "F18": (STORE_IS_SPLIT.name,), "F19": (STORE_IS_SPLIT.name, SELDOM.name),
          "F20": (BLIND.name,)}),
    Play(("drl-keys",), (KEYS_RIGHT, BLIND, SRTM_REVERSED),
         {"K1": (BLIND.name,), **{claim: (KEYS_RIGHT.name,) for claim in ("K2", "K3", "K4", "K5")},
          "K6": (BLIND.name, SRTM_REVERSED.name)}),
)  # fmt: skip

NEVER_URGENT = frozen({"system.frequency": True}, {"system.frequency": False}, "F never finds anybody urgent")
NEVER_LINF = frozen({"system.linf": True}, {"system.linf": False}, "L never chooses")
CRDT_PLAYS = (
    Play(("crdt-fig5.1",), (identical(COUNTER, CENTRAL),),
         {"T1": ("identical: crdt-counter is centralised",)}),
    Play(("crdt-fig5.2",), (frozen(COUNTER, {"system.capacity": 600}, "the counter has another limit"),),
         {"T2": ("frozen: the counter has another limit",)}),
    Play(("crdt-fig5.3",), (NEVER_URGENT, NEVER_LINF), {"T3": (NEVER_URGENT.name,), "T4": (NEVER_LINF.name,)}),
    Play(("crdt-fig5.4",), (SAME_QUEUE, NEVER_LINF, NEVER_URGENT),
         {"T5": (SAME_QUEUE.name,), "T6": (NEVER_LINF.name,), "T7": (SAME_QUEUE.name,)}),
    Play(tuple(f"crdt-fig5.{number}" for number in range(5, 13)), (SAME_QUEUE, SWAPPED),
         {claim: (SAME_QUEUE.name, SWAPPED.name)
          for claim in ("T8", "T9", "T10", "T11", "T12", "T13", "T14", "T15", "T16", "T17")}),
    Play(("crdt-fig5.13",), (SAME_QUEUE, SWAPPED), {"T18": (SAME_QUEUE.name, SWAPPED.name)}),
    Play(("crdt-fig5.14",), (SAME_QUEUE, SWAPPED), {"T27": (SAME_QUEUE.name, SWAPPED.name)}),
    Play(("crdt-fig5.15",), (set_to("system.gossip", "300ms", "450ms", "600ms", "750ms", "900ms"),),
         {"T19": ("frozen: gossip is always 300ms",)}),
    Play(("crdt-fig5.16",), (set_to("system.gossip", "300ms", "450ms", "900ms"),),
         {"T20": ("frozen: gossip is always 300ms",)}),
    Play(("crdt-fig4.1", "crdt-fig4.2"), (identical(LOG, QUEUE), reversed_(LOG, QUEUE)),
         {"T23": ("identical: sliding-log is crdt-queue",)}),
    Play(("crdt-fig4.2",), (identical(LOG, QUEUE), reversed_(LOG, QUEUE)),
         {"T24": ("identical: sliding-log is crdt-queue", "reversed: sliding-log is crdt-queue")}),
    Play(("crdt-nodes",), (set_to("topology.nodes", 3, 10, 30),), {"T25": ("frozen: nodes is always 3",)}),
    Play(("crdt-fig5.16", "crdt-outlook"), (set_to("topology.delay", "0ms", "100ms", "250ms", "600ms"), SAME_QUEUE),
         {"T22": ("frozen: delay is always 0ms", SAME_QUEUE.name)}),
)  # fmt: skip


def graphs_alike(module: str) -> Broken:
    """Graph #2 is graph #1 in what a figure computes of them."""

    def change(original: Any) -> Any:
        return lambda name, *more: original("dst-1" if name == "dst-2" else name, *more)

    return Broken(
        f"identical: graph #2 is graph #1 ({module})", patches={f"paper_figs.dst.{module}.graph_named": change}
    )


def _kinds_reversed(original: Any) -> Any:
    names = {"path": "complete", "complete": "path"}
    return lambda graph: names.get(original(graph), original(graph))


def _one_weight(original: Any) -> Any:
    """What a solver finds is one weight on all links, the fastest such."""

    def solved(graph: Graph, *more: Any, **options: Any) -> Any:
        alike = weighted(graph, optimal_cycle(laplacian(weighted(graph, 1.0))))
        return original(graph, *more, **options)._replace(graph=alike)

    return solved


def _lopsided(original: Any) -> Any:
    """What a solver finds has next to nothing on its first link."""

    def solved(graph: Graph, *more: Any, **options: Any) -> Any:
        found = original(graph, *more, **options)
        weights = [weight * (0.1 if number == 0 else 1.0) for number, weight in enumerate(found.graph.weights)]
        return found._replace(graph=weighted(graph, weights))

    return solved


def solved_by(name: str, change: Callable[[Any], Any]) -> Broken:
    """Both semidefinite programs have another answer."""
    solvers = ("fastest", "most_robust")
    return Broken(name, patches={f"systems.parts.link_weights.{solver}": change for solver in solvers})


ONE_WEIGHT = solved_by("identical: the best weights are one weight", _one_weight)
LOPSIDED = solved_by("reversed: the best weights are worse than one weight", _lopsided)
ONE_GRAPH = identical({"system.graph": "dst-2"}, {"system.graph": "dst-1"}, "graph #2 is graph #1")
DST_PLAYS = (
    Play(("dst-fig5",),
         (ONE_GRAPH, reversed_({"system.graph": "dst-2"}, {"system.graph": "dst-1"}, "the graphs"),
          set_to("topology.delay", "0ms", "100ms", "200ms"), graphs_alike("iterated")),
         {"S6": ("identical: graph #2 is graph #1 (iterated)",), "S13": (ONE_GRAPH.name, "reversed: the graphs"),
          "S19": ("frozen: delay is always 0ms",)}),
    *(Play((f"dst-{table}",), (graphs_alike(table.replace("-", "_")),),
           {claim: (f"identical: graph #2 is graph #1 ({table})",) for claim in claims}, tier="fast")
      for table, claims in (("table3", ("S4",)), ("table4", ("S5",)))),
    Play(("dst-topologies",),
         (Broken("reversed: path and complete graph", patches={"paper_figs.dst.topologies.kind_of": _kinds_reversed}),),
         {"S8": ("reversed: path and complete graph",)}, tier="fast"),
    Play(("dst-weights",),
         (ONE_WEIGHT, LOPSIDED),
         {"S9": (ONE_WEIGHT.name, LOPSIDED.name), "S10": (ONE_WEIGHT.name, LOPSIDED.name)}, tier="fast"),
    Play(("dst-table2",), (LOPSIDED,), {"S7": (LOPSIDED.name,)}, tier="fast"),
    Play(("dst-fig7",),
         (identical({"system.rule": "water-filling"}, {"system.rule": "equal-ratio"}, "Algorithm 2 is Algorithm 1"),),
         {"S14": ("identical: Algorithm 2 is Algorithm 1",)}, tier="fast"),
)  # fmt: skip

NO_CENTRE_IS_ONE = identical(GOSSIP_PLACER, EPULSAR)
SWARM_TOPICS = [name for swarm in range(1, 17) for name in topics_of(swarm)]
OVER_SWARMS = {**GOSSIP_PLACER, "workload": "uav-swarms"}
RESTLESS = {"system.bounds": dict.fromkeys(SWARM_TOPICS, "1ms"), "system.stay": False}
CHASING = frozen(OVER_SWARMS, RESTLESS, "brokers move what they own wherever it is")
AS_PULSAR = identical(OVER_SWARMS, PULSAR, "gossip-placer is pulsar, over swarms")

EPULSAR_PLAYS = (
    Play(("epulsar-fig4",), (POLICIES_ALIKE, POLICIES_REVERSED),
         {"E4": (POLICIES_ALIKE.name, POLICIES_REVERSED.name), "E5": (POLICIES_ALIKE.name, POLICIES_REVERSED.name)},
         tier="long"),
    Play(("epulsar-fig5",), (POLICIES_REVERSED,), {"E6": (POLICIES_REVERSED.name,)}, tier="long"),
    Play(("epulsar-fig6",), (identical(EPULSAR, ALL_PAIRS), reversed_(EPULSAR, ALL_PAIRS)),
         {"E7": ("identical: epulsar is all-pairs", "reversed: epulsar is all-pairs")}),
    Play(("epulsar-fig7",),
         (identical(EPULSAR, PULSAR), reversed_(EPULSAR, PULSAR), set_to("system.executors", 1, 4, 16)),
         {"E8": ("identical: epulsar is pulsar", "reversed: epulsar is pulsar"),
          "E9": ("frozen: executors is always 1",)}),
    Play(("epulsar-fig8",), (identical(EPULSAR, PULSAR),), {"E10": ("identical: epulsar is pulsar",)}),
    Play(("epulsar-fig9",), (identical(EPULSAR, PULSAR),), {"E11": ("identical: epulsar is pulsar",)}),
    Play(("epulsar-fig3",), (set_to("topology.delay", "2.5ms", "5ms", "12.5ms", "25ms", "50ms"),),
         {"E2": ("frozen: delay is always 2.5ms",)}),
    Play(("epulsar-proxies",), (identical({"study.proxied": True}, {"study.proxied": False}, "no proxies"),),
         {"E13": ("identical: no proxies",)}),
    Play(("epulsar-transient",),
         (Broken("frozen: no fault happens, estimates have settled",
                 (Swap({"system": "epulsar"}, {"study.faults": [], "study.warm_up_rounds": 600}),)),),
         {"E14": ("frozen: no fault happens, estimates have settled",)}),
    Play(("epulsar-placer",), (NO_CENTRE_IS_ONE, CHASING, AS_PULSAR),
         {"P1": (AS_PULSAR.name,), "P2": (NO_CENTRE_IS_ONE.name,), "P3": (NO_CENTRE_IS_ONE.name,),
          "P4": (CHASING.name,), "P5": (NO_CENTRE_IS_ONE.name,), "P6": (NO_CENTRE_IS_ONE.name,)}),
)  # fmt: skip

# Claims whose measure compares neither systems nor variants, or that take what is not here.
NOT_COMPARED = {
    "R1 R23": "theorems on one bucket: a bound that no run may cross",
    "R18 R26": "one search, step by step",
    "R19 R24 R25 E3 E12 W1 W2 W3 W4 W5 W6 Q1 Q2 Q3 Q4": "real processes: a live testbed",
    "D1 D2 D3 D4 D5 D6 D7 D8 D9": "deployed limiters: a live testbed",
    "D10 D11 D12 D13": "real servers beside their twins; another in their place: ``test_deployed_staleness``",
    "D20 D21 D22 D23 D24 D25 D26 D27": "deployed limiters under faults: a live testbed",
    "S1 S2 S11 S12 S18 S20": "the law itself, against its own formula",
    "S3 S15 S16 S17": "a formula against another",
    "E1": "the error of the model's estimates, below a bound",
    "T21 T26": "counts on one system that the paper's reckoning gives",
}

# What a broken system does not take away: a finding, (claim, broken system) -> why.
STANDS = {
    ("R21", "identical: srtm is lb"): "no longer reproduced; its direction compares with independent publishers alone",
}

PLAYS = (*SRTM_PLAYS, *CRDT_PLAYS, *DST_PLAYS, *EPULSAR_PLAYS, *DRL_PLAYS)
