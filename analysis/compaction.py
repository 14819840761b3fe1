"""Brings runs into the store on Spark's workers: each task reads, verifies and writes a part; the driver commits.

A few runs of a local session the driver brings in itself: workers take 1.7 s of processor time to start, while a run of
three tables and 5,000 histogram rows takes 3.3 ms either way.  In all processes together, 100 such runs took 0.4 s here
and 2.1 there, 2,000 took 6.5 and 8.2; the driver's memory peaked at 278 and 157 MiB.
"""

import shutil
import sys
import tempfile
from atexit import register
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from collectors.integrity import Damage, check_run
from collectors.store.hadoop import Place
from collectors.store.keeping import Write, write_here
from collectors.store.log import StoredPart
from collectors.store.parts import FromFolders, write_part
from core.errors import MachineError, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS_HERE = 2_000  # new runs that the driver of a local session brings in itself
PARTS_A_CORE = 2  # so that a core whose part was small has something left to do
_ROOT = Path(__file__).parents[1]
_SHIPPED = ("core", "collectors")


def writer(spark: "SparkSession", run_count: int) -> tuple[Write, int]:
    """Where so many new runs are best written, and in how many parts at least."""
    is_local = str(spark.sparkContext.master).startswith("local")
    if not run_count or (is_local and run_count <= RUNS_HERE):
        return write_here, 1

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers have what it imports, not this module

    def write(root: Place, groups: Mapping[str, Sequence[Path]]) -> list[StoredPart]:
        assert isinstance(root, Path), "workers write what is mounted there"
        context = spark.sparkContext
        if not is_local:
            context.addPyFile(str(_archive()))
        tasks = [(str(root.resolve()), name, list(map(str, folders))) for name, folders in groups.items()]
        written = context.parallelize(tasks, max(1, len(tasks))).map(_written).collect()
        return list(map(_part_of, written))

    return write, PARTS_A_CORE * spark.sparkContext.defaultParallelism


def _written(task: tuple[str, str, list[str]]) -> StoredPart | tuple[str, str]:
    """On a worker: the part of a task, or the folder that is damaged (or "") and what is wrong."""
    root, name, folders = task
    try:
        return write_part(Path(root), name, [FromFolders(map(Path, folders), check_run)])
    except Damage as damage:
        return str(damage.folder), damage.reason
    except (MachineError, OSError) as error:
        return "", described(error)


def _part_of(written: StoredPart | tuple[str, str]) -> StoredPart:
    if isinstance(written, StoredPart):
        return written
    folder, what = written
    if folder:
        raise Damage(Path(folder), what)
    raise MachineError(f"a worker of Spark cannot write the store: {what}", "free disk there, or let it write there")


@cache
def _archive() -> Path:
    """The code that workers of a cluster need for this, as a file that stays until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="ratebed-code-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "ratebed-store.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for file in sorted(file for name in _SHIPPED for file in (_ROOT / name).rglob("*.py")):
            archive.write(file, file.relative_to(_ROOT))
    return path
