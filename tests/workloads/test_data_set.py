"""The data sets have the thesis' totals, lengths and users, and the limited users it says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from systems.parts.limit import gcra, limit_of
from tests.workloads.common import schedule
from workloads.data_set import MOST_REQUESTS, SETS, DataSet, DataSetConfig

MINUTE = 60 * SECOND_NS
TOTALS = {"A": "68.3", "B-extreme": "21.5", "B-substantial": "3.2"}


def rejected(data_set, capacity, rate) -> np.ndarray:
    """Rejections of each user by the centralised limiter: one GCRA state a user."""
    at_ns, user, _, names = data_set.columns()
    limit, full_at, found = limit_of(capacity, rate), [0] * len(names), np.zeros(len(names), int)
    for instant, index in zip(at_ns.tolist(), user.tolist(), strict=True):
        after = gcra(limit.ticks(instant), full_at[index], limit)
        found[index] += after is None
        full_at[index] = full_at[index] if after is None else after
    return found


@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("capacity", [150, 300, 600])
def test_totals_and_lengths_are_the_thesis(name, capacity):
    data_set = schedule("data-set", set=name, capacity=capacity)
    at_ns, user, cost, names = data_set.columns()
    assert len(at_ns) == round(Fraction(TOTALS[name]) * capacity)
    assert data_set.duration_ns == (5 if name == "A" else 1) * MINUTE
    assert len(names) == len(set(names)) == len(set(user.tolist())) == (10 if name == "A" else 1)
    assert (at_ns % MILLISECOND_NS == 0).all() and (np.diff(at_ns) >= 0).all() and (cost == 1).all()
    assert at_ns[0] < 0.05 * data_set.duration_ns and at_ns[-1] > 0.95 * data_set.duration_ns
    assert all(len(text) == 32 and set(text) <= set("0123456789abcdef") for text in names)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("capacity", [150, 300])
def test_every_user_of_a_is_limited_and_they_differ(seed, capacity):
    data_set = schedule("data-set", seed, set="A", capacity=capacity)
    assert (rejected(data_set, capacity, str(Fraction(capacity, 1000))) >= 1).all()
    counts = np.bincount(data_set.columns().user)
    assert counts.max() > 5 * counts.min() and counts.max() < 0.5 * counts.sum()


@pytest.mark.parametrize("capacity", [150, 300, 600])
def test_the_barely_limited_user_is_the_nearest_above_what_a_bucket_admits(capacity):
    fewest, rounded = (schedule("data-set", set="B-barely", capacity=capacity, barely=n) for n in ("1.06c", "1.1c"))
    assert len(fewest.columns().at_ns) == int(1.06 * capacity) + 1 and len(rounded.columns().at_ns) == 1.1 * capacity
    assert rejected(fewest, capacity, str(Fraction(capacity, 1000))).sum() in (1, 2)


def test_half_of_a_users_requests_of_a_fall_within_20_s():
    for bursts, low, high in (("", 0.5, 0.65), ("0", 0.06, 0.2), ("1", 1.0, 1.0)):
        at_ns, user, _, _ = schedule("data-set", set="A", bursts=bursts).columns()
        shares = []
        for index in range(10):
            mine = at_ns[user == index]
            ends = np.searchsorted(mine, mine + 20 * SECOND_NS, side="left")
            shares.append((ends - np.arange(len(mine))).max() / len(mine))
        assert low <= min(shares) and max(shares) <= high, (bursts, shares)
    with pytest.raises(SpecError, match="bursts"):
        DataSetConfig(set="A", bursts="half")
    with pytest.raises(SpecError, match="bursts"):
        DataSetConfig(set="B-extreme", bursts="0.5")


def test_users_of_b_are_limited_as_their_names_say():
    found = {name: int(rejected(schedule("data-set", set=name), 300, "0.3").sum()) for name in SETS if name[0] == "B"}
    # What a full bucket admits in a minute is 318; the extreme and the substantial user keep it empty.
    assert found["B-extreme"] in (6450 - 318, 6450 - 317) and found["B-substantial"] in range(960 - 318, 960 - 313)
    assert found["B-barely"] in (1, 2) and found["B-not-limited"] == 0


def test_not_limited_is_fixed_spacing_below_the_refill_rate():
    data_set = schedule("data-set", set="B-not-limited")
    np.testing.assert_array_equal(data_set.columns().at_ns, np.arange(35) * 3_500 * MILLISECOND_NS)
    assert data_set.duration_ns == 2 * MINUTE
    odd = schedule("data-set", set="B-not-limited", capacity=7, rate="1/3")
    assert rejected(odd, 1, "1/3").sum() == 0 and np.diff(odd.columns().at_ns).min() == 3_150 * MILLISECOND_NS


def test_d_is_the_fabricated_recording_and_its_limit_that_of_a_hand_calculation():
    data_set = schedule("data-set", set="D", capacity=5, rate="1")
    at_ns = data_set.columns().at_ns
    np.testing.assert_array_equal(at_ns, np.arange(112) * 900 * MILLISECOND_NS)
    assert data_set.duration_ns == 100 * SECOND_NS
    # By hand: request n finds the bucket full again 0.1 n s after its own instant; 5 tokens are 5 s, so
    # 41 (n = 0..40) pass and n = 41 does not.  A rejection wins 0.9 s, nine requests' worth: every tenth from there.
    limit, full_at, turned_away = limit_of(5, "1"), 0, []
    for number, instant in enumerate(at_ns.tolist()):
        after = gcra(limit.ticks(instant), full_at, limit)
        if after is None:
            turned_away.append(number)
        full_at = full_at if after is None else after
    assert turned_away == [41, 51, 61, 71, 81, 91, 101, 111]


@pytest.mark.parametrize("options", [{}, {"users": 500, "requests": 50_000}, {"limited_share": 0.1, "users": 300,
                                     "requests": 40_000, "capacity": 150}])  # fmt: skip
def test_c_limits_exactly_the_share_of_users_that_is_asked_for(options):
    data_set = schedule("data-set", set="C", **options)
    config = DataSetConfig(set="C", **options)
    at_ns, user, _, names = data_set.columns()
    assert len(at_ns) == config.requests and len(names) == config.users
    assert np.bincount(user).min() >= 1 and data_set.duration_ns == 60 * MINUTE
    limited = rejected(data_set, config.capacity, str(config.rate_rps)) > 0
    assert limited.sum() == round(config.users * config.limited_share)


def test_c_is_heavy_tailed_and_its_users_come_one_after_the_other():
    at_ns, user, _, names = schedule("data-set", set="C").columns()
    counts = np.sort(np.bincount(user))[::-1]
    assert counts[:50].sum() > 0.25 * counts.sum() and np.median(counts) < 0.5 * counts.mean()
    _, first = np.unique(user, return_index=True)
    seen = np.searchsorted(np.sort(at_ns[first]), np.arange(1, 7) * 10 * MINUTE)
    assert (np.diff(seen) > 0).all() and 0.1 < seen[0] / len(names) < 0.3 and seen[-1] == len(names)
    assert (np.diff(seen)[:-1] > 0.13 * len(names)).all()


def test_a_smaller_c_has_the_same_law_for_each_user():
    large, small = (DataSetConfig(set="C", users=users, requests=100 * users).plan().counts for users in (5000, 1000))
    for share in (0.02, 0.05, 0.2, 0.5, 0.9):
        assert np.quantile(large, 1 - share) == pytest.approx(np.quantile(small, 1 - share), rel=0.25)


@given(users=st.integers(1, 400), share=st.floats(0, 0.99), slack=st.floats(0, 1), capacity=st.integers(1, 50))
def test_c_divides_any_total_that_can_be(users, share, slack, capacity):
    options = {"set": "C", "users": users, "limited_share": share, "capacity": capacity}
    with pytest.raises(SpecError, match=r"requests=5.*give") as caught:
        DataSetConfig(**options, requests=MOST_REQUESTS)
    low, high = (
        int(text.replace(",", "")) for text in str(caught.value).split("give ")[1].split(" requests")[0].split(" to ")
    )
    wanted = max(1, low + int(slack * (high - low)))
    config = DataSetConfig(**options, requests=wanted)
    counts = config.plan().counts
    limited = round(Fraction(share) * users)
    assert counts.sum() == wanted and len(counts) == users and counts.min() >= 1
    assert (counts > config.most_admitted(5 * 60_000)).sum() == (counts > capacity).sum()
    assert abs((counts > capacity).sum() - limited) <= 1


def test_seeds_move_everything_and_pair():
    one, again, other = (schedule("data-set", seed, set="A").columns() for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.at_ns, again.at_ns)
    assert one.names == again.names and not set(one.names) & set(other.names)
    assert not np.array_equal(one.at_ns, other.at_ns)
    d_nodes = [schedule("data-set", seed, set="D").requests(["a", "b", "c"], 10**12)["a"] for seed in (1, 2)]
    assert [r.id for r in d_nodes[0]] != [r.id for r in d_nodes[1]], "D's placement is the seed's: its user's id is"


def test_users_of_c_keep_their_names_in_a_larger_one():
    columns = [schedule("data-set", set="C", users=n, requests=100 * n).columns() for n in (200, 400)]
    assert columns[0].names == columns[1].names[:200]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"set": "E"}, "set='E'.*B-extreme"),
        ({"capacity": 0}, "capacity=0"),
        ({"rate": "fast"}, "rate='fast'.*1/3"),
        ({"rate": "0"}, "rate='0'"),
        ({"rate": "1/0"}, "rate='1/0'"),
        ({"set": "A", "rate": "6"}, "rate='6'.*lower"),
        ({"set": "C", "rate": "1e300"}, "rate='1e300'"),
        ({"set": "C", "rate": "1e15"}, "rate='1e15'.*lower"),
        ({"set": "C", "rate": "1e4"}, "rate='1e4'.*lower"),
        ({"set": "D", "rate": "0.1234567"}, "rate='0.1234567'.*fewer digits"),
        ({"set": "D", "rate": "-1"}, "rate='-1'"),
        ({"placement": "near"}, "placement='near'.*injector"),
        ({"set": "C", "requests": 1000}, r"requests=1000.*5000 users, 250 of them"),
        ({"limited_share": 1.0}, "limited_share=1.0"),
        ({"duration": "an hour"}, "duration='an hour'"),
        ({"duration": "0s"}, "duration='0s'"),
        ({"users": 0}, "users=0"),
    ],
)
def test_impossible_options_are_named(options, found):
    with pytest.raises(SpecError, match=found):
        DataSetConfig(**options)


@given(
    st.sampled_from(
        ["0.3", "1/3", "0.999999", "1000.003", "1e6", "1e15", "1e16", "1e-7", "1e-9", "7e-300", "1/7000003"]
    ),
    st.sampled_from([1, 300, 10**6]),
)
def test_rates_are_those_that_limiters_take(rate, capacity):
    def refuses(make):
        try:
            make()
        except SpecError as error:
            return "rate" in str(error)
        return False

    assert refuses(lambda: DataSetConfig(set="D", capacity=capacity, rate=rate)) == refuses(
        lambda: limit_of(capacity, rate)
    )


def test_natural_lengths():
    assert schedule("requests").duration_ns is None
    assert isinstance(schedule("data-set"), DataSet)
