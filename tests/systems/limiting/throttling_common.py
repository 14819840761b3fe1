"""Throttlers of users: one node alone beside GCRA, and what several may admit together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from core.records import Request
from systems.api import Arrival, Decide, Effect, Node, SetTimer, Start, Timer, Verdict
from systems.parts.limit import Limit, gcra

RATES = ("0.3", "1/3", "2", "7/3", "1e-3", "999.9")
# (what comes next, nanoseconds, cost): so long before or after the very instant at which it begins to conform,
# or so long after the last one.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tie"), st.sampled_from([-1, 0, 0, 1]), st.integers(1, 3)),
        st.tuples(st.just("gap"), st.integers(0, 10**10) | st.sampled_from([0, 1, 10**13]), st.integers(1, 7)),
    ),
    max_size=60,
)


@dataclass
class Alone:
    """A node with nobody to talk to, its timers, and what GCRA makes of the same requests."""

    node: Node
    limit: Limit
    now_ns: int = 0
    full_at: int = 0
    timers: dict[str, int] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self._take(self.node.handle(Start(None), 0))

    def _take(self, effects: list[Effect]) -> list[Verdict]:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[effect.name] = effect.at_ns
        return [effect.verdict for effect in effects if isinstance(effect, Decide)]

    def ask(self, at_ns: int, cost: int = 1) -> tuple[bool, bool]:
        """A request: is it admitted, and does it conform?"""
        while self.timers and min(self.timers.values()) <= at_ns:
            due_ns, name = min((due, name) for name, due in self.timers.items())
            del self.timers[name]
            self._take(self.node.handle(Timer(name, due_ns), due_ns))
        self.now_ns, self.number = at_ns, self.number + 1
        (verdict,) = self._take(self.node.handle(Arrival(Request(self.number, "u", at_ns, cost)), at_ns))
        after = gcra(self.limit.ticks(at_ns), self.full_at, self.limit, cost)
        self.full_at = self.full_at if after is None else after
        return verdict is Verdict.ADMIT, after is not None

    def tie_ns(self, cost: int = 1) -> int:
        """The first instant from now on at which ``cost`` tokens are there."""
        needed = self.full_at + (cost - self.limit.capacity) * self.limit.token_ticks
        return max(self.now_ns, self.limit.instant_ns(needed))

    def follow(self, steps: Sequence[tuple[str, int, int]]) -> list[tuple[bool, bool]]:
        """Requests as ``STEPS`` draws them."""
        found = []
        for kind, offset_ns, cost in steps:
            begin_ns = self.tie_ns(cost) if kind == "tie" else self.now_ns
            found.append(self.ask(max(self.now_ns, begin_ns + offset_ns), cost))
        return found


def worst_excess(instants_ns: Sequence[int], limit: Limit) -> int:
    """Ticks by which one-token admissions exceed c + r t in their worst span; at most 0 if they never do."""
    ordered, found, lowest = sorted(instants_ns), -(2**62), 2**62
    for count, at_ns in enumerate(ordered):
        behind = count * limit.token_ticks - limit.ticks(at_ns)
        lowest = min(lowest, behind)
        found = max(found, behind + limit.token_ticks - lowest)
    return found - limit.capacity * limit.token_ticks
