"""A node's own time, which goes on where its host's clock is set back: what the node waits for, it waits as long."""

from collections.abc import Callable

from core.units import NEVER_NS
from systems.api import Effect, Event, SetTimer, Timer


class SteadyClock:
    """Between a node and its host; both have one time until the host's clock is set back.

    How far that was is told by the first timer to ring that was set before: it rings when it should, and names an
    earlier instant than it was set for.  Until one does, what has passed between the two events around the step is
    left out, and waits are longer by it.
    """

    def __init__(self) -> None:
        self._ahead_ns = 0  # of the host's clock
        self._last_ns = -NEVER_NS
        self._timers_ns: dict[str, int] = {}  # when they ring, in the node's time

    def handled(self, handle: Callable[[Event, int], list[Effect]], event: Event, now_ns: int) -> list[Effect]:
        """What ``handle``, in the node's time, answers to an event of the host's, in the host's again."""
        self._ahead_ns = max(self._ahead_ns, self._last_ns - now_ns)
        if isinstance(event, Timer):
            set_for_ns = self._timers_ns.pop(event.name, event.due_at_ns)
            self._ahead_ns = max(self._ahead_ns, set_for_ns - event.due_at_ns)
            event = Timer(event.name, event.due_at_ns + self._ahead_ns)
        self._last_ns = now_ns + self._ahead_ns
        return [self._of_host(effect) for effect in handle(event, self._last_ns)]

    def _of_host(self, effect: Effect) -> Effect:
        if not isinstance(effect, SetTimer):
            return effect
        self._timers_ns[effect.name] = effect.at_ns
        return SetTimer(effect.name, effect.at_ns - self._ahead_ns)
