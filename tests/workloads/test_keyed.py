"""What distributors are told of correlation: the traffic stays, the keys are wrong, missing or noisy as asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from tests.workloads.common import SECOND, assert_same, schedule

TOPIC = dict(publishers=300, batch=10, group_size=15)
SHARES = st.floats(0, 1)


def keys(**mistakes) -> np.ndarray:
    return schedule("keyed", **TOPIC, **mistakes).population.group


TRUE = keys()


@pytest.mark.parametrize("arrivals", ["poisson", "periodic"])
def test_the_messages_are_those_of_the_right_keys(arrivals):
    plain = schedule(arrivals, **TOPIC, rates="zipf")
    asked = schedule("keyed", **TOPIC, rates="zipf", arrivals=arrivals, wrong=0.5, missing=0.3, noisy=0.2)
    assert_same(plain.block(-SECOND, 3 * SECOND), asked.block(-SECOND, 3 * SECOND))
    assert (asked.population.rate_rps == plain.population.rate_rps).all()
    right = schedule("keyed", **TOPIC, arrivals=arrivals).population.group
    assert (right == schedule(arrivals, **TOPIC).population.group).all()


@settings(max_examples=50, deadline=None)
@given(share=SHARES)
def test_wrong_keys_are_the_same_keys_in_other_hands(share):
    told = keys(wrong=share)
    assert (np.sort(told) == np.sort(TRUE)).all() and (told != TRUE).sum() <= round(share * 300)


def test_random_keys_say_next_to_nothing_of_groups():
    told = keys(wrong=1.0)
    right = (told == TRUE).mean()  # of 20 groups: 1 in 20 by chance
    assert right < 0.12
    members = [np.unique(TRUE[told == key]).size for key in range(20)]
    assert min(members) >= 7, "each key is given to members of many groups"


@settings(max_examples=50, deadline=None)
@given(share=SHARES)
def test_a_missing_key_leaves_a_publisher_alone(share):
    told = keys(missing=share)
    alone = told != TRUE
    assert alone.sum() == round(share * 300)
    assert np.unique(told[alone]).size == alone.sum() and not np.isin(told[alone], TRUE).any()


@settings(max_examples=50, deadline=None)
@given(share=SHARES)
def test_noise_confuses_neighbours_alone(share):
    told = keys(noisy=share)
    assert (told != TRUE).sum() == round(share * 300) and (told // 2 == TRUE // 2).all()


def test_noise_in_everybody_is_none_and_a_last_group_without_a_neighbour_keeps_its_key():
    swapped = keys(noisy=1.0)
    assert (swapped == (TRUE ^ 1)).all(), "the same groups under other names"
    odd = schedule("keyed", publishers=45, group_size=15, noisy=1.0).population.group
    assert (odd[:30] == np.repeat([1, 0], 15)).all() and (odd[30:] == 2).all()


@pytest.mark.parametrize("mistake", ["wrong", "missing", "noisy"])
def test_more_of_a_mistake_keeps_those_that_were_mistaken(mistake):
    some, more = (keys(**{mistake: share}) != TRUE for share in (0.2, 0.6))
    kept = (some & more).sum() / some.sum()
    assert kept > 0.85, "of wrong keys a few come back by chance"


@pytest.mark.parametrize(("options", "said"), [(dict(wrong=1.1), "wrong"), (dict(missing=-0.1), "missing"),
                                               (dict(noisy=2.0), "noisy"), (dict(arrivals="trace"), "arrivals"),
                                               (dict(batch=0), "batch")])  # fmt: skip
def test_impossible_options_are_named(options, said):
    with pytest.raises(SpecError, match=said):
        schedule("keyed", **options)
