"""Spark: a session that starts quietly, and the raw tables of chosen runs as data frames.

Measured with 1,000 run folders of three small files each (4 million histogram rows), in seconds of
processor time, which two cores halve: the session takes 4; percentiles of all runs at once 14, and 8
more where they are the first query; the queries of a figure of 70 runs 1.4.  What makes it so:

* Frames read an explicit list of files with the known schema: no listing jobs, no footers read ahead.
* ``Data.select`` reads the chosen runs' files only.  Caching the whole was slower: 13 s to fill it.
* Files count by their bytes alone (``openCostInBytes`` 0), so a thousand of them make two tasks.
* HotSpot's first compiler only, and the serial collector: queries are many and short.  With the
  optimising compiler the session takes 7, the first figure 9 instead of 5, later ones 1.9; it pays
  only beyond some 3,000 runs.
"""

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import which
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote

from core.errors import MachineError, described

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark import SparkConf
    from pyspark.sql import DataFrame, SparkSession

JAVA_MINIMUM = 17  # Spark 4
CHECKOUT = Path(__file__).parents[1]
LOOPBACK = "127.0.0.1"

_SETTINGS = {
    "spark.app.name": "ratebed",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # With the first compiler alone Java has room for 48 MB of code; forty figures fill it, and what comes then crawls.
    # Spark's classes are thousands: checking each anew, and collecting garbage whenever a few MB of them are there,
    # took a tenth of the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=384m "
    "-XX:MetaspaceSize=256m -XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote",
    # What a page that nobody opens would show: plans that name every file, of a thousand queries.
    "spark.ui.retainedJobs": "5",
    "spark.ui.retainedStages": "5",
    "spark.ui.retainedTasks": "50",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.cache.maxEntries": "5000",  # figures ask alike: what was compiled for one serves the next
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(10**6),  # list files here, without a job
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def session(master: str = "local[*]", memory: str = "3g") -> "SparkSession":
    """The Spark session of this process, started on first use.

    ``master``: ``local[*]``, or the URL of a cluster whose workers see the run folders under the same
    paths.  ``memory``: of the driver.  MachineError where Java is missing, too old or does not start.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # It has not tried this pandas, and says so often; our tests have.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    warnings.filterwarnings("ignore", module=r"pyspark\.sql\.pandas")  # what it and pandas say of each other
    with _starting:
        if SparkContext._active_spark_context is not None:
            return SparkSession.builder.getOrCreate()
        return _started(master, memory)


_starting = threading.Lock()
_NO_ROOM = os.strerror(errno.ENOSPC)  # Java's words, too


@contextmanager
def java_answers() -> Iterator[None]:
    """MachineError where Spark's Java has ended, or ends, while inside: whoever killed it, it was for its memory.

    And where it has no room for what it keeps aside.
    """
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        fix = "free memory, 4 GB do, and repeat the command: finished runs stay"
        raise MachineError(f"Spark's Java has ended ({described(error)})", fix) from error
    except (PySparkException, Py4JJavaError) as error:
        if _NO_ROOM not in str(error):
            raise
        fix = "free disk space there, or set TMPDIR to another folder; finished runs stay"
        raise MachineError(f"Spark cannot write to {tempfile.gettempdir()}: {_NO_ROOM}", fix) from None


def _started(master: str, memory: str) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = {**_SETTINGS, "spark.master": master, "spark.driver.memory": memory}
    settings["spark.local.dir"] = settings["spark.sql.warehouse.dir"] = tempfile.gettempdir()
    if master.startswith("local"):
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    if SparkContext._gateway is None:  # a stopped session leaves its Java behind, ready for the next
        _start_java(conf, find_java(), master)
    python = {"PYSPARK_PYTHON": sys.executable} if master.startswith("local") else {}  # not just any python3
    with _environment(python), _kept_handler():
        return SparkSession(SparkContext(conf=conf))


@contextmanager
def _kept_handler() -> Iterator[None]:
    """SparkContext takes Ctrl-C for itself, in the main thread; afterwards it is ours again."""
    ours = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, ours)


def warm_up(master: str = "local[*]") -> None:
    """Start the session, and make Java load what queries need, while something else goes on.

    Errors are left to whoever asks for the session.
    """
    with suppress(Exception):
        numbers = session(master).range(9).selectExpr("id", "id % 3 as part")
        numbers.groupBy("part").count().join(numbers, "part").orderBy("id").toPandas()


def _start_java(conf: "SparkConf", java_home: Path, master: str) -> None:
    """Start Spark's Java with its chatter kept in a file that nobody sees unless the start fails."""
    import pyspark
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    environment = {"JAVA_HOME": str(java_home), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    if master.startswith("local"):
        environment["SPARK_LOCAL_IP"] = LOOPBACK  # else a host name that does not resolve is fatal
    with tempfile.TemporaryFile() as log, _environment(environment):
        try:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
        except PySparkRuntimeError:
            raise MachineError(f"Spark's Java ({java_home}) does not start: {_reason(log)}", _JAVA_FIX) from None
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


# --- Java ----------------------------------------------------------------------------------------

_JAVA_FIX = f"install Java {JAVA_MINIMUM} or newer and set JAVA_HOME, or run `make setup`, which brings one"


def find_java() -> Path:
    """A Java home that Spark can run on: ``JAVA_HOME``, ``.java`` in the checkout, or ``java`` on the PATH."""
    rejected = []
    for home in _java_homes():
        version = java_version(home)
        if version is not None and version >= JAVA_MINIMUM:
            return home
        rejected.append(f"{home} is Java {version}" if version else f"{home} has no working bin/java")
    raise MachineError(f"Spark needs Java {JAVA_MINIMUM}: {', '.join(rejected) or 'none found'}", _JAVA_FIX)


def _java_homes() -> Iterable[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    if (CHECKOUT / ".java").exists():
        yield CHECKOUT / ".java"
    on_path = which("java")
    if on_path:
        yield Path(on_path).resolve().parents[1]


def java_version(home: Path) -> int | None:
    """The major version of a Java home, 17; None where it has no Java that runs."""
    command = [str(home / "bin" / "java"), "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"java\.specification\.version = (?:1\.)?([0-9]+)", said)
    return int(match[1]) if match else None


# --- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The raw tables of some runs, as Spark frames with the columns of ``collectors.schema``.

    A table that no run wrote is an empty frame.
    """

    spark: "SparkSession | None"  # None: there are no runs, and nothing asks for tables
    folders: tuple[Path, ...]  # named by run id
    scratch: Path | None = None  # where the files of many runs are put together; None: they are read one by one

    @property
    def runs(self) -> "DataFrame":
        """One row a run: axes, factors, outcome."""
        return self.table("runs")

    @property
    def latency_histogram(self) -> "DataFrame":
        """Counts of latencies by run, round, broker and metric: the only source of percentiles."""
        return self.table("latency_histogram")

    @property
    def messages(self) -> "DataFrame":
        """Single messages, of the runs that kept them."""
        return self.table("messages")

    @property
    def requests(self) -> "DataFrame":
        """Single requests to limiters, and what was decided."""
        return self.table("requests")

    @property
    def samples(self) -> "DataFrame":
        """Values of metrics sampled over time: backlogs, rates."""
        return self.table("samples")

    @property
    def decisions(self) -> "DataFrame":
        """Search rounds by broker, final assignments, commands."""
        return self.table("decisions")

    @property
    def paths(self) -> "DataFrame":
        """Paths between hosts, requested and measured, of live runs."""
        return self.table("paths")

    def table(self, name: str) -> "DataFrame":
        """The table of this name, one of ``collectors.schema.TABLES``."""
        if name not in self._frames:
            self._frames[name] = self._table(name)
        return self._frames[name]

    @cached_property
    def _frames(self) -> dict[str, "DataFrame"]:
        return {}

    def select(self, run_ids: Collection[str]) -> "Data":
        """The same tables, of these runs only: their files alone are read."""
        wanted = set(run_ids)
        folders = tuple(folder for folder in self.folders if folder.name in wanted)
        missing = wanted - {folder.name for folder in folders}
        assert not missing, f"runs that were not loaded: {sorted(missing)[:5]}"
        return Data(self.spark, folders, self.scratch)

    def _table(self, name: str) -> "DataFrame":
        from pyspark.sql.pandas.types import from_arrow_schema

        from collectors.schema import TABLES

        assert self.spark is not None, "an analytic figure has no runs to ask for"
        schema = from_arrow_schema(TABLES[name])
        files = [file for folder in self.folders if (file := folder / f"{name}.parquet").is_file()]
        if not files:
            return self.spark.createDataFrame([], schema)
        if self.scratch is not None and len(files) > 1:
            files = [_put_together(files, self.scratch)]
        return self.spark.read.schema(schema).parquet(*(f"file://{_literally(file)}" for file in files))


def _literally(path: Path) -> str:
    """The path as a pattern that matches nothing else: a folder may be called "run [2]"."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def _put_together(files: Sequence[Path], scratch: Path) -> Path:
    """One file with the rows of all ``files``: Spark takes milliseconds to open each, in every query anew.

    It has several row groups, so that all cores have something to read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = pa.concat_tables([_read(file) for file in files])
    handle, path = tempfile.mkstemp(".parquet", f"{files[0].stem}-", scratch)
    with os.fdopen(handle, "wb") as file:
        pq.write_table(whole, file, row_group_size=max(1_000, whole.num_rows // 8), store_schema=False)
    return Path(path)


def _read(file: Path) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError):
        raise MachineError(f"{file} cannot be read", _DAMAGED_FIX) from None


def load(spark: "SparkSession", run_folders: Sequence[Path], scratch: Path | None = None) -> Data:
    """The tables of ``run_folders``, which are as they were written, else ``Damage``; queries read them when they ask.

    ``scratch``: a folder that all workers see and the caller removes at the end.  With it, the tables of
    many runs are put together in one file before Spark reads them, which is much faster.
    """
    from collectors.integrity import verified

    folders = tuple(sorted(folder.resolve() for folder in run_folders))
    for folder in folders:
        verified(folder)
    return Data(spark, folders, scratch)


@contextmanager
def computed_once(frame: "DataFrame") -> Iterator["DataFrame"]:
    """``frame``, which several queries ask for, kept in memory inside the block."""
    kept = frame.cache()
    try:
        yield kept
    finally:
        kept.unpersist()


_DAMAGED_FIX = "remove its run folder and run again"


def collect(frame: "DataFrame", order: Sequence[str]) -> "pd.DataFrame":
    """``frame`` as a pandas frame, its rows sorted by the columns ``order`` (Spark's own order changes).

    MachineError names a Parquet file that cannot be read.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with java_answers():
            rows: pd.DataFrame = frame.toPandas()
    except (PySparkException, Py4JJavaError) as error:
        match = re.search(r"FAILED_READ_FILE.* reading file file:/*(/\S+)", str(error))
        if match is None:
            raise
        raise MachineError(f"{unquote(match[1].rstrip('.'))} cannot be read", _DAMAGED_FIX) from None
    return rows.sort_values(list(order), kind="stable", ignore_index=True)
