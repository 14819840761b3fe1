"""`ratebed soak --count 1000` finds each planted bug, and what it then prints replays it, small."""

import pytest

from harness.soak.draw import draw, system_of
from harness.soak.shrink import shrink
from harness.soak.trial import Played, play
from tests.harness.soak.planted import PLANTED, Planted

SEEDS = range(1, 1_001)  # of all systems: some 60 of them are one's


def first_failure(bug: Planted) -> Played | None:
    for seed in (seed for seed in SEEDS if system_of(seed) == bug.system):
        played = play(draw(seed))
        if any(breach.invariant in bug.invariants for breach in played.breaches):
            return played
    return None


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.slow
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTED[name]
    with monkeypatch.context() as patch:
        bug.plant(patch)
        failed = first_failure(bug)
    assert failed is not None, f"{name} survives {len(SEEDS)} seeds"
    sound = play(failed.schedule)
    assert not [breach for breach in sound.breaches if breach.invariant in bug.invariants]


@pytest.mark.slow
def test_what_fails_is_shrunk_and_still_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = PLANTED["a merge by sum"]
    with monkeypatch.context() as patch:
        bug.plant(patch)
        failed = first_failure(bug)
        assert failed is not None
        small = shrink(failed)
        assert failed.breaches[0].invariant in {breach.invariant for breach in play(small.schedule).breaches}
    assert small.schedule.size < failed.schedule.size / 2
    assert not play(small.schedule).breaches
