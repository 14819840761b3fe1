"""``python -m benchmarks.store [RUNS] [--out FOLDER]``: what a figure of many runs loads, and how.

So many runs are written, whole folders with ids of their own, from a few real ones.  In a fresh process each: the
tables that a figure of all runs asks for are loaded and counted by Spark, from a store that has to be made first, from
one that is there, and by the way that it took the place of, in which the driver put all files together anew for each
figure.  The answers must be equal.  Printed are processor seconds and peak memory of Python, Java apart; under load on
the machine both hold, which wall time does not.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.process_tree import own_peak_mib
from collectors.integrity import verified
from collectors.schema import TABLES
from collectors.store.keeping import Store
from collectors.writer import write_run
from core.digests import digest_of
from harness.campaign import finished_runs

ASKED = ("runs", "latency_histogram", "decisions")
ROOT = Path(__file__).resolve().parents[1]


def copies(models: list[Path], runs: Path, count: int) -> None:
    """Write ``count`` runs that hold what the models hold, each under an id of its own."""
    contents = [
        ({path.stem: pq.read_table(path) for path in folder.glob("*.parquet")}, verified(folder)) for folder in models
    ]
    for number in range(count):
        run_id = digest_of(str(number).encode())[:16]
        tables, manifest = contents[number % len(contents)]
        if not (runs / run_id).exists():
            write_run(
                runs / run_id,
                {name: _of_run(table, run_id) for name, table in tables.items()},
                {**manifest, "run_id": run_id},
            )


def _of_run(table: pa.Table, run_id: str) -> pa.Table:
    return table.set_column(0, "run_id", pa.array([run_id] * table.num_rows))


def put_together(out: Path) -> dict[str, int]:
    """The old way: one thread of the driver reads all files and glues them together, for Spark to read."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from analysis.spark import session

    counts, folders = {}, finished_runs(out)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        for name in ASKED:
            files = [file for folder in folders if (file := folder / f"{name}.parquet").is_file()]
            whole = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
            path = Path(scratch) / f"{name}.parquet"
            pq.write_table(whole, path, row_group_size=max(1_000, whole.num_rows // 8), store_schema=False)
            counts[name] = (
                session().read.schema(from_arrow_schema(TABLES[name])).parquet(f"file://{path.resolve()}").count()
            )
    return counts


def from_store(out: Path) -> dict[str, int]:
    """What figures do now."""
    from analysis.spark import session
    from analysis.tables import load

    with Store.of(out).in_use() as store:
        data = load(session(), finished_runs(out), store)
        return {name: data.table(name).count() for name in ASKED}


WAYS: dict[str, Callable[[Path], dict[str, int]]] = {"put together": put_together, "store": from_store}


def measure(way: str, out: Path) -> None:
    """In this process: print what one way takes, after a session and the runs' manifests are there."""
    from analysis.spark import session

    session().range(9).count()
    for folder in finished_runs(out):
        verified(folder)
    before_mib, before = own_peak_mib(), process_time()
    counts = WAYS[way](out)
    seconds = process_time() - before
    session().stop()
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "s": seconds,
                "children_s": workers.ru_utime + workers.ru_stime,
                "before": before_mib,
                "peak": own_peak_mib(),
                "counts": counts,
            }
        )
    )


def report(out: Path) -> None:
    """Print a line a way; AssertionError where the answers differ.  A store that is there is removed, and made anew."""
    shutil.rmtree(out / "store", ignore_errors=True)
    answers = []
    for what, way in (
        ("store, made first", "store"),
        ("store", "store"),
        ("put together by the driver", "put together"),
    ):
        words = [sys.executable, "-m", "benchmarks.store", "--measure", way, "--out", str(out)]
        measured = json.loads(subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout)
        answers.append(measured["counts"])
        print(
            f"{what:<28}{measured['s']:7.1f} s of Python{measured['peak']:7.0f} MiB at most, "
            f"{measured['before']:.0f} of them before",
            flush=True,
        )
    assert answers.count(answers[0]) == len(answers), answers
    print(f"same answer: {answers[0]}")


def main() -> None:
    """Write runs where there are fewer, and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=10_000)
    parser.add_argument("--out", type=Path, help="where the runs are, or come; a folder that goes, unless given")
    parser.add_argument(
        "--models", type=Path, help="a folder of results with runs to copy; srtm-fig5 tiny, unless given"
    )
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        out, models = arguments.out or Path(folder) / "out", arguments.models or Path(folder) / "models"
        if not arguments.models:
            words = ["run", "srtm-fig5", "--scale", "tiny", "--out", str(models), "--quiet"]
            subprocess.run([sys.executable, "-m", "ratebed", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        copies(finished_runs(models), out / "runs", arguments.runs)
        print(f"{len(finished_runs(out))} runs, {os.cpu_count()} cores")
        report(out)


if __name__ == "__main__":
    main()
