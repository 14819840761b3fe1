"""Automatic mutants: each is one edit of protocol code, compiles, and is not what it was."""

import ast
import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.mutants import (
    SPARED,
    TARGETS,
    Mutant,
    MutantLedger,
    Unanswered,
    in_a_process,
    judge,
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
    for number in sample(file, 2):
        tree, mutant = mutated(file, number)
        assert ast.dump(tree) != plain, mutant
        compile(tree, file, "exec")


def test_samples_grow_without_changing() -> None:
    file = next(iter(TARGETS))
    assert len(set(sample(file, 12))) == 12
    assert sample(file, 12)[:5] == sample(file, 5)
    assert "state_bytes" in SPARED


def test_survivors_are_not_kills() -> None:
    ledger = MutantLedger({}, (Mutant("f.py", 1, "0 -> 1", "seed 3: rest"), Mutant("f.py", 2, "0 -> 1")))
    assert ledger.killed == 1


def _endless() -> str:
    while True:
        pass


def _killed() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def _spoilt() -> str:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)
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
        (_spoilt, "it spoils its memory", ""),
    ],
)
def test_only_what_its_code_does_kills_a_mutant(work: Callable[[], str], killer: str, undecided: str) -> None:
    mutant = Mutant("f.py", 1, "0 -> 1")
    assert outcome_of(mutant, work) == msgspec.structs.replace(mutant, killer=killer, undecided=undecided)


def test_what_never_ends_has_its_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.PATIENCE", 3_000)  # a busy machine may let it wait for longer than 30 times that
    with pytest.raises(Unanswered, match="does not end") as ended:
        in_a_process(_endless, 0.2)
    assert ended.value.by_itself


def test_what_waits_for_nothing_ends_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.mutants.PATIENCE", 0.05)
    with pytest.raises(Unanswered, match=f"ended with -{signal.SIGALRM:d}") as ended:
        in_a_process(lambda: str(signal.sigwait([signal.SIGUSR1])), 4.0)
    assert not ended.value.by_itself


def _called(monkeypatch: pytest.MonkeyPatch, ledger: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["mutants", "--each", "3", "--seeds", "7", "--ledger", str(ledger)])
    monkeypatch.setattr("tests.mutants.baseline", lambda seeds: frozenset())
    monkeypatch.setattr("tests.mutants.judge", lambda file, site, seeds, known: Mutant(file, 1, "anew", site=site))
    return main()


def test_without_a_baseline_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mutants", "--ledger", str(tmp_path / "ledger.json")])
    monkeypatch.setattr("tests.mutants.baseline", lambda seeds: in_a_process(_raises(KeyError("x"))))
    assert main() == 2
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_adds_up_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is undecided is played again, and all of a file that is another one; nothing else, and reasons stay."""
    path, (changed, kept, *_) = tmp_path / "ledger.json", TARGETS
    assert _called(monkeypatch, path) == 0
    first = msgspec.json.decode(path.read_bytes(), type=MutantLedger)
    assert len(first.mutants) == 3 * len(TARGETS) and {one.edit for one in first.mutants} == {"anew"}
    old = [msgspec.structs.replace(one, edit="old", killer="seed 3: rest") for one in first.mutants]
    again = next(place for place, one in enumerate(old) if one.file == kept)
    old[again] = msgspec.structs.replace(old[again], killer="", undecided="a full machine")
    files = {**first.files, changed: msgspec.structs.replace(first.files[changed], source="of another file")}
    before = MutantLedger(files, tuple(old), {"f.py:9: c": "changes nothing"})
    assert summary(before).endswith("100 %; 1 undecided, which the next call plays again")
    path.write_bytes(msgspec.json.encode(before))
    assert _called(monkeypatch, path) == 0
    after = msgspec.json.decode(path.read_bytes(), type=MutantLedger)
    assert after.files == first.files and after.reasons == before.reasons and list(tmp_path.iterdir()) == [path]
    anew = [(one.file, one.site) for one in after.mutants if one.edit == "anew"]
    assert sorted(anew) == sorted([(kept, old[again].site), *((changed, site) for site in sample(changed, 3))])
    assert len(after.mutants) == len(first.mutants)


def test_a_kernel_s_mutant_does_not_run_as_machine_code_of_the_kernel_as_it_is() -> None:
    file = "systems/limiting/queue_merge_kernel.py"
    edits = [mutated(file, site)[1] for site in range(len(list(sites(ast.parse((ROOT / file).read_text())))))]
    loud = next(one for one in edits if one.edit == "without users[slot, LENGTH] += grown")
    assert judge(file, loud.site, 30, frozenset()).killer


def test_the_ledger_of_record_has_every_target_and_a_reason_for_every_survivor() -> None:
    record = msgspec.json.decode((ROOT / "results" / "mutants.json").read_bytes(), type=MutantLedger)
    assert set(record.files) == set(TARGETS) and record.decided == len(record.mutants) >= 100
    assert set(record.reasons) == {mutant.name for mutant in record.mutants if not mutant.killer}
