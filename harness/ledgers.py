"""Ledgers: files in ``results/`` that add up over sessions, of soaks and of the nemesis."""

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
