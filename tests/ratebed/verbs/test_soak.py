"""``ratebed soak``: exit codes, lines that replay, files of one schedule."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.draw import system_of
from harness.soak.schedule import SoakSchedule, Told, write_schedule
from ratebed.verbs import show as showing
from ratebed.verbs.soak import soak
from systems.api import Effect, Event
from systems.distribution.tb_adaptor import ADAPTOR, BrokerAgent
from tests.harness.soak.planted import adaptor_drops_a_fraction

SEED = next(seed for seed in range(1, 100) if system_of(seed) == "tb-adaptor")


def test_what_holds_ends_well_and_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "soak.json"
    assert soak(system="static-split", count=30, jobs=1, ledger=str(ledger)) == 0
    assert "30 schedules from seed 1 on, 0 failed" in capsys.readouterr().out
    assert soak(system="static-split", count=5, jobs=1, ledger=str(ledger), as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["schedules"] == 5
    (stretch,) = json.loads(ledger.read_text())["stretches"]
    assert stretch["count"] == 35
    assert soak(system="static-split", first=1, count=30, jobs=1, ledger=str(ledger)) == 0
    assert f"{ledger} has 35, 0 of them new" in capsys.readouterr().out


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


def test_options_that_would_say_nothing_are_refused(tmp_path: Path) -> None:
    words: list[tuple[dict[str, Any], str]] = [
        ({"replay": 3, "count": 7}, "--replay plays one schedule: --count says nothing of it"),
        ({"replay": 0, "ledger": str(tmp_path / "soak.json")}, "--replay plays one schedule: --ledger"),
        ({"schedule": "some.json", "jobs": 2}, "--schedule plays one schedule: --jobs"),
        ({"schedule": "some.json", "replay": 3}, "--replay plays one schedule: --schedule"),
        ({"seconds": -1.0}, "--seconds -1; give at least 0"),
        ({"seconds": float("nan")}, "--seconds nan"),
        ({"replay": -1}, "--replay -1; give at least 0"),
    ]
    for options, told in words:
        with pytest.raises(SpecError, match=told):
            soak(**options, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_seed_0_is_replayed_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    monkeypatch.setattr("ratebed.verbs.soak._show", lambda schedule, *how, **more: shown.append(schedule.seed) or 0)
    assert soak(replay=0) == 0 and shown == [0]


def edited(path: Path, struck: str) -> str:
    """A schedule's file, in which links take longer for a second, and a node crashes and is back."""
    longer = {"kind": "link-delay", "a": "*", "b": "*"}
    delay = ({**longer, "at": "1s", "hold": "40ms"}, {**longer, "at": "2s", "hold": "0ms"})
    crash = ({"kind": "crash", "at": "3s", "node": struck}, {"kind": "restart", "at": "4s", "node": struck})
    told = (Told(5 * SECOND_NS, "broker1", "topic", 1.0),)
    nodes = ("broker1", "broker2")
    schedule = SoakSchedule(
        1, "tb-adaptor", {}, nodes, 14 * SECOND_NS, MILLISECOND_NS, told=told, troubles=(crash, delay)
    )  # fmt: skip
    write_schedule(path, schedule)
    return str(path)


def test_a_mistyped_node_of_a_schedule_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="broker9"):
        soak(schedule=edited(tmp_path / "edited.json", "broker9"), out=tmp_path)


def test_what_ends_before_anything_happens_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def odd(agent: BrokerAgent, event: Event, now_ns: int) -> list[Effect]:
        raise ValueError("odd")

    monkeypatch.setattr(BrokerAgent, "handle", odd)
    assert soak(schedule=edited(tmp_path / "edited.json", ADAPTOR), out=tmp_path) == 1
    assert "keeps its interface" in capsys.readouterr().out
    assert (tmp_path / "soak" / "tb-adaptor-1.svg").exists()
