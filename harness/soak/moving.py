"""Publishers that move, under the soak's faults: nothing is lost, and each publisher's messages come in order.

``python -m harness.soak.moving --count 2000``: the schedules of ``ratebed soak`` that are TB Adaptor's, with the
migrator's nodes beside brokers that carry a topic whose traffic shifts.  Control messages are lost, doubled, held back
and cut off; brokers are killed with their nodes, and come back.  Somebody moves publishers at random besides, also just
before a broker dies, to it and away from it.  What was not acknowledged is offered again by its publisher, and counted;
so are messages that come twice.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count as numbers
from itertools import islice

import numpy as np

from core.records import Envelope
from core.seeds import child_seed, generator
from core.units import MILLISECOND_NS, NEVER_NS, SECOND_NS
from harness.soak.draw import draw, system_of
from harness.soak.schedule import SoakSchedule
from harness.soak.trial import Breach, clocks_apart_ns, ended, ground, healed_ns, judged, outages_of
from systems.api import RunHistory
from systems.distribution import migrator
from systems.distribution.commands import MoveAway
from systems.invariants import ANYWHERE
from testbed.brokers.model import load_calibration
from testbed.faults import Crash
from testbed.trust.moved import MovedMessages
from testbed.virtual.fleet import Fleet
from testbed.virtual.gates import NodeGroup
from testbed.virtual.moving import MovingLoop, MovingPlane
from workloads import load

TOPIC = "topic"
PUBLISHERS, RATE_RPS = 20, 15.0
PATIENCE_NS = 600 * SECOND_NS  # a message that asks a sub-bucket of next to nothing waits longer, and is counted
SETTLES_NS = 4 * SECOND_NS  # when all is offered: whatever was decided last is heard by then
_STEP_NS = 70 * MILLISECOND_NS  # no multiple of anybody's period
WHOLE = Envelope(1.1 * PUBLISHERS * RATE_RPS, 20.0)


@dataclass(frozen=True)
class MovesPlayed:
    """What did not hold, and what was seen."""

    breaches: tuple[Breach, ...]
    seen: Counter[str]


def schedules(first: int) -> Iterator[SoakSchedule]:
    """Those of seeds from ``first`` on that are TB Adaptor's."""
    return (draw(seed) for seed in numbers(first) if system_of(seed) == "tb-adaptor")


def play(schedule: SoakSchedule) -> MovesPlayed:
    """Play and judge; an error that ends it is a breach."""
    try:
        return _play(schedule)
    except Exception as error:  # whoever raised it: without the seed nobody could look
        return MovesPlayed((ended(error),), Counter())


def _play(schedule: SoakSchedule) -> MovesPlayed:
    names, end_ns = list(schedule.nodes), schedule.load_end_ns
    plane = _plane(schedule, names)
    config = migrator.Config(
        **schedule.options,
        enabled=schedule.seed % 2 == 0,
        splits={TOPIC: dict.fromkeys(names, _part(names))},
        capacities_rps=dict.fromkeys(names, 1.3 * PUBLISHERS * RATE_RPS / len(names)),
    )
    everyone = list(migrator.nodes(names, config, 0))
    system, offsets_ns = migrator.SYSTEM, schedule.clocks_ahead_ns
    loop = MovingLoop(
        NodeGroup(system, config, ground(schedule, everyone), names, schedule.seed, 0, True, offsets_ns), plane
    )
    loop.report_every(SECOND_NS // 2)
    for at_ns, source, command in _moves(schedule, names):
        loop.call_at(at_ns, _command, loop, source, command)
    faults = schedule.faults()
    loop.fail(faults)
    loop.run(healed_ns(schedule))
    loop.drain(loop.now_ns + PATIENCE_NS)
    at_rest = _settled(loop)
    history = RunHistory(
        system, config, tuple(everyone), loop.journal.steps,
        frozenset(str(row["kind"]) for trouble in schedule.troubles for row in trouble),
        outages_of(faults, loop.now_ns), clocks_apart_ns(schedule, faults), at_rest=at_rest, end_ns=loop.now_ns,
    )  # fmt: skip
    wrong = judged(history, (*ANYWHERE, *system.invariants))
    deliveries = plane.deliveries()
    commanded = sum(isinstance(command, MoveAway) for _, _, command in loop.journal.commands)
    seen = Counter(
        moves=len(plane.transfers), orders=commanded, offered=deliveries.offered_count, resent=deliveries.resent_count,
        twice=deliveries.surplus_count, waiting=deliveries.waiting_count, settled=int(at_rest is True),
    )  # fmt: skip
    return MovesPlayed((*wrong, *_undelivered(plane, deliveries, end_ns)), seen)


def _settled(loop: MovingLoop) -> bool | None:
    """Go on until nothing is under way; None where something always is: they report and adapt for ever."""
    loop.run(loop.now_ns + SETTLES_NS)
    until_ns = loop.now_ns + SETTLES_NS
    while loop.is_quiet() is False and loop.now_ns < until_ns:
        loop.run(loop.now_ns + _STEP_NS)
    return None if loop.is_quiet() is False else True


def _part(names: list[str]) -> Envelope:
    return Envelope(WHOLE.rate_rps / len(names), WHOLE.burst_count / len(names))


def _plane(schedule: SoakSchedule, names: list[str]) -> MovingPlane:
    dice = generator(schedule.seed, "moving")
    workload = load("shifting")
    options = workload.config(
        publishers=PUBLISHERS, rate_rps=RATE_RPS, batch=int(dice.choice((1, 1, 5))),
        shift_at=f"{int(dice.integers(1, 8))}s", share_after=float(dice.choice((0.5, 0.7, 0.95))),
    )  # fmt: skip
    topic = workload.make(options, child_seed(schedule.seed, "moving", "topic"))
    model = replace(load_calibration("edge"), network_ns=int(dice.choice((20_000, 150_000, 5_000_000))))
    fleet = Fleet(model, TOPIC, topic, [None] * len(names))
    for broker in range(len(names)):
        fleet.set_bucket(broker, _part(names), full=True)
    where = (np.arange(PUBLISHERS) * len(names) // PUBLISHERS).astype(np.int32)
    return MovingPlane(fleet, names, where, schedule.load_end_ns)


def _moves(schedule: SoakSchedule, names: list[str]) -> list[tuple[int, str, MoveAway]]:
    """Anywhere, and before each kill of a broker: away from it and to it."""
    dice = generator(schedule.seed, "moving", "moves")

    def somebody() -> tuple[int, ...]:
        return tuple(sorted(dice.permutation(PUBLISHERS)[: int(dice.integers(1, 8))].tolist()))

    def move(at_ns: int, source: str, target: str) -> tuple[int, str, MoveAway]:
        return max(0, at_ns), source, MoveAway(TOPIC, somebody(), target)

    moves = []
    for _ in range(int(dice.integers(0, 12))):
        source, target = (str(name) for name in dice.choice(names, 2))
        moves.append(move(int(dice.integers(0, schedule.load_end_ns)), source, target))
    for fault in schedule.faults():
        if isinstance(fault, Crash) and fault.node in names:
            other = str(dice.choice([name for name in names if name != fault.node]))
            before_ns = int(dice.choice((1, 10, 100, 1_000))) * MILLISECOND_NS
            moves += [move(fault.at_ns - before_ns, *way) for way in ((fault.node, other), (other, fault.node))]
    return moves


def _command(loop: MovingLoop, source: str, command: MoveAway) -> None:
    if loop.plane.is_up(source):
        loop.carried().actuate(source, command, loop.now_ns)


def _undelivered(plane: MovingPlane, deliveries: MovedMessages, end_ns: int) -> list[Breach]:
    """Messages lost, stuck or out of order, or copies that nobody accounts for."""
    offered = plane.outbox.schedule.block(0, end_ns).message_count
    told = {
        "nothing is lost": deliveries.lost_count or offered - deliveries.offered_count,
        "what waits will be sent": _stuck_count(plane),
        "order is kept": deliveries.out_of_order_count,
        "what comes twice was offered twice": max(0, deliveries.surplus_count - deliveries.resent_count),
    }
    return [Breach(name, end_ns, "", f"{many} messages") for name, many in told.items() if many]


def _stuck_count(plane: MovingPlane) -> int:
    """Messages that wait at publishers who never open, or have opened: those of others only take long."""
    waiting = plane.outbox.waiting
    opens_ns = plane.opens_ns()[waiting.publisher]
    return int(waiting.messages[(opens_ns >= NEVER_NS) | (opens_ns < plane.fleet.now_ns)].sum())


def main() -> int:
    """Play so many schedules; 1 if anything broke."""
    parser = argparse.ArgumentParser(description="publishers that move, under the soak's faults")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=2_000)
    told = parser.parse_args()
    failed, seen = 0, Counter[str]()
    for schedule in islice(schedules(told.first), told.count):
        played = play(schedule)
        seen += played.seen
        for breach in played.breaches:
            failed += 1
            print(f"seed {schedule.seed}: {breach.invariant}: {breach.what} {breach.node}")
    print(f"{told.count} schedules: " + ", ".join(f"{many:,} {name}" for name, many in seen.items()))
    print(f"{failed} breaches")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
