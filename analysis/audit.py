"""What a log of a rate limiter in operation proves: a checker, as there are checkers for databases.

A line's stamp is a reading of some clock: the request was decided at an unknown instant of [stamp, stamp + blur], where
the caller has moved the stamps to the left end.  Whatever is reported holds for *every* choice of these instants, so a
limiter that keeps its promise is never blamed, whatever its clocks did within the bound.

*Excess* of a bucket (c, r), of admissions i to j in the order of their stamps: the largest
j - i + 1 - c - r (t_j - t_i + blur); some choice of instants has no more (the earliest that a bucket of c + excess
tokens allows).  Of windows: what surely fell into one, less N.

*Wrongly withheld* is a rejection before which, for no choice, as much could have been admitted as to leave less than a
token, or no place in the window.  What was admitted before the log begins is unknown: as much as may be.

Instants are whole nanoseconds, balances whole ticks (1/p ns, with r = p/q tokens a nanosecond), so that ties are ties.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.records import Int64

BUCKET, SLIDING, ALIGNED = PROMISES = ("bucket", "sliding-window", "fixed-window")
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Promise:
    """What a limiter promises each user.

    bucket: ``count`` tokens at most, p/q of which come back a nanosecond; sliding-window: at most ``count`` in any
    [t, t + period); fixed-window: in any that begins at a multiple of the period since 1970.
    """

    kind: str
    count: int
    ticks_per_ns: int  # p
    token_ticks: int  # q
    period_ns: int


class Excess(NamedTuple):
    """The least by which a user got more than was promised, and where: of its admissions those ``first`` to ``last``.

    ``tokens``: 0.0 where nothing is proven; ``admitted_count`` of them were admitted in ``[from_ns, to_ns]`` by their
    stamps, and ``allowed`` would have been, at most.  ``needed_ns``: the least blur with which a limiter that keeps its
    promise may have left that log; of fixed windows None.
    """

    tokens: float
    from_ns: int
    to_ns: int
    admitted_count: int
    allowed: float
    needed_ns: int | None


def least_excess(at_ns: Int64, blur_ns: int, promise: Promise) -> Excess:
    """Of one user's admissions, by stamps that ascend, shape (n,)."""
    if not len(at_ns):
        return Excess(0.0, 0, 0, 0, float(promise.count), None)
    if promise.kind == BUCKET:
        return _of_bucket(at_ns, blur_ns, promise)
    if promise.kind == SLIDING:
        within_ns = promise.period_ns - blur_ns
        ends = np.searchsorted(at_ns, at_ns + within_ns, "left") if within_ns > 0 else np.arange(len(at_ns))
        inside = np.maximum(ends - np.arange(len(at_ns)), 1)
        first, needed_ns = int(inside.argmax()), _needed(at_ns, promise)
        count = int(inside[first])
    else:
        needed_ns = None
        window = at_ns // promise.period_ns
        sure = np.flatnonzero((at_ns + blur_ns) // promise.period_ns == window)
        if not len(sure):
            return Excess(0.0, int(at_ns[0]), int(at_ns[0]), 1, float(promise.count), None)
        begins = np.flatnonzero(np.diff(window[sure], prepend=window[sure[0]] - 1))
        counts = np.diff(begins, append=len(sure))
        most = int(counts.argmax())
        first, count = int(sure[begins[most]]), int(counts[most])
    beyond = max(0, count - promise.count)
    last = first + count - 1
    return Excess(float(beyond), int(at_ns[first]), int(at_ns[last]), count, float(promise.count), needed_ns)


def _needed(at_ns: Int64, promise: Promise) -> int:
    """The blur that leaves no N + 1 admissions surely within a period."""
    spans = at_ns[promise.count :] - at_ns[: max(0, len(at_ns) - promise.count)]
    return max(0, promise.period_ns - int(spans.min(initial=promise.period_ns)))


def _of_bucket(at_ns: Int64, blur_ns: int, promise: Promise) -> Excess:
    since, p, q = _since(at_ns, promise, at_ns[0])
    taken = q * _counts(since)
    highest = np.maximum.accumulate(p * since - taken)  # over where an interval begins
    balances = taken + q - p * since + highest
    last = int(balances.argmax())
    first = int((p * since[: last + 1] - taken[: last + 1]).argmax())
    over = int(balances[last]) - promise.count * q
    beyond = max(0, over - p * blur_ns)
    allowed = promise.count + p * (int(since[last] - since[first]) + blur_ns) / q
    return Excess(beyond / q, int(at_ns[first]), int(at_ns[last]), last - first + 1, allowed, max(0, -(-over // p)))


def wrongly_withheld(at_ns: Int64, is_admitted: Bools, blur_ns: int, promise: Promise, begin_ns: int) -> Bools:
    """Which of one user's requests, shape (n,), were rejected though the promise left room for them, in any case.

    ``begin_ns``: the latest instant at which the log may have begun; what came before is unknown.
    """
    admitted, rejected = at_ns[is_admitted], at_ns[~is_admitted]
    most = _taken_before if promise.kind == BUCKET else _in_window if promise.kind == SLIDING else _in_fixed_windows
    wrong = np.zeros(len(at_ns), bool)
    wrong[~is_admitted] = most(admitted, rejected, blur_ns, promise, begin_ns)
    return wrong


def _taken_before(admitted: Int64, rejected: Int64, blur_ns: int, promise: Promise, begin_ns: int) -> Bools:
    """Of a bucket: whether a token was there, however much of what came before was late."""
    since, p, q = _since(admitted, promise, begin_ns, rejected)
    asked = rejected.astype(since.dtype) - begin_ns
    late = since + blur_ns
    refilled = np.maximum.accumulate(p * late - q * _counts(since)) if len(since) else since

    def taken(at: Any) -> Any:
        """Ticks that may be missing from the bucket at instants since ``begin_ns``, at most."""
        before = np.searchsorted(since, at, "right").astype(since.dtype)
        sure = np.searchsorted(late, at, "right")  # of these the latest instant is over
        missing = np.maximum((promise.count + before) * q - p * np.maximum(at, 0), (before - sure) * q)
        if len(since):
            past = before * q - p * at + refilled[np.maximum(sure - 1, 0)]
            missing = np.where(sure > 0, np.maximum(missing, past), missing)
        return missing

    had_room: Bools = _most(taken, since, asked, blur_ns) <= (promise.count - 1) * q
    return had_room


def _in_window(admitted: Int64, rejected: Int64, blur_ns: int, promise: Promise, begin_ns: int) -> Bools:
    """Of sliding windows: whether less than N may have been admitted in the last period."""

    def inside(at: Any) -> Any:
        gone = np.searchsorted(admitted + blur_ns, at - promise.period_ns, "right")
        unknown = promise.count * (at - promise.period_ns < begin_ns)
        return np.searchsorted(admitted, at, "right") - gone + unknown

    had_room: Bools = _most(inside, admitted, rejected, blur_ns) < promise.count
    return had_room


def _in_fixed_windows(admitted: Int64, rejected: Int64, blur_ns: int, promise: Promise, begin_ns: int) -> Bools:
    """Of fixed windows: whether less than N may have been admitted in each that the rejection may have been in."""
    period_ns, most = promise.period_ns, np.zeros(len(rejected), np.int64)
    for number in range(blur_ns // period_ns + 2):
        begin = (rejected // period_ns + number) * period_ns
        ends = np.minimum(rejected + blur_ns, begin + period_ns - 1)
        count = np.searchsorted(admitted, ends, "right") - np.searchsorted(admitted + blur_ns, begin, "left")
        count = count + promise.count * (begin < begin_ns)
        most = np.maximum(most, np.where(begin <= rejected + blur_ns, count, 0))
    return most < promise.count


def _most(value: Any, admitted: Any, asked: Any, blur_ns: int) -> Any:
    """The largest ``value`` over [asked, asked + blur]: at its left end, or where an admission may first have been."""
    at_left = value(asked)
    if not len(admitted):
        return at_left
    begin, end = (np.searchsorted(admitted, instants, "right") for instants in (asked, asked + blur_ns))
    values = np.append(value(admitted), 0)
    inside = np.maximum.reduceat(values, np.column_stack([begin, end]).ravel())[::2] if len(asked) else at_left
    return np.where(begin < end, np.maximum(inside, at_left), at_left)


def _counts(values: Any) -> Any:
    """0, 1, 2 ... as many, and of that type."""
    return np.arange(len(values)).astype(values.dtype)


def _since(at_ns: Int64, promise: Promise, begin_ns: int, *others: Int64) -> tuple[Any, int, int]:
    """Instants since ``begin_ns``, p and q; in a type that holds all balances: 64 bits, or Python's own integers."""
    far = max(int(np.abs(each - begin_ns).max(initial=0)) for each in (at_ns, *others))
    fits = promise.ticks_per_ns * far + promise.token_ticks * (len(at_ns) + promise.count + 1) < 2**61
    return (at_ns - begin_ns).astype(np.int64 if fits else object), promise.ticks_per_ns, promise.token_ticks


# --- a whole log ---------------------------------------------------------------------------------


class Proof(NamedTuple):
    """Of one user: counts of its requests, the excess, and what was wrongly withheld, from ``first_ns`` to ``last_ns``.

    ``unjudged_count``: rejections that may have been after ``until_ns``, when not all files of the log speak any more.
    """

    user: int
    admitted_count: int
    rejected_count: int
    excess: Excess
    withheld_count: int
    first_ns: int | None
    last_ns: int | None
    unjudged_count: int


def audit(
    at_ns: Int64, user: Any, is_admitted: Bools, blur_ns: int, promise: Promise, begin_ns: int, until_ns: int
) -> tuple[list[Proof], Bools]:
    """Each user's finding, and which requests were wrongly rejected; rows of shape (n,), stamps that ascend.

    ``at_ns``: the left ends; ``begin_ns``, ``until_ns``: where what came before and what came later is unknown.
    """
    order = np.argsort(user, kind="stable")
    begins = np.flatnonzero(np.diff(user[order], prepend=-1))
    wrong, findings = np.zeros(len(at_ns), bool), []
    for rows in np.split(order, begins[1:]) if len(order) else []:
        at, admitted = at_ns[rows], is_admitted[rows]
        judged = at + blur_ns <= until_ns  # no admission that is not logged any more may have been before it
        mine = np.zeros(len(rows), bool)
        if not admitted.all():
            mine = wrongly_withheld(at, admitted, blur_ns, promise, begin_ns) & judged
        wrong[rows] = mine
        instants = at[mine]
        findings.append(
            Proof(
                user=int(user[rows[0]]),
                admitted_count=int(admitted.sum()),
                rejected_count=int((~admitted).sum()),
                excess=least_excess(at[admitted], blur_ns, promise),
                withheld_count=len(instants),
                first_ns=int(instants[0]) if len(instants) else None,
                last_ns=int(instants[-1]) if len(instants) else None,
                unjudged_count=int((~admitted & ~judged).sum()),
            )
        )
    return findings, wrong
