"""The store's log: whatever several writers do, and where they are killed, no run is in two parts."""

import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.scratch import ScratchFull
from collectors.store import hadoop, log
from collectors.store.log import EMPTY, KeptRun, StoredPart, StoreState, append, read_log
from core.digests import DIGEST, sealed

RUNS = "abcdef"
WRITERS = 3


def part(name: str, runs: str) -> StoredPart:
    return StoredPart(name, 5, {run_id: KeptRun(f"manifest of {run_id}", "code") for run_id in runs}, ())


def held(state: StoreState) -> list[str]:
    return sorted(run_id for each in state.parts.values() for run_id in each.runs)


def consistent(state: StoreState) -> bool:
    own = {run_id: name for name, each in state.parts.items() for run_id in each.runs}
    return held(state) == sorted(set(held(state))) and own == dict(state.of_run)


READS = st.tuples(st.just("read"), st.integers(0, WRITERS - 1))
BRINGS = st.tuples(st.just("bring"), st.integers(0, WRITERS - 1), st.sets(st.sampled_from(RUNS), min_size=1))
REPLACES = st.tuples(st.just("replace"), st.integers(0, WRITERS - 1), st.integers(0, 5))
KILLED = st.tuples(st.just("killed"), st.integers(0, WRITERS - 1), st.sets(st.sampled_from(RUNS), min_size=1))
LATE = st.tuples(st.just("late"))


@settings(max_examples=150)
@given(st.lists(READS | BRINGS | REPLACES | KILLED | LATE, max_size=25), st.sampled_from([2, 5, 64]))
def test_no_run_is_twice_whatever_stale_writers_do(actions: list[tuple], checkpoint_every: int) -> None:
    """Each writer acts on what it read last; commits are cut off, and some of those written on later."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "CHECKPOINT_EVERY", checkpoint_every)
        patch.setattr(log, "_SETTLING_S", 0.0)
        root, seen = Path(folder), [EMPTY] * WRITERS
        torn: list[tuple[Path, str]] = []
        for number, action in enumerate(actions):
            kind, rest = action[0], action[1:]
            if kind == "late" and torn:
                path, text = torn.pop()
                path.write_text(text)
            elif kind == "read":
                seen[rest[0]] = read_log(root, seen[rest[0]])
            elif kind in ("bring", "killed"):
                coming = part(f"p{number}", "".join(sorted(rest[1])))
                if kind == "killed":
                    torn += cut_off(root, seen[rest[0]], coming)
                elif seen[rest[0]].accepts((), [coming]):
                    seen[rest[0]], counts = append(root, seen[rest[0]], (), [coming])
                    assert not counts or coming.name in read_log(root).parts
            elif kind == "replace":
                state = seen[rest[0]]
                names = sorted(state.parts)[rest[1] : rest[1] + 2]
                runs = "".join(sorted(run_id for name in names for run_id in state.parts[name].runs))
                if names:
                    before = held(read_log(root))
                    seen[rest[0]], counts = append(root, state, names, [part(f"p{number}", runs)])
                    assert held(read_log(root)) == before  # merging neither loses a run nor brings one
            assert all(map(consistent, [*seen, read_log(root)]))
        fresh = read_log(root)
        assert all(held(read_log(root, state)) == held(fresh) for state in seen if not state.torn)


def cut_off(root: Path, state: StoreState, coming: StoredPart) -> list[tuple[Path, str]]:
    """A commit whose writer is killed in the middle of it, and what it would have been."""
    with TemporaryDirectory() as elsewhere:
        append(Path(elsewhere), state, (), [coming])
        name = min(os.listdir(Path(elsewhere) / log.LOG), key=len)  # the other one is a checkpoint
        text = (Path(elsewhere) / log.LOG / name).read_text()
    path = root / log.LOG / name
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("x") as file:
            file.write(text[: len(text) // 2])
    except FileExistsError:
        return []
    return [(path, text)]


def test_who_is_late_is_told_what_the_other_has_done(tmp_path: Path) -> None:
    first, done = append(tmp_path, EMPTY, (), [part("one", "ab")])
    assert done and held(first) == ["a", "b"]
    second, done = append(tmp_path, EMPTY, (), [part("two", "bc")])
    assert not done and second == first and not second.accepts((), [part("two", "bc")])
    third, done = append(tmp_path, second, (), [part("two", "c")])
    assert done and held(third) == ["a", "b", "c"]


def test_a_checkpoint_says_it_all_and_old_commits_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_EVERY", 3)
    state = EMPTY
    for number, run_id in enumerate("abcde"):
        state, done = append(tmp_path, state, (), [part(f"p{number}", run_id)])
        assert done
    assert f"{2:08}.checkpoint.json" in log.all_names(tmp_path)
    (tmp_path / log.LOG / f"{1:08}.json").unlink()
    assert held(read_log(tmp_path)) == list("abcde")
    for name in log.all_names(tmp_path):
        os.utime(tmp_path / log.LOG / name, (time.time() - 2 * log.KEPT_S,) * 2)
    state, done = append(tmp_path, state, (), [part("p5", "f")])
    assert done and log.all_names(tmp_path) == [f"{5:08}.checkpoint.json", f"{5:08}.json"]
    assert held(read_log(tmp_path)) == list("abcdef")
    # Of a checkpoint that is damaged, and whose commits have gone, nobody knows what it named: no other is made.
    (tmp_path / log.LOG / f"{5:08}.checkpoint.json").write_text("{")
    state = read_log(tmp_path)
    assert state.lost == (5,) and held(state) == ["f"]
    for number, run_id in enumerate("uvwxyz", 6):
        state, done = append(tmp_path, state, (), [part(f"p{number}", run_id)])
        assert done and state.lost == (5,)
    assert [name for name in log.all_names(tmp_path) if "checkpoint" in name] == [f"{5:08}.checkpoint.json"]


@pytest.mark.parametrize("gone", ["00000001", "00000002.checkpoint"])
def test_a_file_of_the_log_that_is_gone_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_EVERY", 3 if "checkpoint" in gone else 64)
    state = EMPTY
    for number, run_id in enumerate("abcd"):
        state, _ = append(tmp_path, state, (), [part(f"p{number}", run_id)])
    if "checkpoint" in gone:
        for number in (0, 1):  # an hour later
            (tmp_path / log.LOG / f"{number:08}.json").unlink()
        assert read_log(tmp_path) == state
    path = tmp_path / log.LOG / f"{gone}.json"
    content = path.read_bytes()
    path.unlink()
    monkeypatch.setattr(log, "CHECKPOINT_EVERY", 1)
    broken = read_log(tmp_path)
    assert broken.lost == ((0, 1) if "checkpoint" in gone else (1,)) and read_log(tmp_path, state) == state
    append(tmp_path, broken, (), [part("late", "e")])
    assert not any("checkpoint" in name for name in log.all_names(tmp_path)), "what was lost could still come back"
    path.write_bytes(content)
    whole = read_log(tmp_path, broken)
    assert held(whole) == list("abcde") and not whole.lost


def test_a_writer_that_was_overtaken_by_a_checkpoint_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CHECKPOINT_EVERY", 2)
    state = EMPTY
    for number, run_id in enumerate("ab"):
        state, _ = append(tmp_path, state, (), [part(f"p{number}", run_id)])
    (tmp_path / log.LOG / f"{0:08}.json").unlink()  # an hour later
    now, done = append(tmp_path, EMPTY, (), [part("late", "c")])
    assert not done and held(now) == ["a", "b"]


def three_commits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log with a checkpoint after its second commit, in which nothing is young."""
    monkeypatch.setattr(log, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(log, "_SETTLING_S", 0.0)
    state = EMPTY
    for number, run_id in enumerate("abc"):
        state, _ = append(folder, state, (), [part(f"p{number}", run_id)])


def test_a_commit_that_is_damaged_is_void_and_a_damaged_checkpoint_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_commits(tmp_path, monkeypatch)
    checkpoint = tmp_path / log.LOG / f"{1:08}.checkpoint.json"
    checkpoint.write_text(checkpoint.read_text().replace('"a"', '"x"'))
    assert held(read_log(tmp_path)) == ["a", "b", "c"]
    commit = tmp_path / log.LOG / f"{2:08}.json"
    content = json.loads(commit.read_text())
    commit.write_text(json.dumps({**content, "dropped": ["p0"]}))
    assert held(read_log(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("of_old", [False, True])
def test_a_file_of_the_log_under_another_s_name_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_old: bool
) -> None:
    three_commits(tmp_path, monkeypatch)
    first, last, checkpoint = (
        tmp_path / log.LOG / f"{name}.json" for name in ("00000000", "00000002", "00000001.checkpoint")
    )
    if of_old:  # they did not say which they are
        for file in (first, last, checkpoint):
            content = {name: value for name, value in json.loads(file.read_bytes()).items() if name != log.NAME}
            del content[DIGEST]
            file.write_text(json.dumps(sealed(content)))
    kept = last.read_bytes()
    last.write_bytes(checkpoint.read_bytes())
    assert held(read_log(tmp_path)) == ["a", "b"]
    last.write_bytes(kept)
    checkpoint.write_bytes(last.read_bytes())
    assert set(held(read_log(tmp_path))) == ({"c"} if of_old else {"a", "b", "c"})


def test_a_commit_that_cannot_be_read_is_not_void(tmp_path: Path) -> None:
    append(tmp_path, EMPTY, (), [part("one", "ab")])
    commit = tmp_path / log.LOG / f"{0:08}.json"
    commit.rename(tmp_path / "aside")
    commit.mkdir()
    with pytest.raises(OSError, match="directory"):
        read_log(tmp_path)


def test_nothing_is_held_where_there_is_no_store(tmp_path: Path) -> None:
    assert read_log(tmp_path / "store") == EMPTY
    assert log.all_names(tmp_path / "store") == []


def test_what_a_disk_takes_in_part_is_an_error_of_that_disk(no_file_beyond: Callable[[int], None]) -> None:
    writer = hadoop._Writer(hadoop.HadoopPath("hdfs://nowhere/x"), None)
    no_file_beyond(100_000)
    try:
        assert writer.write(bytes(90_000)) == 90_000
        with pytest.raises(ScratchFull, match=f"large: '{tempfile.gettempdir()}'"):
            writer.write(bytes(90_000))
    finally:
        io.FileIO.close(writer)
        os.unlink(writer.kept_in)
