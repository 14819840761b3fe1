"""What holds for every process of ours from its first import on."""

import os
import subprocess
import sys

import pytest

LOOK = "import {}, numpy, os; print(os.environ['OPENBLAS_NUM_THREADS'], len(os.listdir('/proc/self/task')))"
MODULES = ["testbed.nodes.host", "studies.limiting.users", "testbed.brokers.subscribe_host"]


def threads(module: str, **chosen: str) -> tuple[str, str]:
    """How many threads linear algebra is told to have in a process that imports this, and how many it has in all."""
    ours = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(module)], capture_output=True, text=True, env=ours | chosen
    )
    told, there = done.stdout.split()
    return told, there


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
@pytest.mark.parametrize("module", MODULES)
def test_linear_algebra_has_one_thread_unless_somebody_chose(module: str) -> None:
    assert threads(module) == ("1", "1")
    assert threads(module, OPENBLAS_NUM_THREADS="2")[0] == "2"
