"""Requests that wait for somebody else's answer, each for a while, on a clock that may be set back."""

from collections import deque
from sys import getsizeof

from systems.api import Decide, Effect, SetTimer, Verdict

TIMER = "timeout"
WAITING_BYTES = 16  # a request that waits for its answer: its number and its deadline (model of A18)


class Questions:
    """What a node has asked; ``on_failure`` is its verdict where no answer came within ``timeout_ns``.

    If the clock is set back meanwhile, a question waits as long as before, or longer by the step where
    that is less than ``timeout_ns``.
    """

    def __init__(self, timeout_ns: int, on_failure: Verdict):
        self.timeout_ns, self.on_failure = timeout_ns, on_failure
        self.waiting: set[int] = set()  # request ids
        self._deadlines: deque[tuple[int, int]] = deque()  # (deadline, request id) as asked, answered ones too
        self._set_back = False  # whether the clock was, so that deadlines are out of order

    def asked(self, request_id: int, now_ns: int) -> list[Effect]:
        """A question has gone out; one timer runs, for the oldest."""
        deadline_ns, effects = now_ns + self.timeout_ns, list[Effect]()
        if not self._deadlines:
            effects.append(SetTimer(TIMER, deadline_ns))
        elif deadline_ns < self._deadlines[-1][0]:
            self._set_back = True
        self.waiting.add(request_id)
        self._deadlines.append((deadline_ns, request_id))
        return effects

    def answered(self, request_id: int, verdict: Verdict) -> list[Effect]:
        """The verdict, unless it was given already."""
        return self._decided(request_id, verdict, unanswered=False)

    def refused(self, request_id: int) -> list[Effect]:
        """What came was no answer: the verdict that is given alone, unless one was given already."""
        return self._decided(request_id, self.on_failure, unanswered=True)

    def rung(self, now_ns: int) -> list[Effect]:
        """The timer rang: decide those that waited too long."""
        if self._set_back or (self._deadlines and self._deadlines[0][0] > now_ns):
            self._follow_clock_back(now_ns)
        effects: list[Effect] = []
        while self._deadlines and (self._deadlines[0][0] <= now_ns or self._deadlines[0][1] not in self.waiting):
            _, request_id = self._deadlines.popleft()
            effects += self._decided(request_id, self.on_failure, unanswered=True)
        if self._deadlines:
            effects.append(SetTimer(TIMER, self._deadlines[0][0]))
        return effects

    def state_bytes(self) -> int:
        """What those that wait weigh in the model."""
        return WAITING_BYTES * len(self.waiting)

    def allocated_bytes(self) -> int:
        """What they take."""
        return getsizeof(self.waiting) + getsizeof(self._deadlines)

    def _decided(self, request_id: int, verdict: Verdict, unanswered: bool) -> list[Effect]:
        if request_id not in self.waiting:
            return []
        self.waiting.remove(request_id)
        return [Decide(request_id, verdict, unanswered)]

    def _follow_clock_back(self, now_ns: int) -> None:
        """The clock was set back: by as much as the oldest question's deadline is away, now that its timer has rung.

        Questions that seem to be asked later than now were asked before the step.  Of the others nobody
        knows, but none waits longer than those asked after it, nor than ``timeout_ns`` from now.
        """
        step_ns, self._set_back = max(0, self._deadlines[0][0] - now_ns), False
        moved: deque[tuple[int, int]] = deque()
        latest_ns = now_ns + self.timeout_ns
        for deadline_ns, request_id in reversed(self._deadlines):
            asked_before = deadline_ns - self.timeout_ns > now_ns
            latest_ns = min(latest_ns, deadline_ns - step_ns if asked_before else deadline_ns)
            moved.appendleft((latest_ns, request_id))
        moved[0] = min(now_ns, moved[0][0]), moved[0][1]
        self._deadlines = moved
