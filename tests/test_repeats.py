"""Repeated suites: what failed is named, times add up, and nothing is left of what ran beside."""

import json
import time
from pathlib import Path

import pytest

from tests.processes import still_there
from tests.repeats import enter, fuzzing, run_once, suites

PYTEST = """cat <<'EOF'
tests/a.py F.                                             [100%]
FAILED tests/a.py::test_one[x y] - assert 1 == 2
ERROR tests/b.py - OSError
1 failed, 1 passed, 1 error in 0.1s
EOF
exit 1"""
GO = "printf -- '--- FAIL: TestFence (0.00s)\\n    --- FAIL: TestFence/twice (0.00s)\\nFAIL\\n'; exit 1"


@pytest.mark.parametrize(
    ("command", "failed"),
    [
        ("echo 3 passed", []),
        (PYTEST, ["tests/a.py::test_one[x y]", "tests/b.py"]),
        (GO, ["TestFence", "TestFence/twice"]),
        ("exit 3", ["exit code 3"]),
        ("echo FAILED tests/a.py::test_one - first; echo 1 passed", ["tests/a.py::test_one"]),
    ],
    ids=["passed", "pytest", "go", "no name", "passed at the second try"],
)
def test_what_failed_is_named(command: str, failed: list[str], tmp_path: Path) -> None:
    """A suite that passed at its second try has cried wolf all the same."""
    assert run_once(command, tmp_path, tmp_path / "log") == failed


def test_times_add_up_by_suite_and_company(tmp_path: Path) -> None:
    ledger = tmp_path / "repeats.json"
    enter(ledger, "go", 0, [], 1800.0)
    enter(ledger, "go", 2, [], 1800.0)
    assert enter(ledger, "go", 0, ["TestA"], 1800.0).startswith("1 of 2 passed at ")
    first, second = json.loads(ledger.read_text())
    assert (first["times"], first["passed"], first["hours"], first["failed"]) == (2, 1, 1.0, {"TestA": 1})
    assert (second["beside"], second["times"]) == (2, 1)


def test_each_suite_has_a_folder() -> None:
    assert all(folder.is_dir() for _, folder in suites().values())


def test_nothing_is_left_of_what_ran_beside(tmp_path: Path) -> None:
    """Nor of the process that a session had for its parser."""
    with fuzzing(1, tmp_path / "fuzz.json", tmp_path / "log") as (session,):
        children = Path(f"/proc/{session.pid}/task/{session.pid}/children")
        until_s = time.monotonic() + 60
        while not children.read_text():
            assert time.monotonic() < until_s and session.poll() is None
            time.sleep(0.05)
    assert session.poll() is not None
    assert not still_there(session.pid)
