"""The table store as Spark reads it.

Rows of chosen runs are found by a predicate on ``run_id``, needed only where a part holds other runs, too.  Of a part
of 10,000 runs and 53 million rows, p99s of some of the runs took, named in the query and joined with it, in seconds of
processor time: 50 runs 2.4 and 10.5, 200 runs 6.9 and 11.4, 1,000 runs 15.9 and 19.2; 5,000 named ones took minutes.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analysis.compaction import writer
from collectors.store.hadoop import HadoopPath, Place
from collectors.store.keeping import Store, write_here
from collectors.store.log import StoredPart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LITERALS = 1_000  # run ids at most that a query names


class Stored(NamedTuple):
    """What a store holds of some runs."""

    root: Place
    parts: tuple[StoredPart, ...]

    def files(self, table: str, run_ids: Collection[str]) -> tuple[list[Place], bool]:
        """The files with rows of these runs, and whether they have other runs' rows, too."""
        wanted = set(run_ids)
        parts = [part for part in self.parts if not wanted.isdisjoint(part.runs)]
        files = [self.root / file.path for part in parts for file in part.files if file.table == table]
        return files, any(not part.runs.keys() <= wanted for part in parts)


def brought_in(spark: "SparkSession", store: Store, folders: Sequence[Path]) -> Stored:
    """What ``store`` holds of these finished runs, after those that it lacks have come in."""
    there = store.state().of_run
    count = sum(folder.name not in there for folder in folders)
    write, tasks = writer(spark, count) if store.is_near else (write_here, 1)
    state = store.keep(folders, write, tasks)
    names = dict.fromkeys(state.of_run[folder.name] for folder in folders)
    root = store.root if isinstance(store.root, HadoopPath) else store.root.resolve()
    return Stored(root, tuple(state.parts[name] for name in names))


def of_runs(spark: "SparkSession", frame: "DataFrame", run_ids: Collection[str]) -> "DataFrame":
    """The rows of these runs."""
    from pyspark.sql import functions as F

    if len(run_ids) <= LITERALS:
        return frame.where(F.col("run_id").isin(sorted(run_ids)))
    import pandas as pd

    wanted = spark.createDataFrame(pd.DataFrame({"run_id": sorted(run_ids)}))
    return frame.join(F.broadcast(wanted), "run_id", "left_semi")
