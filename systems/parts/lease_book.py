"""The allocator's book of leases: who holds how much of each user's bucket, and until when (Doorman).

Invariant, for each user: the parts of the pool and of all outstanding leases are the whole bucket.
A lease is outstanding until the holder says that it holds less, or until it has run out; so a new
lease never comes out of capacity that may still be in use.
"""

from dataclasses import dataclass, field
from sys import getsizeof
from typing import NamedTuple

from systems.parts.portion import Bucket, Portion
from systems.parts.shares import Share

_ACCOUNT_BYTES = 48 + 56 + 3 * 40 + 232  # two records with slots, their integers, a small table of leases
_LEASE_BYTES = 80 + 56 + 7 * 32  # a record, the pair in it, their integers


class LeaseClaim(NamedTuple):
    """What a client asks for one user: it ``wants`` so many parts and ``has`` so many.

    ``took``: the number of its last question whose answer it took.  ``surplus_millionths``: of tokens that
    it hands in, out of portions that it has given up.
    """

    user: str
    wants: int
    has: int
    took: int
    surplus_millionths: int


class Grant(NamedTuple):
    """The answer: the client may use ``parts`` from now on, and ``millionths`` of tokens come with the new ones.

    No parts: no lease, for now.
    """

    user: str
    parts: int
    millionths: int


@dataclass(slots=True)
class _Lease:
    """One client's lease as the allocator knows it; ``asked`` = (birth of the client, number of its question)."""

    asked: tuple[int, int]
    wants: int = 0
    outstanding: int = 0
    expires_at_ns: int = 0
    answered: int = 0  # the number of the last question that was answered
    millionths: int = 0  # tokens in that answer


@dataclass(slots=True)
class _Account:
    """One user's bucket: the pool of what is not leased, and the leases."""

    pool: Portion
    leases: dict[str, _Lease] = field(default_factory=dict)


class LeaseBook:
    """All accounts.  ``share`` divides what is wanted; ``lease_ns`` is how long a lease runs.

    ``spare``: what nobody wants is lent as well, to each holder one share of all ``count`` clients' (ours;
    Doorman grants nobody more than it wants).  ``safe_parts``: what a client uses without a lease.
    ``bucket``: without a minimum, which is of those who admit; the pool never does.
    """

    def __init__(self, bucket: Bucket, count: int, share: Share, lease_ns: int, spare: bool, safe_parts: int):
        self.bucket, self.count, self.share, self.lease_ns, self.spare = bucket, count, share, lease_ns, spare
        self.safe_parts = safe_parts
        self.accounts: dict[str, _Account] = {}
        self.lease_count = 0
        self.empty_at_ns: int | None = None  # unknown users' buckets were empty then; None: they are full

    def allocated_bytes(self) -> int:
        """Tables, records and their integers, by the size of a typical one."""
        return getsizeof(self.accounts) + _ACCOUNT_BYTES * len(self.accounts) + _LEASE_BYTES * self.lease_count

    def learn(self, client: str, asked: tuple[int, int], claim: LeaseClaim, now_ns: int) -> Grant:
        """Write down what a client says it has, for one more lease length; its pool is taken to be empty."""
        account = self._account(claim.user, now_ns, known_empty=True)
        account.pool.refill(self.bucket, now_ns)
        lease = self._lease(account, client, asked)
        account.pool.parts += lease.outstanding
        lease.outstanding = min(claim.has, account.pool.parts)
        account.pool.parts -= lease.outstanding
        account.pool.cut(self.bucket)
        lease.asked, lease.wants, lease.expires_at_ns = asked, claim.wants, now_ns + self.lease_ns
        lease.answered, lease.millionths = asked[1], 0
        return Grant(claim.user, lease.outstanding, 0)

    def learned(self, now_ns: int, from_nothing: bool) -> None:
        """All outstanding leases are known from now on.

        ``from_nothing``: there never was another book, so that unknown users' buckets are full; else
        nobody knows what was in the pools, and they are taken to be empty.
        """
        self.empty_at_ns = None if from_nothing else now_ns
        for account in self.accounts.values():
            account.pool.refill(self.bucket, now_ns)
            account.pool.grains = 0

    def answer(self, client: str, asked: tuple[int, int], claim: LeaseClaim, now_ns: int) -> Grant | None:
        """Divide a user's bucket for one question; None where there is nothing to say."""
        account = self._account(claim.user, now_ns)
        self._expire(account, now_ns)
        lease = self._lease(account, client, (asked[0], asked[1] - 1))
        if asked <= lease.asked:
            return None  # it came late or twice
        has = self._settle(account, lease, asked, claim)
        if claim.wants == 0:
            self._drop(account, client)
            return None
        lease.wants = claim.wants
        target = self._target(account, lease)
        parts = min(target, account.pool.parts + has)
        if not has and parts < min(target, self.safe_parts):
            parts = 0  # no lease: until others have let go, the client is better off with its safe share
        lease.millionths = account.pool.give(self.bucket, max(0, parts - has))
        lease.outstanding, lease.answered = max(has, parts), asked[1]
        lease.expires_at_ns = now_ns + self.lease_ns
        return Grant(claim.user, parts, lease.millionths)

    def sweep(self, now_ns: int) -> None:
        """Forget users of whom nothing is leased and whose bucket is full."""
        for user, account in list(self.accounts.items()):
            self._expire(account, now_ns)
            if not account.leases and account.pool.missing(self.bucket) <= 0:
                del self.accounts[user]

    def _account(self, user: str, now_ns: int, known_empty: bool = False) -> _Account:
        if user not in self.accounts:
            parts = self.bucket.parts
            if known_empty:
                pool = Portion(parts, 0, now_ns)
            elif self.empty_at_ns is not None:
                pool = Portion(parts, 0, self.empty_at_ns)
            else:
                pool = Portion(parts, self.bucket.most(parts), now_ns)
            self.accounts[user] = _Account(pool)
        return self.accounts[user]

    def _expire(self, account: _Account, now_ns: int) -> None:
        """Take back the leases that ran out; the tokens in them stay where they are."""
        account.pool.refill(self.bucket, now_ns)
        over = [client for client, lease in account.leases.items() if lease.expires_at_ns <= now_ns]
        for client in over:
            account.pool.parts += self._drop(account, client)

    def _lease(self, account: _Account, client: str, asked: tuple[int, int]) -> _Lease:
        if client not in account.leases:
            account.leases[client] = _Lease(asked)
            self.lease_count += 1
        return account.leases[client]

    def _drop(self, account: _Account, client: str) -> int:
        """Forget a lease; what was outstanding of it."""
        self.lease_count -= 1
        return account.leases.pop(client).outstanding

    def _settle(self, account: _Account, lease: _Lease, asked: tuple[int, int], claim: LeaseClaim) -> int:
        """Bring the book up to what the client says; returns what it has.

        It takes only the answer to its last question.  So what it does not have at this one, it will
        never have; and tokens in an answer that it never took are still ours, if it has not been
        restarted since.
        """
        has = min(claim.has, lease.outstanding)  # a question that was held up may speak of a lease that is over
        account.pool.parts += lease.outstanding - has
        lost = lease.millionths if lease.asked[0] == asked[0] and lease.answered != claim.took else 0
        account.pool.grains += (lost + claim.surplus_millionths) * self.bucket.millionth
        account.pool.cut(self.bucket)
        lease.asked = asked
        return has

    def _target(self, account: _Account, lease: _Lease) -> int:
        """What the client shall have once all others have what they shall."""
        leases = list(account.leases.values())
        wants = [other.wants for other in leases]
        granted = self.share(self.bucket.parts, wants)[next(i for i, other in enumerate(leases) if other is lease)]
        left = self.bucket.parts - sum(wants)
        return granted + (left // self.count if self.spare and left > 0 else 0)
