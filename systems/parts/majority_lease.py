"""Leases by majority vote, without a disk and without a clock in common (after PaxosLease, Trencseni et al., 2012).

Everybody is a voter.  A voter gives its vote for a name to one candidate at a time, and as long as that candidate's
*session* with it lives: a lease from the last sign of life.  A candidate that has a majority holds the name, until as
many votes have run out that no majority is left; it counts from when it *sent* a sign of life that was answered, and a
margin less, so that its own count ends first.  A voter that begins, perhaps anew after a crash in which it forgot its
votes, gives none for a lease.  So a name has one holder at a time, whatever is lost, cut off, crashed or late, as long
as no two clocks drift apart by the margin within a lease.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from core.units import NEVER_NS

NOBODY = ""


def held_ns(lease_ns: int) -> int:
    """How long a candidate counts on a vote: a tenth less than its voter does."""
    return lease_ns - lease_ns // 10


def majority(voters: int) -> int:
    """The least number of votes of which no two candidates can have so many."""
    return voters // 2 + 1


def runs_out_ns(valid_until_ns: Iterable[int], needed: int) -> int:
    """Until when at least ``needed`` of these votes are valid; below every instant where they are too few."""
    latest_first = sorted(valid_until_ns, reverse=True)
    return latest_first[needed - 1] if len(latest_first) >= needed else -NEVER_NS


@dataclass
class _Session:
    """Of a candidate with this voter; a later ``number`` is a later session."""

    number: int
    heard_ns: int


class Voter:
    """The votes of one node, which is a candidate itself: its session with itself never ends."""

    def __init__(self, node_id: str, lease_ns: int):
        self.node_id, self.lease_ns = node_id, lease_ns
        self._votes_from_ns = NEVER_NS
        self._sessions: dict[str, _Session] = {}
        self._votes: dict[str, str] = {}  # name -> candidate

    def begin(self, now_ns: int) -> None:
        """It lives, and does not know what it did before."""
        self._votes_from_ns = now_ns + self.lease_ns

    def votes(self, now_ns: int) -> bool:
        """Whether what it may have forgotten has run out."""
        return now_ns >= self._votes_from_ns

    def lives(self, candidate: str, now_ns: int) -> bool:
        """Whether a candidate's session does."""
        session = self._sessions.get(candidate)
        return candidate == self.node_id or (session is not None and now_ns - session.heard_ns < self.lease_ns)

    def renew(self, candidate: str, number: int, opens: bool, now_ns: int) -> bool:
        """A sign of life in session ``number``; False where that is over, or unknown and not to be opened."""
        session = self._sessions.get(candidate)
        if session is None or number > session.number:
            self._forget(candidate)
            if not opens:
                return False
            self._sessions[candidate] = _Session(number, now_ns)
            return True
        if number < session.number or not self.lives(candidate, now_ns):
            return False
        session.heard_ns = now_ns
        return True

    def is_in(self, candidate: str, number: int, now_ns: int) -> bool:
        """Whether this is the session that lives."""
        session = self._sessions.get(candidate)
        return session is not None and session.number == number and self.lives(candidate, now_ns)

    def vote(self, name: str, candidate: str, now_ns: int) -> str:
        """For whom it has voted, with ``candidate`` asking: ``NOBODY`` in its first lease."""
        if not self.votes(now_ns):
            return NOBODY
        holder = self.holder(name, now_ns)
        if not holder:
            self._votes[name] = holder = candidate
        return holder

    def holder(self, name: str, now_ns: int) -> str:
        """Who has its vote; ``NOBODY`` where nobody has."""
        candidate = self._votes.get(name, NOBODY)
        if candidate and not self.lives(candidate, now_ns):
            self._forget(candidate)
            return NOBODY
        return candidate

    def give_back(self, name: str, candidate: str, successor: str, now_ns: int) -> None:
        """``candidate`` wants the vote no longer, or wants ``successor`` to have it."""
        if self._votes.get(name) != candidate:
            return
        del self._votes[name]
        if successor and self.lives(successor, now_ns):
            self._votes[name] = successor

    def _forget(self, candidate: str) -> None:
        self._votes = {name: other for name, other in self._votes.items() if other != candidate}
