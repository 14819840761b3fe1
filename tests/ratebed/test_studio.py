"""Figures are drawn as soon as their runs are there; those with failures, and live ones, at the end."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.digests import digest_of, sealed
from harness.code_version import commit
from harness.executors.api import Finished, work
from paper_figs.catalogue import catalogue
from ratebed import pipeline, reporting, studio
from ratebed.options import make_request
from ratebed.pipeline import CampaignPlan, make_plan, sections
from ratebed.studio import said_once
from studies.inputs import inputs_of
from testbed.hosts import capabilities


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The figures in the order in which they were drawn; the drawings themselves, and Spark, are left out."""
    found: list[str] = []

    def compute(self: studio.Studio, key: str, run_ids: list[str]) -> dict[str, object]:
        return {}

    def draw(self: studio.Studio, key: str, coming: object, outcome: studio._Outcome) -> str:
        found.append(f"{key} {len(outcome.run_ids)}")
        return ""

    monkeypatch.setattr(studio.Studio, "_compute", compute)
    monkeypatch.setattr(studio.Studio, "_draw", draw)
    monkeypatch.setattr("analysis.spark.warm_up", lambda *_: None)
    return found


def planned(folder: Path, keys: tuple[str, ...], *options: str) -> tuple[CampaignPlan, studio.RunRequest]:
    request = make_request(list(keys), False, "tiny", 1, 1, folder, options)
    return make_plan(request), request


def finished(plan: CampaignPlan, run_id: str, error: str = "") -> Finished:
    """The run's outcome; where it worked, its folder is there."""
    spec = plan.campaign.wanted[run_id]
    if error:
        return Finished(spec, run_id, 0.0, error)
    plan.campaign.runs.mkdir(parents=True, exist_ok=True)
    return work(spec, run_id, plan.campaign.runs)


def test_a_figure_is_drawn_when_its_last_run_comes_home(tmp_path: Path, drawn: list[str]) -> None:
    plan, request = planned(tmp_path, ("crdt-fig4.6", "dst-table2"))
    (*earlier, last) = plan.run_ids["crdt-fig4.6"]
    with studio.Studio(plan, request) as atelier:
        for run_id in earlier:
            atelier.finished(finished(plan, run_id))
        atelier._painter.submit(int).result()
        assert drawn == ["dst-table2 0"]  # it has no runs to wait for
        atelier.finished(finished(plan, last))
        atelier._painter.submit(int).result()
        assert drawn[1:] == [f"crdt-fig4.6 {len(earlier) + 1}"]
        assert atelier.finish() == {}
    assert len(drawn) == 2 and set(sections(tmp_path)) == {"crdt-fig4.6", "dst-table2"}


def test_a_failed_run_leaves_its_figure_to_the_end_with_the_reason(tmp_path: Path, drawn: list[str]) -> None:
    plan, request = planned(tmp_path, ("crdt-fig4.6",))
    first, *others = plan.run_ids["crdt-fig4.6"]
    with studio.Studio(plan, request) as atelier:
        atelier.finished(finished(plan, first, "it broke"))
        for run_id in others:
            atelier.finished(finished(plan, run_id))
        assert not atelier._painted
        assert atelier.finish() == {}
    assert drawn == [f"crdt-fig4.6 {len(others)}"]
    section = sections(tmp_path)["crdt-fig4.6"]
    assert section["failed"] == {first: "it broke"} and section["run_ids"] == others
    assert section["commits"] == [commit()]


def test_runs_by_other_code_are_known_as_such(tmp_path: Path, drawn: list[str]) -> None:
    plan, request = planned(tmp_path, ("crdt-fig4.6",))
    first, *others = plan.run_ids["crdt-fig4.6"]
    for run_id in (first, *others):
        finished(plan, run_id)
    manifest = plan.campaign.runs / first / "manifest.json"
    manifest.write_text(json.dumps(sealed({**json.loads(manifest.read_text()), "commit": "abc"})))
    with studio.Studio(plan, request) as atelier:
        assert atelier.finish() == {}
    assert sections(tmp_path)["crdt-fig4.6"]["commits"] == sorted({"abc", commit()})


def test_beside_runs_in_real_time_nothing_is_drawn(
    tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, request = planned(tmp_path, ("crdt-fig4.6", "dst-table2"))
    monkeypatch.setattr(studio, "load_testbed", lambda name: type("Clock", (), {"real_time": True}))
    with studio.Studio(plan, replace(request, jobs=1)) as atelier:
        for run_id in plan.run_ids["crdt-fig4.6"]:
            atelier.finished(finished(plan, run_id))
        assert not atelier._painted
        assert atelier.finish() == {}
    assert len(drawn) == 2


def test_what_was_mended_of_a_table_is_said(tmp_path: Path, drawn: list[str]) -> None:
    table = tmp_path / "rtt.txt"
    table.write_text("\n".join(" ".join(str(abs(i - j) * (9 + i)) for j in range(4)) for i in range(4)))
    plan, request = planned(tmp_path / "out", ("placement-other-matrices",), "--latency-table", str(table))
    with studio.Studio(plan, request) as atelier:
        for run_id, spec in plan.campaign.wanted.items():
            if inputs_of(spec):  # of the table
                atelier.finished(finished(plan, run_id))
        assert atelier.finish() == {}
    (note,) = sections(tmp_path / "out")["placement-other-matrices"]["notes"]
    assert note == "of 6 pairs 4 have directions more than 10 % apart: the mean is taken"


@pytest.mark.parametrize(
    ("key", "words", "claims"),
    [
        ("srtm-fig4", (), "R12 R17 R3 R5 R8"),
        ("srtm-fig4", ("--costs", "srtm-slow"), "R11 R3 R8"),
        ("srtm-fig4", ("--pump", "shared"), "R12 R17 R3"),
        ("srtm-fig5", ("--costs", "srtm-searched", "--margin", "2.0"), "R10 R11 R12 R17 R3 R5 R8"),
        ("srtm-eq1", (), ""),
        ("dst-table2", (), ""),
    ],
)
def test_claims_that_its_costs_or_readings_were_made_from_stand_beside_a_figure(
    key: str, words: tuple[str, ...], claims: str, tmp_path: Path, drawn: list[str]
) -> None:
    plan, request = planned(tmp_path, (key,), *words)
    with studio.Studio(plan, request) as atelier:
        atelier.finish()  # of no run: what is said hangs on the points alone
    (section,) = sections(tmp_path).values()
    assert " ".join(section["fitted_on"]) == claims


def test_a_figure_that_cannot_be_drawn_says_why_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, request = planned(tmp_path, ("dst-table2", "dst-fig1-4"))

    def compute(self: studio.Studio, key: str, run_ids: list[str]) -> dict[str, object]:
        raise ValueError("no such table")

    monkeypatch.setattr(studio.Studio, "_compute", compute)
    (folder := tmp_path / "tables" / "dst-table2").mkdir(parents=True)
    (folder / "rows.parquet").write_bytes(b"of its last success")
    with studio.Studio(plan, request) as atelier:
        assert atelier.finish() == dict.fromkeys(("dst-table2", "dst-fig1-4"), "no such table")
    assert sections(tmp_path)["dst-table2"]["skipped"] == "no such table"
    assert not list(folder.glob("*.parquet")) and sections(tmp_path)["dst-table2"]["tables"] == {}


def test_a_skipped_figure_that_is_damaged_stays_and_the_others_are_drawn(tmp_path: Path, drawn: list[str]) -> None:
    plan, request = planned(tmp_path, ("crdt-fig4.6", "dst-table2"))
    plan = replace(plan, skipped={"crdt-fig4.6": "it runs on mininet"})
    (folder := tmp_path / "tables" / "crdt-fig4.6").mkdir(parents=True)
    section = {"name": folder.name, "run_ids": ["a"], "command": "", "tables": {"rows.parquet": digest_of(b"rows")}}
    (folder / pipeline.SECTION).write_text(json.dumps(sealed(section)))
    (folder / "rows.parquet").write_bytes(b"rowt")
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    with studio.Studio(plan, request) as atelier:
        assert atelier.finish() == {}
    assert drawn == ["dst-table2 0"] and {path.name: path.read_bytes() for path in folder.iterdir()} == kept


def test_what_this_machine_lacks_is_left_out_by_name(
    tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"ratelimit", "redis-server", "nginx"}
    monkeypatch.setattr(capabilities, "tool", lambda name: f"/usr/bin/{name}" if name in here else None)
    request = make_request(["deployed", "redis-wan"], False, "small", 1, 1, tmp_path, (), testbed="mininet")
    plan = make_plan(request)
    assert [what.partition(" (")[0] for what in plan.lacking["deployed"]] == ["bucket4j", "haproxy"]
    assert "haproxy (apt-get install haproxy)" in plan.lacking["deployed"] and plan.lacking["redis-wan"] == []
    systems = {plan.campaign.wanted[run_id].system for run_id in plan.run_ids["deployed"]}
    assert {"nginx", "ratelimit", "redis-gcra", "leases"} <= systems and not {"haproxy", "bucket4j"} & systems
    here.clear()
    whole = set(plan.run_ids["deployed"])
    monkeypatch.setattr(pipeline, "is_whole", lambda folder: folder.name in whole)
    again = make_plan(request)
    assert whole <= set(again.run_ids["deployed"]), "what has been run is drawn, whatever there is to run it with"
    whole.clear()
    assert "nginx" not in {spec.system for spec in make_plan(request).campaign.wanted.values()}


def test_the_report_names_what_the_machine_lacks(tmp_path: Path, drawn: list[str]) -> None:
    plan, request = planned(tmp_path, ("dst-table2",))
    plan = replace(plan, lacking={"dst-table2": ["haproxy (apt-get install haproxy)"]})
    with studio.Studio(plan, request) as atelier:
        assert atelier.finish() == {}
    section = sections(tmp_path)["dst-table2"]
    assert section["lacking"] == ["haproxy (apt-get install haproxy)"]
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "dst-table2.svg").write_text("<svg/>")
    assert reporting._section(tmp_path, section, {}, catalogue([section])).notes.startswith(
        "Not on this machine: haproxy (apt-get install haproxy)."
    )


def test_a_figure_is_drawn_again_only_where_something_is_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg, png = (tmp_path / "figures" / f"dst-table2.{suffix}" for suffix in ("svg", "png"))

    def is_drawn() -> bool:
        plan, request = planned(tmp_path, ("dst-table2",))
        with studio.Studio(plan, request) as atelier:
            assert atelier.finish() == {}
        return "drawing dst-table2" in capsys.readouterr().out

    assert is_drawn() and not is_drawn()
    before, sheets = svg.read_bytes(), sections(tmp_path)["dst-table2"]["sheets"]
    assert sheets
    png.write_bytes(png.read_bytes()[:-1])
    assert is_drawn() and not is_drawn()
    svg.unlink()
    assert is_drawn() and svg.read_bytes() == before
    (tmp_path / "tables" / "dst-table2" / pipeline.SECTION).unlink()
    assert is_drawn() and not is_drawn()
    assert sections(tmp_path)["dst-table2"]["sheets"] == sheets


def test_notes_that_differ_by_numbers_are_one_note():
    said = "of {} pairs {} have directions more than 10 % apart: the mean is taken"
    notes = [said.format(28, 4), "site 1.5 is far", said.format(66, 4), said.format(120, 27), "no number"]
    assert said_once(notes) == [said.format("28, 66, 120", "4, 4, 27"), "site 1.5 is far", "no number"]
    assert said_once(notes[:2]) == notes[:2]
