"""Spark: a session that starts quietly.

Measured with 1,000 run folders of three small files each (4 million histogram rows), in seconds of
processor time, which two cores halve: the session takes 4; percentiles of all runs at once 14, and 8
more where they are the first query; the queries of a figure of 70 runs 1.4.  What makes it so:

* Files count by their bytes alone (``openCostInBytes`` 0), so a thousand of them make two tasks.
* HotSpot's first compiler only, and the serial collector: queries are many and short.  With the
  optimising compiler the session takes 7, the first figure 9 instead of 5, later ones 1.9; it pays
  only beyond some 3,000 runs.  Exact percentiles of 1e7 messages took 16 with the first compiler and 20
  with both, of 1e8 122 and 70 (``benchmarks/messages.py``): ``long_work``.
* Pages of 2 MB.  Of 3 GB Spark makes 64 MB for every sort and every table of groups, of some rows mostly, and
  Java clears each and collects garbage after two: a figure of 105 runs, asked for again, took 7.4 instead of 5.6, and
  Java grew to 2.7 GB instead of 0.9.
"""

import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from analysis.spark_defaults import spark_defaults
from core.errors import MachineError, SpecError, described
from core.java import JAVA_FIX, find_java
from core.spark import machines_part, reason_of

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
LOOK_S = 5.0  # for a cluster's master to answer
PATIENCE_S = 30.0  # with a cluster that gives us no executor, before anything is said

THIS_MACHINE = "local[*]"
Starter = Callable[[], "SparkSession"]  # starts a session where somebody wants it

# Wherever it runs.  On a cluster all else is Spark's, SPARK_CONF_DIR's and the user's.
_EVERYWHERE = {
    "spark.app.name": "ratebed",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # What a page that nobody opens would show: plans that name every file, of a thousand queries.
    "spark.ui.retainedJobs": "5",
    "spark.ui.retainedStages": "5",
    "spark.ui.retainedTasks": "50",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.scheduler.mode": "FAIR",  # queries get their share while runs go on, those of campaigns on the cluster
    "spark.sql.codegen.cache.maxEntries": "5000",  # figures ask alike: what was compiled for one serves the next
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": os.environ["OPENBLAS_NUM_THREADS"],  # as core has it: runs round alike
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Spark's classes are thousands: checking each anew, and collecting garbage whenever a few MB of them are there,
# took a tenth of the time.
_LOADING = (
    "-XX:MetaspaceSize=256m -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
# With the first compiler alone Java has room for 48 MB of code; forty figures fill it, and what comes then crawls.
SHORT_WORK = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=384m {_LOADING}"
_LONG_WORK = f"-XX:+UseParallelGC {_LOADING}"  # with both compilers
_ON_THIS_MACHINE = {
    "spark.driver.memory": "3g",
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.openCostInBytes": "0",
    "spark.buffer.pageSize": "2m",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(10**6),  # list files here, without a job
}
LONG_RUNS = 3_000  # of one figure
ARCHIVE = Path(sys.prefix) / "spark.jsa"  # of ``analysis.class_archive``
_MASTER = re.compile(r"local(\[[\d*, ]+\])?|yarn|spark://.+:\d+|k8s://.+")
_PYTHON = "spark.pyspark.python"  # Spark's name for the interpreter of its workers


def check_master(master: str) -> None:
    """SpecError where this is not where Spark can run for us."""
    if master.startswith("sc://"):
        what = f"{master}: Spark Connect has no SparkContext, which the tasks, archives and accumulators of runs need"
        raise SpecError(what, "give the cluster itself: spark://HOST:PORT, yarn or k8s://URL")
    if not _MASTER.fullmatch(master):
        raise SpecError(f"no Spark master: {master!r}", "give spark://HOST:PORT, yarn, k8s://URL or local[*]")


def session(master: str = THIS_MACHINE, settings: Mapping[str, str] = MappingProxyType({})) -> "SparkSession":
    """The Spark session of this process, started on first use.

    ``master``: ``local[*]``, or the URL of a cluster whose workers see the run folders under the same
    paths.  ``settings``: of Spark, before ours.  MachineError where Java is missing, too old or does not start,
    SpecError for a master that is none, or one of Spark Connect.
    """
    check_master(master)
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # It has not tried this pandas, and says so often; our tests have.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    warnings.filterwarnings("ignore", module=r"pyspark\.sql\.pandas")  # what it and pandas say of each other
    with _starting:
        if SparkContext._active_spark_context is not None:
            return SparkSession.active()  # the builder heeds SPARK_REMOTE, which may be there for others
        return _started(master, settings)


def long_work(master: str, run_count: int) -> dict[str, str]:
    """Settings of Spark that queries over so many runs at once want, where Java would have what suits short ones."""
    return {JAVA_OPTIONS: _with_archive(_LONG_WORK)} if _is_here(master) and run_count >= LONG_RUNS else {}


_starting = threading.Lock()


@contextmanager
def java_answers() -> Iterator[None]:
    """MachineError where Spark's Java has ended, or ends, while inside: whoever killed it, it was for its memory.

    And where a machine, this one or a cluster's, is to blame for a job that failed.
    """
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        fix = "free memory, 4 GB do, and repeat the command: finished runs stay"
        raise MachineError(f"Spark's Java has ended ({described(error)})", fix) from error
    except (PySparkException, Py4JJavaError) as error:
        if (told := machines_part(error)) is None:
            raise
        raise told from None


def _started(master: str, settings: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _look_for(master)
    ours = dict(_EVERYWHERE)
    ours["spark.sql.warehouse.dir"] = tempfile.gettempdir()
    if _is_here(master):
        ours |= _ON_THIS_MACHINE
        ours[JAVA_OPTIONS] = _with_archive(SHORT_WORK)
        ours["spark.local.dir"] = tempfile.gettempdir()
    conf = SparkConf(loadDefaults=False).setAll([*{**ours, **settings, "spark.master": master}.items()])
    if SparkContext._gateway is None:  # a stopped session leaves its Java behind, ready for the next
        _start_java(conf, find_java(), master, JAVA_FIX if _is_here(master) and not settings else _SETTINGS_FIX)
    # Not just any python3: workers of a cluster have the same environment at the same place, unless told otherwise.
    elsewhere = spark_defaults().get(_PYTHON) or os.environ.get("PYSPARK_PYTHON")
    chosen = settings.get(_PYTHON) or (not _is_here(master) and elsewhere) or sys.executable
    try:
        with _environment({"PYSPARK_PYTHON": chosen}), _kept_handler():
            started = SparkSession(SparkContext(conf=conf))
        started.conf.get("spark.sql.session.timeZone")  # what is wrong with the settings of queries is said now
        if not _is_here(master):
            threading.Thread(target=_grumble, args=(started.sparkContext,), daemon=True).start()
        return started
    except (PySparkException, Py4JJavaError) as error:
        if SparkContext._active_spark_context is not None:  # else whoever asks next gets what does not work
            SparkContext._active_spark_context.stop()
        raise MachineError(f"Spark does not start on {master}: {reason_of(error)}", _SETTINGS_FIX) from None


def _grumble(context: "SparkContext") -> None:
    """Say, each time anew, that a cluster gives us nothing to work with: Spark waits for ever, without a word."""
    tracker, idle_s = context.statusTracker(), 0.0
    with suppress(Exception):  # it was stopped, or its Java has ended: others say so
        while True:
            time.sleep(1.0)
            stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage]
            idle_s = idle_s + 1.0 if stages and not any(stage.numActiveTasks for stage in stages) else 0.0
            if idle_s == PATIENCE_S:
                what = f"{context.master} has given no executor in {PATIENCE_S:.0f} s: it is full, or what is asked is"
                more = "more than it has (--spark-conf spark.executor.memory=1g); waiting"
                print(f"ratebed: {what} {more}", file=sys.stderr)


def _with_archive(options: str) -> str:
    # A Java or jars other than the archive's leave it aside, without a word.
    return options + (f' "-XX:SharedArchiveFile={ARCHIVE}" -Xlog:cds=off' if ARCHIVE.is_file() else "")


_SETTINGS_FIX = "look at --spark-conf and SPARK_CONF_DIR: docs/cluster.md"


def _look_for(master: str) -> None:
    """MachineError where none of the masters of a standalone cluster listens: Spark would try for a minute."""
    addresses = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    reason = ""
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK_S).close()
            return
        except (OSError, OverflowError) as error:
            reason = described(error)
    if addresses:
        raise MachineError(f"{master}: {reason}", "start the cluster, or mend --spark-master: docs/cluster.md")


def _is_here(master: str) -> bool:
    return master.startswith("local")


@contextmanager
def _kept_handler() -> Iterator[None]:
    """SparkContext takes Ctrl-C for itself, in the main thread; afterwards it is ours again, which is told of one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = signal.getsignal(signal.SIGINT)
    try:
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, ours)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)
        raise


def warm_up(master: str = THIS_MACHINE, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """Start the session, and make Java load what queries need, while something else goes on.

    Errors are left to whoever asks for the session.
    """
    with suppress(Exception):
        numbers = session(master, settings).range(9).selectExpr("id", "id % 3 as part")
        numbers.groupBy("part").count().join(numbers, "part").orderBy("id").toPandas()


def _start_java(conf: "SparkConf", java_home: Path, master: str, fix: str) -> None:
    """Start Spark's Java with its chatter kept in a file that nobody sees unless the start fails.

    In a thread, so that Ctrl-C waits for the start.  Java ends with us, but only once it has written where it listens;
    PySpark, interrupted before, takes the folder for that away, and Java stays for good.
    """
    import pyspark
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    environment = {"JAVA_HOME": str(java_home), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    if _is_here(master):
        environment["SPARK_LOCAL_IP"] = LOOPBACK  # else a host name that does not resolve is fatal
    with tempfile.TemporaryFile() as log, _environment(environment), ThreadPoolExecutor(1) as thread:
        try:
            gateway = thread.submit(launch_gateway, conf, {"stdout": log, "stderr": log}).result()
        except PySparkRuntimeError:
            raise MachineError(f"Spark's Java ({java_home}) does not start: {_reason(log)}", fix) from None
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """The process environment with ``changes``, for a while."""
    saved = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _reason(log: IO[bytes]) -> str:
    """The line that says most in what Java printed."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|exception|cannot|could not|invalid", line, re.I)]
    return (telling or lines or ["it printed nothing"])[0][:200]
