"""A testbed is a place: a further one is a folder and a line in the registry; what has a live body runs there."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.run import check_all, execute
from testbed import TESTBEDS
from tests.testbed.hosts.kubernetes.site import CLUSTER


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line in the registry."""
    monkeypatch.setitem(TESTBEDS, "kubernetes", "tests.testbed.hosts.kubernetes.site:KUBERNETES")


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
