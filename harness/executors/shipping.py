"""The code that runs need, as one archive: the same files give the same bytes."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from harness.code_version import ROOT, SHIPPED, commit
from harness.executors.task import contents, digest_of_tree

FOLDERS = ("core", "systems", "workloads", "testbed", "studies", "collectors", "harness")
FILES = ("requirements.lock",)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first instant of a ZIP file
_READABLE = 0o100644 << 16
_archives: dict[str, "Archive"] = {}  # of this process, by digest


class Archive(NamedTuple):
    """A ZIP file, the name of the folder that it becomes, and the digest of what is in it."""

    path: Path
    name: str
    digest: str


def shipped_files(root: Path = ROOT) -> dict[str, bytes]:
    """What goes to workers, by its path: the code of runs with its data, and which commit it is."""
    folders = {f"{folder}/{name}": data for folder in FOLDERS for name, data in contents(root / folder).items()}
    return {
        **folders,
        **{name: (root / name).read_bytes() for name in FILES if (root / name).is_file()},
        SHIPPED: commit().encode(),
    }


def packed(files: dict[str, bytes], folder: Path) -> Archive:
    """An archive of ``files`` in ``folder``."""
    digest = digest_of_tree(files)
    name = f"ratebed-{digest[:16]}"
    path = folder / f"{name}.zip"
    with ZipFile(path, "w") as archive:
        for file in sorted(files):
            entry = ZipInfo(file, _EPOCH)
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, _READABLE
            archive.writestr(entry, files[file])
    return Archive(path, name, digest)


def code_archive() -> Archive:
    """The archive of this checkout as it is now, kept until this process ends: workers that come late fetch it, too.

    The same code is the same file: to its workers Spark serves one of each name, and refuses a second.
    """
    files = shipped_files()
    digest = digest_of_tree(files)
    if digest not in _archives:
        folder = Path(tempfile.mkdtemp(prefix="ratebed-code-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _archives[digest] = packed(files, folder)
    return _archives[digest]
