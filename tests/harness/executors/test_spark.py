"""What the executor makes of a cluster's answers; the cluster itself is in ``test_cluster.py``."""

import shutil
import time
from pathlib import Path

import pytest

from core.errors import MachineError
from harness.campaign import Campaign
from harness.code_version import id_of
from harness.executors import spark
from harness.executors.api import work
from harness.executors.local import LocalExecutor
from harness.executors.spark import SparkExecutor
from testbed.hosts.lock import machine_lock
from tests.harness.common import parquet_hashes, small

LOST = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task {task} in stage 3.0 failed 4 times, "
    "most recent failure: Lost task {task}.3 in stage 3.0 (TID 9) (10.0.0.7 executor 1): {what}\n"
    "\tat org.apache.spark.api.python.BasePythonRunner\nDriver stacktrace:\n\tat java.base/java.lang.Thread.run"
)
BATCHES = [[(small(n), str(n), None)] for n in range(3)]


def test_a_run_that_a_worker_tells_of_and_is_not_here_has_failed(tmp_path):
    spec, told = small(1), {"run_id": "x", "error": "", "seconds": 1.0, "fatal": False}
    assert "share that folder with all hosts, or give --packs" in spark._seen(told, (spec, "x", tmp_path))
    assert spark._seen({**told, "error": "it broke"}, (spec, "x", tmp_path)) == "it broke"
    run_id = id_of(spec)
    assert not work(spec, run_id, tmp_path).error
    assert not spark._seen(told, (spec, run_id, tmp_path))
    written = (tmp_path / run_id / "manifest.json").stat().st_mtime_ns
    assert work(spec, run_id, tmp_path).seconds == 0.0  # somebody else was faster: it is not made again
    assert (tmp_path / run_id / "manifest.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "what",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Remote RPC client",
    ],
)
def test_who_ends_workers_is_named_by_its_task(what):
    assert spark._culprit(Exception(LOST.format(task=2, what=what)), BATCHES) == BATCHES[2]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory',
            'gave up: 10.0.0.7: java.io.IOException: Cannot run program "/no/python": error=2, No such file',
        ),
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File\nValueError: odd",
            "gave up: 10.0.0.7: ValueError: odd; give its workers the environment",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "the workers have Python 3.9, here it is 3.11; give its workers the environment",
        ),
    ],
)
def test_what_is_nobodys_run_is_one_line(what, said):
    with pytest.raises(MachineError, match=r"docs/cluster\.md") as told:
        spark._culprit(Exception(LOST.format(task=0, what=what)), BATCHES)
    assert said in str(told.value)


def test_suspects_share_no_batch_with_others():
    work = [(small(n), str(n), None) for n in range(40)]
    batches = spark._batches(work, {"3", "17", "18"}, 2)
    ids = [[run_id for _, run_id, _ in batch] for batch in batches]
    assert sorted(run_id for batch in ids for run_id in batch) == sorted(run_id for _, run_id, _ in work)
    assert all(set(batch) <= {"3", "17", "18"} or not set(batch) & {"3", "17", "18"} for batch in ids)


class OneFileAName:
    """Of a cluster's context, what it asks of archives (``NettyStreamManager`` of Spark)."""

    def __init__(self):
        self.served = {}

    def addArchive(self, url):
        path = Path(url.partition("#")[0])
        assert path.is_file() and self.served.setdefault(path.name, path) == path, "registered with a different path"


def test_campaigns_of_one_process_send_their_code_as_one_file(tmp_path):
    context = OneFileAName()
    first, second = (spark._order(context, tmp_path, None) for _ in range(2))
    assert (first["archive"], first["digest"]) == (second["archive"], second["digest"])
    assert [*context.served] == [f"{first['archive']}.zip"]


def test_live_runs_stay_here_and_start_no_spark(monkeypatch, tmp_path):
    monkeypatch.setattr("harness.executors.local.machine_lock", lambda: machine_lock(f"test{tmp_path}"))
    executor = SparkExecutor(lambda: pytest.fail("Spark was started"))
    (finished,) = executor.map([(small(testbed="local", system="nobody"), "id", tmp_path / "runs")])
    assert "unknown system 'nobody'" in finished.error


@pytest.mark.slow
def test_where_spark_tries_nothing_again_a_run_that_ends_its_worker_is_found_by_another_job(spark, tmp_path):
    shutil.copy(Path(__file__).with_name("ending.py"), tmp_path)
    ending = small(system=f"{tmp_path / 'ending.py'}:SYSTEM", system_options={"ends": "exit"})
    others = [small(n, system=system) for n in range(2) for system in ("lb", "conc")]
    away, here = Campaign(tmp_path / "away"), Campaign(tmp_path / "here")
    (guilty, *_), told = away.add([ending, *others]), []
    (failure,) = away.run(SparkExecutor(lambda: spark.sparkContext), told.append)
    assert failure.run_id == guilty and "ended its process with exit code 7" in failure.error
    assert sorted(one.run_id for one in told) == sorted(away.wanted), "each comes home once"
    here.add(others)
    assert not here.run(LocalExecutor(1), lambda finished: None)
    assert parquet_hashes(here.runs) == parquet_hashes(away.runs)
    assert {path.name for path in away.runs.iterdir()} == {".code", f"{guilty}.failed", *here.wanted}


@pytest.mark.slow
def test_what_is_given_up_leaves_no_job_and_all_that_has_finished(spark, tmp_path):
    campaign = Campaign(tmp_path)
    campaign.add(small(n, round="60s", workload_options={"publishers": 2000, "group_size": 5}) for n in range(64))
    coming = SparkExecutor(lambda: spark.sparkContext).map([(s, i, tmp_path) for i, s in campaign.wanted.items()])
    first = next(coming)
    coming.close()  # as Ctrl-C does
    tracker, deadline_s = spark.sparkContext.statusTracker(), time.monotonic() + 60
    while tracker.getActiveJobsIds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert not first.error and first.run_id not in campaign.missing()
    assert campaign.missing(), "nothing was left to give up"
    assert not list(tmp_path.glob(".strikes*"))
