"""The table of mutations can be tried: that they are killed, ``python -m tests.mutations`` says."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from tests.mutations import MUTATIONS, Mutation, outcome_of, problem_of, verdict_on
from tests.tidy import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.file}: {mutation.breaks}")
def test_its_old_text_and_its_tests_are_there(mutation: Mutation) -> None:
    assert problem_of(mutation) == ""
    assert mutation.new != mutation.old


@pytest.mark.parametrize("path", sorted({test.partition("::")[0] for row in MUTATIONS for test in row.tests}))
def test_its_tests_need_neither_root_nor_sockets(path: str) -> None:
    assert "needs" not in vars(import_module(path.removesuffix(".py").replace("/", "."))), "a live file"
    assert "mark.live" not in (ROOT / path).read_text()


def test_no_row_is_there_twice() -> None:
    assert len({(row.file, row.old, row.new) for row in MUTATIONS}) == len(MUTATIONS)


RULE = Mutation("a limit", "rule.py", "n < 3", "n <= 3", ("test_rule.py::test_the_limit",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "rule.py").write_text("def allowed(n):\n    return n < 3\n")
    (tmp_path / "test_rule.py").write_text(
        "from rule import allowed\ndef test_the_limit():\n    assert allowed(2) and not allowed(3)\n"
        "def test_little():\n    assert allowed(1)\n"
    )
    return tmp_path


def test_a_test_that_looks_kills_and_one_that_does_not_lets_it_survive(tree: Path) -> None:
    before = (tree / "rule.py").read_text()
    assert verdict_on(RULE, tree) == "killed"
    assert verdict_on(replace(RULE, tests=("test_rule.py::test_little",)), tree) == "SURVIVED"
    assert "UNDECIDED" in verdict_on(replace(RULE, new="n <"), tree)  # no program at all
    assert (tree / "rule.py").read_text() == before
    code, said = outcome_of(RULE.tests, tree, compile_modules=True)
    assert code == 0 and "1 passed" in said


def test_servers_that_tests_elsewhere_must_have_are_not_demanded_of_the_copy(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demanding = "import os\ndef test_it():\n    assert not os.environ.get('RATEBED_NEEDS')\n"
    (tree / "test_demanding.py").write_text(demanding)
    monkeypatch.setenv("RATEBED_NEEDS", "hdfs browser")
    assert outcome_of(["test_demanding.py"], tree, compile_modules=True)[0] == 0


def test_a_row_that_cannot_be_tried_says_why(tree: Path) -> None:
    assert problem_of(RULE, tree) == ""
    assert "0 times" in problem_of(replace(RULE, old="n > 3"), tree)
    assert "3 times" in problem_of(replace(RULE, old="n"), tree)
    assert "0 times" in problem_of(replace(RULE, file="none.py"), tree)
    assert "no test" in problem_of(replace(RULE, tests=("test_rule.py::test_limit",)), tree)
