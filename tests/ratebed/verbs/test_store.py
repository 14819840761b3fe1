"""``ratebed store``: says what is there, brings in, makes anew; other verbs know of the folder."""

import json
import shutil
from pathlib import Path

import pytest

from collectors.store.keeping import Store
from core.errors import SpecError
from tests.command import ratebed
from tests.harness.common import parquet_hashes
from tests.runs import write_small_run

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_store_is_told_built_verified_healed_and_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    none = ratebed("store", "--out", str(out))
    assert none.returncode == 2 and none.stderr.count("\n") == 1 and "no finished runs there" in none.stderr
    for seed in range(3):
        write_small_run(out / "runs", seed)
    assert "3 finished runs are not in it" in ratebed("store", "--out", str(out)).stdout
    assert not (out / "store").exists()  # who asks makes nothing
    built = ratebed("store", "--build", "--out", str(out))
    assert (
        built.returncode == 0 and f"{out}/store: 3 runs in 2 files" in built.stdout and "not in it" not in built.stdout
    )
    found = json.loads(ratebed("store", "--json", "--out", str(out)).stdout)
    assert (found["run_count"], found["missing_run_count"], found["tables"]["samples"]["rows"]) == (3, 0, 150)
    assert "3 runs and 0 figures read, 0 damaged" in ratebed("verify", "--out", str(out)).stdout
    (file,) = out.glob("store/samples/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    for verb in ("verify", "store"):
        told = ratebed(verb, "--out", str(out))
        assert told.returncode == 1 and f"samples/{file.name} has {file.stat().st_size} bytes" in told.stdout
    before = set(Store.of(out).state().parts)
    anew = ratebed("store", "--rebuild", "--out", str(out))
    assert anew.returncode == 0 and "damaged" not in anew.stdout
    assert before.isdisjoint(Store.of(out).state().parts) and not file.exists()
    assert ratebed("clean", "--all", "--yes", "--out", str(out)).returncode == 0
    assert not (out / "store").exists()


@pytest.mark.slow
def test_figures_of_a_store_that_was_deleted_and_rebuilt_are_the_same_bytes(tmp_path: Path) -> None:
    """Each figure has a part of the store at first, then both have one; for the second, Spark adds up real numbers."""
    keys = ("crdt-fig4.1", "epulsar-fig4")
    out, words = tmp_path / "out", ("--scale", "tiny", "--out", str(tmp_path / "out"))
    for key in keys:
        done = ratebed("figures", key, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    before, tables = Store.of(out).state().parts, parquet_hashes(out / "tables")
    assert len(before) == 2 and {Path(name).parts[0] for name in tables} == {*keys}
    for folder in ("store", "tables"):  # tables that were kept would not be computed anew
        shutil.rmtree(out / folder)
    rebuilt = ratebed("store", "--rebuild", "--out", str(out))
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    (part,) = Store.of(out).state().parts
    assert part not in before
    again = ratebed("figures", *keys, *words)
    assert again.returncode == 0 and ", 0 to do" in again.stdout, again.stdout + again.stderr
    assert parquet_hashes(out / "tables") == tables
    assert [*Store.of(out).state().parts] == [part], "they were drawn from another store than the rebuilt one"


@pytest.mark.slow
def test_the_store_beside_packs_is_told_built_and_healed(tmp_path: Path) -> None:
    out, there = tmp_path / "out", tmp_path / "there"
    words = ("store", "--packs", f"file://{there}", "--out", str(out))
    write_small_run(out / "runs", 0)
    assert ratebed("store", "--push", str(there), "--out", str(out)).returncode == 0
    built = ratebed(*words, "--build")
    assert built.returncode == 0 and f"file://{there}/store: 1 runs in 2 files" in built.stdout, built.stdout
    assert not (out / "store").exists()
    (file,) = there.glob("store/samples/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    damaged = ratebed(*words)
    assert damaged.returncode == 1 and f"samples/{file.name} has {file.stat().st_size} bytes" in damaged.stdout
    healed = ratebed(*words, "--rebuild")
    assert healed.returncode == 0 and "damaged" not in healed.stdout and not file.exists(), healed.stdout


@pytest.mark.parametrize("words", [("--push", "there", "--build"), ("--pull", "there", "--rebuild", "--json")])
def test_what_an_exchange_would_pass_over_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    done = ratebed("store", *words, "--out", str(tmp_path))
    assert done.returncode == 2 and f"{' and '.join(words[2:])} with {words[0]}" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("way", ["push", "pull"])
@pytest.mark.parametrize("url", ["hdfs:/ratebed", "hdfs://", "hdfs:///"])
def test_a_url_that_is_none_is_refused_before_anything_is_made(
    way: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratebed.verbs.store import store

    monkeypatch.chdir(tmp_path)
    other = {"push": "pull", "pull": "push"}[way]
    for words in ({way: url}, {way: url, other: str(tmp_path / "there")}):
        with pytest.raises(SpecError, match=f"{url}: .*; write hdfs://HOST/PATH"):
            store(tmp_path / "out", **words)
    assert not list(tmp_path.iterdir())


def test_runs_are_pushed_and_pulled_as_the_same_bytes(tmp_path: Path) -> None:
    from collectors.packs import RunPacks
    from ratebed.verbs.store import store

    folders = sorted(write_small_run(tmp_path / "a" / "runs", seed) for seed in range(3))
    there = str(tmp_path / "there")
    assert store(tmp_path / "a", push=there) == 0 and store(tmp_path / "b", pull=there) == 0
    assert sorted(RunPacks(tmp_path / "there").state().of_run) == [folder.name for folder in folders]
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        assert (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes() == path.read_bytes()


def test_a_pull_that_lacks_a_run_says_so_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ratebed.verbs.store import store

    folders, there = [write_small_run(tmp_path / "a" / "runs", seed) for seed in range(2)], tmp_path / "there"
    assert store(tmp_path / "a", push=str(there)) == 0
    (pack,) = there.glob("packs/*.zip")
    data = bytearray(pack.read_bytes())
    data[data.index((folders[0] / "samples.parquet").read_bytes()) + 100] ^= 1
    pack.write_bytes(data)
    assert store(tmp_path / "b", pull=str(there)) == 1
    assert "1 runs there, 1 here; of 2 that were there 1 could not be fetched" in capsys.readouterr().out
    assert [folder.name for folder in (tmp_path / "b" / "runs").glob("[!.]*")] == [folders[1].name]
