"""A schedule of trouble for one live run: all that decides a trial, as plain values.  One seed makes one.

Instants are nanoseconds since the begin of the load.  The run knows its faults: they are in its spec, as rows of
``testbed.faults.read_faults``.  Of ``troubles`` nobody tells it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec
import numpy as np

from core.records import Json
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS, duration_text
from harness.nemesis.grounds import GROUNDS

FREEZES_NS = tuple(span * MILLISECOND_NS for span in (40, 200, 600, 1_500, 3_000))
STEPS_NS = tuple(span * MILLISECOND_NS for span in (-1_000, -50, 50, 1_000))
LOSSES = (0.02, 0.1, 0.3)
HOLDS_NS = tuple(span * MILLISECOND_NS for span in (2, 10, 40, 150))  # ours: paths take 5 to 20 ms
TROUBLES_MOST = 3
AFTER_NS = SECOND_NS // 2  # beyond the load, in which what is under way comes
FULL_DISKS = 0.06  # share of the schedules
SMALL_DISK = "a disk of"  # the words of a trouble
ROOMS_BYTES = tuple(room << 10 for room in (16, 64, 160, 320, 640))  # ours: about what a run writes

Thing = TypeVar("Thing")


class Freeze(msgspec.Struct, frozen=True, tag="freeze"):
    """SIGSTOP for a process, and SIGCONT after a while."""

    at_ns: int
    process: str  # its name on the site
    span_ns: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """SIGKILL for a process."""

    at_ns: int
    process: str


class FullDisk(msgspec.Struct, frozen=True, tag="full-disk"):
    """The run's folders, and that of its results, have so much room."""

    room_bytes: int


class ClockStep(msgspec.Struct, frozen=True, tag="clock-step"):
    """The machine's clock is set forward, or back; in the project's own VM alone."""

    at_ns: int
    by_ns: int


Trouble = Freeze | Kill | FullDisk | ClockStep


class LiveSchedule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trial.  ``ground``: the run, one of ``GROUNDS``; ``load_ns``: how long its load lasts.

    ``grounds``: those that it was drawn from, in their order; none: all.
    """

    seed: int
    ground: str
    testbed: str
    load_ns: int
    faults: tuple[Json, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    grounds: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """What replays it."""
        words = [f"--first {self.seed} --count 1 --testbed {self.testbed} --seconds {self.load_ns / SECOND_NS:g}"]
        words += [f"--ground {name}" for name in self.grounds]
        words += ["--clock" for trouble in self.troubles if isinstance(trouble, ClockStep)]
        return " ".join(["python -m harness.nemesis", *words])

    @property
    def full_disk(self) -> FullDisk | None:
        """The disk, where it has too little room."""
        return next((trouble for trouble in self.troubles if isinstance(trouble, FullDisk)), None)

    def lines(self, why_not: Mapping[Trouble, str] = MappingProxyType({})) -> list[str]:
        """All that goes wrong, in words; ``why_not``: what did not come to pass."""
        told = [f"told: {' '.join(str(value) for value in row.values())}" for row in self.faults]
        missed = {trouble: f" (not done: {why})" for trouble, why in why_not.items()}
        return told + [words_of(trouble) + missed.get(trouble, "") for trouble in self.troubles]


def with_step(schedule: LiveSchedule) -> LiveSchedule:
    """The same, and a step of the clock; on a small disk nobody would set it."""
    if schedule.full_disk:
        return schedule
    rng = generator(schedule.seed, "nemesis", "clock")
    step = ClockStep(int(rng.integers(schedule.load_ns // 20, schedule.load_ns)), _one(rng, STEPS_NS))
    return msgspec.structs.replace(schedule, troubles=(*schedule.troubles, step))


def draw(seed: int, testbed: str, load_ns: int, grounds: tuple[str, ...] = ()) -> LiveSchedule:
    """The schedule of a seed, of one of ``grounds``, or of all; with links only where the testbed has some."""
    rng = generator(seed, "nemesis")
    names = grounds or tuple(GROUNDS)
    weights = np.array([GROUNDS[name].weight for name in names])
    name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
    ground = GROUNDS[name]
    if rng.random() < FULL_DISKS:
        return LiveSchedule(seed, name, testbed, load_ns, (), (FullDisk(_one(rng, ROOMS_BYTES)),), grounds)
    kinds = ["freeze", "freeze", "kill", "crash", *(("partition", "loss", "delay") if testbed != "local" else ())]
    kinds += ["server"] * 3 if ground.servers else []
    chosen = [_one(rng, kinds) for _ in range(int(rng.integers(1, TROUBLES_MOST + 1)))]
    victims = [ground.processes[number] for number in rng.permutation(len(ground.processes))]  # each once
    nodes, server, how = ground.nodes, "", _one(rng, ("freeze", "kill", "restart"))
    if "server" in chosen:
        server = next(victim for victim in victims if victim in ground.servers)
        victims.remove(server)  # it has its strike
        if how == "restart":  # with its node, of which there is one crash
            nodes, chosen = (ground.servers[server],), ["crash" if kind == "server" else kind for kind in chosen]
    faults: list[Json] = []
    troubles: list[Trouble] = []
    for kind in sorted(set(chosen)) + [kind for kind in ("freeze",) if chosen.count(kind) > 1]:
        at_ns = int(rng.integers(load_ns // 20, load_ns + AFTER_NS)) // MILLISECOND_NS * MILLISECOND_NS
        act, struck = (how, server) if kind == "server" else (kind, "")
        if act == "freeze":
            troubles.append(Freeze(at_ns, struck or victims.pop(), _one(rng, FREEZES_NS)))
        elif act == "kill":
            troubles.append(Kill(at_ns, struck or victims.pop()))
        elif kind == "crash":
            faults += _crash(_span(at_ns, load_ns, rng), _one(rng, nodes), ground.restarts)
        else:
            faults += _on_links(kind, _span(at_ns, load_ns, rng), ground.sides, rng)
    return LiveSchedule(seed, name, testbed, load_ns, tuple(faults), tuple(troubles), grounds)


def _span(at_ns: int, load_ns: int, rng: np.random.Generator) -> tuple[int, int]:
    """When a fault that the run is told of begins and ends, within the load."""
    at_ns = min(at_ns, load_ns * 3 // 4)
    return at_ns, at_ns + int(rng.integers(load_ns // 20, load_ns // 4 + 1)) // MILLISECOND_NS * MILLISECOND_NS


def _crash(span_ns: tuple[int, int], node: str, restarts: bool) -> list[Json]:
    since, until = map(duration_text, span_ns)
    crash: Json = {"kind": "crash", "at": since, "node": node}
    return [crash, {"kind": "restart", "at": until, "node": node}] if restarts else [crash]


def _on_links(kind: str, span_ns: tuple[int, int], sides: tuple[str, ...], rng: np.random.Generator) -> list[Json]:
    """Of partitions one side is drawn; all links lose, or take longer, which changes once before it ends."""
    since, until = map(duration_text, span_ns)
    if kind == "partition":
        side = [_one(rng, sides)]
        return [{"kind": "partition", "at": since, "side": side}, {"kind": "heal", "at": until, "side": side}]
    everywhere = {"kind": f"link-{kind}", "a": "*", "b": "*"}
    if kind == "loss":
        losses = ((since, _one(rng, LOSSES)), (until, 0.0))
        return [{**everywhere, "at": at, "loss_probability": chance} for at, chance in losses]
    between = duration_text(sum(span_ns) // 2)
    holds_ns = ((since, _one(rng, HOLDS_NS)), (between, _one(rng, HOLDS_NS)), (until, 0))
    return [{**everywhere, "at": at, "hold": duration_text(hold_ns)} for at, hold_ns in holds_ns]


def _one(rng: np.random.Generator, things: "tuple[Thing, ...] | list[Thing]") -> Thing:
    return things[int(rng.integers(len(things)))]


def words_of(trouble: Trouble) -> str:
    """What is done, to whom and when."""
    match trouble:
        case Freeze(at_ns, process, span_ns):
            return f"freeze {process} at {at_ns / SECOND_NS:.2f} s for {span_ns / SECOND_NS:.2f} s"
        case Kill(at_ns, process):
            return f"kill {process} at {at_ns / SECOND_NS:.2f} s"
        case ClockStep(at_ns, by_ns):
            return f"set the clock by {by_ns / SECOND_NS:g} s at {at_ns / SECOND_NS:.2f} s"
        case FullDisk(room_bytes):
            return f"{SMALL_DISK} {room_bytes:,} bytes"
