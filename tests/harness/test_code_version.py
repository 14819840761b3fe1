"""What voids results and what does not: files are edited and added in a copied tree, and runs are watched."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import code_version
from harness.code_version import ROOT, changed_since, code_hash, files_of, id_of
from harness.estimate import expected_seconds
from harness.experiment import SCALES
from paper_figs import FIGURES, load_figure
from ratebed.altered import altered
from studies.inputs import inputs_of
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


def test_a_new_file_or_a_new_line_in_a_registry_voids_nothing(tree: Path) -> None:
    specs = [SRTM, LIMITER, *specs_of("quick")]
    before = hashes(specs, tree)
    for folder in ("systems/limiting", "workloads", "testbed/topologies", "studies/limiting", "core"):
        (tree / folder / "added.py").write_text("import core.units\n")
    (tree / "testbed/topologies/latencies/added.csv").write_text("a,b\n")
    for path, name in REGISTRIES.items():
        text = (tree / path).read_text()
        assert f"\n{name} = {{\n" in text
        (tree / path).write_text(text.replace(f"\n{name} = {{\n", f'\n{name} = {{\n    "new": "core.units:NEW",\n'))
    after = hashes(specs, tree)
    assert [spec for spec, old, new in zip(specs, before, after, strict=True) if old != new] == []
    assert len({spec.study for spec in specs}) > 10


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
import os, sys, msgspec
from pathlib import Path
opened = set()

def hashes_kernels(frame):  # to name the folder of their machine code
    while frame and frame.f_code.co_name != "_cache_folder":
        frame = frame.f_back
    return frame

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str | bytes) and not hashes_kernels(sys._getframe(1)):
        opened.add(os.path.abspath(os.fsdecode(arguments[0])))

sys.addaudithook(note)
from harness.run import execute
from studies.spec import RunSpec
execute(msgspec.json.decode(sys.argv[1], type=RunSpec), Path(sys.argv[2]).name, Path(sys.argv[2]))
imported = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
print("\\n".join(sorted(opened | imported)))
"""
# Not of a run: of the system and of Python, its packages and what they keep.
ELSEWHERE = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/run", sys.prefix, sys.base_prefix, *sys.path[1:])


def check_opened(spec: RunSpec, folder: Path) -> None:
    """What a run opens and imports, in a process of its own, is what its id hangs on."""
    words = [sys.executable, "-c", WATCHED, spec.to_json().decode(), str(folder / "run")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    places = [Path(line).resolve() for line in done.stdout.splitlines() if line]
    used = {path.relative_to(ROOT) for path in places if path.is_relative_to(ROOT)}
    used = {path for path in used if path.parts[0] in OURS and "__pycache__" not in path.parts}
    assert Path("harness/run.py") in used
    assert used <= set(files_of(spec))
    away = [Path(place).resolve() for place in ELSEWHERE if place and not ROOT.is_relative_to(Path(place).resolve())]
    others = {path for path in places if path.is_file() and not any(map(path.is_relative_to, (ROOT, *away)))}
    others = {path for path in others if not path.is_relative_to(folder / "run") and "__pycache__" not in path.parts}
    assert others == {Path(name).resolve() for name in inputs_of(spec)}


@pytest.mark.parametrize(
    "spec",
    {(spec.study, spec.system): spec for spec in specs_of("tiny") if spec.testbed == "virtual"}.values(),
    ids=lambda spec: f"{spec.study}-{spec.system}",
)
@pytest.mark.long
def test_a_run_opens_and_imports_nothing_that_its_id_does_not_hang_on(spec: RunSpec, tmp_path: Path) -> None:
    check_opened(spec, tmp_path)


def test_of_a_users_files_a_run_opens_its_inputs_alone(tmp_path: Path) -> None:
    """A log and a table with a list of servers beside it, set in a figure's point; others beside them."""
    (tmp_path / "log.csv").write_text("user,instant\n" + "".join(f"u{n % 5},{n}\n" for n in range(20)))
    (tmp_path / "pings.csv").write_text("source,destination,avg\n1,2,70\n")
    (tmp_path / "servers.csv").write_text("id,title\n1,Chicago\n2,Boston\n")
    (tmp_path / "others.csv").write_text("id,title\n")
    point = RunSpec(
        system="static-split",
        system_options={"capacity": 5, "rate": "1"},
        workload="request-log",
        workload_options={"path": "of the figure", "columns": "user=user,instant=instant"},
        topology="wan",
        topology_options={"nodes": 2, "cities": ["Chicago", "Boston"]},
        study="limiting",
    )
    settings = {"workload.path": str(tmp_path / "log.csv"), "topology.table": str(tmp_path / "pings.csv")}
    (spec,), _ = altered("x", [point], settings)
    assert {Path(name).name for name in inputs_of(spec)} == {"log.csv", "pings.csv", "servers.csv"}
    check_opened(spec, tmp_path)


def test_files_that_are_changed_while_runs_go_on_are_named(tree: Path) -> None:
    assert not changed_since(LIMITER, tree, time.time_ns())
    named = next(name for name in changed_since(LIMITER, tree, 0) if name.startswith("systems/limiting/"))
    path, began_ns = tree / named, time.time_ns()
    os.utime(path, ns=(began_ns + 1, began_ns + 1))
    assert changed_since(LIMITER, tree, began_ns) == [named]
    path.unlink()
    assert changed_since(LIMITER, tree, began_ns) == [named]
