"""A standalone Spark cluster of two workers, each in PID and mount namespaces and a working folder of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

from core.java import find_java

ROOT = Path(__file__).parents[3]
LOOPBACK = "127.0.0.1"
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
# Room for two executors and a driver beside other tests; the first compiler alone, as for all that is short.
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=128m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
CONF = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "4",
}
WAIT_S = 120.0  # for what takes seconds, on a machine that is busy


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

    def __init__(self, folder: Path):
        self.folder = folder
        self.master = ""

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
def cluster(folder: Path) -> Iterator[Cluster]:
    """A master and two workers, on ports that are free."""
    made = Cluster(folder)
    with ExitStack() as stack:
        log = stack.enter_context(_daemon(made, [], "master", ["Master", "--webui-port", "0"]))
        made.master = _said(log, r"Starting Spark master at (spark://\S+)")
        for name in ("worker-1", "worker-2"):
            words = ["Worker", "--cores", "1", "--memory", "768m", "--work-dir", str(folder / name), made.master]
            log = stack.enter_context(_daemon(made, APART, name, [*words, "--webui-port", "0"]))
            _said(log, "Successfully registered with master")
        yield made


@contextmanager
def _daemon(made: Cluster, before: list[str], name: str, words: list[str]) -> Iterator[Path]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": QUICK,
    }  # fmt: skip
    environment.pop("PYTHONPATH", None)  # workers know nothing of this checkout
    where, log = made.folder / name, made.folder / f"{name}.log"
    where.mkdir()
    command = [*before, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0].lower()}.{words[0]}"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, *words[1:], "--host", LOOPBACK, "--port", "0"],
            cwd=where, env=environment, stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # and with unshare, its namespace
        process.wait()


def _said(log: Path, pattern: str) -> str:
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        if match := re.search(pattern, log.read_text()):
            return match[match.lastindex or 0]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} says nothing of {pattern!r}: {log.read_text()[-2000:]}")


def ratebed(
    out: Path, *words: str, folder: Path = ROOT, before: Sequence[str] = (), module: Sequence[str] = ("-m", "ratebed")
) -> subprocess.Popen[str]:
    """The command line in a folder, as a user has it."""
    return subprocess.Popen(
        [*before, sys.executable, *module, *words, "--out", str(out)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
