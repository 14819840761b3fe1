"""The table store: every finished run's rows once, whoever writes, whatever breaks."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.integrity import Damage
from collectors.scratch import ScratchFull
from collectors.store import claims, keeping, log, parts
from collectors.store.keeping import Store, write_here
from collectors.store.log import StoredPart, StoreState
from collectors.writer import set_aside
from core.errors import MachineError
from tests.collectors.store.stored import assert_holds, stored
from tests.runs import write_small_run

ROOT = Path(__file__).parents[3]
SEEDS = range(1, 7)
APPEND = log.append  # before any test has put another in its place


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Finished runs, by id."""
    folder = tmp_path_factory.mktemp("out") / "runs"
    return sorted(write_small_run(folder, seed, rows=10 * seed) for seed in SEEDS)


@pytest.fixture
def own_runs(tmp_path: Path) -> list[Path]:
    """The same, for who breaks them."""
    return sorted(write_small_run(tmp_path / "runs", seed, rows=10 * seed) for seed in SEEDS)


def store_in(root: Path, runs: Sequence[Path], told: list[str] | None = None) -> Store:
    return Store(root, runs[0].parent, (told if told is not None else []).append)


@pytest.mark.parametrize("count", [0, 1, len(SEEDS)])
def test_the_store_holds_what_the_folders_do(runs: list[Path], tmp_path: Path, count: int) -> None:
    state = store_in(tmp_path / "store", runs).keep(runs[:count])
    assert sorted(state.of_run) == [folder.name for folder in runs[:count]]
    assert_holds(tmp_path / "store", runs[:count])
    for part in state.parts.values():
        for file in part.files:
            ids = pq.read_table(tmp_path / "store" / file.path)["run_id"].to_pylist()
            assert ids == sorted(ids) and (file.rows, file.first, file.last) == (len(ids), ids[0], ids[-1])


def test_what_is_there_is_not_written_again_and_new_runs_alone_come_in(runs: list[Path], tmp_path: Path) -> None:
    store = store_in(tmp_path, runs)
    store.keep(runs[:2])
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert store_in(tmp_path, runs).keep(runs[:2]) == store.state()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == files
    store_in(tmp_path, runs).keep(runs[1:4])
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert_holds(tmp_path, runs[:4])


# --- writers beside each other, and killed ones -------------------------------------------------------


class Killed(BaseException):
    """What kill -9 does to the code below it: nothing of that runs on."""


POINTS = ("nowhere", "before files", "after files", "in the commit", "after the commit")


@settings(max_examples=60)
@given(
    st.recursive(
        st.tuples(st.sets(st.integers(0, 5), min_size=1), st.sampled_from(POINTS), st.just(())),
        lambda inner: st.tuples(
            st.sets(st.integers(0, 5), min_size=1), st.sampled_from(POINTS), st.lists(inner, max_size=2).map(tuple)
        ),
        max_leaves=5,
    )
)
def test_every_run_once_whoever_comes_between_and_whoever_is_killed(runs: list[Path], plan: tuple) -> None:
    """A compactor is at work; others come and go while it writes, each killed somewhere or nowhere."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "_SETTLING_S", 0.0)
        root = Path(folder)
        compact(root, runs, plan)
        state = log.read_log(root)
        assert_holds(root, sorted(run for run in runs if run.name in state.of_run))
        store_in(root, runs).keep(runs)
        assert_holds(root, runs)
        store_in(root, runs).tidy()
        assert_holds(root, runs)
        named = {file.path for part in log.read_log(root).parts.values() for file in part.files}
        assert set(claims.files_there(root)) == named  # what the killed left has gone


def compact(root: Path, runs: list[Path], plan: tuple) -> None:
    numbers, point, between = plan

    def write(at: Path, groups: Mapping[str, Sequence[Path]]) -> list[StoredPart]:
        if point == "before files":
            raise Killed
        written = write_here(at, groups)
        while todo:
            compact(root, runs, todo.pop())
        if point == "after files":
            raise Killed
        return written

    def killed_append(*words: object) -> object:
        if point == "in the commit":
            state = words[1]
            assert isinstance(state, StoreState)
            path = root / log.LOG / f"{state.number + 1:08}.json"
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                path.write_text('{"dropped": [], "par')
            raise Killed
        APPEND(*words)  # type: ignore[arg-type]
        raise Killed

    todo = list(between)
    with pytest.MonkeyPatch.context() as patch:
        if "commit" in point:
            patch.setattr(log, "append", killed_append)
        try:
            state = store_in(root, runs).keep([runs[number] for number in sorted(numbers)], write)
        except Killed:
            return
        assert {runs[number].name for number in numbers} <= state.of_run.keys()


CODE = """
import os, sys
from pathlib import Path
from collectors.store.keeping import Store
out, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
runs = sorted(path for path in (out / "runs").iterdir() if "." not in path.name)
store = Store.of(out)
print("ready", flush=True)
sys.stdin.readline()
with store.in_use():
    for end in range(first + 1, last + 1):
        store.keep(runs[first:end])
print("done", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a namespace of process ids")
def test_two_compactors_in_namespaces_of_process_ids(tmp_path: Path) -> None:
    """Both bring in what the other does, too; a third is killed with its files half written, say."""
    runs = sorted(write_small_run(tmp_path / "runs", seed, rows=20) for seed in range(30))
    unshared = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", CODE, str(tmp_path)]
    spans = ((0, 20), (10, 30), (5, 25))
    workers = [
        subprocess.Popen([*unshared, *map(str, span)], cwd=ROOT, stdin=-1, stdout=-1, text=True) for span in spans
    ]
    try:
        if any(worker.stdout.readline().strip() != "ready" for worker in workers):  # type: ignore[union-attr]
            pytest.skip("unshare --pid is not allowed here")
        for worker in workers:
            worker.stdin.write("\n")  # type: ignore[union-attr]
            worker.stdin.flush()  # type: ignore[union-attr]
        while not list(tmp_path.glob("store/log/*")):
            time.sleep(0.005)
        workers[2].send_signal(signal.SIGKILL)
        said = [worker.communicate(timeout=120)[0] for worker in workers[:2]]
        workers[2].wait(timeout=60)
    finally:
        for worker in workers:
            worker.kill()
    assert said == ["done\n", "done\n"]
    assert_holds(tmp_path / "store", runs)


# --- damage ---------------------------------------------------------------------------------------------


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit": (flipped, "is not as it was written"),
    "its end": (lambda path: os.truncate(path, path.stat().st_size - 7), r"has \d+ bytes, \d+ were written"),
    "all": (Path.unlink, "No such file"),
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("table", ["runs", "samples"])
def test_a_damaged_file_is_told_and_healed(runs: list[Path], tmp_path: Path, how: str, table: str) -> None:
    damage, words = DAMAGES[how]
    store_in(tmp_path, runs).keep(runs[:2])
    state = store_in(tmp_path, runs).keep(runs)
    (part,) = (part for part in state.parts.values() if len(part.runs) == 4)
    damage(tmp_path / next(file.path for file in part.files if file.table == table))
    parts._digest_once.cache_clear()  # another command's: what was read once in this one may bear the same instant
    told: list[str] = []
    store_in(tmp_path, runs, told).keep(runs[2:3])
    (line,) = told
    pytest.importorskip("re")
    assert re.search(
        rf"^store: {table}/\w+-\w+_0.parquet {words}.*its 4 runs are taken from the run folders again$", line
    )
    assert_holds(tmp_path, runs)
    store_in(tmp_path, runs, told).keep(runs)
    assert len(told) == 1


def test_runs_whose_folders_are_gone_are_not_healed_and_hinder_nobody(own_runs: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "store"
    state = store_in(root, own_runs).keep(own_runs)
    (root / next(iter(state.parts.values())).files[0].path).unlink()
    shutil.rmtree(own_runs[0])
    store_in(root, own_runs).keep(own_runs[1:2])
    assert_holds(root, own_runs[1:])


def test_what_cannot_be_read_just_now_is_no_damage_and_stays(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of HDFS while a data node is down."""
    stat, store = Path.stat, store_in(tmp_path, runs)
    (part,) = store.keep(runs[:2]).parts.values()

    def refusing(path: Path, **more: bool) -> os.stat_result:
        if path.suffix == ".parquet" and tmp_path in path.parents:
            raise OSError(errno.EIO, "Input/output error")
        return stat(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refusing)
        for do in (lambda: store.keep(runs[1:]), lambda: store.damage(part)):
            with pytest.raises(MachineError, match=r"cannot read .*parquet: Input.*; see that it can be reached"):
                do()
        store.tidy(forget=True)
    assert log.all_names(tmp_path) == ["00000000.json"]
    assert_holds(tmp_path, runs[:2])


def test_a_damaged_run_is_refused_and_a_run_made_anew_replaces_the_old(own_runs: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "store"
    store_in(root, own_runs).keep(own_runs[:3])
    flipped(own_runs[4] / "samples.parquet")
    with pytest.raises(Damage, match=r"samples\.parquet is not as it was written"):
        store_in(root, own_runs).keep(own_runs)
    assert_holds(root, own_runs[:3])
    seed = {write_small_run(tmp_path / "other", seed, 10 * seed).name: seed for seed in SEEDS}
    for number in (1, 4):
        set_aside(own_runs[number])
        write_small_run(tmp_path / "runs", seed[own_runs[number].name], rows=3, host="another")
    store_in(root, own_runs).keep(own_runs)
    assert_holds(root, own_runs)
    assert stored(root, "samples").filter(pa.compute.field("run_id") == own_runs[1].name).num_rows == 3


def test_a_store_that_cannot_be_written_is_one_line(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(MachineError, match=r"cannot write .*store: .*; free disk space"):
        store_in(tmp_path / "store", runs).keep(runs)


def test_a_full_folder_for_temporary_files_is_not_taken_for_the_stores_disk(runs: list[Path], tmp_path: Path) -> None:
    def write(*words: object) -> list[StoredPart]:
        raise ScratchFull(errno.ENOSPC, "No space left on device", "/scratch")

    with pytest.raises(MachineError, match=r"^cannot write /scratch: No space .*, or set TMPDIR"):
        store_in(tmp_path / "store", runs).keep(runs, write)


# --- size -----------------------------------------------------------------------------------------------


def test_much_is_split_into_files_and_groups_and_parts(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FILE_BYTES", 4_000)
    monkeypatch.setattr(parts, "GROUP_ROWS", 16)
    monkeypatch.setattr(parts, "GROUP_ROWS_LEAST", 4)
    state = store_in(tmp_path, runs).keep(runs)
    (part,) = state.parts.values()
    files = [file for file in part.files if file.table == "samples"]
    assert len(files) > 1 and sum(file.rows for file in files) == sum(10 * seed for seed in SEEDS)
    assert all(one.last <= other.first for one, other in pairwise(files))
    assert_holds(tmp_path, runs)
    monkeypatch.setattr(keeping, "FILE_BYTES", 8_000)
    state = store_in(tmp_path / "parts", runs).keep(runs)
    assert len(state.parts) > 1
    assert_holds(tmp_path / "parts", runs)
    state = store_in(tmp_path / "tasks", runs).keep(runs, tasks=3)
    assert sorted(len(part.runs) for part in state.parts.values()) == [2, 2, 2]


def test_a_run_is_in_one_row_group_unless_it_is_larger(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "GROUP_ROWS_LEAST", 4)
    monkeypatch.setattr(parts, "_BATCH_ROWS", 8)
    store = store_in(tmp_path, runs)
    store.keep(runs[:3])
    store.keep(runs[3:])
    in_step = ids_of_groups(store)
    assert sum(map(len, in_step)) > 3 and all(map(is_in_one_group, in_step))
    monkeypatch.setattr(keeping, "TIER_PARTS", 1)
    monkeypatch.setattr(keeping, "TIER_BITS", 64)
    store.tidy()
    (merged,) = ids_of_groups(store)
    assert len(merged) > 3 and is_in_one_group(merged)
    monkeypatch.setattr(parts, "GROUP_ROWS", 16)
    cut_store = store_in(tmp_path / "cut", runs)
    cut_store.keep(runs)
    (cut,) = ids_of_groups(cut_store)
    assert max(map(len, cut)) <= 32
    assert_holds(tmp_path / "cut", runs)


def is_in_one_group(file: list[list[str]]) -> bool:
    seen = [run_id for group in file for run_id in dict.fromkeys(group)]
    return len(seen) == len(set(seen))


def ids_of_groups(store: Store) -> list[list[list[str]]]:
    """Of each file of samples and each of its row groups: the run ids of its rows."""
    files = [file for part in store.state().parts.values() for file in part.files if file.table == "samples"]
    opened = [pq.ParquetFile(store.root / file.path) for file in files]
    return [[file.read_row_group(n)["run_id"].to_pylist() for n in range(file.num_row_groups)] for file in opened]


@pytest.fixture
def in_six_parts(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that has a part a run, and should have fewer."""
    monkeypatch.setattr(keeping, "TIER_PARTS", 3)
    monkeypatch.setattr(keeping, "TIER_BITS", 64)
    store = store_in(tmp_path, runs)
    for folder in runs:
        store.keep([folder])
    return store


def test_many_small_parts_become_one_and_the_old_files_go(in_six_parts: Store, runs: list[Path]) -> None:
    old = claims.files_there(in_six_parts.root)
    in_six_parts.tidy()
    assert len(in_six_parts.state().parts) == 1
    assert_holds(in_six_parts.root, runs)
    assert set(claims.files_there(in_six_parts.root)).isdisjoint(old)


def test_runs_whose_folders_are_gone_are_forgotten(own_runs: list[Path], tmp_path: Path) -> None:
    store = store_in(tmp_path / "store", own_runs)
    store.keep(own_runs[:3])
    store.keep(own_runs[3:])
    for folder in own_runs[:4]:
        shutil.rmtree(folder)
    store.tidy()
    assert len(store.state().of_run) == len(own_runs)
    store.tidy(forget=True)
    assert_holds(store.root, own_runs[4:])
    assert len(claims.files_there(store.root)) == 2


def test_of_two_that_forget_at_once_the_later_finds_it_done(
    own_runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = (store_in(tmp_path / "store", own_runs) for _ in range(2))
    store.keep(own_runs[:3])
    store.keep(own_runs[3:])
    for folder in (own_runs[0], own_runs[3]):
        shutil.rmtree(folder)

    def late(*words: object) -> StoredPart:
        monkeypatch.setattr(keeping, "write_part", parts.write_part)
        written = parts.write_part(*words)  # type: ignore[arg-type]
        other.tidy(forget=True)
        return written

    monkeypatch.setattr(keeping, "write_part", late)
    store.tidy(forget=True)
    assert_holds(store.root, [*own_runs[1:3], *own_runs[4:]])
    assert len(claims.files_there(store.root)) == 4


def test_what_somebody_reads_stays(in_six_parts: Store, runs: list[Path]) -> None:
    old = set(claims.files_there(in_six_parts.root))
    with claims.reading(in_six_parts.root):
        in_six_parts.tidy()
        assert old < set(claims.files_there(in_six_parts.root))
    in_six_parts.tidy()
    assert old.isdisjoint(claims.files_there(in_six_parts.root))


def test_what_a_dead_reader_or_writer_claims_goes(in_six_parts: Store, runs: list[Path]) -> None:
    code = (
        "import os, sys; from pathlib import Path; from collectors.store import claims\n"
        "root = Path(sys.argv[1])\n"
        "with claims.reading(root), claims.writing(root, 'half'):\n"
        "    (root / 'runs' / 'half-0.parquet').write_text('half of it')\n"
        "    print('here', flush=True); sys.stdin.readline(); os._exit(9)\n"
    )
    words = [sys.executable, "-c", code, str(in_six_parts.root)]
    other = subprocess.Popen(words, cwd=ROOT, stdin=-1, stdout=-1, text=True)
    assert other.stdout is not None and other.stdout.readline() == "here\n"
    in_six_parts.tidy()
    assert "runs/half-0.parquet" in claims.files_there(in_six_parts.root)
    other.communicate("\n")
    in_six_parts.tidy()
    assert "runs/half-0.parquet" not in claims.files_there(in_six_parts.root)
    assert len(claims.files_there(in_six_parts.root)) == 2 and not list((in_six_parts.root / "claims").iterdir())
    assert_holds(in_six_parts.root, runs)


def test_a_store_is_made_anew_from_the_folders(in_six_parts: Store, runs: list[Path]) -> None:
    state = in_six_parts.rebuild(runs)
    assert len(state.parts) == 1
    in_six_parts.tidy()
    assert_holds(in_six_parts.root, runs)


def test_where_nothing_can_be_written_nothing_is_claimed(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object, **more: object) -> Iterator[None]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with store_in(tmp_path / "store", runs).in_use() as store:
        assert store is None
