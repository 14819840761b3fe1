"""One seed -> one schedule.  Each part draws from a branch of its own, so that a new part shifts no other."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from core.clients import Role
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.schedule import SoakRequest, SoakSchedule, Told, fault_row
from harness.soak.variants import SOAKED, SoakLoad, SoakVariant
from systems.distribution.tb_adaptor import ADAPTOR
from systems.placement.cast import AGENT, STORE
from testbed.faults import (
    EVERY,
    ClockSkew,
    Crash,
    Fault,
    Handover,
    Heal,
    LinkDuplication,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
)

LOAD_END_NS = 14 * SECOND_NS
HEALED_NS = 12 * SECOND_NS  # every fault is over, but for a long partition
LATE_HEAL_NS = 60 * SECOND_NS  # and that one too
_LATEST_NS = 10 * SECOND_NS  # no fault begins later
_CYCLE_NS = 300 * MILLISECOND_NS  # of throttlers, by default
_SWITCHES = ("left", "middle", "right")
_TOPICS = ("red", "blue")
Item = TypeVar("Item")


class _Dice:
    """A branch of the seed."""

    def __init__(self, seed: int, *names: str):
        self._rng = generator(seed, "soak", *names)

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def one(self, items: Sequence[Item]) -> Item:
        return items[int(self._rng.integers(len(items)))]

    def some(self, items: Sequence[Item], least: int, most: int) -> list[Item]:
        count = int(self._rng.integers(least, most, endpoint=True))
        return [items[i] for i in sorted(self._rng.permutation(len(items))[:count].tolist())]

    def between(self, low_ns: int, high_ns: int) -> int:
        return int(self._rng.integers(low_ns, max(low_ns + 1, high_ns)))


def system_of(seed: int) -> str:
    """Whose schedule a seed is, without drawing the rest."""
    return _Dice(seed, "system").one(list(SOAKED))


def draw(seed: int) -> SoakSchedule:
    """The schedule of a seed."""
    system = system_of(seed)
    variant = _Dice(seed, "variant").one(SOAKED[system])
    dice = _Dice(seed, "ground")
    # Clients of topics wait at most a second for an answer that takes four ways of up to four links.
    delays_ms = (0, 1, 5, 20) if variant.load is SoakLoad.TOPICS else (0, 1, 5, 20, 100)
    delay_ns = dice.one(delays_ms) * MILLISECOND_NS
    jitter_ns = dice.one((0, 0, delay_ns // 2))
    at_once = _at_once(seed, system, variant)
    if at_once:
        delay_ns = jitter_ns = 0
    names, everyone = _names(dice, variant.load)
    homes: dict[str, str] = {}
    if variant.load is SoakLoad.TOPICS or dice.chance(0.3):
        homes = {name: dice.one(_SWITCHES) for name in everyone if not name.endswith(AGENT)}
        homes |= {name: _SWITCHES[place] for place, name in enumerate(n for n in everyone if n.startswith("proxy"))}
    ahead_ns = {}
    if not at_once and _Dice(seed, "clocks").chance(0.4):
        most_ns = _Dice(seed, "clocks", "most").one((1, 50, 500)) * MILLISECOND_NS
        ahead_ns = {name: _Dice(seed, "clocks", name).between(-most_ns, most_ns) for name in everyone}
    troubles = _troubles(seed, variant, everyone, homes)
    told, moves = _told(seed, variant.load, names, everyone, homes)
    told = tuple(sorted((*told, *_told_again(told, troubles)), key=lambda one: one.at_ns))
    return SoakSchedule(
        seed, system, dict(variant.options), tuple(names), LOAD_END_NS, delay_ns, jitter_ns, homes, ahead_ns,
        requests=_requests(seed, names, variant) if variant.load is SoakLoad.REQUESTS else (),
        told=told,
        troubles=tuple(tuple(fault_row(fault) for fault in trouble) for trouble in [*troubles, *moves]),
    )  # fmt: skip


def _at_once(seed: int, system: str, variant: SoakVariant) -> bool:
    """Whether messages take no time and clocks are true: half of the time where a throttler counts on that.

    By chance it would hardly ever be so, and the bounds of aligned nodes and of demands by cycle never be judged.
    """
    counts_on_it = variant.load is SoakLoad.CYCLES or (system == "throttler" and "phase" in variant.options)
    return counts_on_it and _Dice(seed, "at once").chance(0.5)


def _names(dice: _Dice, load: SoakLoad) -> tuple[list[str], list[str]]:
    """The names that the system makes nodes of, and all its nodes."""
    count = dice.one((3, 3, 4, 5))
    if load is SoakLoad.TRAFFIC:
        names = [f"broker{n}" for n in range(1, count + 1)]
        return names, [*names, ADAPTOR]
    if load is SoakLoad.TOPICS:
        brokers = [f"broker{n}" for n in range(1, dice.one((2, 3)) + 1)]
        managers = [f"manager{n}" for n in range(1, dice.one((1, 2)) + 1)]
        clients = [f"client{n}" for n in "abcd"[: dice.one((2, 3, 4))]]
        agents = [name + AGENT for name in brokers]
        names = [*managers, *brokers, STORE, *agents, *(f"proxy{n}" for n in (1, 2, 3)), *clients]
        return names, names
    names = [f"n{n}" for n in range(1, count + 1)]
    return names, names


# --- what goes wrong -------------------------------------------------------------------------------


def _troubles(seed: int, variant: SoakVariant, everyone: list[str], homes: dict[str, str]) -> list[tuple[Fault, ...]]:
    """Of each kind none, one or several; a quarter of all schedules is calm."""
    dice = _Dice(seed, "troubles")
    if dice.chance(0.25):
        return []
    troubles: list[tuple[Fault, ...]] = []
    if dice.chance(0.5):
        troubles += _crashes(_Dice(seed, "crashes"), variant.load, everyone)
    if dice.chance(0.45):
        troubles += _partitions(_Dice(seed, "partitions"), [name for name in everyone if not name.endswith(AGENT)])
    if _Dice(seed, "long partition").chance(0.08):
        troubles = _long_partition(_Dice(seed, "long partition", "side"), everyone, troubles)
    if dice.chance(0.5):
        troubles += _disturbances(_Dice(seed, "links"), homes)
    if variant.clock_steps and dice.chance(0.15):
        clocks = _Dice(seed, "clock steps")
        offset_ns = clocks.between(-500, 500) * MILLISECOND_NS
        troubles.append((ClockSkew(clocks.between(0, _LATEST_NS), clocks.one(everyone), offset_ns),))
    if homes and variant.load is not SoakLoad.TOPICS and dice.chance(0.5):
        moves = _Dice(seed, "handovers")
        troubles.append((Handover(moves.between(0, _LATEST_NS), moves.one(sorted(homes)), moves.one(_SWITCHES)),))
    return troubles


def _crashes(dice: _Dice, load: SoakLoad, everyone: list[str]) -> list[tuple[Fault, ...]]:
    crashes: list[tuple[Fault, ...]] = []
    up_ns = dict.fromkeys(everyone, 0)
    for _ in range(dice.one((1, 1, 2, 3))):
        node, down_ns = dice.one(everyone), dice.between(0, _LATEST_NS)
        back_ns = min(down_ns + dice.between(1, dice.one((1, 300, 4_000)) * MILLISECOND_NS), HEALED_NS)
        copied = dice.one([name for name in everyone if name != node]) if dice.chance(0.4) else ""
        if down_ns > up_ns[node]:
            up_ns[node] = back_ns
            crashes.append((Crash(down_ns, node), Restart(back_ns, node, copied if load is SoakLoad.REQUESTS else "")))
        else:
            up_ns[node] = HEALED_NS  # one at a time, and in order
    return crashes


def _partitions(dice: _Dice, names: list[str]) -> list[tuple[Fault, ...]]:
    partitions: dict[tuple[str, ...], tuple[Fault, ...]] = {}
    for _ in range(dice.one((1, 1, 2))):
        side = tuple(dice.some(names, 1, len(names) - 1))
        begin_ns = dice.between(0, _LATEST_NS)
        end_ns = min(begin_ns + dice.between(1, dice.one((200, 2_000, 10_000)) * MILLISECOND_NS), HEALED_NS)
        partitions[side] = (Partition(begin_ns, side), Heal(end_ns, side))
    return list(partitions.values())


def _long_partition(dice: _Dice, everyone: list[str], troubles: list[tuple[Fault, ...]]) -> list[tuple[Fault, ...]]:
    """And one that lasts so long that a stream which backs off for minutes is late after it, instead of the short ones.

    Nothing else lasts longer than 12 s, and a stream's wait is never longer than what it waits for.
    """
    side = tuple(dice.some([name for name in everyone if not name.endswith(AGENT)], 1, 2))
    begin_ns, end_ns = dice.between(0, _LATEST_NS), dice.between(LATE_HEAL_NS // 2, LATE_HEAL_NS)
    others = [trouble for trouble in troubles if not isinstance(trouble[0], Partition)]
    return [*others, (Partition(begin_ns, side), Heal(end_ns, side))]


def _disturbances(dice: _Dice, homes: dict[str, str]) -> list[tuple[Fault, ...]]:
    """Of all links, from some instant on until all is well."""
    begin_ns, end_ns = dice.between(0, _LATEST_NS), HEALED_NS
    troubles: list[tuple[Fault, ...]] = []
    if dice.chance(0.5):
        loss = dice.one((0.02, 0.2, 0.5)) / (2 if homes else 1)
        troubles.append((LinkLoss(begin_ns, EVERY, EVERY, loss), LinkLoss(end_ns, EVERY, EVERY, 0.0)))
    if dice.chance(0.5):
        twice = dice.one((0.1, 0.5))
        troubles.append((LinkDuplication(begin_ns, EVERY, EVERY, twice), LinkDuplication(end_ns, EVERY, EVERY, 0.0)))
    if dice.chance(0.5):
        held = dice.one((0.1, 0.3)), dice.one((5, 20, 400)) * MILLISECOND_NS
        over = LinkReordering(end_ns, EVERY, EVERY, 0.0, held[1])
        troubles.append((LinkReordering(begin_ns, EVERY, EVERY, *held), over))
    return troubles


# --- what is offered -------------------------------------------------------------------------------


def _requests(seed: int, names: list[str], variant: SoakVariant) -> tuple[SoakRequest, ...]:
    """A few users, a third of them below capacity; some of it at once, mostly at one node or evenly."""
    dice, rows = _Dice(seed, "requests"), []
    is_aligned = "phase" in variant.options  # to the nodes' cycles: then nothing comes at the very end of one
    for user in ("ann", "bob", "eve")[: dice.one((1, 1, 2, 3))]:
        few = dice.chance(0.35)
        favourite = dice.one(names)
        burst_ns = dice.between(0, LOAD_END_NS - SECOND_NS)
        loyal, bursty = dice.one((0.0, 0.0, 0.5, 0.9)), dice.one((0.0, 0.3, 0.8))
        for _ in range(dice.one((4, 8, 12)) if few else dice.one((15, 40))):
            together = dice.chance(bursty)
            at_ns = dice.between(burst_ns, burst_ns + SECOND_NS // 2) if together else dice.between(0, LOAD_END_NS)
            at_ns += is_aligned and at_ns % _CYCLE_NS == 0
            node = favourite if dice.chance(loyal) else dice.one(names)
            rows.append(SoakRequest(at_ns, node, user, 1 if few or dice.chance(0.8) else dice.one((2, 3))))
    return tuple(sorted(rows, key=lambda row: row.at_ns))


def _told(
    seed: int, load: SoakLoad, names: list[str], everyone: list[str], homes: dict[str, str]
) -> tuple[tuple[Told, ...], list[tuple[Fault, ...]]]:
    """Reports from outside, and the handovers of clients, which their hosts make and they are told of."""
    dice = _Dice(seed, "told")
    told: list[Told] = []
    moves: list[tuple[Fault, ...]] = []
    if load is SoakLoad.CYCLES:
        base = {name: dice.one((0.0, 0.1, 0.5, 2.0)) for name in names}
        for cycle in range(20):
            for name in names:
                rate = base[name] if dice.chance(0.8) else dice.one((0.0, 1.0, 5.0))
                told.append(Told((cycle + 1) * _CYCLE_NS, name, rate_rps=rate, cycle=cycle))
    elif load is SoakLoad.TRAFFIC:
        phase_ns = {name: dice.between(0, SECOND_NS) for name in names}
        for second in range(LOAD_END_NS // SECOND_NS):
            for name in names:
                rate, backlog = float(dice.one((0, 1, 50, 333))), float(dice.one((0, 0, 1, 7, 40)))
                told.append(Told(second * SECOND_NS + phase_ns[name], name, "topic", rate, backlog))
    elif load is SoakLoad.TOPICS:
        for client in (name for name in everyone if name.startswith("client")):
            told.append(Told(0, client, proxy=_proxy(homes[client])))
            told += _wishes(dice, client)
            if dice.chance(0.4):
                at_ns, place = dice.between(SECOND_NS, LOAD_END_NS), dice.one(_SWITCHES)
                moves.append((Handover(at_ns, client, place),))
                told.append(Told(at_ns, client, proxy=_proxy(place)))
    return tuple(sorted(told, key=lambda one: one.at_ns)), moves


def _told_again(told: Sequence[Told], troubles: Sequence[tuple[Fault, ...]]) -> list[Told]:
    """What a client hears that is back from a crash: where it is and what it wants, which it has forgotten."""
    again: list[Told] = []
    for back in (fault for trouble in troubles for fault in trouble if isinstance(fault, Restart)):
        if back.node.startswith("client"):
            before = (one for one in told if one.node == back.node and one.at_ns <= back.at_ns)
            latest = {(one.topic, one.role): one for one in before}
            again += [replace(one, at_ns=back.at_ns + 1) for one in latest.values() if one.wanted]
    return again


def _proxy(switch: str) -> str:
    return f"proxy{_SWITCHES.index(switch) + 1}"


def _wishes(dice: _Dice, client: str) -> list[Told]:
    """What a client is to some topics, from when on, and perhaps until when."""
    wishes = []
    for topic in dice.some(_TOPICS, 1, 2):
        for role in dice.some(list(Role), 1, 2):
            begin_ns = dice.between(1, 4 * SECOND_NS)
            wishes.append(Told(begin_ns, client, topic, role=role.value))
            if dice.chance(0.3):
                end_ns = dice.between(begin_ns + 1, LOAD_END_NS)
                wishes.append(Told(end_ns, client, topic, role=role.value, wanted=False))
                if dice.chance(0.5):
                    wishes.append(Told(dice.between(end_ns + 1, LOAD_END_NS), client, topic, role=role.value))
    return wishes
