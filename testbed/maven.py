"""A pinned file that Maven fetches: into its own repository on this machine, where it stays for the next checkout."""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.capabilities import tool

FETCH_TIMEOUT_S = 1200  # 24 s for 245 MB where the line is good
_MAVEN = "apt-get install --no-install-recommends maven"
_OFFLINE = "the first time needs access to Maven's packages"


@dataclass(frozen=True)
class Artifact:
    """What Maven calls ``group:name:version[:type[:classifier]]``, and of which bytes it is."""

    coordinates: str
    size_bytes: int
    sha512: str

    def fetched(self, folder: Path) -> Path:
        """The file, in ``folder``; MachineError where Maven brings none, or another than the one that is pinned."""
        maven = tool("mvn")
        if maven is None:
            raise MachineError(f"no Maven: {self.coordinates} cannot be fetched", _MAVEN)
        copy = ["dependency:copy", f"-Dartifact={self.coordinates}", f"-DoutputDirectory={folder}"]
        try:
            done = subprocess.run(
                [maven, "-q", "-B", "-ntp", *copy],
                cwd=folder,  # no project is meant
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FETCH_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise MachineError(f"mvn was not through in {FETCH_TIMEOUT_S} s", _OFFLINE) from None
        if done.returncode:
            raise MachineError(f"mvn failed: {' '.join((done.stdout + done.stderr).split())[-500:]}", _OFFLINE)
        _, name, version, *_ = self.coordinates.split(":")
        (file,) = [*folder.glob(f"{name}-{version}*")] or [folder / "nothing"]
        if not file.is_file() or file.stat().st_size != self.size_bytes or _sha512(file) != self.sha512:
            what = f"Maven brought another file than the {self.size_bytes} bytes of {name} {version} that are pinned"
            raise MachineError(what, "remove its copy from Maven's repository (~/.m2), and ask who changed it")
        return file


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
