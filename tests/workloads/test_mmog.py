from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.clients import Joined, Left, Role
from core.errors import SpecError
from core.units import SECOND_NS
from workloads import load
from workloads.mmog import Mmog, MmogConfig, stay_of

MINUTES_NS = 600 * SECOND_NS


def test_the_defaults_are_those_of_figure_9() -> None:
    made = Mmog(MmogConfig(), 1)
    assert list(made.homes)[:2] == ["avatar-1", "avatar-2"] and len(made.homes) == 64 and made.site_count == 5
    assert {(topic.rate_rps, topic.size_bytes, topic.bound_ns) for topic in made.topics} == {(300.0, 998, 100_000_000)}
    assert [topic.name for topic in made.topics] == list(made.homes)
    producers = [one for one in made.happenings(MINUTES_NS) if isinstance(one, Joined) and one.role is Role.PRODUCER]
    assert [(one.at_ns, one.client, one.topic) for one in producers] == [(0, name, name) for name in made.homes]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 4), st.sampled_from(["uniform:1ns:3ns", "uniform:3s:9s"])
)
def test_subscriptions_are_those_of_the_groups(seed: int, avatars: int, groups: int, stay: str) -> None:
    """At any instant, each avatar's topic has the other members of its group as consumers; ties included."""
    made = Mmog(MmogConfig(avatars=avatars, groups=groups, stay=stay), seed)
    until_ns = 20 if "ns" in stay else 30 * SECOND_NS
    subscribed: set[tuple[str, str]] = set()
    joins = made.groups(until_ns)
    happenings = made.happenings(until_ns)
    for at_ns in sorted({0, *(at_ns for row in joins.values() for at_ns, _ in row)}):
        for one in (one for one in happenings if one.at_ns == at_ns and one.role is Role.CONSUMER):
            if isinstance(one, Left):
                subscribed.remove((one.client, one.topic))
            else:
                assert (one.client, one.topic) not in subscribed
                subscribed.add((one.client, one.topic))
        group = {name: [number for since_ns, number in row if since_ns <= at_ns][-1] for name, row in joins.items()}
        assert subscribed == {(a, b) for a in group for b in group if a != b and group[a] == group[b]}


def test_stays_are_as_asked_and_the_next_group_is_another() -> None:
    made = Mmog(MmogConfig(avatars=40, groups=5), 2)
    stays_s, onward = [], Counter()
    for row in made.groups(100 * MINUTES_NS).values():
        stays_s += (np.diff([at_ns for at_ns, _ in row]) / 1e9).tolist()
        onward.update((after - before) % 5 for (_, before), (_, after) in pairwise(row))
    assert 30 <= min(stays_s) < 30.1 and 59.9 < max(stays_s) <= 60
    assert np.mean(stays_s) == pytest.approx(45, rel=0.01)
    assert set(onward) == {1, 2, 3, 4} and min(onward.values()) > 0.9 * max(onward.values())


def test_exponential_stays_have_their_mean() -> None:
    made = Mmog(MmogConfig(avatars=40, groups=5, stay="exponential:45s"), 2)
    stays_s = [gap / 1e9 for row in made.groups(100 * MINUTES_NS).values() for gap in np.diff([at for at, _ in row])]
    assert np.mean(stays_s) == pytest.approx(45, rel=0.03) and np.std(stays_s) == pytest.approx(45, rel=0.05)


def test_sites_and_first_groups_are_uniform() -> None:
    made = Mmog(MmogConfig(avatars=2_000, groups=10, stay="forever"), 1)
    assert min(Counter(made.homes.values()).values()) > 330  # of 400
    assert min(Counter(row[0][1] for row in made.groups(0).values()).values()) > 150  # of 200
    assert made.groups(MINUTES_NS) == made.groups(0)


def test_more_avatars_shift_nobody_else() -> None:
    few, many = Mmog(MmogConfig(avatars=3), 1), Mmog(MmogConfig(avatars=30), 1)
    assert all(many.groups(MINUTES_NS)[name] == row for name, row in few.groups(MINUTES_NS).items())
    assert all(many.homes[name] == home for name, home in few.homes.items())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"avatars": 0}, "avatars=0"),
        ({"groups": 0}, "groups=0"),
        ({"sites": 0}, "sites=0"),
        ({"stay": "uniform:30s"}, "stay='uniform:30s'"),
        ({"stay": "uniform:60s:30s"}, "the shorter one first"),
        ({"stay": "exponential:0s"}, "spans above 0"),
        ({"stay": "exponential:long"}, "not a duration"),
        ({"stay": "normal:3s"}, "stay='normal:3s'"),
    ],
)
def test_bad_options_are_spec_errors(options: dict, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load("mmog").configure(options)


def test_forever_draws_nothing() -> None:
    assert stay_of("forever") is None
