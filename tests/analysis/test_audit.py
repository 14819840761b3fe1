"""The auditor against every choice of instants that a log leaves open, and against limiters whose excess is known."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.audit import ALIGNED, BUCKET, PROMISES, SLIDING, Promise, audit, least_excess, wrongly_withheld
from core.errors import SpecError
from systems.parts.limit import gcra, limit_of, per_period

S = 1_000_000_000


def promise_of(kind, count, period_ns):
    """N in a period of whole nanoseconds: p/q = N / period."""
    per_ns = Fraction(count, period_ns)
    return Promise(kind, count, per_ns.numerator, per_ns.denominator, period_ns)


# --- what is admitted, by definition -------------------------------------------------------------


def excess_of(instants, promise):
    """Of admissions at known instants."""
    times, over = sorted(instants), Fraction(0)
    for i in range(len(times)):
        for j in range(i, len(times)):
            count, span = j - i + 1, times[j] - times[i]
            same = {
                BUCKET: True,
                SLIDING: span < promise.period_ns,
                ALIGNED: times[i] // promise.period_ns == times[j] // promise.period_ns,
            }
            back = Fraction(promise.ticks_per_ns * span, promise.token_ticks) if promise.kind == BUCKET else 0
            over = max(over, (count - promise.count - back) * same[promise.kind])
    return over


def leaves_room(admitted, at, promise, begin):
    """Whether a request at ``at`` had to be admitted, after these admissions and the most that may have come before."""
    before = [instant for instant in admitted if instant <= at]
    if promise.kind == BUCKET:
        level, last = Fraction(promise.count), 0
        for instant in sorted([*before, *[min(begin, at)] * promise.count]):  # empty when the log begins
            level, last = refilled(level, instant - last, promise) - 1, instant
        return refilled(level, at - last, promise) >= 1
    if promise.kind == SLIDING:
        is_known = at - promise.period_ns >= begin
        return is_known and sum(instant > at - promise.period_ns for instant in before) < promise.count
    window = at // promise.period_ns
    inside = sum(instant // promise.period_ns == window for instant in before)
    return window * promise.period_ns >= begin and inside < promise.count


def refilled(level, span, promise):
    return min(Fraction(promise.count), level + Fraction(promise.ticks_per_ns * span, promise.token_ticks))


def choices(stamps, blur):
    return product(*(range(at, at + blur + 1) for at in stamps))


PROMISED = st.builds(promise_of, st.sampled_from(PROMISES), st.integers(1, 3), st.integers(1, 7))
STAMPS = st.lists(st.integers(0, 12), min_size=1, max_size=5).map(sorted)


@given(STAMPS, st.integers(0, 3), PROMISED)
@settings(max_examples=500)
def test_the_excess_is_the_least_over_all_choices_of_instants(stamps, blur, promise):
    found = least_excess(np.array(stamps, np.int64), blur, promise)
    least = min(excess_of(instants, promise) for instants in choices(stamps, blur))
    if promise.kind == BUCKET:  # exactly, but for instants between whole nanoseconds
        assert found.tokens <= float(least) + 1e-9 and feasible(stamps, blur, promise, Fraction(found.tokens))
    else:
        assert found.tokens <= least
    assert least_excess(np.array(stamps, np.int64), 0, promise).tokens == pytest.approx(
        float(excess_of(stamps, promise))
    )


def feasible(stamps, blur, promise, excess):
    """Whether a bucket of c + excess tokens admits all, each as early as it may."""
    capacity, rate = promise.count + excess, Fraction(promise.ticks_per_ns, promise.token_ticks)
    level, last = capacity, Fraction(0)
    for at in stamps:
        earliest = max(Fraction(at), last)
        level_then = min(capacity, level + rate * (earliest - last))
        wait = max(Fraction(0), (1 - level_then) / rate)
        if earliest + wait > at + blur + Fraction(1, 10**6):  # floats have cut the excess
            return False
        level, last = min(capacity, level_then + rate * wait) - 1, earliest + wait
    return True


@given(STAMPS, st.data(), st.integers(0, 2), PROMISED)
@settings(max_examples=500)
def test_a_rejection_is_wrong_where_it_is_by_every_choice(stamps, data, blur, promise):
    """Not more are blamed than that, and of a log whose beginning is known not fewer, either."""
    verdicts = np.array(data.draw(st.lists(st.booleans(), min_size=len(stamps), max_size=len(stamps))))
    at, admitted_at = np.array(stamps, np.int64), [at for at, is_in in zip(stamps, verdicts, strict=True) if is_in]
    for begin in (stamps[0], stamps[0] + blur):
        found = wrongly_withheld(at, verdicts, blur, promise, begin)
        for number in np.flatnonzero(~verdicts):
            always = all(
                leaves_room(instants, asked, promise, begin)
                for asked in range(stamps[number], stamps[number] + blur + 1)
                for instants in choices(admitted_at, blur)
            )
            assert always or not found[number]
            assert found[number] or not always or begin > stamps[0]
        assert not found[verdicts].any()


def test_balances_beyond_64_bits_are_exact():
    promise = Promise(BUCKET, 2, 999_983, 86_400 * S, S)
    at = np.repeat(np.arange(3) * 300 * 86_400 * S + 1_700_000_000 * S, [1, 3, 4]).astype(np.int64)
    found = least_excess(at, 0, promise)
    assert (found.tokens, found.admitted_count, found.from_ns) == (2.0, 4, at[-1])
    for seed in range(10):  # close to each other, over three years
        gaps = np.random.default_rng(seed).integers(0, 200_000_000, 12) * np.repeat([1, 10**9], [8, 4])[:12]
        stamps = np.cumsum(gaps[np.random.default_rng(seed).permutation(12)])
        assert least_excess(stamps, 0, promise).tokens == float(excess_of(stamps.tolist(), promise))
    for admitted, is_wrong in ((2, False), (1, True)):  # of the last four
        verdicts = np.array([True] * (4 + admitted) + [False] * (4 - admitted))
        wrong = wrongly_withheld(at, verdicts, 0, promise, int(at[0]))
        assert wrong.tolist() == [False] * (4 + admitted) + [is_wrong] * (4 - admitted)


def test_a_rejection_may_have_been_in_the_next_fixed_window():
    promise = promise_of(ALIGNED, 1, 10)
    at, verdicts = np.array([0, 31, 39], np.int64), np.array([True, True, False])
    assert not wrongly_withheld(at, verdicts, 0, promise, 0)[2]
    assert not wrongly_withheld(np.array([0, 42, 39])[[0, 2, 1]], verdicts[[0, 2, 1]], 4, promise, 0)[1]
    assert wrongly_withheld(np.array([0, 44, 39])[[0, 2, 1]], verdicts[[0, 2, 1]], 4, promise, 0)[1]
    # One in each of the two windows that it may have been in, of two: wrong in either.
    promise = promise_of(ALIGNED, 2, 10)
    assert wrongly_withheld(np.array([0, 33, 39, 41]), np.array([True, True, False, True]), 4, promise, 0)[2]


def test_where_and_how_far_clocks_would_have_to_be_off():
    promise = promise_of(BUCKET, 10, S)
    at = np.repeat([100 * S, 200 * S], [3, 30]).astype(np.int64)
    found = least_excess(at, 0, promise)
    assert (found.tokens, found.from_ns, found.to_ns, found.admitted_count) == (20.0, 200 * S, 200 * S, 30)
    assert found.allowed == 10 and found.needed_ns == 2 * S
    assert least_excess(at, found.needed_ns, promise).tokens == 0
    assert least_excess(at, found.needed_ns - 1, promise).tokens > 0
    sliding = promise_of(SLIDING, 2, S)
    close = np.array([0, 300_000_000, 900_000_000], np.int64)
    needed = least_excess(close, 0, sliding).needed_ns
    assert needed == 100_000_000
    assert least_excess(close, needed, sliding).tokens == 0 < least_excess(close, needed - 1, sliding).tokens


# --- limiters of known excess --------------------------------------------------------------------


def requests_of(rng, users, length_s):
    """at_ns and user, in order: Poisson at 0.3 to 6 times 5/s."""
    at, user = [], []
    for number in range(users):
        gaps = rng.exponential(S / (5 * rng.uniform(0.3, 6)), int(40 * length_s))
        instants = np.cumsum(gaps).astype(np.int64)
        instants = instants[instants < length_s * S]
        at.append(instants)
        user.append(np.full(len(instants), number))
    instants, users_ = np.concatenate(at), np.concatenate(user)
    order = np.argsort(instants, kind="stable")
    return instants[order], users_[order]


def decided(at_ns, user, node, limit, shared):
    """A bucket a user; where not ``shared``, one at each node."""
    full_at, verdicts = {}, np.zeros(len(at_ns), bool)
    for row, key in enumerate(zip(user.tolist(), (node * (not shared)).tolist(), strict=True)):
        now = limit.ticks(int(at_ns[row]))
        full = gcra(now, full_at.get(key, 0), limit)
        if full is not None:
            full_at[key], verdicts[row] = full, True
    return verdicts


@pytest.mark.slow
def test_two_hundred_random_logs():
    """Never more than the truth, all of it at zero skew; and a limiter that keeps its promise is not blamed."""
    limit = limit_of(*per_period("5/1s"))
    promise = Promise(BUCKET, limit.capacity, limit.ticks_per_ns, limit.token_ticks, S)
    seen = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        at, user = requests_of(rng, users=4, length_s=20)
        node, skew_ns = rng.integers(0, 3, len(at)), int(rng.choice([0, 1_000_000, 50_000_000, 400_000_000]))
        for shared in (True, False):
            verdicts = decided(at, user, node, limit, shared)
            truth = {each: excess_of_sorted(at[(user == each) & verdicts], promise) for each in range(4)}
            assert not shared or not any(truth.values())
            offsets = rng.integers(-skew_ns, skew_ns + 1, 3)
            stamps = at + offsets[node]
            order = np.argsort(stamps, kind="stable")
            left = stamps[order] - skew_ns
            findings, wrong = audit(
                left, user[order], verdicts[order], 2 * skew_ns, promise, int(left[0]) + 2 * skew_ns, int(left[-1])
            )
            for finding in findings:
                true = truth[finding.user]
                assert finding.excess.tokens <= true + 1e-9
                assert skew_ns or finding.excess.tokens == pytest.approx(true)
                seen += finding.excess.tokens > 0
            assert not (shared and wrong.any())
            for cut in left[:: len(left) // 5 + 1] if shared else ():  # of one node's log the copy ends there
                kept = (node[order] > 0) | (left <= cut)
                until_ns = int(left[kept & (node[order] == 0)].max(initial=left[0]))
                rows = left[kept], user[order][kept], verdicts[order][kept]
                _, wrong = audit(*rows, 2 * skew_ns, promise, int(left[0]) + 2 * skew_ns, until_ns)
                assert not wrong.any()
    assert seen > 300


def excess_of_sorted(at_ns, promise):
    """The definition, by GCRA's debt: the lowest level of a bucket that may owe tokens."""
    level, last, lowest = float(promise.count), None, 0.0
    for at in at_ns.tolist():
        if last is not None:
            level = min(float(promise.count), level + promise.ticks_per_ns * (at - last) / promise.token_ticks)
        level, last = level - 1, at
        lowest = min(lowest, level)
    return -lowest


def test_what_may_have_been_after_the_log_ends_is_not_judged():
    """One in ten seconds, stamps of whole ones: who was admitted at 300.3 s is not in a copy that ends at 300 s."""
    promise = promise_of(SLIDING, 1, 10 * S)
    at, verdicts = np.array([0, 299, 300, 310], np.int64) * S, np.array([True, False, False, True])
    findings, wrong = audit(at, np.array([1, 0, 0, 1]), verdicts, S - 1, promise, S - 1, 300 * S)
    assert wrong.tolist() == [False, True, False, False] and findings[0].unjudged_count == 1


def test_a_limiter_that_withholds_is_seen_and_only_where_the_log_can_tell():
    promise = promise_of(BUCKET, 10, S)
    at = (np.arange(40) * 100_000_000).astype(np.int64)  # at its limit, all the time
    verdicts = np.arange(40) % 2 == 0
    findings, wrong = audit(at, np.zeros(40, int), verdicts, 0, promise, 0, int(at[-1]))
    # The bucket may have been empty when the log began, and gains a token every other request since.
    assert findings[0].withheld_count == wrong.sum() > 15 and not wrong[:2].any()
    assert findings[0].first_ns == at[np.flatnonzero(wrong)[0]]
    later, _ = audit(at, np.zeros(40, int), verdicts, 0, promise, 0, int(at[19]))
    assert later[0].unjudged_count == 10 and later[0].withheld_count < findings[0].withheld_count
    none, _ = audit(at, np.zeros(40, int), verdicts, 2 * S, promise, 0, int(at[-1]))
    assert none[0].withheld_count == 0


@pytest.mark.parametrize("count", ["9" * 19, "9" * 4_299, "9" * 5_000])
def test_a_limit_has_no_more_digits_than_its_rate_can_have(count: str) -> None:
    with pytest.raises(SpecError, match=r"limit '9+…9+/1ns'|limit '9{19}/1ns'"):
        per_period(f"{count}/1ns")
