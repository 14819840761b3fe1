"""A run is read as it was written, or named."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import integrity, partials
from collectors.integrity import (
    Brief,
    Damage,
    NoRun,
    OtherVersion,
    check_identity,
    check_run,
    is_whole,
    read_manifest,
    readable,
    verified,
    verified_brief,
)
from collectors.schema import SCHEMA_VERSION
from collectors.writer import set_aside
from core.digests import is_sealed, sealed
from core.errors import MachineError
from core.records import Json
from tests.damage import Kept, target_of, verify_mutations
from tests.runs import SPEC, write_small_run

ROOT = Path(__file__).parents[2]
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
_JSON = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def test_a_whole_run_verifies_and_lists_its_files(tmp_path: Path) -> None:
    manifest = check_run(write_small_run(tmp_path))
    assert {name: written.get("rows") for name, written in manifest["files"].items()} == {
        "runs.parquet": 1,
        "samples.parquet": 50,
        "logs/node1.log": None,
    }
    check_identity(manifest)


def test_random_damage_is_always_seen(tmp_path: Path) -> None:
    runs = [write_small_run(tmp_path, seed) for seed in range(1, 4)]
    kinds, wrong = verify_mutations(Kept(*runs), [target_of(runs)], 600)
    assert not wrong
    assert sum(number for kind, number in kinds.items() if kind.endswith("seen")) > 550
    assert {kind.partition(" ")[0] for kind in kinds} == {"flip", "truncate", "delete", "swap", "edit", "add"}


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda run: (run / "samples.parquet").unlink(), "samples.parquet: No such file"),
        (lambda run: (run / "manifest.json").unlink(), "manifest.json: No such file"),
        (lambda run: (run / "runs.parquet").write_bytes(b"PAR1"), "runs.parquet has 4 bytes"),
        (lambda run: (run / "logs" / "node1.log").write_bytes(b"hullo\n"), "logs/node1.log is not as it was written"),
        (lambda run: (run / "manifest.json").write_text('{"run_id": "x"}'), "manifest.json is not as it was written"),
        (lambda run: (run / "manifest.json").write_text("[" * 100_000), "manifest.json is no JSON"),
        (lambda run: (run / "paths.parquet").write_bytes(b""), "paths.parquet does not belong to it"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage, says: str) -> None:
    run = write_small_run(tmp_path)
    damage(run)
    with pytest.raises(Damage, match=says) as seen:
        verified(run)
    assert "\n" not in str(seen.value) and run.name in str(seen.value) and not is_whole(run)


def test_a_run_under_another_name_is_a_mix_up(tmp_path: Path) -> None:
    first, second = write_small_run(tmp_path, 1), write_small_run(tmp_path, 2)
    shutil.rmtree(first)
    shutil.copytree(second, first)
    with pytest.raises(Damage, match=f"is that of run {second.name}"):
        check_run(first)


def test_an_id_is_the_hash_of_what_the_run_was_made_from(tmp_path: Path) -> None:
    manifest = read_manifest(write_small_run(tmp_path))
    for name, value in (("code_hash", "other"), ("inputs", {"a": "00"}), ("spec", {**SPEC, "seed": 9})):
        with pytest.raises(MachineError, match="its id is not that of its spec"):
            check_identity({**manifest, name: value})


def test_a_folder_of_another_schema_version_is_refused_in_one_line(tmp_path: Path) -> None:
    run = write_small_run(tmp_path, schema_version=SCHEMA_VERSION + 1)
    says = f"schema version {SCHEMA_VERSION + 1}, this is {SCHEMA_VERSION}"
    with pytest.raises(MachineError, match=says) as refused:
        read_manifest(run)
    assert "\n" not in str(refused.value)


def test_tables_of_an_earlier_version_are_as_they_were_written(tmp_path: Path) -> None:
    earlier, later = (write_small_run(tmp_path, schema_version=SCHEMA_VERSION + n, seed=n) for n in (-1, 1))
    unlisted = tmp_path / "0123456789abcdef"
    unlisted.mkdir()
    (unlisted / "manifest.json").write_text('{"schema_version": 3}')
    for run in (earlier, later, unlisted):
        with pytest.raises(OtherVersion):
            check_run(run)
        (run / "samples.parquet").unlink(missing_ok=True)
        with pytest.raises(Damage if run is earlier else OtherVersion):
            check_run(run)


def test_a_run_that_somebody_else_sets_aside_meanwhile_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "0123456789abcdef"
    with pytest.raises(NoRun, match="run the experiment"):
        verified(absent)
    for part in ("_manifest", "_check_file"):
        original = getattr(integrity, part)

        def meddled(folder: str, *more: object) -> object:
            set_aside(Path(folder))
            return original(folder, *more)  # noqa: B023

        run = write_small_run(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(integrity, part, meddled)
            with pytest.raises(NoRun):
                verified(run)
    run, earlier = write_small_run(tmp_path), write_small_run(tmp_path, 2, schema_version=SCHEMA_VERSION - 1)
    assert readable([absent, earlier, run]) == ([run], [earlier])


def test_a_damaged_run_is_set_aside_and_written_anew(tmp_path: Path) -> None:
    run = write_small_run(tmp_path)
    whole = (run / "samples.parquet").read_bytes()
    for number in ("", "1"):
        (run / "samples.parquet").write_bytes(whole[:-1])
        aside = set_aside(run)
        assert aside.name == f"{run.name}.damaged{number}" and not run.exists()
        write_small_run(tmp_path)
        assert (run / "samples.parquet").read_bytes() == whole


def test_a_writer_that_finds_a_damaged_run_replaces_it(tmp_path: Path) -> None:
    run = write_small_run(tmp_path)
    (run / "samples.parquet").unlink()
    assert is_whole(write_small_run(tmp_path))
    assert (tmp_path / f"{run.name}.damaged").is_dir()


def test_a_seal_does_not_hang_on_order_or_spaces() -> None:
    content = sealed({"b": (1, 2), "a": {"x": 1.5}})
    assert is_sealed(json.loads(json.dumps(content, indent=7, sort_keys=True)))
    assert not is_sealed({**content, "b": [2, 1]}) and not is_sealed([]) and not is_sealed({"b": 1})


@given(_JSON)
def test_whatever_python_writes_as_json_is_sealed_and_read_again(content: Json) -> None:
    text = json.dumps(sealed({"told": content}))
    read = integrity._decoded(text.encode())
    assert is_sealed(read) and not is_sealed({**read, "more": 0}) and not is_sealed({**read, "told": [content]})


@pytest.mark.parametrize("host", ["vm", "N\u00fcrnberg", "\udc80", float("nan"), 1e-5, 2**70])
def test_a_run_is_the_same_in_brief(tmp_path: Path, host: object) -> None:
    judged = {"validity": "degraded", "validity_reasons": ["late"], "topology_notes": ["mended"]}
    run = write_small_run(tmp_path, host=host, **judged)
    brief = verified_brief(str(run))
    assert brief == Brief("degraded", ("late",), ("mended",), verified(run)["sha256"])


def test_only_folders_of_processes_that_are_provably_dead_are_removed(tmp_path: Path) -> None:
    own = partials.own_mark()
    start = own.rpartition("-")[2]
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    other_pid = own.replace(f"-{os.getpid()}-", f"-{int(ended.stdout)}-")
    marks = {
        "living": own,
        "elsewhere": other_pid.replace(str(partials._namespace()), "1"),
        "another boot": other_pid.replace(partials._boot(), "00000000"),
        "of an older version": f".partial-{os.getpid()}",
        "ended": other_pid,
        "another process of that number": own.removesuffix(start) + str(int(start) + 1),
    }
    for name, mark in marks.items():
        (tmp_path / f"{name}{mark}").mkdir()
    assert partials.remove_partials(tmp_path) == 2
    left = {path.name.partition(".partial")[0] for path in tmp_path.iterdir()}
    assert left == set(marks) - {"ended", "another process of that number"}
    foreign = {path.name.partition(".partial")[0] for path in partials.left_partials(tmp_path)}
    assert foreign == {"elsewhere", "another boot", "of an older version"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a namespace of process ids")
def test_a_living_writer_in_another_namespace_of_process_ids_keeps_its_folder(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from collectors import partials; folder = pathlib.Path(sys.argv[1]) / 'run'; "
        "folder = partials.partial_of(folder); folder.mkdir(); print(folder.name, flush=True); sys.stdin.read()"
    )
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code, str(tmp_path)]
    writer = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    name = writer.stdout.readline().strip()
    if not name:
        pytest.skip("unshare --pid is not allowed here")
    assert partials.remove_partials(tmp_path) == 0 and (tmp_path / name).is_dir()
    writer.communicate("")
