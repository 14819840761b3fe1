"""A testbed is a place: a further one is a folder and a line in the registry; what has a live body runs there."""

import ast
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.run import check_all, execute
from testbed import TESTBEDS
from tests.testbed.hosts.kubernetes.site import CLUSTER
from tests.tidy import ROOT, tracked_files


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line in the registry."""
    monkeypatch.setitem(TESTBEDS, "kubernetes", "tests.testbed.hosts.kubernetes.site:KUBERNETES")


def touched() -> set[str]:
    """Files outside of this folder: in which the folder's modules put something of theirs, or that know the folder."""
    home, files = Path(__file__).parent, set[str]()
    for path in home.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        modules = {alias.name: node.module for node in imports for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("monkeypatch."):
                owner = node.args[0]
                assert isinstance(owner, ast.Name), f"{ast.unparse(node)}: patch a name that is imported"
                place = (ROOT / str(modules[owner.id]).replace(".", "/")).with_suffix("")
                files.add(str(place / "__init__.py" if place.is_dir() else place.with_suffix(".py")))
    others = (path for path in tracked_files() if path.suffix == ".py" and not path.is_relative_to(home))
    return files | {str(path) for path in others if "hosts.kubernetes" in path.read_text()}


def test_it_touches_one_file_outside_of_its_folder() -> None:
    """Four are allowed; the registry's is enough."""
    assert touched() == {str(ROOT / "testbed" / "__init__.py")}


def spec(**changes: object) -> RunSpec:
    fields = {
        "system": "centralised",
        "workload": "requests",
        "workload_options": {"users": 2, "rate_rps": 20},
        "topology": "full-mesh",
        "topology_options": {"nodes": 3, "delay": "0ms"},
        "testbed": "kubernetes",
        "study": "limiting",
        "study_options": {"duration": "2s", "drain": "2s"},
    }
    return RunSpec(**{**fields, **changes})


@pytest.mark.live
def test_a_limiter_runs_on_pods_and_leaves_none(tmp_path: Path) -> None:
    execute(spec(), "a", tmp_path / "a")
    rows = pq.read_table(tmp_path / "a" / "requests.parquet").to_pandas()
    assert len(rows) > 50 and (rows.decision != "lost").all()
    assert json.loads((tmp_path / "a" / "manifest.json").read_text())["spec"]["testbed"] == "kubernetes"
    assert CLUSTER.log[:3] == ["create n1", "create n2", "create n3"] and not CLUSTER.pods


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"study_options": {"faults": [{"kind": "partition", "at": "1s", "side": ["n1"]}]}}, "kubernetes has no links"),
        (
            {
                "study": "throttling",
                "system": "throttler",
                "workload": "load-curve",
                "workload_options": {},
                "study_options": {},
            },
            "does not run on testbed kubernetes",
        ),
        ({"testbed_options": {"image": "x"}}, "testbed kubernetes has no options"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_starts(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_all([spec(**changes)])
