"""A standalone Spark cluster on loopback: a master and workers of one core each, in processes of ours."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from core.java import find_java

LOOPBACK = "127.0.0.1"
# The first compiler alone, as for all that is short: for daemons, and for executors of short work.
QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=128m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
WAIT_S = 120.0  # for what takes seconds, on a machine that is busy


@contextmanager
def standalone(folder: Path, workers: int = 2, memory: str = "768m", before: Sequence[str] = ()) -> Iterator[str]:
    """The URL of a master whose ``workers``, each with ``memory``, have registered, on ports that are free.

    ``before``: words before each worker's command, such as ``unshare``.  Logs, and a working folder a worker, are in
    ``folder``.  AssertionError where one does not start.
    """
    with ExitStack() as stack:
        log = stack.enter_context(_daemon(folder, "master", [], ["Master"]))
        master = _said(log, r"Starting Spark master at (spark://\S+)")
        for name in (f"worker-{number}" for number in range(1, workers + 1)):
            words = ["Worker", "--cores", "1", "--memory", memory, "--work-dir", str(folder / name), master]
            log = stack.enter_context(_daemon(folder, name, before, words))
            _said(log, "Successfully registered with master")
        yield master


@contextmanager
def _daemon(folder: Path, name: str, before: Sequence[str], words: Sequence[str]) -> Iterator[Path]:
    """The log of a master or worker that runs; it is killed at the end, with all that it started."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": QUICK,
    }  # fmt: skip
    environment.pop("PYTHONPATH", None)  # workers know nothing of this checkout
    where, log = folder / name, folder / f"{name}.log"
    where.mkdir()
    kind = f"org.apache.spark.deploy.{words[0].lower()}.{words[0]}"
    command = [*before, str(home / "bin" / "spark-class"), kind, *words[1:], "--host", LOOPBACK, "--port", "0"]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "--webui-port", "0"],
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
