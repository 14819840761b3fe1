"""The public conformance suite: ``check_system(system, bench)`` on every registered system.

Nodes: deterministic, messages survive the codec, no clock, I/O or global randomness, and sane
verdicts in a calm network, under loss, in a partition and over a crash.  Distributors: see
``systems.conformance_search``.  A broken rule is a ``core.errors.SystemFault`` of one line.

Systems import only ``core``, so whoever runs the suite brings the bench (in virtual time:
``testbed.virtual.bench.VirtualBench``).
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from core.codec import Codec
from core.errors import SystemFault
from core.records import Request
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Decide, Message, Node, Report, RunHistory, Step, System, TopicReport
from systems.conformance_search import check_search
from systems.invariants import ANYWHERE, undecided
from systems.purity import check_sources, modules_of, traps

NAMES = ("n1", "n2", "n3")
TOPIC = "topic"  # of the reports
_OFFERED_UNTIL_NS = 3 * SECOND_NS
_REQUESTS_PER_NODE = 120
_SEED = 20_240_601


@dataclasses.dataclass(frozen=True)
class FaultScenario:
    """What goes wrong.

    On every link all the time: loss, doubled messages, messages held back; a clock that is ahead all
    the time; in ``trouble_ns`` a crash and restart, empty or with a copy of ``copy_from``'s state, or
    a partition.
    """

    name: str
    loss_probability: float = 0.0
    duplication_probability: float = 0.0
    reordering_probability: float = 0.0
    clocks_ahead_ns: Mapping[str, int] = dataclasses.field(default_factory=dict)
    crash: str | None = None
    copy_from: str = ""
    cut_off: str | None = None
    trouble_ns: tuple[int, int] = (SECOND_NS, 2 * SECOND_NS)
    duration_ns: int = 13 * SECOND_NS


CALM = FaultScenario("a calm network")
CRASH = FaultScenario("a crash", crash="n2")
COPIED = FaultScenario("a crash and a re-join by copying", crash="n2", copy_from="n3")
DISORDER = FaultScenario("doubled and reordered messages", duplication_probability=0.2, reordering_probability=0.2)
SKEW = FaultScenario("skewed clocks", clocks_ahead_ns={"n2": 150 * MILLISECOND_NS, "n3": -80 * MILLISECOND_NS})
LOSS, PARTITION = FaultScenario("20 % loss", loss_probability=0.2), FaultScenario("a partition", cut_off="n2")
SCENARIOS = (CALM, LOSS, DISORDER, SKEW, PARTITION, CRASH, COPIED)


class ConformanceBench(Protocol):
    """Runs nodes and holds each to the rules of ``systems.referee.Referee``."""

    def run_nodes(
        self,
        system: System,
        config: object,
        names: Sequence[str],
        requests: Mapping[str, Sequence[Request]],
        reports: Sequence[tuple[int, str, object]],
        scenario: FaultScenario,
        seed: int,
    ) -> Sequence[Step]:
        """Deploy ``system.nodes(names, config, ...)``; every step of every node, in order.

        ``requests``: node -> requests in order of time.  ``reports``: (at_ns, node, measurement).
        """
        ...


def check_system(system: System, bench: ConformanceBench, config: object = None) -> None:
    """Raise SystemFault at the first rule that ``system`` breaks; ``config``: its defaults if not given."""
    try:
        if config is None:
            config = _default_config(system)
        if system.nodes is not None:
            _check_nodes(system, bench, config)
        else:
            modules = modules_of(system)
            check_sources(modules)
            with traps(modules):
                check_search(system, config)
    except SystemFault as fault:
        raise SystemFault(f"system {system.key}: {fault.what}", fault.fix) from fault


def _default_config(system: System) -> object:
    try:
        return system.config()
    except TypeError as error:
        raise SystemFault(f"its config has no defaults: {error}", "give every field one") from None


# --- nodes -----------------------------------------------------------------------------------------


def _check_nodes(system: System, bench: ConformanceBench, config: object) -> None:
    nodes = _made(system, config)
    modules = modules_of(system, [type(node) for node in nodes.values()])
    check_sources(modules)
    for cls in system.messages:
        check_message(cls)
    requests, reports = offered_requests(), offered_reports()
    requests = requests if Arrival in system.inputs else {}
    reports = reports if Report in system.inputs else []
    if system.rehearsal:
        reports = list(system.rehearsal.reports)
    names = names_of(system)
    for scenario in (recast(scenario, names) for scenario in SCENARIOS):
        try:
            with traps(modules):
                first = bench.run_nodes(system, config, names, requests, reports, scenario, _SEED)
            again = bench.run_nodes(system, config, names, requests, reports, scenario, _SEED)
            check_same(first, again)
            if scenario.name == CALM.name:
                check_answers(first, bool(system.servers))
            history = history_of(system, config, first, scenario)
            check_invariants(history)
            if not (scenario.loss_probability or scenario.cut_off):
                # The restarted node has lost what it was asked before, not what it is asked then.
                check_decided(history, scenario.trouble_ns[1] + 1 if scenario.crash else 0)
        except SystemFault as fault:
            raise SystemFault(f"in {scenario.name}: {fault.what}", fault.fix) from fault


def _made(system: System, config: object) -> dict[str, Node]:
    assert system.nodes is not None
    names = names_of(system)
    nodes, others = (system.nodes(list(names), config, _SEED) for _ in range(2))
    missing = set(names) - set(nodes)
    if missing:
        raise SystemFault(f"nodes() made none for {', '.join(sorted(missing))}", "make one for every name given")
    for name, node in nodes.items():
        if not callable(getattr(node, "handle", None)):
            raise SystemFault(f"{name} is a {type(node).__name__} without handle", "see systems.api.Node")
        if node is others.get(name):
            raise SystemFault(f"nodes() returns the same {name} again", "make new nodes, or state survives a crash")
    return nodes


def names_of(system: System) -> tuple[str, ...]:
    """The nodes of the suite's deployment."""
    return system.rehearsal.names if system.rehearsal else NAMES


def recast(scenario: FaultScenario, names: Sequence[str]) -> FaultScenario:
    """``scenario`` with the first of ``names`` in the places of n1, n2 and n3."""
    new = dict(zip(NAMES, names, strict=False))
    return dataclasses.replace(
        scenario,
        clocks_ahead_ns={new[name]: ahead_ns for name, ahead_ns in scenario.clocks_ahead_ns.items()},
        crash=new[scenario.crash] if scenario.crash else None,
        copy_from=new[scenario.copy_from] if scenario.copy_from else "",
        cut_off=new[scenario.cut_off] if scenario.cut_off else None,
    )


def offered_requests() -> dict[str, list[Request]]:
    """What the suite offers: 120 requests of 5 users at each node, at random instants in 3 s."""
    rng = generator(_SEED, "requests")
    requests: dict[str, list[Request]] = {}
    for index, name in enumerate(NAMES):
        instants = np.sort(rng.integers(0, _OFFERED_UNTIL_NS, _REQUESTS_PER_NODE))
        users = rng.integers(0, 5, _REQUESTS_PER_NODE)
        first = index * _REQUESTS_PER_NODE
        rows = enumerate(zip(instants, users, strict=True), first)
        requests[name] = [Request(i, f"user-{user}", int(at_ns)) for i, (at_ns, user) in rows]
    return requests


def offered_reports() -> list[tuple[int, str, object]]:
    """What the suite reports: rates and backlogs of one topic at each node, once a second."""
    rng = generator(_SEED, "reports")
    return [
        (second * SECOND_NS, name, TopicReport(TOPIC, *(float(value) for value in rng.integers(0, 500, 3))))
        for second in range(1, 6)
        for name in NAMES
    ]


def check_same(first: Sequence[Step], again: Sequence[Step]) -> None:
    """Two runs with one seed must be equal."""
    for number, (one, other) in enumerate(zip(first, again, strict=False)):
        if one != other:
            raise SystemFault(
                f"runs with one seed part at step {number}, {one.node} at {one.at_ns / MILLISECOND_NS:g} ms",
                "draw only from the seed, and keep no state outside the nodes",
            )
    if len(first) != len(again):
        raise SystemFault("runs with one seed differ in length", "draw only from the seed")


def check_invariants(history: RunHistory) -> None:
    """What holds at any instant of every system, and what this one declares."""
    for invariant in (*ANYWHERE, *history.system.invariants):
        violation = invariant.broken(history)
        if violation is not None:
            raise SystemFault(f"{violation.node} {violation.what}", f"its invariant: {invariant.name}")


def check_decided(history: RunHistory, since_ns: int) -> None:
    """Every request that arrived from ``since_ns`` on has a verdict."""
    violation = undecided(history, since_ns)
    if violation is not None:
        seconds = (CALM.duration_ns - _OFFERED_UNTIL_NS) // SECOND_NS
        raise SystemFault(f"{violation.node} {violation.what}", f"decide within {seconds} s when nothing is lost")


def history_of(system: System, config: object, steps: Sequence[Step], scenario: FaultScenario) -> RunHistory:
    """A scenario's run, as invariants see it; it ends before anybody need be at rest.  The bench is not instant."""
    faults = {
        "link-loss": scenario.loss_probability,
        "link-duplication": scenario.duplication_probability,
        "link-reordering": scenario.reordering_probability,
        "crash": scenario.crash,
        "partition": scenario.cut_off,
    }
    offsets_ns = [0, *scenario.clocks_ahead_ns.values()]
    return RunHistory(
        system,
        config,
        names_of(system),
        steps,
        frozenset(kind for kind, happens in faults.items() if happens),
        {scenario.crash: (scenario.trouble_ns,)} if scenario.crash else {},
        max(offsets_ns) - min(offsets_ns),
        delay_ns=MILLISECOND_NS,
        end_ns=scenario.duration_ns,
    )


def check_answers(steps: Sequence[Step], asks_servers: bool) -> None:
    """In a calm network every question is answered; but servers are not there, and then nodes must say so."""
    decided = [(step.node, effect) for step in steps for effect in step.effects if isinstance(effect, Decide)]
    alone = [(node, effect.request_id) for node, effect in decided if effect.unanswered]
    if asks_servers and decided and not alone:
        raise SystemFault("decides as if its servers had answered, which are not there", "Decide(…, unanswered=True)")
    if not asks_servers and alone:
        node, request_id = alone[0]
        raise SystemFault(f"{node} had no answer about request {request_id}", "wait longer for it, or ask earlier")


# --- messages --------------------------------------------------------------------------------------


def check_message(cls: type) -> None:
    """A message class is frozen, of plain values, and survives the codec."""
    fix = f"write class {cls.__name__}(Message, frozen=True)"
    if not issubclass(cls, Message):
        raise SystemFault(f"message class {cls.__name__} is not below systems.api.Message", fix)
    if not cls.__struct_config__.frozen:
        raise SystemFault(f"message class {cls.__name__} is not frozen", fix)
    codec = Codec((cls,))
    for variant in range(3):
        try:
            message = example(cls, variant)
        except (AssertionError, ValueError):
            continue  # the class itself refuses such values
        back = codec.decode(codec.encode(message))
        if back != message or type(back) is not cls:
            raise SystemFault(f"{message!r} comes back from the codec as {back!r}", "annotate fields with exact types")


_PLAIN: dict[object, tuple[object, object, object]] = {
    int: (0, 7, -(2**53)),
    float: (0.0, 2.5, -1e300),
    bool: (False, True, True),
    str: ("", "n1", "λ\n" * 20),
    bytes: (b"", b"\x00\xff", b"x" * 300),
    type(None): (None, None, None),
    None: (None, None, None),
    Any: (None, 7, "n1"),
}


def example(kind: object, variant: int) -> object:
    """A value of an annotated type; variant 0 is empty, 1 and 2 are not.  SystemFault on types that are not plain."""
    if kind in _PLAIN:
        return _PLAIN[kind][variant]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)[variant % len(kind)]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _example_of_fields(kind, kind.__struct_fields__, variant)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _example_of_fields(kind, [part.name for part in dataclasses.fields(kind)], variant)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return example(inner[variant % len(inner)], variant)
    if origin is typing.Literal:
        return inner[variant % len(inner)]
    return _example_of_many(kind, origin, inner, variant)


def _example_of_fields(kind: type, names: Sequence[str], variant: int) -> object:
    hints = typing.get_type_hints(kind)
    return kind(**{name: example(hints[name], variant) for name in names})


def _example_of_many(kind: object, origin: object, inner: tuple[object, ...], variant: int) -> object:
    if origin is tuple and not (len(inner) == 2 and inner[1] is ...):
        return tuple(example(part, variant) for part in inner)
    if origin in (list, set, frozenset, tuple):
        return origin(example(inner[0], n) for n in range(variant))
    if isinstance(origin, type) and issubclass(dict, origin):
        return {example(inner[0], n): example(inner[1], n) for n in range(variant)}
    raise SystemFault(f"a message field of type {kind!r} is not plain", "use numbers, text, tuples, dicts, dataclasses")
