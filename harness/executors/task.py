"""A task on a worker, which looks at code and environment before it imports anything of ours.

Functions of this module are sent to workers by value.  So it imports nothing of ours at its top, and what it imports
of ours, in ``carry_out``, comes from the archive that it has just looked at.
"""

import hashlib
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

    from harness.executors.orders import Errand, Order, Told

_SHOWN = 16  # letters of a hash


def contents(root: Path) -> dict[str, bytes]:
    """Relative path -> bytes of the files below ``root``; what Python and Numba leave there is none of them."""
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    kept = (file for file in files if not any(part == "__pycache__" or part.startswith(".") for part in file.parts))
    return {file.as_posix(): (root / file).read_bytes() for file in kept}


def digest_of_tree(files: Mapping[str, bytes]) -> str:
    """One SHA-256 of names and bytes."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name}\0{hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return whole.hexdigest()


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """Of Python, of the processor's architecture and of these installed packages; "none" of one that is not there."""
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for name in libraries:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return versions


def differing(root: Path, order: "Order") -> str:
    """What is not on this worker as it is where the campaign was begun; empty: it may compute."""
    here = digest_of_tree(contents(root))
    if here != order["digest"]:
        return f"the code there has the hash {here[:_SHOWN]}, here it is {order['digest'][:_SHOWN]}"
    there = versions_of(name for name in order["versions"] if name not in ("python", "machine"))
    others = [
        f"{name} {there[name]}, here it is {own}" for name, own in order["versions"].items() if there[name] != own
    ]
    return f"it has {'; '.join(others)}" if others else ""


def _import_from(root: Path) -> None:
    """From now on what is imported of ours comes from there, even if a query has brought it from elsewhere."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
        ours = {path.name for path in root.iterdir() if path.is_dir()}
        for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
            del sys.modules[name]


def carry_out(order: "Order", batch: "list[Errand]", is_suspect: bool, home: "Accumulator[list[Told]]") -> None:
    """Carry out runs on this worker, and send home what came of each.

    ``is_suspect``: a worker has ended over these runs before, as it has where Spark tries a task again.
    """
    from pyspark import SparkFiles, TaskContext

    root = Path(SparkFiles.get(order["archive"])).resolve()
    context = TaskContext.get()
    assert context is not None
    if refused := differing(root, order):
        home.add([{"refused": refused, "host": platform.node()}])
        return
    _import_from(root)
    from harness.executors import worker

    home.add(worker.carry_out(root, order, batch, is_suspect or context.attemptNumber() > 0))
