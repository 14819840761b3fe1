"""Specs, grids and matrix files: ids, checks, errors that name the fault."""

from pathlib import Path

import msgspec
import pytest

from core.errors import HarnessError, SpecError, SystemFault
from harness.experiment import SCALES, Experiment, RunSpec
from harness.matrix import ad_hoc, read_matrix
from harness.run import check_all, execute, resolve
from ratebed.options import make_request
from ratebed.verbs.run import points_of
from studies.inputs import run_id
from tests.harness.common import small


def test_the_id_depends_on_spec_code_and_input_files(tmp_path):
    file = tmp_path / "input.txt"
    file.write_text("one")
    spec = small(inputs=(str(file),))
    ids = {run_id(spec, "code"), run_id(spec, "other code"), run_id(small(seed=5), "code"), run_id(small(), "code")}
    file.write_text("two")
    assert len(ids | {run_id(spec, "code")}) == 5


def test_a_spec_survives_json():
    assert msgspec.json.decode(small().to_json(), type=RunSpec) == small()


def test_repetitions_have_their_own_seeds_and_share_them_across_points():
    experiment = Experiment("x", "x", "x", points=lambda scale, options: [small(), small(system="lb")])
    runs = experiment.runs(SCALES["quick"], {}, seed=7)
    assert len(runs) == 10 and len({run.seed for run in runs}) == 5
    assert runs[:2] == [r for r in experiment.runs(SCALES["tiny"], {}, seed=7) if r.repetition == 0]


def test_scales_fall_back_to_the_next_larger_grid():
    assert SCALES["tiny"].pick(quick=[1], paper=[1, 2]) == [1]
    assert SCALES["paper"].pick(quick=[1], paper=[1, 2]) == [1, 2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": "srmt"}, "did you mean 'srtm'"),
        ({"workload": "poison"}, "poisson"),
        ({"topology": "lan"}, "srtm-lan"),
        ({"testbed": "moon"}, "virtual"),
        ({"study": "dance"}, "distribution"),
        ({"workload_options": {"publishers": -5}}, "publishers"),
        ({"workload_options": {"rate_rps": -1.0}}, "rate_rps"),
        ({"workload_options": {"publisher": 5}}, "publisher"),
        ({"study_options": {"envelope": "guessed"}}, "guessed"),
        ({"study_options": {"initial_loads_rps": [-1.0]}}, "initial_loads_rps"),
        ({"study_options": {"initial_loads_rps": [1.0]}}, "brokers"),
        ({"topology_options": {"brokers": 0}}, "brokers"),
        ({"calibration": "none"}, "srtm-paper"),
        ({"round": "fast"}, "round"),
        ({"round": "0s"}, "round"),
        ({"slo": "-1ms"}, "slo"),
        ({"system": "tb-adaptor"}, "is not for the study distribution"),
        ({"system": "nowhere.py:SYSTEM"}, "nowhere.py"),
    ],
)
def test_bad_input_is_named(tmp_path, changes, words):
    with pytest.raises(HarnessError, match=words):
        execute(small(**changes), "id", tmp_path / "id")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": "redis-gcra"}, "real server \\(redis-gcra\\).*--testbed local"),
        (
            {"testbed": "local", "study_options": {"faults": [{"kind": "partition", "at": "1s", "side": ["n1"]}]}},
            "local has no links",
        ),
    ],
)
def test_what_a_testbed_cannot_do_to_limiters_is_refused_before_anything_starts(changes, words):
    spec = RunSpec(**{"system": "centralised", "workload": "requests", "topology": "full-mesh",
                      "study": "limiting", **changes})  # fmt: skip
    with pytest.raises(SpecError, match=words):
        check_all([spec])


def test_a_matrix_file_multiplies_its_lists(tmp_path):
    path = tmp_path / "matrix.toml"
    path.write_text(
        'repetitions = 2\n[[grid]]\nsystem = ["lb", "conc"]\nworkload = "periodic"\nround = "6s"\n'
        "workload_options = { publishers = [100, 200, 300], batch = 10 }\n"
        "study_options = { initial_loads_rps = [[1e3, 0, 0, 0, 0, 0]] }\n"
    )
    specs = read_matrix(path, seed=3)
    assert len(specs) == 12 and len({run_id(spec, "") for spec in specs}) == 12
    assert specs[0].study_options["initial_loads_rps"] == [1e3, 0, 0, 0, 0, 0]
    assert len(read_matrix(path, seed=3, repetitions=5)) == 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[grid]\n", "line 1"),
        ("", "no grid"),
        ("repetitions = 0\n[[grid]]\nsystem='lb'\nworkload='poisson'", "repetitions"),
        ("colour = 1\n[[grid]]\nsystem='lb'\nworkload='poisson'", "colour"),
        ("[[grid]]\nsystem = 'lb'", "grid 1: workload"),
        ("[[grid]]\nsystem = 'lb'\nworkload = 'poisson'\nsystems = 1", "did you mean 'system'"),
        ("[[grid]]\nsystem = []\nworkload = 'poisson'", "empty list"),
        ("[[grid]]\nsystem = 'lb'\nworkload = 'poisson'\nround = 5", "grid 1"),
        (
            "[[grid]]\nsystem = 'lb'\nworkload = 'poisson'\nworkload_options = { publishers = [10, 'many'] }",
            "publishers",
        ),
    ],
)
def test_a_broken_matrix_file_is_named(tmp_path, text, words):
    path = tmp_path / "matrix.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=words):
        read_matrix(path, 1)


def test_a_missing_matrix_file_is_named():
    with pytest.raises(SpecError, match=r"nowhere\.toml"):
        read_matrix(Path("nowhere.toml"), 1)


def test_ad_hoc_points_take_their_study_from_the_system():
    (spec,) = ad_hoc("srtm", "poisson", "srtm-lan", ["workload.publishers=50", "round=6s"], 1, 1)
    assert (spec.workload_options, spec.round, spec.study) == ({"publishers": 50}, "6s", "distribution")
    (spec,) = ad_hoc("tb-adaptor", "shifting", "srtm-lan", ["topology.brokers=2"], 1, 1)
    assert spec.study == "control"
    with pytest.raises(SpecError, match=r"AXIS\.KEY=VALUE"):
        ad_hoc("srtm", "poisson", "srtm-lan", ["publishers=5"], 1, 1)


def test_what_is_said_twice_and_otherwise_is_refused():
    for topology, words, told in (
        ("", ["system=conc"], "--set system='conc', and system 'lb'; give one of them"),
        ("", ["workload=periodic"], "workload 'poisson'"),
        ("star", ["topology=full-mesh"], "topology 'star'"),
        ("", ["slo=1ms", "slo=2ms"], "--set slo='1ms', and slo '2ms'"),
        ("", ["workload.publishers=50", "workload.publishers=60"], "--set workload.publishers=50, and"),
    ):
        with pytest.raises(SpecError, match=told):
            ad_hoc("lb", "poisson", topology, words, 1, 1)
    (usual,) = ad_hoc("lb", "poisson", "", ["system=lb"], 1, 1)
    (other,) = ad_hoc("leases", "requests", "", ["topology=star", "topology=star"], 1, 1)
    assert (usual.topology, other.topology) == ("srtm-lan", "star")


@pytest.mark.parametrize("option", ["testbed", "calibration"])
def test_a_place_that_is_said_twice_and_otherwise_is_refused(tmp_path, option):
    name = {"testbed": "local", "calibration": "edge"}[option]
    request = make_request((), False, "quick", 1, 1, tmp_path, (), extra_system="lb", **{option: name})
    with pytest.raises(SpecError, match=f"{option} '{name}'; give one of them"):
        points_of(request, "", "poisson", "", [f"{option}=mininet"])


def test_a_limit_may_be_said_per_period():
    def options(*settings, system="leases"):
        return ad_hoc(system, "requests", "full-mesh", [f"system.{word}" for word in settings], 1, 1)[0].system_options

    assert options("limit=20/1s") == {"capacity": 20, "rate": "20"}
    assert options("limit=100/minute", "refresh=1s") == {"capacity": 100, "rate": "5/3", "refresh": "1s"}
    assert options("limit=100/60s") == options("capacity=100", "rate=5/3")
    for text in ("20", "20/", "/1s", "x/1s", "1.5/1s", "20/0s", "0/1s", "-3/1s", "20/week"):
        with pytest.raises(SpecError):
            options(f"limit={text}")
    with pytest.raises(SpecError, match="limit and rate"):
        options("limit=20/1s", "rate=3")


_BROKEN = """
import numpy as np
from dataclasses import dataclass
from systems.api import Distribution, System, Trial

@dataclass(frozen=True)
class Config:
    fault: str = ""

def distribute(problem, config, rng):
    everyone = np.zeros(problem.publishers.count, np.int32)
    while config.fault == "endless":
        yield Trial(everyone, problem.round_ns)
    if config.fault == "range":
        yield Trial(everyone + 99, problem.round_ns)
    yield Trial(everyone, problem.round_ns)
    return None if config.fault == "answer" else Distribution(everyone - 1)

SYSTEM = System("broken", "breaks the interface", config=Config, distribute=distribute)
"""


@pytest.mark.parametrize(
    ("fault", "words"),
    [("endless", "100 rounds"), ("range", "bad assignment"), ("answer", "returned None"), ("", "without a broker")],
)
def test_a_distributor_that_breaks_its_interface_is_named(tmp_path, fault, words):
    path = tmp_path / "broken.py"
    path.write_text(_BROKEN)
    spec = small(
        system=f"{path}:SYSTEM", system_options={"fault": fault}, workload_options={"publishers": 10}, round="600ms"
    )
    with pytest.raises(SystemFault, match=words):
        execute(spec, "id", tmp_path / "id")


def test_resolving_starts_nothing(tmp_path):
    assert resolve(small()).system.key == "conc"
