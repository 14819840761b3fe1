"""The raw tables of chosen runs, as Spark frames.

Frames read an explicit list of files with the known schema: no listing jobs, no footers read ahead.  The files are
those of the store (``collectors.store``) that hold chosen runs, or the run folders' own.  Caching the whole was
slower: 13 s to fill it.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from analysis.spark import java_answers
from core.errors import MachineError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from analysis.stored import Stored
    from collectors.store.hadoop import Place
    from collectors.store.keeping import Store


@dataclass(frozen=True)
class Data:
    """The raw tables of some runs, as Spark frames with the columns of ``collectors.schema``.

    A table that no run wrote is an empty frame.
    """

    spark: "SparkSession | None"  # None: there are no runs, and nothing asks for tables
    folders: tuple[Path, ...]  # named by run id
    stored: "Stored | None" = None  # where the rows of many runs are together; None: folders are read one by one

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
        return Data(self.spark, folders, self.stored)

    def _table(self, name: str) -> "DataFrame":
        from pyspark.sql.pandas.types import from_arrow_schema

        from analysis.stored import of_runs
        from collectors.schema import TABLES

        assert self.spark is not None, "an analytic figure has no runs to ask for"
        schema = from_arrow_schema(TABLES[name])
        run_ids = [folder.name for folder in self.folders]
        has_others = False
        if self.stored is None:
            files: list[Place] = [file for folder in self.folders if (file := folder / f"{name}.parquet").is_file()]
        else:
            files, has_others = self.stored.files(name, run_ids)
        if not files:
            return self.spark.createDataFrame([], schema)
        frame = self.spark.read.schema(schema).parquet(*map(_address, files))
        return of_runs(self.spark, frame, run_ids) if has_others else frame


def _address(path: "Place") -> str:
    """The URL, as a pattern that matches nothing else: a folder may be called "run [2]"."""
    scheme = "file://" if isinstance(path, Path) else ""
    return scheme + re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def load(spark: "SparkSession", run_folders: Sequence[Path], store: "Store | None" = None) -> Data:
    """The tables of ``run_folders``, which are as they were written, else ``Damage``; queries read them when they ask.

    ``store``: in use, of these folders; what it lacks of them is brought in, and queries read its files.  Without one
    they read the folders' own, which takes milliseconds a file in each.
    """
    from analysis.stored import brought_in
    from collectors.integrity import verified

    folders = tuple(sorted(folder.resolve() for folder in run_folders))
    if store is not None:
        return Data(spark, folders, brought_in(spark, store, folders))
    for folder in folders:
        verified(folder)
    return Data(spark, folders)


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

    from collectors.schema import TABLES

    try:
        with java_answers():
            rows: pd.DataFrame = frame.toPandas()
    except (PySparkException, Py4JJavaError) as error:
        match = re.search(r"FAILED_READ_FILE.* reading file file:/*(/\S+)", str(error))
        if match is None:
            raise
        file = Path(unquote(match[1].rstrip(".")))
        fix = "repeat the command: it is made anew" if file.parent.name in TABLES else _DAMAGED_FIX
        raise MachineError(f"{file} cannot be read", fix) from None
    return rows.sort_values(list(order), kind="stable", ignore_index=True)
