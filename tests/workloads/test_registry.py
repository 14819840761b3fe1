"""The registry, workload ids and the README's table."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import SpecError
from workloads import WORKLOADS, load
from workloads.api import Workload, input_files, workload_id
from workloads.groups import GroupedConfig
from workloads.trace import TraceConfig

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("key", WORKLOADS)
def test_entry_is_a_workload_of_its_key(key):
    workload = load(key)
    assert isinstance(workload, Workload) and workload.key == key and workload.summary
    assert dataclasses.is_dataclass(workload.config)


def fields(workload):
    return {field.name for field in dataclasses.fields(workload.config)}


def test_unknown_key_is_named():
    with pytest.raises(SpecError, match=r"'poison'.*'poisson'"):
        load("poison")


@pytest.mark.parametrize("key", WORKLOADS)
def test_options_pass_through_json_types(key):
    workload = load(key)
    config = workload.config(**({"path": "x.csv"} if "path" in fields(workload) else {}))
    assert workload.configure(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_wrong_option_is_named():
    for options, found in (({"publisher": 3}, "publishers"), ({"publishers": "many"}, "publishers.*many")):
        with pytest.raises(SpecError, match=found):
            load("poisson").configure(options)
    with pytest.raises(SpecError, match=r"trace.*path"):
        load("trace").configure({})


def test_readme_table_is_the_registry():
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \|", (ROOT / "workloads" / "README.md").read_text(), re.MULTILINE)
    assert rows == [(key, load(key).summary) for key in WORKLOADS]


def test_listing_imports_nothing_heavy():
    code = "import sys, workloads; print([m for m in ('numba', 'pyarrow', 'pandas', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_id_tells_apart_what_differs():
    base = GroupedConfig(publishers=10)
    ids = [
        workload_id("poisson", base, 1),
        workload_id("periodic", base, 1),
        workload_id("poisson", base, 2),
        workload_id("poisson", dataclasses.replace(base, batch=10), 1),
    ]
    assert len(set(ids)) == 4
    assert load("poisson").id(GroupedConfig(publishers=10), 1) == ids[0]


def test_id_of_a_trace_is_its_content(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("publisher,instant\n1,2\n")
    copy = shutil.copy(path, tmp_path / "b.csv")
    config = TraceConfig(path=str(path))
    assert input_files(config) == {"path": str(path)}
    before = workload_id("trace", config, 1)
    assert workload_id("trace", TraceConfig(path=str(copy)), 1) == before
    path.write_text("publisher,instant\n1,3\n")
    assert workload_id("trace", config, 1) != before
    path.unlink()
    with pytest.raises(SpecError, match=r"a\.csv: No such file"):
        workload_id("trace", config, 1)
