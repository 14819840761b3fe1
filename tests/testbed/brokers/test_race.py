"""The live broker's own tests under Go's race detector: they compute, and may do so beside others (not ``live``)."""

import os
import shutil
import subprocess

import pytest

from testbed import golang
from testbed.brokers.brokerd import build
from tests import live

pytestmark = [live.needs("go"), pytest.mark.slow, pytest.mark.long]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the race detector wants a C compiler")
def test_the_go_tests_pass_under_the_race_detector() -> None:
    command = [golang.find_go(), "test", "-race", "-count=2", "./..."]
    environment = {**os.environ, "CGO_ENABLED": "1", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    result = subprocess.run(command, cwd=build.SOURCES, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr
