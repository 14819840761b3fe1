"""How claims are judged: intervals, checks, verdicts."""

from collections import Counter
from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import verdicts
from analysis.verdicts import Check, Claim, Evidence, Judgement, Status, half_width, judge, t_interval

SURE, WIDE = (1.0, 1.01, 0.99, 1.0), (0.0, 2.0)


def claim(measure, minimum_repetitions=2, **options):
    return Claim("X1", "section 1", "a sentence", ("fig",), measure, minimum_repetitions=minimum_repetitions, **options)


def judged(exact=(), direction=(), **options):
    return judge(claim(lambda tables: Evidence(tuple(exact), tuple(direction)), **options), {}).judgement


# --- intervals -----------------------------------------------------------------------------------


def test_a_known_interval():
    found = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])  # t(0.975, 4) = 2.7764, s = 1.5811
    assert found.mean == 3.0 and found.count == 5
    assert (found.low, found.high) == pytest.approx((3 - 1.96325, 3 + 1.96325), abs=1e-4)


def test_one_sample_bounds_nothing():
    assert t_interval([7.0]) == verdicts.Interval(7.0, -inf, inf, 1)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_identical_samples_are_a_point(value):
    assert t_interval([value] * 3) == verdicts.Interval(value, value, value, 3)


def test_nothing_and_nan():
    nothing = t_interval([])
    assert isnan(nothing.mean) and nothing.count == 0
    assert t_interval([1.0, nan, 3.0]).count == 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_interval_holds_the_mean(samples):
    found = t_interval(samples)
    assert found.low <= found.mean <= found.high


# --- checks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.9, 1.1, Status.HOLDS),
        (1.5, 2.0, Status.FAILS),
        (0.0, 0.5, Status.FAILS),
        (1.0, 2.0, Status.UNSURE),  # the interval straddles the lower bound
        (0.0, 1.0, Status.UNSURE),
        (-inf, inf, Status.HOLDS),
    ],
)
def test_the_interval_decides(low, high, status):
    assert Check("c", SURE, low, high).status(2) is status


def test_too_few_samples_are_unsure_whatever_they_say():
    assert Check("c", (1.0,), 0.0, 2.0).status(2) is Status.UNSURE
    assert Check("c", (1.0, 1.0), 0.0, 2.0).status(3) is Status.UNSURE
    assert Check("c", (1.0,), 0.0, 2.0).status(1) is Status.UNSURE
    assert Check("c", (), 0.0, 2.0).status(0) is Status.UNSURE
    assert Check("c", (nan, nan), 0.0, 2.0).status(2) is Status.UNSURE


def test_a_ratio_to_nothing_proves_nothing_and_what_never_ends_is_late():
    assert verdicts.above("c", (inf, inf), 10.0).status(2) is Status.UNSURE
    assert verdicts.at_most("c", (inf, inf), 10.0).status(2) is Status.FAILS


@pytest.mark.parametrize("value", [0.1, 1.0, 3.7])
def test_identical_samples_on_a_bound_hold(value):
    samples = [value] * 3
    assert verdicts.at_most("c", samples, value).status(2) is Status.HOLDS
    assert verdicts.at_least("c", samples, value).status(2) is Status.HOLDS
    assert verdicts.above("c", samples, value).status(2) is Status.FAILS
    assert verdicts.below("c", samples, value).status(2) is Status.FAILS


@pytest.mark.parametrize(("published", "bounds"), [(2.0, (1.5, 2.5)), (-2.0, (-2.5, -1.5)), (0.0, (0.0, 0.0))])
def test_within_has_the_tolerance_on_both_sides(published, bounds):
    check = verdicts.within("c", (published, published), published)
    assert (check.low, check.high) == bounds and check.published == published
    assert check.status(2) is Status.HOLDS
    ratio = verdicts.within("c", (2.0, 2.0), 2.0, verdicts.RATIO_TOLERANCE)
    assert (ratio.low, ratio.high) == pytest.approx((1.7, 2.3))


def test_just_outside_the_tolerance_fails():
    assert verdicts.within("c", (2.5, 2.5), 2.0).status(2) is Status.HOLDS
    outside = float(np.nextafter(2.5, 3))
    assert verdicts.within("c", (outside, outside), 2.0).status(2) is Status.FAILS


def test_rounded_samples_that_agree_are_not_sure():
    twice = Check("c", (-2.0, -2.0), low=0.0, unit="s")
    assert twice.status(2) is Status.FAILS
    rounded = replace(twice, resolution=1.0)
    assert rounded.status(2) is Status.UNSURE and rounded.repetitions_wanted() == 3
    half = half_width(2) / 12**0.5
    assert (rounded.interval.low, rounded.interval.high) == pytest.approx((-2 - half, -2 + half))
    assert replace(rounded, samples=(-2.0,) * 3).status(2) is Status.FAILS
    wide = Check("c", WIDE, resolution=1.0)
    assert wide.interval == t_interval(WIDE), "they deviate by more than that"


# --- verdicts ------------------------------------------------------------------------------------

HOLDS, FAILS, UNSURE = Check("holds", SURE, 0, 2), Check("fails", SURE, 5, 6), Check("unsure", WIDE, 0.9, 1.1)


@pytest.mark.parametrize(
    ("exact", "direction", "judgement"),
    [
        ([HOLDS], [], Judgement.REPRODUCED),
        ([HOLDS], [HOLDS], Judgement.REPRODUCED),
        ([FAILS], [HOLDS], Judgement.DIRECTION_ONLY),
        ([UNSURE], [HOLDS], Judgement.DIRECTION_ONLY),
        ([], [HOLDS], Judgement.DIRECTION_ONLY),
        ([HOLDS], [FAILS], Judgement.CONTRADICTED),
        ([FAILS], [FAILS], Judgement.CONTRADICTED),
        ([FAILS], [], Judgement.CONTRADICTED),
        ([HOLDS, FAILS], [], Judgement.CONTRADICTED),
        ([UNSURE], [], Judgement.UNDECIDED),
        ([HOLDS, UNSURE], [], Judgement.UNDECIDED),
        ([FAILS], [UNSURE], Judgement.UNDECIDED),
        ([HOLDS], [UNSURE], Judgement.UNDECIDED),
        ([], [], Judgement.UNDECIDED),
    ],
)
def test_verdicts(exact, direction, judgement):
    assert judged(exact, direction) is judgement


def test_a_substitute_earns_at_most_direction_only():
    assert judged([HOLDS], [HOLDS], substitute=True) is Judgement.DIRECTION_ONLY
    assert judged([FAILS], [FAILS], substitute=True) is Judgement.CONTRADICTED


def test_minimum_repetitions_of_the_claim_count():
    assert judged([HOLDS], minimum_repetitions=len(SURE)) is Judgement.REPRODUCED
    assert judged([HOLDS], minimum_repetitions=len(SURE) + 1) is Judgement.UNDECIDED


def test_a_claim_on_random_quantities_takes_five_repetitions():
    def verdict(count):
        check = Check("holds", SURE[:1] * count, 0, 2)
        return judge(Claim("X1", "section 1", "a sentence", ("fig",), lambda tables: Evidence((check,))), {}).judgement

    assert [verdict(count) for count in (4, 5)] == [Judgement.UNDECIDED, Judgement.REPRODUCED]


def test_no_measure_is_not_run():
    found = judge(claim(None, needs="mininet"), {})
    assert found.judgement is Judgement.NOT_RUN and found.problem == "needs mininet"


def test_what_takes_another_testbed_is_not_run_until_its_figure_is_there():
    found = claim(lambda tables: Evidence((Check("holds", SURE, 0, 2),)), needs="mininet")
    assert judge(found, {"other/p99": None}).judgement is Judgement.NOT_RUN
    assert judge(found, {"fig/p99": None}).judgement is Judgement.REPRODUCED


def test_missing_tables_are_undecided_and_named():
    found = judge(claim(lambda tables: tables["fig/p99"]), {})
    assert found.judgement is Judgement.UNDECIDED and "fig/p99" in found.problem


def test_a_measure_that_stumbles_is_undecided_and_says_why():
    def stumble(tables):
        raise IndexError("no row 3")

    result = judge(Claim("X1", "here", "a sentence", (), stumble), {})
    assert result.judgement is Judgement.UNDECIDED and "IndexError: no row 3" in result.problem


# --- how often the procedure errs -----------------------------------------------------------------

NULLS = 2_000


def verdicts_of_nulls(check_count, bounds, repetitions=5):
    """Share of each verdict on a claim all of whose true means are 0, at one end of ``bounds``."""
    random = np.random.default_rng(16)
    samples = random.standard_normal((NULLS, check_count, repetitions))
    counts = Counter(judged([Check("c", tuple(row), *bounds) for row in claim], []) for claim in samples)
    return {judgement: counts[judgement] / NULLS for judgement in Judgement}


@pytest.mark.parametrize("check_count", [1, 4, 24])
def test_at_a_bound_either_error_is_rare_however_many_checks_a_claim_has(check_count):
    """True means on the bound are the worst null of both: not inside, not outside."""
    shares = verdicts_of_nulls(check_count, (0.0, 50.0))
    assert shares[Judgement.REPRODUCED] < 0.05 and shares[Judgement.CONTRADICTED] < 0.05


def test_a_family_of_one_is_the_plain_interval():
    check = Check("c", (1.0, 2.0, 3.0, 2.0, 2.0), low=3.0)
    assert check.status(5) is Status.FAILS and check.status(5, family=24) is Status.UNSURE


@given(st.floats(0.05, 3.0), st.integers(0, 2**32))
def test_the_repetitions_that_are_asked_for_decide(distance, seed):
    """With mean and spread as they are, so many decide, and one fewer does not."""
    values = np.random.default_rng(seed).standard_normal(5)
    values = (values - values.mean()) / values.std(ddof=1)
    wanted = Check("c", tuple(values), low=-distance).repetitions_wanted()
    assert half_width(wanted) <= distance * (1 + 1e-9)
    assert wanted == 2 or half_width(wanted - 1) > distance * (1 - 1e-9)


def test_a_mean_on_a_bound_is_decided_by_no_number_of_repetitions():
    check = Check("c", (-1.0, 1.0, -1.0, 1.0, 0.0), low=0.0)
    assert check.repetitions_wanted() is None and Check("c", (1.0,), 0.0).repetitions_wanted() is None


def test_an_undecided_claim_names_the_repetitions_that_would_decide_it():
    def result(*checks):
        return judge(claim(lambda tables: Evidence(checks)), {})

    near, far = Check("near", WIDE, 0.9, 1.1), Check("far", (1.0, 1.1, 0.9), 0.8, 1.2)
    assert result(near, far).repetitions_wanted == near.repetitions_wanted() > far.repetitions_wanted()
    assert result(HOLDS).repetitions_wanted is None and result(FAILS).repetitions_wanted is None
