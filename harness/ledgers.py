"""Ledgers: files in ``results/`` that add up over sessions, of soaks and of the nemesis."""

from pathlib import Path
from typing import TypeVar

import msgspec

from core.reading import reading

Ledger = TypeVar("Ledger", bound=msgspec.Struct)


def read_ledger(path: Path, kind: type[Ledger], whose: str) -> Ledger:
    """An empty one where there is no file; SpecError for a file that is none of ``whose``."""
    with reading(str(path), f"name a ledger of {whose}, or a new file"):
        return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else kind()
