"""One trial: a schedule is played in virtual time, and its history judged by the system's invariants."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from traceback import extract_tb

import msgspec

from core.errors import HarnessError, SpecError, one_line
from core.registry import configure
from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.plane import SoakPlane
from harness.soak.schedule import SoakSchedule
from systems.api import Invariant, Node, Report, RunHistory, Step, System
from systems.invariants import COMMON
from systems.loader import load_system
from systems.placement.cast import AGENT
from systems.placement.options import Options
from testbed.faults import ClockSkew, Crash, Fault, Restart
from testbed.topologies.topology import SWITCH, Host, Link, Topology, mesh
from testbed.virtual.scheduler import EventLoop, event_loop

# All nodes are idle, and replicas equal, at most so long after the last fault and the last request: a stream sends
# again what was lost after a second at most (``testbed.nodes.retransmission``), and what then comes is passed on in
# rounds of 0.3 to 3 s.  Of 2,000 schedules none took longer than 8 s.
REST_NS = 20 * SECOND_NS
LINE_REST_NS = 130 * SECOND_NS  # where requests wait in a line for tokens, which come at a rate of one a second
_STEP_NS = 470 * MILLISECOND_NS  # no multiple of anybody's period
PATIENCE_NS = 4 * SECOND_NS  # nobody is at rest before: what is said last is still to be taken in
PLACED_PATIENCE_NS = 20 * SECOND_NS  # for sessions that run out and brokers that are taken for dead
PLACED_REST_NS = PLACED_PATIENCE_NS + REST_NS
# Clients are served, and stay so, unless all topics go round, or have to leave a broker even where no other is better.
LASTING_NS = 5 * SECOND_NS

HISTORY = "one seed, one history"
RULES = "keeps its interface"  # the invariant that the referee of every run keeps


class Breach(msgspec.Struct, frozen=True, omit_defaults=True):
    """An invariant did not hold in a trial.  ``error``: of which kind what ended it was, where an error did."""

    invariant: str
    at_ns: int
    node: str
    what: str
    error: str = ""


@dataclass(frozen=True)
class Played:
    """A trial's outcome; ``steps``: as far as it went."""

    schedule: SoakSchedule
    breaches: tuple[Breach, ...]
    steps: Sequence[Step]


def invariants_of(system: System) -> tuple[Invariant, ...]:
    """Those of all systems, and its own."""
    return (*COMMON, *system.invariants)


def play(schedule: SoakSchedule, twice: bool = False) -> Played:
    """Play and judge; ``twice``: and play it again, to see the very same.  SpecError for what makes no schedule."""
    played = _play(schedule)
    if twice:
        again = _play(schedule)
        if repr(again.steps) != repr(played.steps):
            at_ns, node = _parting(played.steps, again.steps)
            breach = Breach(HISTORY, at_ns, node, "another history the second time")
            return Played(schedule, (*played.breaches, breach), played.steps)
    return played


def _parting(steps: Sequence[Step], others: Sequence[Step]) -> tuple[int, str]:
    for step, other in zip(steps, others, strict=False):
        if repr(step) != repr(other):
            return step.true_ns, step.node
    return 0, ""


@dataclass(frozen=True)
class SoakStage:
    """What a schedule is played on: ``loop`` has been told of all its faults, requests and reports."""

    system: System
    config: object
    everyone: list[str]
    topology: Topology
    loop: EventLoop


def staged(schedule: SoakSchedule) -> SoakStage:
    """SpecError for what makes no schedule."""
    system = load_system(schedule.system)
    config = configure(f"system {schedule.system}", system.config, schedule.options)
    if system.nodes is None:
        raise SpecError(f"system {schedule.system} has no nodes", "name one whose nodes talk")
    everyone = list(system.nodes(list(schedule.nodes), config, 0))
    topology, faults = ground(schedule, everyone), schedule.faults()
    loop = _loop(schedule, system, config, topology)
    loop.fail(faults)
    for node, offered in schedule.load().items():
        loop.offer(node, offered)
    for told in schedule.told:
        loop.inject(told.node, told.at_ns, Report(told.measurement()))
    return SoakStage(system, config, everyone, topology, loop)


def _play(schedule: SoakSchedule) -> Played:
    stage = staged(schedule)
    loop = stage.loop
    try:
        at_rest = _run_placed(loop, schedule) if isinstance(stage.config, Options) else _run(loop, schedule)
        history = _history(schedule, stage, at_rest)
    except Exception as error:  # whoever raised it: without the seed nobody could look
        return Played(schedule, (ended(error, loop.now_ns),), loop.journal.steps)
    return Played(schedule, judged(history, invariants_of(stage.system)), history.steps)


def judged(history: RunHistory, invariants: Iterable[Invariant]) -> tuple[Breach, ...]:
    """Those of the invariants that do not hold, and that cannot be judged."""
    breaches = []
    for invariant in invariants:
        try:
            violation = invariant.broken(history)
        except Exception as error:
            breaches.append(ended(error, history.end_ns, invariant.name))
            continue
        if violation is not None:
            breaches.append(Breach(invariant.name, *violation))
    return tuple(breaches)


def ended(error: Exception, at_ns: int = 0, invariant: str = RULES) -> Breach:
    """A trial that an error ended, or an invariant that could not be judged for it."""
    return Breach(invariant, at_ns, "", _said(error), _kind(error))


def _said(error: Exception) -> str:
    """Its words; of what is no sentence of ours, or has a cause that is none, the kind and the place as well."""
    if not isinstance(error, HarnessError):
        return one_line(f"{type(error).__name__} in {_place(error)}: {error}")
    cause = error.__cause__
    return str(error) if cause is None else one_line(f"{error} (in {_place(cause)})")


def _kind(error: Exception) -> str:
    """What errors that are the same have in common: the type, of a node's failure its own; of sentences, which it is.

    Which it is shows in where it is said, and not in its words: these have names and numbers in them.
    """
    cause = error.__cause__ if isinstance(error, HarnessError) else error
    if cause is not None:
        return type(cause).__name__
    frames = extract_tb(error.__traceback__)[-2:]  # the referee's are said in one place, for all its rules
    return " ".join([type(error).__name__, *(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)])


def _place(error: BaseException) -> str:
    """File and line in which it was raised."""
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "an unknown place"


def _loop(schedule: SoakSchedule, system: System, config: object, topology: Topology) -> EventLoop:
    plane = SoakPlane() if isinstance(config, Options) else None
    loop = event_loop(
        system,
        config,
        topology,
        schedule.nodes,
        schedule.seed,
        plane,
        keep_steps=True,
        clock_offsets_ns=schedule.clocks_ahead_ns,
    )
    if plane is not None:
        loop.report_every(SECOND_NS)
    return loop


def _run(loop: EventLoop, schedule: SoakSchedule) -> bool:
    """Until all are idle, with nothing under way; False where that takes too long."""
    until_ns = healed_ns(schedule) + (LINE_REST_NS if schedule.options.get("line") else REST_NS)
    loop.run(healed_ns(schedule) + PATIENCE_NS)
    while not _is_quiet(loop):
        if loop.now_ns >= until_ns:
            return False
        loop.run(min(loop.now_ns + _STEP_NS, until_ns))
    return True


def _run_placed(loop: EventLoop, schedule: SoakSchedule) -> bool:
    """Placements never stop to talk: until all clients have been connected for a while; False where that takes long."""
    until_ns = healed_ns(schedule) + PLACED_REST_NS
    goes_round = schedule.options.get("periodic") or not schedule.options.get("stay", True)
    lasting_ns = 0 if goes_round else LASTING_NS
    loop.run(healed_ns(schedule) + PLACED_PATIENCE_NS)
    since_ns = loop.now_ns
    while not _are_idle(loop) or loop.now_ns - since_ns < lasting_ns:
        if loop.now_ns >= until_ns:
            return False
        loop.run(min(loop.now_ns + _STEP_NS, until_ns))
        if not _are_idle(loop):
            since_ns = loop.now_ns
    return True


def healed_ns(schedule: SoakSchedule) -> int:
    """The last fault, or the last request if that is later: until then there is always something to be said."""
    return max(schedule.load_end_ns, *schedule.instants_ns())


def _is_quiet(loop: EventLoop) -> bool:
    quiet = loop.is_quiet()
    return _are_idle(loop) and not loop.in_flight_count if quiet is None else quiet


def _are_idle(loop: EventLoop) -> bool:
    return all(node.idle() for node in loop.living().values() if hasattr(node, "idle"))


def _history(schedule: SoakSchedule, stage: SoakStage, at_rest: bool) -> RunHistory:
    topology, loop = stage.topology, stage.loop
    living: Mapping[str, Node] = loop.living()
    names = [name for name in topology.node_names() if name in set(stage.everyone)]
    delays = [topology.path(a, b).one_way_delay_ns for a in names for b in names]
    faults = schedule.faults()
    return RunHistory(
        stage.system,
        stage.config,
        tuple(stage.everyone),
        loop.journal.steps,
        frozenset(str(row["kind"]) for trouble in schedule.troubles for row in trouble),
        outages_of(faults, loop.now_ns),
        clocks_apart_ns(schedule, faults),
        max(delays) + schedule.jitter_ns,
        at_rest,
        loop.now_ns,
        loop.states(),
        {name: node.holds() for name, node in living.items() if hasattr(node, "holds")},
    )


def outages_of(faults: Iterable[Fault], end_ns: int) -> dict[str, tuple[tuple[int, int], ...]]:
    """Node -> spans (ns) in which it is down, by the crashes among ``faults``."""
    outages: dict[str, list[tuple[int, int]]] = {}
    for fault in faults:
        if isinstance(fault, Crash):
            outages.setdefault(fault.node, []).append((fault.at_ns, end_ns))
        elif isinstance(fault, Restart):
            outages[fault.node][-1] = outages[fault.node][-1][0], fault.at_ns
    return {node: tuple(spans) for node, spans in outages.items()}


def clocks_apart_ns(schedule: SoakSchedule, faults: Iterable[Fault]) -> int:
    """How far apart the nodes' clocks may be at most (ns)."""
    offsets_ns = [0, *schedule.clocks_ahead_ns.values()]
    offsets_ns += [fault.offset_ns for fault in faults if isinstance(fault, ClockSkew)]
    return max(offsets_ns) - min(offsets_ns)


def ground(schedule: SoakSchedule, everyone: Sequence[str]) -> Topology:
    """A full mesh; or a host a node, each on one link to the switch where it begins.  Agents run beside their node."""
    if not schedule.homes:
        return mesh("soak", list(everyone), schedule.delay_ns, schedule.jitter_ns)
    agents = {name for name in everyone if name.endswith(AGENT)}
    hosts = [
        Host(name, nodes=(name, name + AGENT) if name + AGENT in agents else ())
        for name in everyone
        if name not in agents
    ]
    switches = sorted(set(schedule.homes.values()) | {"left", "middle", "right"})
    lost = [host.name for host in hosts if host.name not in schedule.homes]
    if lost:
        raise SpecError(f"homes: there is none for {lost[0]}", "give each node the switch where it begins, or no homes")
    ends = [(host.name, schedule.homes[host.name]) for host in hosts]
    ends += list(pairwise(switches))
    links = tuple(Link(a, b, schedule.delay_ns, schedule.jitter_ns) for a, b in ends)
    return Topology("soak", (*hosts, *(Host(name, role=SWITCH) for name in switches)), links)
