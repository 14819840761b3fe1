"""``ratebed soak``: exit codes, lines that replay, files of one schedule."""

import json
from pathlib import Path

import pytest

from harness.soak.draw import system_of
from ratebed.verbs import show as showing
from ratebed.verbs.soak import soak
from tests.harness.planted import adaptor_drops_a_fraction

SEED = next(seed for seed in range(1, 100) if system_of(seed) == "tb-adaptor")


def test_what_holds_ends_well_and_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "soak.json"
    assert soak(system="static-split", count=30, jobs=1, ledger=str(ledger)) == 0
    assert "30 schedules from seed 1 on, 0 failed" in capsys.readouterr().out
    assert soak(system="static-split", count=5, jobs=1, ledger=str(ledger), as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["schedules"] == 5
    (stretch,) = json.loads(ledger.read_text())["stretches"]
    assert stretch["count"] == 35


def test_what_breaks_is_a_line_that_replays_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    adaptor_drops_a_fraction(monkeypatch)
    assert soak(system="tb-adaptor", first=SEED, count=1, jobs=1) == 1
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"seed {SEED}  tb-adaptor: tokens conserved: adaptor gives ")
    assert line.endswith(f"ratebed soak --replay {SEED}")
    assert soak(replay=SEED, out=tmp_path) == 1
    assert "shrunk from" in capsys.readouterr().out
    stem = tmp_path / "soak" / f"tb-adaptor-{SEED}"
    assert {path.name for path in stem.parent.iterdir()} == {f"{stem.name}.{end}" for end in ("json", "svg", "png")}
    assert showing.show(f"{stem}.json", out=tmp_path) == 1
    monkeypatch.undo()
    assert soak(schedule=f"{stem}.json", out=tmp_path) == 0
    assert "every invariant holds" in capsys.readouterr().out
