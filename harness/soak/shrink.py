"""The smallest schedule that still breaks the same invariant: delta debugging over troubles, load and nodes.

What is left out of a schedule leaves the rest as it was: random draws of links and nodes are named by them.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from core.errors import SpecError
from core.records import Json
from core.units import MILLISECOND_NS
from harness.soak.schedule import SoakSchedule
from harness.soak.trial import HISTORY, Breach, Played, play
from systems.placement.cast import AGENT

Item = TypeVar("Item")
_TRIALS_MAXIMUM = 3_000  # then the smallest so far has to do
_NODES_MINIMUM = 2
SEEN_NS = 100 * MILLISECOND_NS  # a delay that a diagram of seconds shows


def shrink(failed: Played, say: Callable[[int], None] = lambda size: None) -> Played:
    """A trial as small as can be that breaks the first invariant that ``failed`` breaks; ``say`` hears each size."""
    search = _Search(failed, say)
    before = -1
    while before != search.best.schedule.size and search.left > 0:
        before = search.best.schedule.size
        search.reduce("troubles")
        search.reduce("requests")
        search.reduce("told")
        search.drop_nodes()
        search.simplify()
    return search.best


def _kind(breach: Breach) -> tuple[str, str]:
    """What must stay the same: the invariant, and of which kind the error is, if one ended the trial."""
    return breach.invariant, breach.error


class _Search:
    def __init__(self, failed: Played, say: Callable[[int], None]):
        self.best, self.left, self._say = failed, _TRIALS_MAXIMUM, say
        self._wanted = _kind(failed.breaches[0])
        self._twice = self._wanted[0] == HISTORY

    def accepts(self, schedule: SoakSchedule) -> bool:
        """Keep the schedule as the best, if it is one and fails alike."""
        if self.left <= 0:
            return False
        self.left -= 1
        try:
            played = play(schedule, self._twice)
        except SpecError:
            return False  # no schedule: a role is missing, or a fault names nobody
        alike = [breach for breach in played.breaches if _kind(breach) == self._wanted]
        if not alike:
            return False
        self.best = Played(schedule, tuple(alike), played.steps)
        self._say(schedule.size)
        return True

    def reduce(self, name: str) -> None:
        """Fewer entries of a field."""

        def fails(entries: Sequence[object]) -> bool:
            return self.accepts(msgspec.structs.replace(self.best.schedule, **{name: tuple(entries)}))

        minimised(getattr(self.best.schedule, name), fails)

    def drop_nodes(self) -> None:
        """Without a node, and all that names it."""
        for name in self.best.schedule.nodes:
            if len(self.best.schedule.nodes) > _NODES_MINIMUM and not name.endswith(AGENT):
                self.accepts(_without(self.best.schedule, name))

    def simplify(self) -> None:
        """No jitter, true clocks, no switches, and delays that can be seen where they are drawn."""
        schedule = self.best.schedule
        changes: list[dict[str, object]] = [{"jitter_ns": 0}, {"clocks_ahead_ns": {}}]
        if schedule.delay_ns < SEEN_NS:
            changes += [{"delay_ns": SEEN_NS}, {"delay_ns": max(schedule.delay_ns, SEEN_NS // 5)}]
        if not schedule.told:
            changes.append({"homes": {}})
        for change in changes:
            new = any(getattr(self.best.schedule, name) != value for name, value in change.items())
            if new and not ("delay_ns" in change and self.best.schedule.delay_ns == SEEN_NS):
                self.accepts(msgspec.structs.replace(self.best.schedule, **change))


def minimised(entries: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> Sequence[Item]:
    """Zeller and Hildebrandt's ddmin: a subsequence that fails, of which no single entry can be left out."""
    current, parts = list(entries), 2
    if not current or fails([]):
        return []
    while len(current) >= 2:
        step = -(-len(current) // parts)
        for start in range(0, len(current), step):
            rest = current[:start] + current[start + step :]
            if rest and fails(rest):
                current, parts = rest, max(2, parts - 1)
                break
        else:
            if step == 1:
                break
            parts = min(len(current), 2 * parts)
    return current


def _without(schedule: SoakSchedule, name: str) -> SoakSchedule:
    gone = {name, name + AGENT}
    nodes = tuple(node for node in schedule.nodes if node not in gone)
    rows = [[_narrowed(row, gone) for row in trouble] for trouble in schedule.troubles]
    troubles = tuple(tuple(trouble) for trouble in rows if not any(gone & _named(row) for row in trouble))
    return msgspec.structs.replace(
        schedule,
        nodes=nodes,
        homes={node: home for node, home in schedule.homes.items() if node not in gone},
        clocks_ahead_ns={node: ahead for node, ahead in schedule.clocks_ahead_ns.items() if node not in gone},
        requests=tuple(one for one in schedule.requests if one.node not in gone),
        told=tuple(one for one in schedule.told if one.node not in gone and one.proxy not in gone),
        troubles=troubles,
    )


def _narrowed(row: Json, gone: set[str]) -> Json:
    """A partition without them, if anybody is left to be cut off."""
    left = [name for name in row.get("side", ()) if name not in gone]
    return {**row, "side": left} if left else row


def _named(row: Json) -> set[str]:
    return {row.get("node", ""), row.get("copy_from", ""), row.get("host", ""), *row.get("side", ())}
