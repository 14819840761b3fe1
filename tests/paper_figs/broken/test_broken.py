"""Broken systems take claims away: the machine itself, that no comparative claim is forgotten, and the table."""

import re
from pathlib import Path

import pytest

from harness.experiment import RunSpec
from paper_figs import all_claims
from tests.paper_figs.broken.machine import Play, Swap, actor, grid, identical, matches, reversed_, tables_of, verdicts
from tests.paper_figs.broken.table import NOT_COMPARED, PLAYS, STANDS

FIGURE = Play(("crdt-fig5.5",), (), {}, repetitions=2)
COUNTER, QUEUE = {"system": "crdt-counter"}, {"system": "crdt-queue"}


def numbered(claim: str) -> str:
    """``S20`` of ``S20a``: a claim's parts stand with it."""
    return re.sub(r"[a-z]+$", "", claim)


def test_every_claim_has_a_broken_system_or_a_reason_why_not() -> None:
    broken = {numbered(claim) for play in PLAYS for claim in play.breaks}
    others = {claim for claims in NOT_COMPARED for claim in claims.split()}
    assert not broken & others
    known = {numbered(claim.id) for claim in all_claims()}
    assert known == broken | others, "a new claim goes to tests/paper_figs/broken/table.py"


def test_the_table_names_what_there_is() -> None:
    claims = {claim.id: claim for claim in all_claims()}
    for play in PLAYS:
        names = [broken.name for broken in play.broken]
        assert len(set(names)) == len(names)
        for claim, wanted in play.breaks.items():
            assert set(wanted) <= set(names) and wanted, claim
            assert set(claims[claim].figures) <= set(play.figures), f"{claim} reads {claims[claim].figures}"
        assert any(matches(spec, swap.one) for specs in grid(play).values() for spec in specs for broken in play.broken
                   for swap in broken.swaps) or not any(broken.swaps for broken in play.broken)  # fmt: skip


def points() -> list[RunSpec]:
    return grid(FIGURE)["crdt-fig5.5"]


def test_identical_is_the_same_point_of_the_other_and_reversed_is_both_ways() -> None:
    specs = points()
    for broken, both in ((identical(QUEUE, COUNTER), False), (reversed_(QUEUE, COUNTER), True)):
        for spec in specs:
            acting = actor(spec, broken.swaps, specs)
            swapped = {"crdt-queue": "crdt-counter", "crdt-counter": "crdt-queue" if both else "crdt-counter"}
            assert acting.system == swapped.get(spec.system, spec.system)
            assert (acting.repetition, acting.seed, acting.workload_options) == (
                spec.repetition, spec.seed, spec.workload_options,
            )  # fmt: skip


def test_a_partner_that_the_grid_lacks_is_made() -> None:
    specs = points()
    counter = next(spec for spec in specs if matches(spec, COUNTER))
    slow = actor(counter, [Swap(COUNTER, {"system.gossip": "1h"})], specs)
    assert slow.system_options == {**counter.system_options, "gossip": "1h"} and slow.seed == counter.seed
    assert actor(counter, [Swap({"system.gossip": "7s"}, QUEUE)], specs) is counter
    assert matches(counter, {"system.gossip": "300ms"}), "a default counts"


@pytest.mark.slow
def test_under_a_system_of_its_own_name_the_other_does_the_very_same(tmp_path: Path) -> None:
    made = {
        name: tables_of(FIGURE, broken, tmp_path / name)["crdt-fig5.5/runs"].groupby("variant").rejected_ratio.mean()
        for name, broken in (("true", None), ("same", identical(QUEUE, COUNTER)), ("back", reversed_(QUEUE, COUNTER)))
    }
    true, same, back = (made[name] for name in ("true", "same", "back"))
    assert true["counter"] < true["queue+F+L"] and same["counter"] == same["queue+F+L"] == true["counter"]
    assert (back["counter"], back["queue+F+L"]) == (true["queue+F+L"], true["counter"])


def check(play: Play, folder: Path) -> None:
    rows = verdicts(play, folder, 2 if play.tier == "long" else 1, in_vain=False)
    wanted = {(claim, name) for claim, names in play.breaks.items() for name in names}
    assert {(row.claim, row.broken) for row in rows} == wanted, "of what does not hold intact there is nothing to take"
    standing = [row for row in rows if not row.is_flipped]
    assert {(row.claim, row.broken) for row in standing} <= STANDS.keys(), standing


def test_a_play_that_takes_nothing_away_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "verdicts", lambda play, folder, processes, in_vain: [])
    play = next(play for play in PLAYS if play.tier == "fast")
    with pytest.raises(AssertionError, match="nothing to take"):
        check(play, tmp_path)


def named(tier: str) -> list[object]:
    return [pytest.param(play, id=" ".join(play.figures)) for play in PLAYS if play.tier == tier]


@pytest.mark.slow
@pytest.mark.parametrize("play", named("fast"))
def test_broken_systems_take_claims_away(play: Play, tmp_path: Path) -> None:
    check(play, tmp_path)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("play", named("long"))
def test_broken_systems_take_more_claims_away(play: Play, tmp_path: Path) -> None:
    check(play, tmp_path)
