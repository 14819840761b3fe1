"""What a node of either throttler does alike: users' requests, its two timers, and what it tells of itself."""

from abc import ABC, abstractmethod
from collections.abc import Container
from sys import getsizeof

from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Message,
    Report,
    SetTimer,
    Start,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.throttling_users import INTEGERS_BYTES, Demand, KnownUsers, UserBuckets

USER_BYTES = 32 + 16 + 16  # model: the user's key, its share and tokens, its demand (each with an instant)


class ThrottlingNode(ABC):
    """One server, with a bucket for each user; it hears ``peers`` alone.

    The timer "cycle" runs while it has something to say at a cycle's end, "forget" while it remembers anybody.
    """

    def __init__(self, node_id: str, peers: Container[str], buckets: UserBuckets):
        self.node_id, self.peers, self.buckets = node_id, peers, buckets
        self._wakes = self._sweeps = False  # which timers run

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Delivery(source, message) if source in self.peers:
                return self._hear(source, message, now_ns)
            case Arrival(request):
                admitted = self.buckets.ask(request.user, request.cost, now_ns)
                verdict = Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT)
                return [verdict, *self._timers(now_ns)]
            case Report(Demand() as demand):
                return self._end_of_cycle(demand, now_ns)
            case Timer("cycle", due_at_ns):
                self._wakes = False
                return self._end_of_user_cycle(self.buckets.cycle_at(due_at_ns) - 1, now_ns)
            case Timer("forget", _):
                self._sweeps = False
                self._sweep(self.buckets.cycle_at(now_ns))
                return self._timers(now_ns)
            case Start(None | KnownUsers() as snapshot):
                if snapshot is not None:
                    self.buckets.restore(snapshot, now_ns)
                return self._timers(now_ns)
        raise UnexpectedEvent(self.node_id, event)

    @abstractmethod
    def _hear(self, source: str, message: Message, now_ns: int) -> list[Effect]: ...

    @abstractmethod
    def _end_of_cycle(self, demand: Demand, now_ns: int) -> list[Effect]: ...  # of the one limit for all

    @abstractmethod
    def _end_of_user_cycle(self, cycle: int, now_ns: int) -> list[Effect]: ...

    @abstractmethod
    def _sweep(self, cycle: int) -> None: ...  # forget whom nobody asked for during c/r

    def _timers(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._wakes and self._speaks():
            self._wakes = True
            effects.append(SetTimer("cycle", self.buckets.ends_at_ns(self.buckets.cycle_at(now_ns))))
        if not self._sweeps and self._remembers():
            self._sweeps = True
            effects.append(SetTimer("forget", now_ns + (self.buckets.forget + 1) * self.buckets.cycle_ns))
        return effects

    def _speaks(self) -> bool:
        return not self.idle()

    def _remembers(self) -> bool:
        return bool(self.buckets.users)

    # --- for whoever watches -------------------------------------------------------------------------

    def idle(self) -> bool:
        """No user is active: nothing is to be said."""
        return not self.buckets.active

    def state_bytes(self) -> int:
        """Model bytes: users."""
        return USER_BYTES * len(self.buckets.users)

    def allocated_bytes(self) -> int:
        """Tables and buckets, by CPython's sizes; the users' names belong to the requests."""
        total = getsizeof(self.buckets.users) + getsizeof(self.buckets.active)
        return total + sum(getsizeof(bucket) + INTEGERS_BYTES for bucket in self.buckets.users.values())

    def snapshot(self) -> Message:
        """The users that it knows."""
        return self.buckets.snapshot()

    def holds(self) -> dict[str, int]:
        """Its parts of each user's limit."""
        return self.buckets.holds()
