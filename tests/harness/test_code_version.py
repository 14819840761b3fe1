"""What voids results and what does not: files are edited and added in a copied tree, and runs are watched."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.compiled import _cache_folder
from harness import code_version
from harness.code_version import ROOT, changed_since, code_hash, files_of, id_of
from harness.estimate import expected_seconds
from harness.experiment import SCALES
from paper_figs import FIGURES, load_figure
from studies.spec import RunSpec
from tests.tidy import tracked_files

OURS = ("core", "systems", "workloads", "testbed", "studies", "collectors", "harness")
SRTM = RunSpec(system="srtm", workload="poisson")
LIMITER = RunSpec(system="redis-gcra", workload="requests", topology="wan", study="limiting", testbed="local")
REGISTRIES = {
    "systems/__init__.py": "SYSTEMS",
    "workloads/__init__.py": "WORKLOADS",
    "testbed/__init__.py": "TESTBEDS",
    "testbed/servers/__init__.py": "SERVERS",
    "testbed/topologies/topology.py": "TOPOLOGIES",
    "studies/__init__.py": "STUDIES",
}


def specs_of(scale: str) -> list[RunSpec]:
    """One spec of each kind of point that the figures have at a scale."""
    kinds = {}
    for key in FIGURES:
        experiment = load_figure(key).experiment
        if experiment.analytic:
            continue
        for spec in experiment.runs(SCALES[scale], {option.name: option.default for option in experiment.options}, 1):
            kind = (spec.testbed, spec.study, spec.system, spec.workload, spec.topology, spec.calibration)
            kinds[kind] = min(kinds.get(kind, spec), spec, key=expected_seconds)
    return list(kinds.values())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in (path.relative_to(ROOT) for path in tracked_files()):
        if path.parts[0] in (*OURS, "requirements.lock"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def hashes(specs: list[RunSpec], tree: Path) -> list[str]:
    """Of a tree as it is now: nothing of what was read of it before is remembered."""
    for name in ("_hash_once", "_hash", "_files", "_paths", "_source"):
        getattr(code_version, name).cache_clear()
    return [code_hash(spec, tree) for spec in specs]


def hash_of(spec: RunSpec, tree: Path) -> str:
    return hashes([spec], tree)[0]


@pytest.mark.parametrize("spec", [SRTM, LIMITER], ids=["virtual", "live"])
def test_a_byte_of_any_file_that_a_run_uses_voids_it_and_of_no_other(spec: RunSpec, tree: Path) -> None:
    used = set(files_of(spec))
    before, firsts = hash_of(spec, tree), {}
    for path in sorted(path.relative_to(tree) for path in tree.rglob("*") if path.is_file()):
        is_used = path in used
        kind = (is_used, path.parts[0] if is_used else "", path.suffix, path.name.endswith("_test.go"))
        firsts.setdefault(kind, path)
    assert {path.suffix for (is_used, *_), path in firsts.items() if is_used} >= {".py", ".toml", ".lock"}
    for (is_used, *_), path in firsts.items():
        kept = (tree / path).read_bytes()
        (tree / path).write_bytes(kept + b"\n")
        assert (hash_of(spec, tree) != before) == is_used, path
        (tree / path).write_bytes(kept)
    assert hash_of(spec, tree) == before


def test_live_runs_hang_on_the_brokers_sources_and_virtual_ones_do_not() -> None:
    assert {path.suffix for path in files_of(LIMITER)} >= {".go", ".mod", ".sum", ".csv"}
    assert not [path for path in files_of(LIMITER) if path.name.endswith("_test.go")]
    virtual = files_of(SRTM)
    assert not [path for path in virtual if path.suffix == ".go" or path.parts[:2] == ("testbed", "hosts")]
    assert not [path for path in virtual if path.name == "live.py"]


@pytest.mark.parametrize("spec", [SRTM, LIMITER], ids=["virtual", "live"])
def test_a_new_file_or_a_new_line_in_a_registry_voids_nothing(spec: RunSpec, tree: Path) -> None:
    before = hash_of(spec, tree)
    for folder in ("systems/limiting", "workloads", "testbed/topologies", "studies/limiting", "core"):
        (tree / folder / "added.py").write_text("import core.units\n")
    (tree / "testbed/topologies/latencies/added.csv").write_text("a,b\n")
    assert hash_of(spec, tree) == before
    for path, name in REGISTRIES.items():
        text = (tree / path).read_text()
        assert f"\n{name} = {{\n" in text
        (tree / path).write_text(text.replace(f"\n{name} = {{\n", f'\n{name} = {{\n    "new": "core.units:NEW",\n'))
    assert hash_of(spec, tree) == before


def test_a_line_of_a_system_voids_exactly_its_runs(tree: Path) -> None:
    specs = specs_of("quick")
    before = hashes(specs, tree)
    with (tree / "systems/distribution/srtm.py").open("a") as file:
        file.write("CHANGED = True\n")
    pairs = list(zip(specs, before, hashes(specs, tree), strict=True))
    voided = {spec.system for spec, old, new in pairs if old != new}
    kept = {spec.system for spec, old, new in pairs if old == new}
    assert voided == {"srtm"} and "srtm" not in kept and len(kept) > 10


def test_two_copies_of_a_tree_are_one_version(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "tree"
    shutil.copytree(tree, other)
    assert hash_of(SRTM, other) == hash_of(SRTM, tree) == code_hash(SRTM)


def test_an_id_hangs_on_what_is_in_the_input_files(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b\n")
    spec = RunSpec(system="srtm", workload="poisson", inputs=(str(table),))
    before = id_of(spec)
    table.write_text("a,c\n")
    assert id_of(spec) != before


WATCHED = """
import sys, msgspec
from pathlib import Path
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
from harness.run import execute
from studies.spec import RunSpec
execute(msgspec.json.decode(sys.argv[1], type=RunSpec), Path(sys.argv[2]).name, Path(sys.argv[2]))
imported = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
print("\\n".join(sorted(opened | imported)))
"""


@pytest.mark.parametrize(
    "spec",
    {(spec.study, spec.system): spec for spec in specs_of("tiny") if spec.testbed == "virtual"}.values(),
    ids=lambda spec: f"{spec.study}-{spec.system}",
)
@pytest.mark.long
def test_a_run_opens_and_imports_nothing_that_its_id_does_not_hang_on(spec: RunSpec, tmp_path: Path) -> None:
    words = [sys.executable, "-c", WATCHED, spec.to_json().decode(), str(tmp_path / "run")]
    kernels = str(_cache_folder())  # said, it is not made out from the sources of all kernels
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": kernels}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    used = {Path(line).relative_to(ROOT) for line in done.stdout.splitlines() if line.startswith(str(ROOT))}
    used = {path for path in used if path.parts[0] in OURS and "__pycache__" not in path.parts}
    assert Path("harness/run.py") in used
    assert used <= set(files_of(spec))


def test_files_that_are_changed_while_runs_go_on_are_named(tree: Path) -> None:
    assert not changed_since(LIMITER, tree, time.time_ns())
    named = next(name for name in changed_since(LIMITER, tree, 0) if name.startswith("systems/limiting/"))
    path, began_ns = tree / named, time.time_ns()
    os.utime(path, ns=(began_ns + 1, began_ns + 1))
    assert changed_since(LIMITER, tree, began_ns) == [named]
    path.unlink()
    assert changed_since(LIMITER, tree, began_ns) == [named]
