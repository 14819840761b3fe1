"""The session is quiet, and frames hold the chosen runs' rows and no others."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark")

from analysis import spark as spark_start
from analysis import tables
from analysis.compaction import writer
from benchmarks.standalone import LOOPBACK, standalone
from collectors.schema import TABLES
from collectors.store.keeping import Store
from collectors.writer import write_run
from core.errors import MachineError

ROOT = Path(__file__).parents[2]


def run_python(code, folder, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


def test_what_is_set_on_a_cluster_too_is_listed_for_its_users():
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert [key for key in spark_start._EVERYWHERE if f"`{key}`" not in page] == []


@pytest.mark.slow
def test_a_java_that_dies_at_start_is_one_line(java_home, tmp_path):
    home = java_home("dying", 17, "echo 'Error: could not reserve enough space' >&2; exit 1")
    code = """
from analysis.spark import session
from core.errors import MachineError
try:
    session()
except MachineError as error:
    print(error)
"""
    found = run_python(code, tmp_path, JAVA_HOME=str(home))
    assert found.returncode == 0, found.stderr
    assert "does not start: Error: could not reserve enough space" in found.stdout
    assert found.stdout.count("\n") == 1 and not found.stderr


@pytest.mark.slow
def test_a_session_says_nothing_leaves_nothing_and_can_be_had_again(tmp_path):
    code = """
import os
from analysis.spark import session
names = ("JAVA_HOME", "SPARK_HOME", "SPARK_LOCAL_IP")
before = [os.environ.get(name) for name in names]
first = session()
assert session() is first
assert first.range(5).count() == 5
assert [os.environ.get(name) for name in names] == before
first.stop()
assert session().range(7).count() == 7
"""
    found = run_python(code, tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


# --- tables ----------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path):
    root = tmp_path / "runs [2] {a,b} 100% ü"
    for number, name in enumerate(["r1", "r2", "r3"]):
        tables = {
            "runs": {"run_id": [name], "system": ["lb"], "factors": [[("workload.publishers", str(number))]]},
            "samples": {"run_id": [name] * number, "value": [0.5] * number},
        }
        write_run(root / name, tables, {"run_id": name})
    return sorted(root.iterdir())


@pytest.mark.slow
def test_frames_hold_every_run_with_the_schemas_types(spark, folders):
    data = tables.load(spark, folders)
    runs = tables.collect(data.runs.selectExpr("run_id", "factors['workload.publishers'] AS n"), ["run_id"])
    assert runs.to_dict("list") == {"run_id": ["r1", "r2", "r3"], "n": ["0", "1", "2"]}
    assert data.samples.count() == 3
    for name, schema in TABLES.items():
        assert data.table(name).columns == schema.names


@pytest.mark.slow
def test_select_reads_the_chosen_runs_only(spark, folders):
    chosen = tables.load(spark, folders).select(["r3", "r1"])
    (folders[1] / "runs.parquet").write_bytes(b"broken, and not ours to read")
    assert list(tables.collect(chosen.runs, ["run_id"])["run_id"]) == ["r1", "r3"]
    assert chosen.samples.count() == 2
    with pytest.raises(AssertionError, match="r9"):
        chosen.select(["r9"])


@pytest.mark.slow
def test_tables_that_no_run_wrote_are_empty(spark, folders):
    data = tables.load(spark, folders)
    assert data.messages.count() == 0 and data.decisions.count() == 0
    assert tables.load(spark, []).runs.count() == 0


# --- the same from a store ---------------------------------------------------------------------------


@pytest.fixture
def stored(folders, tmp_path):
    """A store, its folder as hard to name as that of the runs, that holds the runs in two parts."""
    store = Store(tmp_path / "store [1] {a,b} 100% ü", folders[0].parent, print)
    store.keep(folders[:2])
    return store


def rows(data, name):
    return tables.collect(data.table(name).selectExpr("run_id", "count(*) over () AS n"), ["run_id"]).to_dict("list")


@pytest.mark.slow
@pytest.mark.parametrize("literals", [1_000, 0])  # a predicate of ids, and a join with them
def test_a_store_gives_what_the_folders_give(spark, folders, stored, monkeypatch, literals):
    monkeypatch.setattr("analysis.stored.LITERALS", literals)
    direct, data = tables.load(spark, folders), tables.load(spark, folders, stored)
    assert len(stored.state().parts) == 2
    for chosen in (["r1", "r2", "r3"], ["r2"], ["r3"], ["r1", "r3"]):
        for name in ("runs", "samples", "messages"):
            assert rows(data.select(chosen), name) == rows(direct.select(chosen), name), (chosen, name)
    factors = "factors['workload.publishers'] AS n"
    assert list(data.select(["r2"]).runs.selectExpr(factors).toPandas()["n"]) == ["1"]
    for name, schema in TABLES.items():
        assert data.table(name).columns == schema.names


@pytest.mark.slow
def test_a_store_file_that_breaks_under_a_query_is_named_and_made_anew_by_the_next_command(
    spark, folders, stored, capsys
):
    data = tables.load(spark, folders, stored)
    broken = next(iter(stored.root.glob("runs/*.parquet")))
    broken.write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(MachineError, match=rf"{broken.name} cannot be read; repeat the command"):
        tables.collect(data.runs, ["run_id"])
    again = tables.load(spark, folders, Store(stored.root, stored.runs, print))
    assert re.search(rf"^store: runs/{broken.name} has 20 bytes, \d+ were written; its ", capsys.readouterr().out)
    assert rows(again, "runs")["run_id"] == ["r1", "r2", "r3"]


@pytest.mark.slow
def test_workers_bring_many_runs_in(spark, folders, tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.compaction.RUNS_HERE", 1)
    here = rows(tables.load(spark, folders), "samples")
    store = Store(tmp_path / "store", folders[0].parent, print)
    assert rows(tables.load(spark, folders, store), "samples") == here
    counts = [len(part.runs) for part in store.state().parts.values()]
    assert sum(counts) == 3 and len(counts) >= 2  # two tasks a core
    (folders[1] / "samples.parquet").write_bytes(b"damaged")
    other = Store(tmp_path / "other", folders[0].parent, print)
    write, tasks = writer(spark, 3)
    with pytest.raises(MachineError, match=r"r2: samples\.parquet has 7 bytes"):
        write(other.root, {"part": folders})
    assert tasks >= 2 and not other.state().parts


@pytest.mark.slow
def test_runs_that_are_not_as_they_were_written_are_not_loaded(spark, folders):
    whole = (folders[1] / "runs.parquet").read_bytes()
    (folders[1] / "runs.parquet").write_bytes(whole[:-1] + b"X")
    with pytest.raises(MachineError, match=r"r2: runs\.parquet is not as it was written"):
        tables.load(spark, folders)


def test_a_broken_file_is_named(spark, folders):
    data = tables.load(spark, folders)
    (folders[1] / "runs.parquet").write_bytes(b"PAR1 not really PAR1")  # after it was verified
    with pytest.raises(MachineError, match=r"r2/runs\.parquet cannot be read; remove its run folder"):
        tables.collect(data.runs, ["run_id"])


def test_a_java_that_is_killed_is_told_with_the_fix():
    code = (
        "import os, signal, psutil\n"
        "from analysis.spark import java_answers, session\n"
        "spark = session()\n"
        "(java,) = [child for child in psutil.Process().children() if 'java' in child.name()]\n"
        "java.kill(); java.wait()\n"
        "try:\n"
        "    with java_answers():\n"
        "        spark.range(3).toPandas()\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
        "os._exit(0)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert said.startswith("MachineError Spark's Java has ended") and "free memory" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, b"no archive"], ids=["made", "damaged"])
def test_java_has_the_archive_of_classes_in_memory_or_goes_on_without(content, tmp_path):
    from analysis.spark import ARCHIVE

    if not content and not ARCHIVE.is_file():
        pytest.skip(f"no {ARCHIVE}: this environment's Java kept no classes")
    archive = tmp_path / "an archive"
    archive.write_bytes(content) if content else archive.symlink_to(ARCHIVE)
    code = (
        "import sys, pathlib, psutil\n"
        "from analysis import spark\n"
        "spark.ARCHIVE = pathlib.Path(sys.argv[1])\n"
        "assert spark.session().range(3).count() == 3\n"
        "(java,) = [child for child in psutil.Process().children() if 'java' in child.name()]\n"
        "print(any(str(spark.ARCHIVE.resolve()) == each.path for each in java.memory_maps()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(archive)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{content is None}\n", "")


def is_of_spark(process):
    """Whether this is Spark's script, or Java in its place, and not what asks Java for its version."""
    try:
        return any("spark-submit" in word or "SparkSubmit" in word for word in process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False


@pytest.mark.slow
def test_ctrl_c_while_java_starts_leaves_none():
    code = (
        "import os, signal\n"
        "from analysis.spark import session\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background has it ignored
        "try:\n"
        "    session(), signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    os._exit(130)\n"
    )
    child = psutil.Popen([sys.executable, "-c", code])
    while not (started := [one for one in child.children() if is_of_spark(one)]):
        assert child.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)  # a script as yet; Java says a second later where it listens
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    assert not psutil.wait_procs(started, 30)[1]


def test_ctrl_c_while_the_context_is_made_is_told_to_the_handler_that_was_there():
    told = []

    def first(number, frame):
        told.append(number)
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def made():
        with spark_start._kept_handler():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark's
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, first)
    try:
        with pytest.raises(KeyboardInterrupt):
            made()
        assert told == [signal.SIGINT] and signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


LOST = (
    "An error occurred while calling o77.collectToPython.\n: org.apache.spark.SparkException: Job aborted due to stage "
    "failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) (n7 executor "
    "1): {what}\n\tat org.apache.spark.api.python.BasePythonRunner\nDriver stacktrace:\n\tat java.base/java.lang.Thread"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Job aborted: java.io.IOException: No space left on device at java.base/…",
            r"cannot write to /.*No space left on device; free disk space there, or set TMPDIR",
        ),
        (
            LOST.format(what="java.io.IOException: No space left on device"),
            r"cannot write to n7: No space left on device; .*, or set its workers' spark\.local\.dir to another folder",
        ),
        (
            LOST.format(what="[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
                        "driver: 3.11, PySpark cannot run"),
            r"n7: the workers have Python 3\.9, here it is 3\.11; give its workers the environment",
        ),
        (
            LOST.format(what="PythonException: Traceback (…):\n  File\nModuleNotFoundError: No module named 'pandas'"),
            "n7: ModuleNotFoundError: No module named 'pandas'; give its workers the environment",
        ),
        (
            LOST.format(what="ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"),
            "n7: ExecutorLostFailure .*; Spark's logs say more",
        ),
        ("Job 3 cancelled because SparkContext was shut down", "cancelled because .*; Spark's logs say more"),
        ("Job aborted: java.io.IOException: Input/output error", ""),
        (LOST.format(what="PythonException: Traceback (most recent call last):\n  File\nKeyError: 'run'"), ""),
    ],
    ids=["disk", "disk there", "another Python", "no pandas there", "killed", "stopped", "not known", "ours"],
)  # fmt: skip
def test_what_a_machine_has_done_to_a_job_is_told_with_the_fix_and_nothing_else_is(text, said):
    from pyspark.errors import PySparkException

    with pytest.raises(MachineError if said else PySparkException, match=said or None), tables.java_answers():
        raise PySparkException(text)


@pytest.mark.long
def test_a_cluster_that_gives_nothing_is_told_of_and_one_of_another_environment_too(tmp_path):
    """A query waits for executors for ever; its workers' Python is what SPARK_CONF_DIR says."""
    code = (
        "import os, sys\n"
        "from analysis import spark\n"
        "spark.PATIENCE_S = 2.0\n"
        "with spark.java_answers():\n"
        "    spark.session(sys.argv[1]).sparkContext.parallelize([1]).map(str).collect()\n"
    )
    settings = "spark.pyspark.python /no/python\nspark.executor.memory 512m\n"
    (tmp_path / "spark-defaults.conf").write_text(settings)
    where = {"SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": LOOPBACK, "PYTHONPATH": str(ROOT)}
    ask = partial(subprocess.Popen, stderr=subprocess.PIPE, text=True, env={**os.environ, **where})
    with standalone(tmp_path, workers=0) as master, ask([sys.executable, "-c", code, master]) as waiting:
        assert "has given no executor in 2 s" in next(line for line in waiting.stderr if "executor" in line)
        waiting.kill()
    (tmp_path / "with").mkdir()
    with standalone(tmp_path / "with", workers=1) as master, ask([sys.executable, "-c", code, master]) as failing:
        said = failing.communicate(timeout=120)[1]
    assert 'Cannot run program "/no/python"' in said and "core.errors.MachineError: Spark gave up: 127.0.0.1: " in said
