"""``python -m testbed.servers.pulsar.build``: bring the pinned distribution of Apache Pulsar, and unpack it, once.

Maven fetches it into its own repository on this machine, where it stays for the next checkout; what it brought is
checked byte for byte, and unpacked in ``.pulsar/`` of the checkout.  245 MB to download, as much unpacked: so nobody
gets it who has not asked for it (``make live PULSAR=yes``).  Beside it bootstrap.sh puts Pulsar's client for Python.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

from testbed.hosts.capabilities import CHECKOUT
from testbed.making import made_once
from testbed.maven import Artifact

VERSION = "4.0.8"
DISTRIBUTION = Artifact(
    f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin",
    size_bytes=245_494_718,
    sha512=(
        "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
        "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6"
    ),
)
CACHE = CHECKOUT / ".pulsar"
HOME = CACHE / f"apache-pulsar-{VERSION}"  # once it is unpacked
CLIENT = CACHE / "client"  # the packages of requirements-pulsar.lock, a folder for Python's path
FIX = "make live PULSAR=yes"


def unpacked() -> Path:
    """The distribution; MachineError where it cannot be had."""
    return made_once(HOME, _unpack)


def _unpack(made: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir=made.parent) as fetched,
        tarfile.open(DISTRIBUTION.fetched(Path(fetched))) as archive,
    ):
        # Its bytes are pinned.  Debian 12's Python, 3.11.2, has no filters yet.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(made.parent)


def find_client() -> Path | None:
    """Where Pulsar's client for Python is, if it is for this Python."""
    return CLIENT if any(CLIENT.glob(f"_pulsar.cpython-{sys.version_info[0]}{sys.version_info[1]}-*.so")) else None


def find_pulsar() -> str | None:
    """The distribution, if its client is here too."""
    return str(HOME) if HOME.is_dir() and find_client() else None


if __name__ == "__main__":
    print(unpacked())
