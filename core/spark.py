"""What Spark's Java says, at length, of a job that failed: whose fault it was, in one line."""

import errno
import os
import re
import tempfile

from core.errors import MachineError, one_line

ENVIRONMENT_FIX = "give its workers the environment of this machine: docs/cluster.md"
_NO_ROOM = os.strerror(errno.ENOSPC)  # Java's words, too
_TASK = re.compile(r".*most recent failure: Lost task.*? \((\S+) executor (\w+)\): ")
_OTHER_PYTHON = re.compile(r"different version: (\S+) than that in driver: (\S+?),")
_OTHER_ENVIRONMENT = re.compile(r"ModuleNotFoundError|Cannot run program")
_ENDED = re.compile(r"SparkContext was shut ?down|stopped SparkContext|Python worker exited|ExecutorLostFailure")


def machines_part(error: Exception) -> MachineError | None:
    """What the machine, or a cluster's, has done to the job; None where Spark tells of nothing of the kind."""
    text, host = str(error), _host(error)
    there = f"{host}: " if host else ""
    if other := _OTHER_PYTHON.search(text):
        return MachineError(f"{there}the workers have Python {other[1]}, here it is {other[2]}", ENVIRONMENT_FIX)
    if _NO_ROOM in text:
        where, setting = (host, "its workers' spark.local.dir") if host else (tempfile.gettempdir(), "TMPDIR")
        fix = f"free disk space there, or set {setting} to another folder; finished runs stay"
        return MachineError(f"Spark cannot write to {where}: {_NO_ROOM}", fix)
    if host and _OTHER_ENVIRONMENT.search(text):
        return MachineError(f"Spark gave up: {reason_of(error)}", ENVIRONMENT_FIX)
    if _ENDED.search(text):
        return MachineError(f"Spark gave up: {reason_of(error)}", "Spark's logs say more; finished runs stay")
    return None


def reason_of(error: Exception) -> str:
    """What went wrong in the task that failed last, and on which host of a cluster: of a traceback, its end."""
    lines = [*filter(None, map(str.strip, re.split(r"\n\s*(?:at |Driver stacktrace)", str(error))[0].splitlines()))]
    host, reason = _host(error), _TASK.sub("", lines[-1]) if lines else type(error).__name__
    return one_line(f"{host}: {reason}" if host else reason, 160)


def _host(error: Exception) -> str:
    """Where the task was that failed last; empty: here."""
    task = _TASK.search(str(error))
    return task[1] if task and task[2] != "driver" else ""
