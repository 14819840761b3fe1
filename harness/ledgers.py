"""Ledgers: files in ``results/`` that add up over sessions, of soaks and of the nemesis."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from core.errors import SpecError

Ledger = TypeVar("Ledger", bound=msgspec.Struct)


def read_ledger(path: Path, kind: type[Ledger], whose: str) -> Ledger:
    """An empty one where there is no file; SpecError for a file that is none of ``whose``."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: {error}", f"name a ledger of {whose}, or a new file") from None


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Of those who read a ledger, add to it and write it, one at a time: what another adds meanwhile would be lost.

    Its folder is locked, so that nothing is left beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
