"""``python -m testbed.servers.pulsar.build``: bring the pinned distribution of Apache Pulsar, and unpack it, once.

Maven fetches it into its own repository on this machine, where it stays for the next checkout; what it brought is
checked byte for byte, and unpacked in ``.pulsar/`` of the checkout.  245 MB to download, as much unpacked: so nobody
gets it who has not asked for it (``make live PULSAR=yes``).  Beside it bootstrap.sh puts Pulsar's client for Python.
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.capabilities import CHECKOUT, tool

VERSION = "4.0.8"
SIZE_BYTES = 245_494_718
SHA512 = (
    "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
    "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6"
)
CACHE = CHECKOUT / ".pulsar"
HOME = CACHE / f"apache-pulsar-{VERSION}"  # once it is unpacked
CLIENT = CACHE / "client"  # the packages of requirements-pulsar.lock, a folder for Python's path
FIX = "make live PULSAR=yes"
FETCH_TIMEOUT_S = 1200  # 24 s where the line is good
_ARTIFACT = f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin"
_MAVEN = "apt-get install --no-install-recommends maven"
_OFFLINE = "the first time needs access to Maven's packages; see testbed/servers/pulsar/README.md"
_PART_BYTES = 1 << 20


def unpacked() -> Path:
    """The distribution; MachineError where it cannot be had."""
    if not HOME.is_dir():
        maven = tool("mvn")
        if maven is None:
            raise MachineError("no Maven: Pulsar cannot be fetched", _MAVEN)
        CACHE.mkdir(parents=True, exist_ok=True)
        # Made aside and renamed: of two that fetch at once one is first, and both are right.
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".making-") as aside:
            with tarfile.open(_fetched(maven, Path(aside))) as archive:
                archive.extractall(aside, filter="data")
            try:
                Path(aside, HOME.name).rename(HOME)
            except OSError:
                if not HOME.is_dir():
                    raise
    return HOME


def _fetched(maven: str, folder: Path) -> Path:
    """The archive, in ``folder``; MachineError where Maven brings none, or another than the one that is pinned."""
    words = ["-q", "-B", "-ntp", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(
            [maven, *words],
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
    (archive,) = [*folder.glob("*.tar.gz")] or [folder / "nothing"]
    if not archive.is_file() or archive.stat().st_size != SIZE_BYTES or _sha512(archive) != SHA512:
        what = f"Maven brought another archive than the {SIZE_BYTES} bytes of Pulsar {VERSION} that are pinned"
        raise MachineError(what, "remove its copy from Maven's repository (~/.m2), and ask who changed it")
    return archive


def _sha512(file: Path) -> str:
    digest = hashlib.sha512()
    with file.open("rb") as content:
        while part := content.read(_PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


def find_client() -> Path | None:
    """Where Pulsar's client for Python is, if it is for this Python."""
    return CLIENT if any(CLIENT.glob(f"_pulsar.cpython-{sys.version_info[0]}{sys.version_info[1]}-*.so")) else None


def find_pulsar() -> str | None:
    """The distribution, if its client is here too."""
    return str(HOME) if HOME.is_dir() and find_client() else None


if __name__ == "__main__":
    print(unpacked())
