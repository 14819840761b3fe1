"""Births in milliseconds that collide make the queue's convergence vary, and nothing else does (5.2.5)."""

import json

import pytest

from paper_figs.crdt.readings import IDENTITY
from paper_figs.crdt.variants import COUNTER, EXTENSIONS, FL
from tests.births import LEDGER, SEEDS, SEEDS_A, Rest, barely, spread_s


@pytest.mark.night
@pytest.mark.long
def test_the_spread_of_convergence_is_that_of_births_that_collide() -> None:
    counter = barely(COUNTER)
    ms, unique = (barely(FL, identity="exact", births=births) for births in ("ms", "unique"))
    assert [one for one in ms if not one.pair_count] == [
        other for one, other in zip(ms, unique, strict=True) if not one.pair_count
    ]
    assert 1 <= sum(one != other for one, other in zip(ms, unique, strict=True)) < SEEDS
    assert spread_s(ms) >= 5 * spread_s(counter) and spread_s(unique) < 2 * spread_s(counter)


def test_the_ledger_says_how_many_births_collided_and_what_became_of_it() -> None:
    ledger = json.loads(LEDGER.read_text())
    for identity in map(str, IDENTITY.values):
        at = ledger[identity]["barely"]
        ms, unique = ([Rest(*run) for run in at[births]] for births in ("births_ms", "births_unique"))
        assert len(ms) == len(unique) == SEEDS and at["equal_without_pairs"]
        assert all(one == other for one, other in zip(ms, unique, strict=True) if not one.pair_count)
        assert at["spread_s"] == round(spread_s(ms), 2)
        assert {variant: len(runs) for variant, runs in ledger[identity]["A"].items()} == dict.fromkeys(
            EXTENSIONS, SEEDS_A
        )
    exact = ledger["exact"]["barely"]
    assert exact["spread_s"] >= 5 * ledger["counter_spread_s"]
