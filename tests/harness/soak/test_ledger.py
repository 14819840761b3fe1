"""The ledger of soaks: no seed is lost, and none counts twice, whoever adds to it in whatever order."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

from harness.soak import ledger as ledgers
from harness.soak.draw import system_of
from harness.soak.ledger import SoakLedger, Stretch, add_to, read_ledger
from harness.soak.session import Chunk, Failure
from harness.soak.trial import Breach

LAST = 200
LEASES = [seed for seed in range(1, LAST + 1) if system_of(seed) == "leases"]


def whole(first: int, last: int, commit: str = "a") -> Stretch:
    """A minute a schedule."""
    count = last - first + 1
    return Stretch(commit, "", first, last, count, count / 60)


def of_leases(last: int = LAST) -> Stretch:
    count = sum(seed <= last for seed in LEASES)
    return Stretch("a", "leases", 1, last, count, count / 60)


def ledger_of(stretches: Sequence[Stretch]) -> SoakLedger:
    ledger = SoakLedger()
    for stretch in stretches:
        ledger = ledger.played(stretch)
    return ledger


def test_seeds_that_are_played_again_are_neither_lost_nor_counted() -> None:
    ledger = ledger_of([whole(1, 25), whole(11, 25), whole(26, 50)])
    (stretch,) = ledger.stretches
    assert (stretch.first, stretch.last, stretch.count) == (1, 50, 50)
    assert stretch.hours == pytest.approx(50 / 60, abs=1e-5)
    assert ledger.next_seed("") == 51


@pytest.mark.parametrize("order", list(permutations([(1, 25), (11, 35), (36, 50), (20, 21), (70, 80)])))
def test_a_schedule_counts_once_in_any_order(order: tuple[tuple[int, int], ...]) -> None:
    ledger = ledger_of([whole(*span) for span in order])
    assert ledger.count == 50 + 11
    assert sum(stretch.hours for stretch in ledger.stretches) == pytest.approx(61 / 60, abs=1e-4)
    assert all(any(stretch.has(seed) for stretch in ledger.stretches) for seed in (*range(1, 51), *range(70, 81)))


def test_stretches_that_an_older_ledger_has_apart_lose_nothing() -> None:
    """Two that end at the same seed both go on in a third."""
    before = SoakLedger((whole(1, 25), whole(11, 25)))
    after = before.played(whole(26, 50))
    assert after.count == before.count + 25
    assert min(stretch.first for stretch in after.stretches) == 1


def test_a_system_s_schedules_count_once_among_all_and_alone() -> None:
    assert LEASES
    alone_last = ledger_of([whole(1, LAST), of_leases()])
    assert alone_last == ledger_of([whole(1, LAST)])
    alone_first = ledger_of([of_leases(), whole(1, LAST)])
    assert alone_first.count == LAST
    assert [stretch.system for stretch in alone_first.stretches] == ["leases", ""]
    others = Stretch("a", "throttler", 1, LAST, sum(system_of(seed) == "throttler" for seed in range(1, LAST + 1)), 1.0)
    assert ledger_of([of_leases(), others]).count == len(LEASES) + others.count


def test_another_commit_counts_anew() -> None:
    ledger = ledger_of([whole(1, 25), whole(1, 25, "b"), whole(1, 25, "b")])
    assert [(stretch.commit, stretch.count) for stretch in ledger.stretches] == [("a", 25), ("b", 25)]


def test_a_system_goes_on_after_what_was_played_of_all() -> None:
    ledger = ledger_of([of_leases(100), whole(1, 50)])
    assert (ledger.next_seed(""), ledger.next_seed("leases"), ledger.next_seed("throttler")) == (51, 101, 51)
    assert ledger_of([of_leases(100), whole(1, 150)]).next_seed("leases") == 151


def test_what_is_played_again_still_tells_what_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    assert add_to(path, "a", "", Chunk(1, 25, 25, 36.0, ())) == (25, 25)
    failed = Failure(7, "leases", (Breach("bound", 1, "n1", "more"),))
    assert add_to(path, "a", "", Chunk(1, 25, 25, 36.0, (failed,))) == (25, 0)
    assert [one.seed for one in read_ledger(path).deviations] == [7]


def test_two_that_add_at_once_both_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "results" / "soak.json", ledgers.write_ledger

    def slowly(where: Path, ledger: SoakLedger) -> None:
        time.sleep(0.02)  # others have read meanwhile, if they may
        write(where, ledger)

    monkeypatch.setattr(ledgers, "write_ledger", slowly)
    chunks = [Chunk(first, first + 24, 25, 36.0, ()) for first in range(1, 201, 25)]
    with ThreadPoolExecutor(len(chunks)) as pool:
        told = list(pool.map(lambda chunk: add_to(path, "a", "", chunk), chunks))
    assert sorted(told) == [(25 * many, 25) for many in range(1, 9)]
    assert read_ledger(path).count == 200
    assert [entry.name for entry in path.parent.iterdir()] == ["soak.json"]
