"""``python -m analysis.class_archive``: keep the classes that Spark loads as Java has them in memory, for all sessions.

Spark's classes are thousands, in 300 jars.  Java keeps what it has loaded when it ends (class data sharing), and maps
the file into memory the next time: a third less processor time until the first answer, a quarter less with the second,
a figure's.  A file that another Java made, or of other jars, it leaves aside: then all is as without.
"""

import sys
import tempfile
from pathlib import Path

from analysis.spark import ARCHIVE, JAVA_OPTIONS, SHORT_WORK, session
from analysis.tables import Data, collect

KEEPS_NONE = 3  # the exit code that bootstrap.sh knows: to try again is of no use
WRITING_S = 300  # at most; it takes 15


def make(archive: Path = ARCHIVE) -> bool:
    """Write ``archive``, whole or not at all; False where Java keeps nothing."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        settings = {JAVA_OPTIONS: f'{SHORT_WORK} "-XX:ArchiveClassesAtExit={made}"'}
        _use(Path(folder), settings)
        if made.is_file():
            made.replace(archive)
            return True
    return False


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


if __name__ == "__main__" and not make():
    print("Java has kept no classes: another Java may, and a full disk can be why", file=sys.stderr)
    sys.exit(KEEPS_NONE)
