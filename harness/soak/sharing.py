"""A topic's bucket on brokers, under the soak's faults: no more tokens are granted than the way of sharing may.

``python -m harness.soak.sharing --count 2000``: the schedules of ``ratebed soak``, of those limiters that share buckets
in study ``sharing``.  Their nodes stand beside brokers, and all requests are messages of one topic that wait there.  In
any span t at most ``faster`` (c + r t) + ``extra`` messages are released, by what each system promises; where verdicts
release them, each release has its verdict, and the system's own invariants hold as well.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count as numbers
from typing import Any

import numpy as np

from core.records import Envelope, Int32, Int64
from core.registry import configure
from core.units import NEVER_NS, SECOND_NS, duration_ns
from harness.soak.draw import draw, system_of
from harness.soak.schedule import SoakSchedule
from harness.soak.trial import Breach, clocks_apart_ns, ended, ground, healed_ns, judged, outages_of
from studies.sharing.deployment import released_by
from studies.sharing.rules import SHARINGS
from systems.api import RunHistory
from systems.invariants import ANYWHERE, Meter, admissions, config_limit
from systems.loader import load_system
from testbed.virtual.gates import GatedLoop, GrantedLoop, NodeGroup

TOPIC = "topic"
RETRY_NS = SECOND_NS // 10
WAYS = {sharing.system: sharing for name, sharing in SHARINGS.items() if sharing is not None and name != "adaptor"}


@dataclass(frozen=True)
class Bound:
    """At most ``faster`` (c + r t) + ``extra`` tokens in any span t."""

    faster: Fraction
    extra: Fraction


def schedules(first: int) -> Iterator[SoakSchedule]:
    """Those of seeds from ``first`` on that are of a limiter here, with requests."""
    for seed in numbers(first):
        if system_of(seed) in WAYS:
            schedule = draw(seed)
            if schedule.requests:
                yield schedule


def play(schedule: SoakSchedule) -> tuple[Breach, ...]:
    """What did not hold; an error that ends the trial is a breach."""
    try:
        return _play(schedule)
    except Exception as error:  # whoever raised it: without the seed nobody could look
        return (ended(error),)


def _play(schedule: SoakSchedule) -> tuple[Breach, ...]:
    system, way = load_system(schedule.system), WAYS[schedule.system]
    told = {"on_failure": "closed"} if schedule.system == "centralised" else {}
    config: Any = configure(f"system {schedule.system}", system.config, {**schedule.options, **told})
    names, faults = list(schedule.nodes), schedule.faults()
    deployed = NodeGroup(
        system, config, ground(schedule, names), names, schedule.seed, 0, True, schedule.clocks_ahead_ns
    )
    at_ns, where, count = _emissions(schedule)
    loop: GatedLoop | GrantedLoop
    loop = GrantedLoop(deployed, TOPIC, way.part) if way.part else GatedLoop(deployed, names, TOPIC, RETRY_NS)
    loop.fail(faults)
    loop.arrive(at_ns, where, count)
    loop.run(healed_ns(schedule) + 10 * SECOND_NS)
    history = RunHistory(
        system, config, tuple(names), loop.journal.steps,
        frozenset(str(row["kind"]) for trouble in schedule.troubles for row in trouble),
        outages_of(faults, loop.now_ns), clocks_apart_ns(schedule, faults), _longest_ns(schedule, names),
        end_ns=loop.now_ns,
    )  # fmt: skip
    if isinstance(loop, GrantedLoop):
        limit = config_limit(history)
        whole = Envelope(float(limit.rate_rps), limit.capacity)
        released_ns = released_by(loop.parts, at_ns, where, count, whole, 0)
        return tuple(_excess(history, released_ns, _granted_bound(history, loop)))
    # The run is cut off while messages wait and ask: nobody is at rest.
    wrong = judged(history, (*ANYWHERE, *system.invariants))
    return (*wrong, *_unpaid(history, loop.released_ns), *_excess(history, loop.released_ns, _decided_bound(history)))


def _emissions(schedule: SoakSchedule) -> tuple[Int64, Int32, Int32]:
    rows = sorted(schedule.requests, key=lambda one: one.at_ns)
    places = {name: place for place, name in enumerate(schedule.nodes)}
    at_ns = np.array([one.at_ns for one in rows], np.int64)
    where, count = ([places[one.node] for one in rows], [one.cost for one in rows])
    return at_ns, np.array(where, np.int32), np.array(count, np.int32)


def _longest_ns(schedule: SoakSchedule, names: list[str]) -> int:
    topology = ground(schedule, names)
    return max(topology.path(a, b).one_way_delay_ns for a in names for b in names) + schedule.jitter_ns


def _excess(history: RunHistory, released_ns: Int64, bound: Bound) -> Iterable[Breach]:
    """The first message by which more are released than may be."""
    limit = config_limit(history)
    meter, allowed = Meter(limit, bound.faster), bound.faster * limit.capacity + bound.extra
    for at_ns in np.sort(released_ns[released_ns != NEVER_NS]).tolist():
        used = meter.take(at_ns, 1)
        if used > allowed:
            what = f"releases {float(used - allowed):.6g} above {float(allowed):.6g} + {float(bound.faster):.4g} r t"
            return [Breach("no more tokens than the bound", at_ns, "", what)]
    return []


def _unpaid(history: RunHistory, released_ns: Int64) -> Iterable[Breach]:
    """Each release has a verdict that admits, and each such verdict a release."""
    admitted, released = sum(1 for _ in admissions(history)), int((released_ns != NEVER_NS).sum())
    if admitted == released:
        return []
    return [Breach("a verdict a release", history.end_ns, "", f"{released} messages released by {admitted} verdicts")]


def _granted_bound(history: RunHistory, loop: GrantedLoop) -> Bound:
    """Of sub-buckets: each holds a token at least, a crash leaves one in it, and each is cut to the token's millionth.

    Leases: as the system says; an end of a lease shows at the next refresh.  Throttler, where losses are not made good
    (D8): what nodes held together at most.
    """
    config, limit, nodes = history.config, config_limit(history), len(history.names)
    tokens = Fraction(max(1, config.minimum) * (nodes + history.crash_count)) + Fraction(nodes, 1_000)
    if history.system.key == "leases":
        safe = Fraction(config.safe) if config.safe else Fraction(1, nodes)
        late = limit.rate_rps * duration_ns(config.refresh) / SECOND_NS
        return Bound(1 + (nodes - 1) * safe, history.crash_count * safe * limit.capacity + tokens + late)
    held = dict.fromkeys(loop.parts, 1_000_000)
    most = sum(held.values())
    changes = sorted((at_ns, name, part) for name, told in loop.parts.items() for at_ns, part in told)
    for _, name, part in changes:
        held[name] = part
        most = max(most, sum(held.values()))
    return Bound(Fraction(most, 1_000_000 * nodes), tokens)


def _decided_bound(history: RunHistory) -> Bound:
    """Of verdicts.  Counter: each node alone keeps (c, r), each life anew.

    Central: the store keeps it, each life anew; what it grants is used a time-out later at the latest.
    """
    limit, config = config_limit(history), history.config
    stepped = limit.rate_rps * history.clocks_apart_ns / SECOND_NS
    if history.system.key == "centralised":
        server = config.server or history.names[0]
        lives, late_ns = len(history.outages.get(server, ())), duration_ns(config.timeout)
        return Bound(Fraction(1), lives * limit.capacity + limit.rate_rps * late_ns / SECOND_NS + stepped)
    nodes = len(history.names)
    return Bound(Fraction(nodes), history.crash_count * limit.capacity + nodes * stepped)


def main() -> int:
    """Play so many schedules; 1 if anything broke."""
    parser = argparse.ArgumentParser(description="a topic's bucket on brokers, under the soak's faults")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=2_000)
    told = parser.parse_args()
    played: dict[str, int] = dict.fromkeys(WAYS, 0)
    failed = 0
    for _, schedule in zip(range(told.count), schedules(told.first), strict=False):
        played[schedule.system] += 1
        for breach in play(schedule):
            failed += 1
            print(f"seed {schedule.seed}  {schedule.system} {schedule.options}: {breach.invariant}: {breach.what}")
    print(f"{sum(played.values())} schedules: " + ", ".join(f"{system} {n}" for system, n in played.items()))
    print(f"{failed} breaches")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
