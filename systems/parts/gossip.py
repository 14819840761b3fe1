"""When a node gossips, and with whom: one neighbour a round, drawn at random or the least informed first.

Thesis 3.1: every interval a node sends one neighbour what it has queued for it.  The thesis leaves
open when the rounds of different nodes fall, and whether a neighbour that lacks nothing may be drawn.
"""

from collections.abc import Sequence

from core.records import Int64
from core.seeds import generator
from systems.parts.options import choice as chosen
from systems.parts.options import span_ns

PHASES = ("random", "aligned")
CHOICES = ("pending", "all")


class Rounds:
    """The rounds of one node.

    ``gossip``: the interval, as text.  ``phase``: ``random``, each node begins at an instant of its own
    within the interval, or ``aligned``, at multiples of the interval on the node's own clock.
    ``choice``: a round's neighbour is drawn uniformly among those with something ``pending``, or among
    ``all``, where a round with nothing to send is wasted.  ``least_informed``: whoever has most queued
    comes first, ties at random (LINF, thesis 4.2.4); ``choice`` then does not matter.  ``system``: whose
    options these are, for the SpecError on bad ones.
    """

    def __init__(
        self,
        node_id: str,
        gossip: str,
        seed: int,
        phase: str = "random",
        choice: str = "pending",
        least_informed: bool = False,
        *,
        system: str,
    ):
        for option, value, known in (("phase", phase, PHASES), ("choice", choice, CHOICES)):
            chosen(system, option, value, known)
        self.interval_ns = span_ns(system, "gossip", gossip)
        self._aligned, self._all, self.least_informed = phase == "aligned", choice == "all", least_informed
        self._rng = generator(seed, "gossip", node_id)

    def first_at_ns(self, now_ns: int) -> int:
        """The instant of the first round of a node that starts now: within an interval, and not now."""
        if self._aligned:
            return now_ns + self.interval_ns - now_ns % self.interval_ns
        return now_ns + int(self._rng.integers(1, self.interval_ns, endpoint=True))

    def next_at_ns(self, due_at_ns: int, now_ns: int) -> int:
        """The instant of the round after the one due at ``due_at_ns``; rounds that were slept through are left out."""
        if now_ns <= due_at_ns:
            return due_at_ns + self.interval_ns
        return due_at_ns + ((now_ns - due_at_ns) // self.interval_ns + 1) * self.interval_ns

    def choose(self, queued: Sequence[int] | Int64) -> int | None:
        """The index of this round's neighbour, None if there is nobody to send to.

        ``queued``: what is queued for each neighbour, in any unit, in a fixed order (a list, or an
        integer array); under LINF, the priorities.
        """
        counts: list[int] = queued if isinstance(queued, list) else [int(count) for count in queued]
        if not any(counts):
            return None
        if self.least_informed:
            top = max(counts)
            candidates = [index for index, count in enumerate(counts) if count == top]
        elif self._all:
            index = self._draw(len(counts))
            return index if counts[index] else None
        else:
            candidates = [index for index, count in enumerate(counts) if count]
        return candidates[self._draw(len(candidates))]

    def _draw(self, count: int) -> int:
        return int(self._rng.integers(count)) if count > 1 else 0
