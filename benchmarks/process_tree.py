"""Memory of processes: our own peak, and that of everything a command starts."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import psutil

SAMPLE_S = 0.5
MIB = 2**20


def own_peak_mib() -> float:
    """The largest resident set that this process ever had, MiB.

    Linux passes ``ru_maxrss`` on from the parent through fork and exec; ``VmHWM`` starts anew.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MIB if sys.platform == "darwin" else peak * 1024 / MIB


def watch(command: Sequence[str]) -> tuple[float, float]:
    """Run ``command``: (wall-clock seconds, peak over time of the tree's summed resident sets in MiB).

    Sampled every ``SAMPLE_S``: shorter peaks are missed; a page that processes share counts once for
    each.  Raises CalledProcessError if the command fails.
    """
    began, peak = perf_counter(), 0.0
    with subprocess.Popen(command) as running:
        root = psutil.Process(running.pid)
        while True:
            peak = max(peak, _tree_mib(root))
            try:
                status = running.wait(SAMPLE_S)
                break
            except subprocess.TimeoutExpired:
                continue
    if status:
        raise subprocess.CalledProcessError(status, command)
    return perf_counter() - began, peak


def _tree_mib(root: psutil.Process) -> float:
    """The sum now; processes that end meanwhile count nothing."""
    total = 0
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    for process in processes:
        try:
            total += process.memory_info().rss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / MIB
