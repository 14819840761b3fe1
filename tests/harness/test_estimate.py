"""What runs are expected to take: learned from finished ones, else shipped."""

import json
import platform
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.writer import write_run
from harness.estimate import LEAST_RUNS, campaign_seconds, expected_seconds, kind_of, paces
from harness.experiment import RunSpec
from harness.paces import PACES, SHORT_PACES, shipped_pace
from studies import STUDIES
from systems import SYSTEMS
from tests.command import ratebed
from workloads import WORKLOADS

SPEC = RunSpec(system="lb", workload="poisson")


def spec_of(number: int, system: str = "lb") -> RunSpec:
    """Runs of one kind, of different sizes."""
    return RunSpec(system=system, workload="poisson", seed=number, workload_options={"publishers": 100 * (number + 1)})


def write(runs: Path, spec: RunSpec, seconds: float, host: str = "") -> Path:
    """A finished run that took so long."""
    run_id = f"{len([*runs.glob('*')]):016x}"
    manifest = {"run_id": run_id, "spec": msgspec.to_builtins(spec), "wall_seconds": seconds}
    write_run(runs / run_id, {}, {**manifest, "host": host or platform.node()})
    return runs / run_id


@settings(max_examples=10)
@given(st.lists(st.floats(0.01, 1_000), min_size=LEAST_RUNS, max_size=LEAST_RUNS + 4))
def test_what_taught_is_foreseen(tmp_path_factory, took):
    runs = tmp_path_factory.mktemp("runs")
    specs = [spec_of(number) for number in range(len(took))]
    learned = paces([write(runs, spec, seconds) for spec, seconds in zip(specs, took, strict=True)])
    assert campaign_seconds(specs, 1, learned) == pytest.approx(sum(took))
    assert campaign_seconds(specs, 2, learned) == pytest.approx(sum(took) / 2)
    larger = sorted(expected_seconds(spec, learned) for spec in specs)
    assert larger == [expected_seconds(spec, learned) for spec in specs], "a larger run takes longer"
    assert expected_seconds(spec_of(1, "srtm"), learned) == expected_seconds(spec_of(1, "srtm")), "another kind"


def test_few_runs_other_machines_and_broken_manifests_say_nothing(tmp_path):
    few = [write(tmp_path, spec_of(number), 5.0) for number in range(LEAST_RUNS - 1)]
    other = [write(tmp_path, spec_of(number), 5.0, host="elsewhere") for number in range(LEAST_RUNS)]
    assert paces([*few, *other]) == {}
    broken = write(tmp_path, SPEC, 5.0)
    (broken / "manifest.json").write_text("{")
    assert paces([*few, broken, tmp_path / "nowhere"]) == {}
    shutil.copy(few[0] / "manifest.json", broken)
    assert paces([*few, broken]) == {}, "that of another run"
    edited = (few[0] / "manifest.json").read_text().replace("5.0", "500.0")
    (broken / "manifest.json").write_text(edited.replace(few[0].name, broken.name))
    assert paces([*few, broken]) == {}, "it is not as it was written"
    assert paces([*few, write(tmp_path, SPEC, 5.0)]).keys() == {kind_of(SPEC)}


def test_the_shipped_paces_are_of_what_there_is():
    for study, system, workload in [*PACES, *(kind[:3] for kind in SHORT_PACES)]:
        assert study in STUDIES and system in SYSTEMS and workload in WORKLOADS
    assert all(pace > 0 for pace in [*PACES.values(), *SHORT_PACES.values()])
    kind = kind_of(SPEC)
    of_study = [pace for (study, _, _), pace in PACES.items() if study == "distribution"]
    assert shipped_pace(kind) == PACES["distribution", "lb", "poisson"]
    assert shipped_pace(kind._replace(round="3s")) == SHORT_PACES["distribution", "lb", "poisson", "3s"]
    assert shipped_pace(kind._replace(round="7s")) == shipped_pace(kind), "of its own rounds none was measured"
    assert shipped_pace(kind._replace(system="mine.py:SYSTEM")) == pytest.approx(sum(of_study) / len(of_study))
    assert shipped_pace(kind._replace(study="mine.py:STUDY")) == 1.0
    live = msgspec.structs.replace(SPEC, testbed="local")
    assert expected_seconds(live) > 60, "in real time the clock is the pace"


def test_a_plan_rests_on_what_is_there(tmp_path):
    words = ["plan", "--system", "lb", "--workload", "poisson", "--repetitions", "3", "--jobs", "1", "--json"]
    words += ["--out", str(tmp_path)]
    before = json.loads(ratebed(*words).stdout)
    for _ in range(LEAST_RUNS):
        write(tmp_path / "runs", SPEC, 100.0)
    after = json.loads(ratebed(*words).stdout)
    assert before["figures"][0]["seconds"] < 10 and after["figures"][0]["seconds"] == pytest.approx(300)
    assert before["total"]["runs"] == after["total"]["to_do"] == 3 and after["total"]["drawing_seconds"] > 0
