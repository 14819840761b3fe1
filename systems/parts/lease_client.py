"""A client of leases: what it has of each user's bucket, what it wants, and what it decides by that.

Pure bookkeeping: its owner sends the claims as questions, and hands in the answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from systems.parts.lease_book import Grant, LeaseClaim
from systems.parts.portion import MILLION, Bucket, Portion

NEVER = -(2**63)
_WANTS_MAXIMUM = 2**50  # parts: a bound for the codec, far above any rate


@dataclass(frozen=True)
class Terms:
    """The options of leases as numbers; ``safe_parts``: what a client uses of a bucket without a lease."""

    bucket: Bucket
    safe_parts: int
    refresh_ns: int
    lease_ns: int
    window_ns: int


@dataclass(slots=True)
class Borrowed:
    """What a client knows of one user.  Without a lease ``portion`` is the safe share."""

    portion: Portion
    since_ns: int  # beginning of the window that runs
    seen_at_ns: int  # last request
    previous: int = 0  # tokens asked for in the last window
    current: int = 0  # and in this one
    until_ns: int | None = None  # end of the lease; None: there is none
    waiting: bool = False  # for an answer
    asked: int = 0  # number of the last question
    asked_at_ns: int = 0
    patience_ns: int = 0  # asks again after that long
    took: int = 0  # number of the last question whose answer was taken
    wants: int = 0  # in the last question
    demanded: bool = False  # since the last question
    denied_until_ns: int = NEVER  # after a refusal: asks at once again from then on
    surplus: int = 0  # millionths of tokens to hand in


class LeaseClient:
    """Decides by what it has leased, and asks for more or less.

    Every method that returns claims makes one question of them: ``number``.
    """

    def __init__(self, terms: Terms):
        self.terms, self.number = terms, 0
        self.waiting_count = 0  # users with an unanswered question
        self.users: dict[str, Borrowed] = {}

    def demand(self, user: str, cost: int, now_ns: int) -> list[LeaseClaim]:
        """A request has come; asks at once if there is no lease, unless it was told so within the refresh interval."""
        borrowed = self.users.get(user)
        if borrowed is None:
            borrowed = self.users[user] = Borrowed(self.safe_portion(now_ns), now_ns, now_ns)
        self._settle(borrowed, now_ns)
        borrowed.current += cost
        borrowed.seen_at_ns, borrowed.demanded = now_ns, True
        if borrowed.until_ns is not None or borrowed.waiting or now_ns < borrowed.denied_until_ns:
            return []
        return self._ask([(user, borrowed)], now_ns)

    def admit(self, user: str, cost: int) -> bool:
        """Decide the request that ``demand`` was told of at the same instant."""
        return self.users[user].portion.take(self.terms.bucket, cost)

    def refresh(self, now_ns: int) -> list[LeaseClaim]:
        """What to ask now; forgets users without requests whose safe share is full."""
        due, over = [], []
        for user, borrowed in list(self.users.items()):
            self._settle(borrowed, now_ns)
            if now_ns - borrowed.seen_at_ns < self.terms.lease_ns:
                if self._is_due(borrowed, now_ns):
                    due.append((user, borrowed))
            elif borrowed.until_ns is not None or borrowed.waiting or borrowed.surplus:
                over.append((user, borrowed))
            elif borrowed.portion.missing(self.terms.bucket) <= 0:
                del self.users[user]
        return self._ask(due, now_ns, over)

    def statement(self, now_ns: int) -> list[LeaseClaim]:
        """All that it has, and what it waits for: for an allocator that must learn."""
        stated = []
        for user, borrowed in self.users.items():
            self._settle(borrowed, now_ns)
            if borrowed.until_ns is not None or borrowed.waiting:
                stated.append((user, borrowed))
        return self._ask(stated, now_ns)

    def granted(self, number: int, grants: Iterable[Grant], now_ns: int) -> list[LeaseClaim]:
        """Take the answers to its last questions; confirms at once where it was given less than it had."""
        less = []
        for grant in grants:
            borrowed = self.users.get(grant.user)
            if borrowed is None or not borrowed.waiting or borrowed.asked != number:
                continue  # it has asked again since, or gave up
            self._wait(borrowed, False)
            self._settle(borrowed, now_ns)
            if grant.parts == 0:
                borrowed.took, borrowed.denied_until_ns = borrowed.asked, now_ns + self.terms.refresh_ns
            elif borrowed.asked_at_ns + self.terms.lease_ns > now_ns and self._take(borrowed, grant):
                less.append((grant.user, borrowed))
        return self._ask(less, now_ns, anew=False)  # or every answer would bring on a question

    def copy(self, user: str, lacking_millionths: int, now_ns: int) -> None:
        """Begin with what a peer knew of a user."""
        self.users[user] = Borrowed(self.safe_portion(now_ns, lacking_millionths), now_ns, now_ns)

    def safe_portion(self, now_ns: int, lacking_millionths: int = 0) -> Portion:
        """The safe share, full but for ``lacking_millionths`` of it."""
        most = self.terms.bucket.most(self.terms.safe_parts)
        return Portion(self.terms.safe_parts, most * (MILLION - lacking_millionths) // MILLION, now_ns)

    def lacking_millionths(self) -> list[tuple[str, int]]:
        """What each user's portion lacks, in millionths of it; a user's is between nothing and all."""
        bucket = self.terms.bucket
        rows = []
        for user, borrowed in self.users.items():
            most = max(1, bucket.most(borrowed.portion.parts))
            lacking = -(-borrowed.portion.missing(bucket) * MILLION // most)
            rows.append((user, min(MILLION, max(0, lacking)) if borrowed.portion.parts else MILLION))
        return rows

    def _settle(self, borrowed: Borrowed, now_ns: int) -> None:
        """Tokens as of now; a lease that ran out leaves the safe share."""
        if borrowed.until_ns is not None and now_ns >= borrowed.until_ns:
            borrowed.portion.refill(self.terms.bucket, borrowed.until_ns)
            self._lapse(borrowed)
        borrowed.portion.refill(self.terms.bucket, now_ns)
        if now_ns - borrowed.since_ns >= self.terms.window_ns:
            passed = (now_ns - borrowed.since_ns) // self.terms.window_ns
            borrowed.previous, borrowed.current = (borrowed.current if passed == 1 else 0), 0
            borrowed.since_ns += passed * self.terms.window_ns

    def _wants(self, borrowed: Borrowed, now_ns: int) -> int:
        """The mean rate over this window and the last, in parts; at least one."""
        span_ns = self.terms.window_ns + now_ns - borrowed.since_ns
        parts = self.terms.bucket.parts_of(borrowed.previous + borrowed.current, span_ns)
        return min(max(1, parts), _WANTS_MAXIMUM)

    def _is_due(self, borrowed: Borrowed, now_ns: int) -> bool:
        age_ns = now_ns - borrowed.asked_at_ns
        if borrowed.waiting:
            return age_ns >= borrowed.patience_ns
        if borrowed.demanded or borrowed.until_ns is None:
            return borrowed.demanded
        return 2 * age_ns >= self.terms.lease_ns or 2 * self._wants(borrowed, now_ns) <= borrowed.wants

    def _ask(
        self,
        users: list[tuple[str, Borrowed]],
        now_ns: int,
        over: Sequence[tuple[str, Borrowed]] = (),
        anew: bool = True,
    ) -> list[LeaseClaim]:
        """One question about ``users``, that also hands back the leases of those that are ``over``.

        ``anew``: about what they want by now; else it repeats what they wanted.
        """
        self.number += bool(users or over)
        claims = []
        for user, borrowed in users:
            borrowed.wants = self._wants(borrowed, now_ns) if anew else borrowed.wants
            has = borrowed.portion.parts if borrowed.until_ns is not None else 0
            claims.append(LeaseClaim(user, borrowed.wants, has, borrowed.took, borrowed.surplus))
            # A question that waits for the end of a partition is not asked again and again.
            patience_ns = 2 * borrowed.patience_ns if borrowed.waiting else self.terms.refresh_ns
            borrowed.patience_ns = min(patience_ns, self.terms.lease_ns)
            borrowed.demanded, borrowed.surplus = False, 0
            borrowed.asked, borrowed.asked_at_ns = self.number, now_ns
            self._wait(borrowed, True)
        for user, borrowed in over:
            self._wait(borrowed, False)
            if borrowed.until_ns is not None:
                self._lapse(borrowed)
            claims.append(LeaseClaim(user, 0, 0, borrowed.took, borrowed.surplus))
            borrowed.surplus = 0
        return claims

    def _wait(self, borrowed: Borrowed, waiting: bool) -> None:
        self.waiting_count += waiting - borrowed.waiting
        borrowed.waiting = waiting

    def _lapse(self, borrowed: Borrowed) -> None:
        """Back to the safe share: full but for what is owed, as it is all borrowed.

        What the lease still held is to be handed in: were it kept, ``_take`` would charge what the share lacks then.
        """
        bucket, portion = self.terms.bucket, borrowed.portion
        handed = max(0, portion.grains) // bucket.millionth
        borrowed.surplus += handed
        borrowed.until_ns, portion.parts = None, self.terms.safe_parts
        portion.grains += bucket.most(portion.parts) - handed * bucket.millionth
        portion.cut(bucket)

    def _take(self, borrowed: Borrowed, grant: Grant) -> bool:
        """Change over to what is granted; whether that is less than before."""
        bucket, portion = self.terms.bucket, borrowed.portion
        borrowed.took = borrowed.asked
        had = portion.parts if borrowed.until_ns is not None else 0
        if borrowed.until_ns is None:
            portion.grains = -portion.missing(bucket)  # what was taken without a lease is owed
        elif grant.parts < portion.parts:
            borrowed.surplus += portion.give(bucket, portion.parts - grant.parts)
        portion.parts = grant.parts
        portion.grains += grant.millionths * bucket.millionth
        portion.cut(bucket)
        borrowed.until_ns = borrowed.asked_at_ns + self.terms.lease_ns
        return grant.parts < had
