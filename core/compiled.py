"""``njit`` for kernels: compiled once and kept on disk, in a folder named by the code.

Numba's cache notices changes of the decorated file alone, not of functions that it inlines from
elsewhere (``systems.parts.token_bucket``): old machine code would run under new run ids.  So the
folder's name is a hash of everything that a kernel can be made of, below ``NUMBA_CACHE_DIR``, too, if that is set.

And it numbers the files of a kernel's signatures.  Two processes that keep two of them at once give both the
same number; from then on one signature's machine code is run for the other: an integer is read as a float, and
nobody is told.  So each file has a name of its own.
"""

import hashlib
import os
import secrets
from pathlib import Path

import numba
from numba.core import caching

_ROOT = Path(__file__).resolve().parents[1]
_SOURCES = (
    "systems/parts/*.py",
    "systems/*/*_kernel.py",
    "workloads/*_kernel.py",
    "testbed/virtual/*_kernel.py",
    "studies/*/*_kernel.py",
    # whose constants kernels freeze
    "systems/limiting/queue_common.py",
    "core/units.py",
    "core/compiled.py",
)


def _cache_folder() -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    for pattern in _SOURCES:
        for path in sorted(_ROOT.glob(pattern)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    # A user who has run it as root, too, cannot write what root made; Numba would go by the file alone then.
    version = f"{digest.hexdigest()[:16]}-{os.getuid()}"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen, version)
    place = Path(".numba", version)
    there = next(folder for folder in (_ROOT / place.parent, _ROOT) if folder.exists())
    return (_ROOT if os.access(there, os.W_OK) else Path.home() / ".cache" / "ratebed") / place


numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]


class KernelFiles(caching.IndexDataCacheFile):
    """A kernel's index and its files of machine code.  What two processes keep at once is lost to one at worst."""

    def _data_name(self, number: int) -> str:
        return f"{secrets.token_hex(8)}-{super()._data_name(number)}"  # type: ignore[no-untyped-call]


caching.IndexDataCacheFile = KernelFiles  # type: ignore[misc]
njit = numba.njit
