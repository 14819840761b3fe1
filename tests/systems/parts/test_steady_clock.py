"""A node's own time while its host's clock is stepped."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from systems.api import Delivery, Effect, Event, Message, SetTimer, Timer
from systems.parts.steady_clock import SteadyClock

WAIT_NS = 1_000
STEPS = st.lists(st.tuples(st.integers(0, 3 * WAIT_NS), st.sampled_from([0, 0, -1, -300, -5_000, 400])), max_size=30)


class Waiting:
    """Wants to be woken every ``WAIT_NS``."""

    def __init__(self) -> None:
        self.rings_ns: list[int] = []
        self.seen_ns: list[int] = []

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        self.seen_ns.append(now_ns)
        if isinstance(event, Timer):
            assert event.due_at_ns == now_ns
            self.rings_ns.append(now_ns)
            return [SetTimer("again", now_ns + WAIT_NS)]
        return []


def played(steps: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """When the node is woken: in true time, in its own.  Something else happens after each gap, then a step."""
    clock, node, true_ns, offset_ns, rung_ns = SteadyClock(), Waiting(), 0, 0, list[int]()
    (effect,) = clock.handled(node.handle, Timer("again", 0), 0)
    assert isinstance(effect, SetTimer)
    due_ns = effect.at_ns
    for gap_ns, step_ns in [*steps, (10 * WAIT_NS, 0)]:
        until_ns = true_ns + gap_ns
        while due_ns <= until_ns:
            true_ns = due_ns
            rung_ns.append(true_ns)
            timer = Timer("again", true_ns + offset_ns)
            (effect,) = clock.handled(node.handle, timer, timer.due_at_ns)
            assert isinstance(effect, SetTimer)
            due_ns = effect.at_ns - offset_ns
        true_ns = until_ns
        clock.handled(node.handle, Delivery("else", Message()), true_ns + offset_ns)
        offset_ns += step_ns
    assert node.seen_ns == sorted(node.seen_ns)
    return rung_ns, node.rings_ns[1:]


@given(STEPS)
def test_a_wait_keeps_its_length_and_time_never_goes_back(steps: list[tuple[int, int]]) -> None:
    rung_ns, own_ns = played(steps)
    assert rung_ns == [WAIT_NS * n for n in range(1, len(rung_ns) + 1)]
    assert all(later - earlier >= WAIT_NS for earlier, later in pairwise(own_ns))
    if not any(step_ns for _, step_ns in steps):
        assert own_ns == rung_ns
