"""Automatic mutants: each is one edit of protocol code, compiles, and is not what it was."""

import ast

import pytest

from tests.mutants import SPARED, TARGETS, Mutant, MutantLedger, mutated, sample, sites
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
