"""Runs in packs: each once, whoever brings them; found as they were written, or not at all."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.java_gateway import JavaObject

from collectors import packs
from collectors.integrity import is_whole
from collectors.packs import RunPacks
from collectors.scratch import ScratchFull, writing_scratch
from collectors.store import hadoop
from collectors.store.hadoop import HadoopPath, Place, place_of
from collectors.store.log import read_log
from core.errors import MachineError
from tests.collectors.hdfs import Hdfs, forget_java, needs_hdfs
from tests.collectors.s3.server import S3, needs_s3
from tests.runs import write_small_run

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 7)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Finished runs, by id."""
    runs = tmp_path_factory.mktemp("out") / "runs"
    return sorted(write_small_run(runs, seed, rows=10 * seed) for seed in SEEDS)


@pytest.fixture
def no_rename(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Renaming is refused there, as object stores have none; Java is another process, and has no such calls."""

    def refusing(real: Callable[..., None]) -> Callable[..., None]:
        def rename(source: str | Path, target: str | Path, **more: int) -> None:
            assert "there" not in Path(source).relative_to(tmp_path).parts, f"{source} was renamed"
            real(source, target, **more)

        return rename

    for name in ("rename", "replace", "link", "symlink"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ids(folders: list[Path]) -> list[str]:
    return [folder.name for folder in folders]


def pack_files(root: Path) -> list[Path]:
    """Those that commits name."""
    return [root / part.files[0].path for part in read_log(root).parts.values()]


@pytest.mark.usefixtures("no_rename")
def test_what_was_brought_is_fetched_byte_by_byte(folders: list[Path], place: Place, tmp_path: Path) -> None:
    RunPacks(place).bring(folders[:4])
    RunPacks(place).bring(folders[2:])
    state = RunPacks(place).state()
    assert sorted(state.of_run) == ids(folders)
    assert sorted(len(part.runs) for part in state.parts.values()) == [2, 4]
    RunPacks(place).fetch([*ids(folders[1:]), "0123456789abcdef"], tmp_path / "runs")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ids(folders[1:])
    assert all(content(folder) == content(tmp_path / "runs" / folder.name) for folder in folders[1:])


def test_equal_runs_are_equal_packs_and_what_is_there_is_not_written_again(folders: list[Path], tmp_path: Path) -> None:
    for name in ("a", "b"):
        RunPacks(tmp_path / name).bring(folders)
    (one,), (other,) = pack_files(tmp_path / "a"), pack_files(tmp_path / "b")
    assert one.read_bytes() == other.read_bytes() and one.name[:64] == other.name[:64]
    RunPacks(tmp_path / "a").bring(folders)
    assert len(list((tmp_path / "a" / packs.PACKS).iterdir())) == 1


def test_a_pack_is_ended_where_it_is_large(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 1)
    RunPacks(tmp_path).bring(folders)
    assert [len(part.runs) for part in read_log(tmp_path).parts.values()] == [1] * len(folders)


BRING = """
import sys
from pathlib import Path
from collectors.store.hadoop import place_of
from collectors.packs import RunPacks

print("ready", flush=True)
sys.stdin.readline()
for folder in sys.argv[2:]:
    RunPacks(place_of(sys.argv[1])).bring([Path(folder)])
"""


def bringing(root: str, *folders: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BRING, root, *map(str, folders)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_who_bring_at_once_lose_nothing_and_have_nothing_twice(folders: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "there"
    several = [bringing(str(root), *folders), bringing(str(root), *reversed(folders)), bringing(str(root), *folders)]
    for process in several:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    assert [process.communicate(timeout=120)[1] for process in several] == [""] * 3
    state = read_log(root)
    assert sorted(run_id for part in state.parts.values() for run_id in part.runs) == ids(folders)
    RunPacks(root).fetch(ids(folders), tmp_path / "runs")
    assert all(content(folder) == content(tmp_path / "runs" / folder.name) for folder in folders)


def test_two_that_find_nothing_bring_the_same_and_one_pack_counts(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes while the first has written its pack and not committed it."""
    first, pack = RunPacks(tmp_path), packs._pack

    def slow(chosen: list[Path], file: object) -> tuple[str, int]:
        monkeypatch.setattr(packs, "_pack", pack)
        RunPacks(tmp_path).bring(folders[:2])
        return pack(chosen, file)

    monkeypatch.setattr(packs, "_pack", slow)
    first.bring(folders)
    state = read_log(tmp_path)
    assert sorted(run_id for part in state.parts.values() for run_id in part.runs) == ids(folders)
    assert sorted(len(part.runs) for part in state.parts.values()) == [2, len(folders) - 2]


@settings(max_examples=25)
@given(at=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_flipped_bit_is_named_and_costs_one_run_at_most(folders: list[Path], at: int, bit: int) -> None:
    with TemporaryDirectory() as name:
        root, runs, told = Path(name, "there"), Path(name, "runs"), list[str]()
        RunPacks(root).bring(folders)
        (pack,) = pack_files(root)
        data = bytearray(pack.read_bytes())
        data[at % len(data)] ^= 1 << bit
        pack.write_bytes(data)
        RunPacks(root, told.append).fetch(ids(folders), runs)
        (line,) = told
        assert str(pack) in line and "is not as it was written" in line and "set aside" in line
        state = read_log(root)
        assert all(is_whole(path) for path in runs.iterdir())
        assert sorted(state.of_run) == sorted(path.name for path in runs.iterdir()), "what is whole is there again"
        assert pack not in pack_files(root) and pack.exists()
        in_directory = at % len(data) > len(data) * 0.8  # ZIP's own list of what is in it
        assert len(state.of_run) >= (0 if in_directory else len(folders) - 1)


def test_a_pack_that_is_gone_or_cut_off_is_made_anew_by_who_has_its_runs(folders: list[Path], tmp_path: Path) -> None:
    root, told = tmp_path / "there", list[str]()
    RunPacks(root).bring(folders[:2])
    RunPacks(root).bring(folders[2:4])
    gone, cut = pack_files(root)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-30])
    RunPacks(root, told.append).fetch(ids(folders), tmp_path / "runs")
    assert len(told) == 2 and not read_log(root).of_run.keys() & set(ids(folders[:2]))
    RunPacks(root).bring(folders)
    RunPacks(root).fetch(ids(folders), tmp_path / "runs")
    assert all(content(folder) == content(tmp_path / "runs" / folder.name) for folder in folders)


def test_packs_of_other_tables_stay_where_they_are(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, told = tmp_path / "there", list[str]()
    RunPacks(root).bring(folders)
    with monkeypatch.context() as patch:
        patch.setattr(packs, "SCHEMA_VERSION", packs.SCHEMA_VERSION + 1)
        RunPacks(root, told.append).fetch(ids(folders), tmp_path / "runs")
    assert "left there" in told[0] and len(told) == 1 and not (tmp_path / "runs").exists()
    RunPacks(root).fetch(ids(folders), tmp_path / "runs")
    assert all(is_whole(tmp_path / "runs" / folder.name) for folder in folders)


def test_while_some_of_the_log_cannot_be_understood_no_pack_goes(folders: list[Path], tmp_path: Path) -> None:
    told = list[str]()
    RunPacks(tmp_path).bring(folders[:2])
    RunPacks(tmp_path).bring(folders[2:])
    (commit,) = tmp_path.glob("log/00000001.json")
    content, there = commit.read_bytes(), sorted(tmp_path.glob("packs/*.zip"))
    commit.write_bytes(content[:-20])
    for path in (commit, *there):
        os.utime(path, (time.time() - 2 * packs.UNNAMED_S,) * 2)
    RunPacks(tmp_path, told.append).tidy()
    assert sorted(tmp_path.glob("packs/*.zip")) == there and "no pack is removed" in told[0]
    commit.write_bytes(content)
    (first,) = tmp_path.glob("log/00000000.json")
    content = first.read_bytes()
    first.unlink()
    RunPacks(tmp_path, told.append).tidy()
    assert sorted(tmp_path.glob("packs/*.zip")) == there and told[1:] == told[:1]
    first.write_bytes(content)
    (tmp_path / "packs" / "nobody.zip").write_bytes(b"")
    os.utime(tmp_path / "packs" / "nobody.zip", (0, 0))
    RunPacks(tmp_path, told.append).tidy()
    assert sorted(tmp_path.glob("packs/*.zip")) == there and len(told) == 2


def test_a_damaged_folder_here_is_fetched_again(folders: list[Path], tmp_path: Path) -> None:
    told: list[str] = []
    RunPacks(tmp_path / "there").bring(folders)
    shutil.copytree(folders[0], tmp_path / "runs" / folders[0].name)
    with (tmp_path / "runs" / folders[0].name / "runs.parquet").open("r+b") as file:
        file.write(b"X")
    RunPacks(tmp_path / "there", told.append).fetch(ids(folders[:1]), tmp_path / "runs")
    assert len(told) == 1 and f"{folders[0].name}.damaged" in told[0]
    assert content(folders[0]) == content(tmp_path / "runs" / folders[0].name)


def test_what_a_killed_command_wrote_and_did_not_commit_is_not_there(folders: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "there"
    (root / packs.PACKS).mkdir(parents=True)
    (root / packs.PACKS / f"{'0' * 64}-00000000.zip").write_bytes(b"PK half of it")
    assert not RunPacks(root).state().of_run
    RunPacks(root).bring(folders)
    assert sorted(RunPacks(root).state().of_run) == ids(folders)


def test_packs_that_no_commit_names_go_when_they_are_a_day_old(folders: list[Path], tmp_path: Path) -> None:
    RunPacks(tmp_path).bring(folders)
    (named,) = pack_files(tmp_path)
    old, young = (tmp_path / packs.PACKS / f"{letter * 64}-00000000.zip" for letter in "01")
    for path in (old, young):
        path.write_bytes(b"PK half of it")
    for path in (old, named):
        os.utime(path, (time.time() - packs.UNNAMED_S - 60,) * 2)
    RunPacks(tmp_path).tidy()
    assert named.exists() and young.exists() and not old.exists()


def damage_and_mend(folders: list[Path], place: Place, tmp_path: Path) -> None:
    """Bring runs, flip a bit of their pack there, fetch them, and bring what the damage took."""
    told = list[str]()
    RunPacks(place).bring(folders)
    (part,) = RunPacks(place).state().parts.values()
    pack = place / part.files[0].path
    data = bytearray(pack.read_bytes())
    data[200] ^= 1
    pack.unlink()
    with pack.open("xb") as file:
        file.write(data)
    RunPacks(place, told.append).fetch(ids(folders), tmp_path / "runs")
    assert len(told) == 1 and f"{len(folders) - 1} of its {len(folders)} runs are whole" in told[0]
    RunPacks(place).bring(folders)
    assert sorted(RunPacks(place).state().of_run) == ids(folders)


@needs_hdfs()
@pytest.mark.slow
def test_of_hdfs_no_more_is_asked_than_to_create_files(folders: list[Path], running_hdfs: Hdfs, tmp_path: Path) -> None:
    before = running_hdfs.counted()
    damage_and_mend(folders, place_of(f"{running_hdfs.url}/{tmp_path.name}"), tmp_path)
    done = {name: count - before[name] for name, count in running_hdfs.counted().items()}
    assert done["FilesCreated"] > 5 and done["FilesRenamed"] == done["FilesAppended"] == 0


@needs_s3()
@pytest.mark.slow
def test_of_s3_no_more_is_asked_than_to_put_what_is_not_there(
    folders: list[Path], running_s3: S3, tmp_path: Path
) -> None:
    place = place_of(f"{running_s3.url}/{tmp_path.name}", running_s3.settings)
    before = len(running_s3.asked())
    damage_and_mend(folders, place, tmp_path)
    done = running_s3.asked()[before:]
    # A rename would be a copy and a deletion; ours is the deletion of the pack that is damaged.
    assert done.count("PUT") > 5 and done.count("DELETE") + done.count("POST") == 1


def put(path: Place, content: bytes, meanwhile: Callable[[], None]) -> None:
    with path.open("xb") as file:
        file.write(content)
        meanwhile()


def test_of_two_that_create_a_file_one_does(place: Place) -> None:
    place.mkdir(parents=True, exist_ok=True)
    first = (place / "file").open("xb")
    first.write(b"first")
    with pytest.raises(FileExistsError):
        put(place / "file", b"second", first.close)
    first.close()
    assert (place / "file").read_bytes() == b"first"


def test_a_full_folder_for_temporary_files_is_told_and_not_where_packs_are(
    folders: list[Path], tmp_path: Path, no_file_beyond: Callable[[int], None]
) -> None:
    packed = RunPacks(tmp_path / "there")
    no_file_beyond(4_096)
    with pytest.raises(MachineError, match="large; free disk space there, or set TMPDIR") as told:
        packed.bring(folders)
    assert str(told.value).startswith(f"cannot write {tempfile.gettempdir()}: ")


def test_where_there_is_no_folder_for_temporary_files_no_pack_is_taken_for_damaged(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(MachineError, match=r"cannot write temporary files: No usable .*, or set TMPDIR"):
        RunPacks(tmp_path / "there").bring(folders)
    with pytest.raises(ScratchFull) as told, writing_scratch():
        pass
    assert told.value.errno not in hadoop.GONE


def test_where_the_disk_of_the_packs_is_full_it_is_told(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(packs, "make_durable", full)
    with pytest.raises(MachineError, match=rf"^{tmp_path}/there: No space .*; what is finished stays; free disk space"):
        RunPacks(tmp_path / "there").bring(folders)


@pytest.mark.slow
def test_a_disk_that_is_full_while_java_fetches_is_told(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = RunPacks(place_of(f"file://{tmp_path}/there"))
    there.bring(folders)

    @contextmanager
    def full(**words: str) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(name="/dev/full")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    with pytest.raises(MachineError, match=f"cannot write {tempfile.gettempdir()}: No space left on device; free disk"):
        there.fetch(ids(folders), tmp_path / "runs")
    monkeypatch.undo()
    assert sorted(there.state().of_run) == ids(folders), "no pack was taken for damaged"


@pytest.mark.slow
def test_where_nobody_answers_is_one_line(folders: list[Path], tmp_path: Path) -> None:
    there = place_of("hdfs://127.0.0.1:9/out", {"ipc.client.connect.max.retries": "0"})
    for do in (lambda: RunPacks(there).bring(folders), lambda: RunPacks(there).fetch(ids(folders), tmp_path)):
        with pytest.raises(MachineError, match=r"hdfs://127.0.0.1:9/out\S*: ConnectException.*; what is finished st"):
            do()


@pytest.mark.slow
def test_java_that_ends_in_the_middle_is_one_line(folders: list[Path], tmp_path: Path) -> None:
    there = RunPacks(place_of(f"file://{tmp_path}"))
    there.bring(folders[:1])
    hadoop._gateway().shutdown()
    with pytest.raises(MachineError, match="Hadoop's Java has ended"):
        there.state()
    forget_java()
    assert isinstance(there.root, HadoopPath) and sorted(there.state().of_run) == ids(folders[:1])


@pytest.mark.slow
def test_java_that_lives_and_does_not_understand_says_what(tmp_path: Path) -> None:
    there = HadoopPath(f"file://{tmp_path}")
    said = r"Hadoop's Java: py4j\.Py4JException: Target Object ID does not exist"
    with pytest.raises(OSError, match=said), there._asked() as (system, _):
        JavaObject("o123456789", system._gateway_client).toString()
    assert there.is_dir(), "it goes on"
