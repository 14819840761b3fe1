"""Campaigns on a cluster of two workers, each in PID and mount namespaces and a working folder of its own."""

import re
import shutil
import time
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.standalone import WAIT_S
from collectors.integrity import is_whole
from collectors.schema import TABLES
from collectors.store.log import read_log
from harness.campaign import Campaign, finished_runs
from harness.executors.local import LocalExecutor
from harness.matrix import read_matrix
from ratebed.options import SEED
from tests.collectors.store.stored import assert_holds
from tests.harness.common import parquet_hashes
from tests.harness.executors.cluster import APART, Cluster, cluster, ratebed, why_not

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.skipif(bool(why_not()), reason=why_not())]

ENDING = Path(__file__).with_name("ending.py")
MATRIX = """
[[grid]]
system = ["lb", "conc", "srtm"]
workload = "poisson"
workload_options = { publishers = [2000, 2100, 2200, 2300], batch = 10, group_size = 5 }
study_options = { envelope = "conformant" }

[[grid]]
system = "ending.py:SYSTEM"
workload = "poisson"
workload_options = { publishers = 300, batch = 10, group_size = 5 }
system_options = { ends = ["", "exit"] }
study_options = { envelope = "conformant" }
"""
RUNS = 14
# Another campaign: most of these runs, and a size of its own.  Each of the two has so many that the other has not.
OTHER_MATRIX = MATRIX.replace("2300", "2400")
OWN_RUNS = 3


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory) -> Cluster:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def laid_out(folder: Path, is_mended: bool) -> Path:
    """A folder with the matrix file and the system that it names, which ends no process where that is mended."""
    (folder / "matrix.toml").write_text(MATRIX)
    shutil.copy(ENDING, folder)
    if is_mended:
        (folder / "mended").touch()
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, str]:
    """What the matrix's runs are, carried out here, when nothing ends."""
    campaign = Campaign(tmp_path_factory.mktemp("expected"))
    with chdir(laid_out(tmp_path_factory.mktemp("grid"), is_mended=True)):
        campaign.add(read_matrix(Path("matrix.toml"), SEED))
        assert len(campaign.wanted) == RUNS
        assert not campaign.run(LocalExecutor(1), lambda finished: None)
    return parquet_hashes(campaign.runs)


def ended(process) -> tuple[int, str]:
    said, _ = process.communicate(timeout=2 * WAIT_S)
    return process.returncode, said


def test_figures_are_the_same_bytes_as_those_of_local_processes(spark_cluster, tmp_path):
    figures = ["srtm-fig5", "srtm-prop1"]  # the second asks Python functions on the workers
    words = ["run", *figures, "--scale", "tiny"]
    code, said = ended(ratebed(tmp_path / "away", *words, *spark_cluster.words))
    assert code == 0, said
    assert f"to do on {spark_cluster.master}" in said
    code, said = ended(ratebed(tmp_path / "here", *words))
    assert code == 0, said
    runs = parquet_hashes(tmp_path / "here" / "runs")
    assert parquet_hashes(tmp_path / "away" / "runs") == runs
    assert {Path(name).parts[0] for name in runs} == {folder.name for folder in finished_runs(tmp_path / "here")}
    tables = parquet_hashes(tmp_path / "here" / "tables")
    assert parquet_hashes(tmp_path / "away" / "tables") == tables
    assert {Path(name).parts[0] for name in tables} == set(figures)
    assert len(spark_cluster.unpacked()) >= 2, "each executor has the code of its own archive"


class Harmed(NamedTuple):
    """A campaign that lost an executor by -9, and a worker by one of its runs."""

    out: Path
    grid: Path
    code: int
    said: str


@pytest.fixture(scope="module")
def harmed(spark_cluster, tmp_path_factory) -> Harmed:
    out = tmp_path_factory.mktemp("harmed")
    grid = laid_out(tmp_path_factory.mktemp("grid"), is_mended=False)
    command = ratebed(out, "run", "matrix.toml", *spark_cluster.words, folder=grid)
    deadline_s = time.monotonic() + WAIT_S
    while len(finished_runs(out)) < 3:
        assert time.monotonic() < deadline_s and command.poll() is None
        time.sleep(0.02)
    spark_cluster.executors()[0].kill()
    assert len(finished_runs(out)) < RUNS - 1, "the campaign was over before the executor was killed"
    return Harmed(out, grid, *ended(command))


def test_an_executor_and_a_run_that_end_take_nothing_along(harmed, expected):
    out, _, code, said = harmed
    assert code == 1, said
    (failed,) = (path.name.removesuffix(".failed") for path in (out / "runs").glob("*.failed"))
    assert f"failed: {failed}" in said and "ended its process with exit code 7" in said
    assert f"1 of {RUNS} runs failed" in said
    others = {name: digest for name, digest in expected.items() if not name.startswith(failed)}
    assert parquet_hashes(out / "runs") == others and len(others) < len(expected)


def test_runs_meet_the_modules_of_the_archive_and_no_others(harmed, spark_cluster):
    unpacked = [str(path.resolve()) for path in spark_cluster.unpacked()]
    met = (harmed.grid / "met").read_text().split()
    assert met and all(any(module.startswith(f"{folder}/") for folder in unpacked) for module in met)


ALTERED = """
import sys, tempfile
from pathlib import Path
from harness.executors import shipping, spark
from ratebed.cli import main

folder = sys.argv.pop(1)

def altered():
    files = shipping.shipped_files()
    files["harness/run.py"] += b"# a comment\\n"
    other = shipping.packed(files, Path(tempfile.mkdtemp(dir=folder)))
    return shipping.code_archive()._replace(path=other.path)

spark.code_archive = altered
main()
"""


def test_an_archive_with_one_comment_more_runs_nothing(spark_cluster, tmp_path):
    begin = ("-c", ALTERED, str(tmp_path))
    words = ["run", "matrix.toml", *spark_cluster.words, "--spark-conf", "spark.cores.max=1"]
    code, said = ended(ratebed(tmp_path / "out", *words, folder=laid_out(tmp_path, is_mended=True), module=begin))
    lines = [line for line in said.splitlines() if "has given no executor" not in line]  # as a busy machine is slow to
    assert code == 1 and len(lines) == 2, said
    there, here = re.fullmatch(
        r"ratebed: \S+: the code there has the hash (\w{16}), here it is (\w{16}); nothing was run there; .*", lines[1]
    ).groups()
    assert there != here
    assert [path.name for path in (tmp_path / "out" / "runs").iterdir()] == [".code"]


def test_two_campaigns_of_two_pid_namespaces_go_on_in_one_folder(harmed, spark_cluster, expected, tmp_path):
    """One repeats the command, when what ended its process is mended; the other has local processes.

    Each brings into the store what it asks for, and neither could leave all of that to the other.
    """
    shutil.copytree(harmed.out / "runs", tmp_path / "runs")
    for folder in finished_runs(tmp_path)[3:]:
        shutil.rmtree(folder)
    grid = laid_out(tmp_path, is_mended=True)
    (grid / "other.toml").write_text(OTHER_MATRIX)
    little = ["--jobs", "1", "--spark-conf", "spark.driver.memory=1g"]
    both = [
        ratebed(tmp_path, "run", "matrix.toml", *spark_cluster.words, folder=grid),
        ratebed(tmp_path, "run", "other.toml", *little, folder=grid, before=APART),
    ]
    for code, said in map(ended, both):
        assert code == 0, said
    assert parquet_hashes(tmp_path / "runs").items() >= expected.items()
    folders = sorted(path for path in (tmp_path / "runs").iterdir() if path.name != ".code")
    assert len(folders) == RUNS + OWN_RUNS and all(map(is_whole, folders)), folders
    state = read_log(tmp_path / "store")
    kept = [run_id for part in state.parts.values() for run_id in part.runs]
    assert sorted(kept) == [folder.name for folder in folders] and not state.torn and not state.lost
    assert_holds(tmp_path / "store", folders, TABLES)
