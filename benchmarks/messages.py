"""``python -m benchmarks.messages [RUNS]``: the exact p99 of single messages by run and broker, on Spark and on DuckDB.

``RUNS`` runs of 100,000 messages each (1,000: 1e8 rows, 3.2 GB), 50 to a file as a table store holds them.  In fresh
processes: Spark on one core and on all, with both of HotSpot's compilers and with the first alone; on a standalone
cluster of one worker and of two; and the peer, on all cores.  The answers must be equal.  Printed are processor
seconds, Java's and Python's, session and all; the seconds of the clock; and the largest resident sets, those of all
Javas together.  Without DuckDB (``make bench`` brings it) there is no peer, and that is said.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.process_tree import MIB, own_peak_mib
from benchmarks.standalone import LOOPBACK, standalone
from collectors.schema import TABLES

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".peers"
MESSAGES, BROKERS, RUNS_A_FILE = 100_000, 6, 50
_ON_WORKERS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",  # and both compilers, as Java has it
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.openCostInBytes": "0",
}
DIFFERENCE = 1e-12  # relative, of two ways to interpolate


def write_runs(folder: Path, count: int) -> None:
    """Messages of runs that never were: log-normal latencies about 0.27 ms, publishers and brokers at random."""
    rng = np.random.default_rng(1)
    for first in range(0, count, RUNS_A_FILE):
        with pq.ParquetWriter(folder / f"{first:06d}.parquet", TABLES["messages"], compression="zstd") as file:
            for number in range(first, min(first + RUNS_A_FILE, count)):
                file.write_table(_messages(number, rng))


def _messages(number: int, rng: np.random.Generator) -> pa.Table:
    intended = np.sort(rng.integers(0, 60 * 10**9, MESSAGES))
    arrived = intended + 200_000 + rng.integers(0, 50_000, MESSAGES)
    released = arrived + rng.lognormal(11.4, 1.0, MESSAGES).astype(np.int64)
    columns = {
        "run_id": [f"{number:016x}"] * MESSAGES,
        "message": np.arange(MESSAGES),
        "publisher": rng.integers(0, 400, MESSAGES),
        "broker": rng.integers(0, BROKERS, MESSAGES),
        "intended_at_ns": intended,
        "sent_at_ns": intended,
        "arrived_at_ns": arrived,
        "released_at_ns": released,
        "received_at_ns": released + rng.lognormal(12.5, 1.0, MESSAGES).astype(np.int64),
    }
    schema = TABLES["messages"]
    filled = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(MESSAGES, f.type) for f in schema]
    return pa.table(filled, schema=schema)


def with_spark(folder: Path, cores: int, is_long: bool) -> dict[str, float]:
    """Groups, sum of their p99, and what it took."""
    from analysis.spark import LONG_RUNS, long_work

    master = f"local[{cores}]"
    return _by_spark(folder, master, long_work(master, LONG_RUNS * is_long))


def with_workers(folder: Path, workers: int, is_long: bool) -> dict[str, float]:
    """The same of a cluster whose workers have a core each; it is there before the clock starts."""
    with tempfile.TemporaryDirectory() as own, standalone(Path(own), workers, memory="1536m") as master:
        return _by_spark(folder, master, _ON_WORKERS)


def _by_spark(folder: Path, master: str, settings: Mapping[str, str]) -> dict[str, float]:
    from pyspark.sql.pandas.types import from_arrow_schema

    from analysis.exact import exact_percentiles
    from analysis.spark import session

    before_s = sum(map(_used_s, _javas()))  # a cluster that has started
    began = perf_counter()
    spark = session(master, settings)
    files = sorted(f"file://{path.resolve()}" for path in folder.glob("*.parquet"))
    rows = spark.read.schema(from_arrow_schema(TABLES["messages"])).parquet(*files)
    rows = rows.selectExpr("run_id", "broker", "received_at_ns - intended_at_ns AS latency_ns")
    totals = (
        exact_percentiles(rows, ["run_id", "broker"], "latency_ns", [0.99]).agg({"p99": "sum", "*": "count"}).first()
    )
    assert totals is not None
    clock_s = perf_counter() - began
    javas = _javas()
    statuses = [Path(f"/proc/{java.pid}/status").read_text().splitlines() for java in javas]
    peaks = [int(line.split()[1]) * 1024 / MIB for status in statuses for line in status if line.startswith("VmHWM")]
    return {
        "groups": totals["count(1)"],
        "sum": totals["sum(p99)"],
        "clock_s": clock_s,
        "cpu_s": sum(map(_used_s, javas)) - before_s + _own_s(),
        "java_mib": sum(peaks),
        "python_mib": own_peak_mib(),
    }


def _javas() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]


def _used_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def with_duckdb(folder: Path, cores: int, is_long: bool) -> dict[str, float]:
    """The same of the peer."""
    sys.path.append(str(PEERS))
    import duckdb

    began = perf_counter()
    p99 = "quantile_cont(received_at_ns - intended_at_ns, 0.99) AS p99"
    of_groups = f"SELECT {p99} FROM read_parquet(?) GROUP BY run_id, broker"
    with duckdb.connect(config={"threads": cores}) as connection:
        totals = connection.execute(f"SELECT count(*), sum(p99) FROM ({of_groups})", [f"{folder}/*.parquet"]).fetchone()
    assert totals is not None
    return {
        "groups": totals[0],
        "sum": totals[1],
        "clock_s": perf_counter() - began,
        "cpu_s": _own_s(),
        "java_mib": 0.0,
        "python_mib": own_peak_mib(),
    }


def _own_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


WAYS: dict[str, Callable[[Path, int, bool], dict[str, float]]] = {
    "Spark": with_spark,
    "Spark, standalone": with_workers,
    "DuckDB": with_duckdb,
}


def report_rows(runs: int, out: Path | None = None) -> None:
    """Write the messages of so many runs, unless they are there, and measure."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("*.parquet")):
            write_runs(folder, runs)
        _report(folder, sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet")))


def _report(folder: Path, rows: int) -> None:
    """A line a way; AssertionError where the answers differ."""
    cores = os.cpu_count() or 1
    ways = [("Spark", 1, True), ("Spark", cores, True), ("Spark", cores, False)]
    ways += [("Spark, standalone", 1, True), ("Spark, standalone", 2, True), ("DuckDB", cores, False)]
    if not (PEERS / "duckdb").is_dir():
        print("no DuckDB here (make bench brings it): no peer")
        ways.pop()
    sums = []
    print(f"{rows:,} messages: exact p99 by run and broker")
    for way, of, is_long in ways:
        words = [
            sys.executable,
            "-m",
            "benchmarks.messages",
            "--measure",
            way,
            "--cores",
            str(of),
            *["--long"] * is_long,
        ]
        told = subprocess.run([*words, "--out", str(folder)], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        measured = json.loads(told.stdout)
        sums.append((measured["groups"], measured["sum"]))
        what = f"{way}, {of} {'workers' if 'standalone' in way else 'cores'}{', both compilers' if is_long else ''}"
        print(
            f"{what:<45}{measured['cpu_s']:8.1f} s of processors{measured['clock_s']:8.1f} s"
            f"{measured['java_mib']:8.0f} MiB of Java{measured['python_mib']:7.0f} MiB of Python",
            flush=True,
        )
    for groups, total in sums:
        assert groups == sums[0][0] and abs(total - sums[0][1]) <= DIFFERENCE * abs(total), sums
    print(f"same answer: {sums[0][0]:,.0f} groups")


def main() -> None:
    """Write the rows, and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.messages", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=1_000)
    parser.add_argument("--out", type=Path, help="a folder that has the rows from before; else one that goes")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--long", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(WAYS[asked.measure](asked.out, asked.cores, asked.long)))
        return
    report_rows(asked.runs, asked.out)


if __name__ == "__main__":
    main()
