"""S3 on this machine: VersityGW, which serves a folder, and the jars with which Hadoop's client, S3A, asks it.

``python -m tests.collectors.s3.server`` builds the one and brings the others (19 MB) into ``.s3/`` of the checkout.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.digests import digest_of
from core.errors import MachineError
from testbed.golang import CHECKOUT, GoModule
from testbed.maven import fetch_jars
from testbed.servers.server import port_on
from tests.collectors.hdfs import forget_java
from tests.live import demanded

SOURCES = Path(__file__).parent
MODULE = GoModule(SOURCES / "go.mod", CHECKOUT / ".s3")
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
BINARY = MODULE.program("versitygw")  # once it is built
JARS = CHECKOUT / ".s3" / digest_of((SOURCES / "jars.sha256").read_bytes())[:16]
LOOPBACK, BUCKET = "127.0.0.1", "ratebed"
_USER, _SECRET = "ratebed", "not-a-secret"
_START_S = 60.0


def needs_s3() -> pytest.MarkDecorator:
    """Skip where it is not here; where it must be (``RATEBED_NEEDS``), MachineError."""
    reason = "this machine has no S3 (RATEBED_NEEDS=s3 ./bootstrap.sh test)"
    is_here = BINARY.is_file() and JARS.is_dir()
    if not is_here and "s3" in demanded():
        raise MachineError("tests of S3 must not be skipped here", reason)
    return pytest.mark.skipif(not is_here, reason=reason)


@dataclass(frozen=True)
class S3:
    """A server with one bucket."""

    port: int
    log: Path
    process: subprocess.Popen[bytes]
    jars = f"{JARS}/*"

    @property
    def url(self) -> str:
        """Of the bucket."""
        return f"s3a://{BUCKET}"

    @property
    def settings(self) -> dict[str, str]:
        """Of Hadoop's, by which S3A reaches it."""
        return {
            "fs.s3a.endpoint": f"http://{LOOPBACK}:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": _USER,
            "fs.s3a.secret.key": _SECRET,
            "fs.s3a.attempts.maximum": "3",
            "fs.s3a.retry.limit": "2",
        }

    def stop(self) -> None:
        """Nobody answers any more."""
        self.process.kill()
        self.process.wait()

    def asked(self) -> list[str]:
        """The methods of all requests so far: ``PUT``, ``GET``, …"""
        lines = (line.split(" | ") for line in self.log.read_text().splitlines())
        return [words[5] for words in lines if len(words) > 6 and words[5].isalpha()]


@contextmanager
def s3(folder: Path) -> Iterator[S3]:
    """One whose data are in ``folder``; inside, Java that is asked for paths has its jars."""
    port = port_on(LOOPBACK, 1)  # none that a connection may take before it listens
    (folder / "data" / BUCKET).mkdir(parents=True)
    log = folder / "log"
    words = ["--access", _USER, "--secret", _SECRET, "--port", f"{LOOPBACK}:{port}", "posix", str(folder / "data")]
    with log.open("w") as file:
        server = subprocess.Popen([str(BINARY), *words], stdout=file, stderr=file, cwd=folder)
    before = os.environ.get("HADOOP_CLASSPATH")
    running = S3(port, log, server)
    try:
        _wait_for(port, log)
        os.environ["HADOOP_CLASSPATH"] = running.jars
        forget_java()
        yield running
    finally:
        running.stop()
        os.environ.pop("HADOOP_CLASSPATH", None)
        if before is not None:
            os.environ["HADOOP_CLASSPATH"] = before
        forget_java()


def _wait_for(port: int, log: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"versitygw does not answer: {log.read_text()[-500:]}")


def _brought() -> None:
    MODULE.built("versitygw", PACKAGE)
    if not JARS.is_dir():
        with tempfile.TemporaryDirectory(dir=JARS.parent) as aside:
            fetch_jars(SOURCES, Path(aside, "jars"))
            shutil.move(Path(aside, "jars"), JARS)


if __name__ == "__main__":
    _brought()
    print(BINARY)
