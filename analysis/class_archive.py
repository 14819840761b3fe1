"""``python -m analysis.class_archive``: keep the classes that Spark loads as Java has them in memory, for all sessions.

Spark's classes are thousands, in 300 jars.  Java keeps what it has loaded when it ends (class data sharing), and maps
the file into memory the next time: a third less processor time until the first answer, a quarter less with the second,
a figure's.  A file that another Java made, or of other jars, it leaves aside: then all is as without.
"""

import tempfile
from pathlib import Path

from analysis.spark import ARCHIVE, JAVA_OPTIONS, SHORT_WORK, session
from analysis.tables import Data, collect
from core.errors import MachineError

WRITING_S = 300  # at most; it takes 15


def make(archive: Path = ARCHIVE) -> None:
    """Write ``archive``, whole or not at all.  MachineError where Java writes none."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        settings = {JAVA_OPTIONS: f'{SHORT_WORK} "-XX:ArchiveClassesAtExit={made}"'}
        _use(Path(folder), settings)
        if not made.is_file():
            raise MachineError(
                "Java has kept no classes", "go on without: another Java may, and a full disk can be why"
            )
        made.replace(archive)


def _use(folder: Path, settings: dict[str, str]) -> None:
    """Ask a session what figures ask, of tables without rows, and see its Java end."""
    from pyspark import SparkContext
    from pyspark.sql import functions as F

    spark = session(settings=settings)
    gateway = SparkContext._gateway
    assert gateway is not None
    data = Data(spark, ())
    data.runs.write.parquet(str(folder / "runs"))
    read = spark.read.schema(data.runs.schema).parquet(str(folder / "runs")).cache()
    collect(read.join(F.broadcast(data.runs), "run_id"), ["run_id"])
    spark.stop()
    gateway.proc.stdin.close()  # Java ends, and writes
    try:
        gateway.proc.wait(WRITING_S)
    finally:
        gateway.proc.kill()


if __name__ == "__main__":
    make()
