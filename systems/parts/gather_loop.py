"""When a Gubernator sends what it has gathered: a goroutine's ``select`` over a queue and a one-shot timer.

Taken from its source (v2.13: global.go, interval.go), for it decides how old hits are when they arrive:

* The loop takes an item off the queue and gathers it by user; with the first user gathered it starts the timer, of
  ``sync``.  A timer that runs already starts once more after that, at most once.
* A tick sends all that is gathered.  Then the loop waits for all answers, and takes neither items nor ticks meanwhile.
* Where both an item and a tick are there, ``select`` draws: so of what was queued in the meantime some may be sent at
  once, and the rest much later.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from systems.api import Effect, SetTimer


@dataclass
class GatherLoop:
    """The loop of one kind of message; ``kind`` is its timer's name, ``draws`` are what ``select`` draws from.

    ``keeps_first``: what is gathered of a user is dated by the first item, not by the last.  ``awaited``: who has not
    answered yet, and the number of the message.
    """

    kind: str
    sync_ns: int
    keeps_first: bool
    draws: np.random.Generator
    queue: deque[tuple[str, int, int]] = field(default_factory=deque)  # user, hits, date
    gathered: dict[str, tuple[int, int]] = field(default_factory=dict)  # user -> hits, date
    awaited: set[tuple[str, int]] = field(default_factory=set)
    _runs: bool = False  # the timer
    _again: bool = False  # it is to start once more
    _ticks: int = 0  # not taken yet: one in the channel, and one that waits to be put there

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be sent, or for an answer."""
        return not (self.queue or self.gathered or self.awaited)

    def rang(self, now_ns: int) -> list[Effect]:
        """The timer rang."""
        self._runs, self._ticks = False, self._ticks + 1
        return list(self._restart(now_ns))

    def is_due(self, now_ns: int, effects: list[Effect]) -> bool:
        """Take what is there, until what is gathered must be sent (True), or nothing more is there; adds to effects."""
        while not self.awaited and (self.queue or self._ticks):
            if self._ticks and not (self.queue and self.draws.integers(2)):
                self._ticks -= 1
                effects += self._restart(now_ns)
                if self.gathered:
                    return True
            else:
                user, hits, date_ns = self.queue.popleft()
                before, first_ns = self.gathered.get(user, (0, date_ns))
                self.gathered[user] = before + hits, first_ns if self.keeps_first else date_ns
                if len(self.gathered) == 1:
                    self._again = True
                    effects += self._restart(now_ns)
        return False

    def _restart(self, now_ns: int) -> Iterator[Effect]:
        """Start the timer, if it is to start and neither runs nor waits to be heard."""
        if self._again and not self._runs and self._ticks < 2:
            self._runs, self._again = True, False
            yield SetTimer(self.kind, now_ns + self.sync_ns)
