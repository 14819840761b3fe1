"""A standalone Spark cluster of two workers, each in PID and mount namespaces and a working folder of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.standalone import LOOPBACK, QUICK, standalone

ROOT = Path(__file__).parents[3]
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
# Room for two executors and a driver beside other tests.
CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "4",
}


def why_not() -> str:
    """What such a cluster lacks here; empty: nothing."""
    if os.geteuid() != 0:
        return "namespaces for process ids want root"
    if not shutil.which("unshare"):
        return "there is no unshare (util-linux)"
    if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
        return "this machine lets nobody make namespaces for process ids"
    return ""


class Cluster:
    """A running cluster."""

    def __init__(self, folder: Path, master: str):
        self.folder, self.master = folder, master

    @property
    def words(self) -> list[str]:
        """Of a command whose runs it shall execute."""
        conf = [word for key, value in CONF.items() for word in ("--spark-conf", f"{key}={value}")]
        return ["--executor", "spark", "--spark-master", self.master, *conf]

    def executors(self) -> list[psutil.Process]:
        """The executors' processes, as they are seen from here."""
        return [one for one in _family() if "CoarseGrainedExecutorBackend" in " ".join(_command(one))]

    def unpacked(self) -> list[Path]:
        """The folders into which executors have unpacked an archive."""
        return sorted(path for path in self.folder.glob("worker-*/app-*/*/ratebed-*") if path.is_dir())


def _family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def cluster(folder: Path, hidden: Path | None = None) -> Iterator[Cluster]:
    """A master and two workers, on ports that are free; in place of ``hidden`` workers see a folder of their own."""
    apart = APART if hidden is None else [*APART, "sh", "-c", f'mount -t tmpfs none {hidden} && exec "$@"', "sh"]
    with standalone(folder, before=apart) as master:
        yield Cluster(folder, master)


def ratebed(
    out: Path, *words: str, folder: Path = ROOT, before: Sequence[str] = (), module: Sequence[str] = ("-m", "ratebed")
) -> subprocess.Popen[str]:
    """The command line in a folder, as a user has it."""
    return subprocess.Popen(
        [*before, sys.executable, *module, *words, "--out", str(out)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
