"""Automatic mutants: each is one edit of protocol code, compiles, and is not what it was."""

import ast
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.code_version import commit
from tests.mutants import (
    SPARED,
    TARGETS,
    Mutant,
    MutantLedger,
    Unanswered,
    in_a_process,
    main,
    mutated,
    outcome_of,
    sample,
    sites,
    summary,
)
from tests.tidy import ROOT

CODE = """
def f(self, a):
    if a < 2 and not self.b:
        self.c += 1
        self.d[a] = max(a, 0)
        g(a)
    return [n - 1 for n in a]

def state_bytes(self):
    return 1 + 2

def broken_one(history):
    return 1 + 2
"""


def test_every_kind_of_edit_is_made() -> None:
    edits = [site.edit for site in sites(ast.parse(CODE))]
    assert sorted(edits) == sorted(
        [
            "Lt -> LtE", "And -> Or", "Add -> Sub", "Sub -> Add", "2 -> 3", "1 -> 2", "0 -> 1", "1 -> 2", "max -> min",
            "condition negated", "without self.c += 1", "without self.d[a] = max(a, 0)", "without g(a)",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("file", TARGETS)
def test_a_mutant_differs_in_one_place_and_compiles(file: str) -> None:
    assert (ROOT / file).exists()
    plain = ast.dump(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    for name, number in [one for one in sample(48) if one[0] == file]:
        tree, mutant = mutated(name, number)
        assert ast.dump(tree) != plain, mutant
        compile(tree, file, "exec")


def test_samples_grow_without_changing() -> None:
    assert len(set(sample(120))) == 120
    assert sample(120)[:50] == sample(50)
    assert "state_bytes" in SPARED


def test_survivors_are_not_kills() -> None:
    ledger = MutantLedger("a", 10, (Mutant("f.py", 1, "0 -> 1", "seed 3: rest"), Mutant("f.py", 2, "0 -> 1")))
    assert ledger.killed == 1


def _endless() -> str:
    while True:
        pass


def _killed() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def _raises(error: BaseException) -> Callable[[], str]:
    def work() -> str:
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "killer", "undecided"),
    [
        (lambda: "seed 3: rest", "seed 3: rest", ""),
        (lambda: "", "", ""),
        (_raises(KeyError("x")), "KeyError: 'x'", ""),
        (_raises(MemoryError()), "", "MemoryError: "),
        (_raises(KeyboardInterrupt()), "", "KeyboardInterrupt: "),
        (_killed, "", "its process ended with -9"),
    ],
)
def test_only_what_its_code_does_kills_a_mutant(work: Callable[[], str], killer: str, undecided: str) -> None:
    mutant = Mutant("f.py", 1, "0 -> 1")
    assert outcome_of(mutant, work) == msgspec.structs.replace(mutant, killer=killer, undecided=undecided)


def test_what_never_ends_has_its_processor_time() -> None:
    with pytest.raises(Unanswered, match="does not end") as ended:
        in_a_process(_endless, 0.2)
    assert ended.value.by_itself


def test_what_waits_for_nothing_ends_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.PATIENCE", 0.05)
    with pytest.raises(Unanswered, match=f"ended with -{signal.SIGALRM:d}") as ended:
        in_a_process(lambda: str(signal.sigwait([signal.SIGUSR1])), 4.0)
    assert not ended.value.by_itself


def _called(monkeypatch: pytest.MonkeyPatch, ledger: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["mutants", "--count", "3", "--seeds", "7", "--ledger", str(ledger)])
    return main()


def test_without_a_baseline_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.baseline", lambda seeds: in_a_process(_raises(KeyError("x"))))
    assert _called(monkeypatch, tmp_path / "ledger.json") == 2
    assert list(tmp_path.iterdir()) == []


def test_the_undecided_are_played_again_and_reasons_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger.json"
    killed, undecided = Mutant("f.py", 1, "a", "seed 3: rest"), Mutant("f.py", 2, "b", undecided="a full machine")
    before = MutantLedger(commit(), 7, (killed, undecided), {"f.py:9: c": "changes nothing"})
    assert before.decided == 1 and summary(before).startswith("1 of 1 mutants killed: 100 %; 1 undecided")
    ledger.write_bytes(msgspec.json.encode(before))
    monkeypatch.setattr("tests.mutants.baseline", lambda seeds: frozenset())
    monkeypatch.setattr("tests.mutants.judge", lambda file, number, seeds, known: Mutant(file, number, "anew"))
    assert _called(monkeypatch, ledger) == 0
    after = msgspec.json.decode(ledger.read_bytes(), type=MutantLedger)
    assert after.mutants[0] == killed and [mutant.edit for mutant in after.mutants[1:]] == ["anew", "anew"]
    assert after.reasons == before.reasons and list(tmp_path.iterdir()) == [ledger]


def test_the_ledger_of_record_can_be_read() -> None:
    record = msgspec.json.decode((ROOT / "results" / "mutants.json").read_bytes(), type=MutantLedger)
    assert record.killed and record.decided == len(record.mutants)
