"""A study in a file outside the tree: found by its path, run on any testbed that has its body, part of a run's id."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from harness.matrix import ad_hoc
from harness.run import check_all, execute
from studies import load_study
from studies.inputs import inputs_of

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "burst.py"
LINES = 120


def burst(system: str, requests: int, *more: str):
    words = [f"study={EXAMPLE}", f"study.requests={requests}", "topology.nodes=4", *more]
    (spec,) = ad_hoc(system, "requests", "full-mesh", words, 1, 1)
    return spec


def admitted(folder: Path) -> int:
    return pq.read_table(folder / "requests.parquet").column("decision").to_pylist().count("admit")


def test_the_example_is_short_and_one_file():
    assert len(EXAMPLE.read_text().splitlines()) <= LINES


def test_one_bucket_for_all_admits_its_capacity_and_a_split_one_its_share_at_each_node(tmp_path):
    limit = ("system.capacity=40", "system.rate=0.04")
    execute(burst("centralised", 30, *limit), "a", tmp_path / "a")
    assert admitted(tmp_path / "a") == 40
    execute(burst("static-split", 30, *limit), "b", tmp_path / "b")
    assert admitted(tmp_path / "b") == 40, "every node is asked for more than its share"
    execute(burst("crdt-counter", 30, *limit), "c", tmp_path / "c")
    assert admitted(tmp_path / "c") == 4 * 30, "who has heard nothing yet admits what the whole bucket would"


@pytest.mark.live
@pytest.mark.slow
def test_it_runs_on_real_processes_as_well(tmp_path):
    spec = burst("centralised", 10, "system.capacity=20", "system.rate=0.02", "testbed=local")
    execute(spec, "a", tmp_path / "a")
    assert admitted(tmp_path / "a") == 20


def test_its_file_belongs_to_the_runs_identity(tmp_path):
    spec = burst("centralised", 10)
    assert str(EXAMPLE) in inputs_of(spec)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{EXAMPLE}:NOTHING", "has no NOTHING"),
        ("nowhere.py", "nowhere.py"),
        (f"{EXAMPLE}:Config", "is a type"),
        ("burts", "unknown study"),
    ],
)
def test_a_wrong_name_is_said(name, words):
    with pytest.raises(SpecError, match=words):
        load_study(name)


def test_what_does_not_fit_is_refused_before_it_runs():
    with pytest.raises(SpecError, match="requests = 0"):
        check_all([burst("centralised", 0)])
    with pytest.raises(SpecError, match="'lb' is not for the study burst"):
        check_all([burst("lb", 1)])
