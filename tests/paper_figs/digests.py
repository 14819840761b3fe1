"""The papers' digests, which stand beside the checkout; a test that needs one is skipped where there are none."""

from pathlib import Path
from types import ModuleType

import pytest

PAPERS = Path(__file__).resolve().parents[3] / "shared" / "papers"


def digest(name: str) -> str:
    """A digest as one line, without the marks of emphasis."""
    path = PAPERS / name
    if not path.is_file():
        pytest.skip(f"the digest {name} is not beside this checkout, in {Path('..') / 'shared' / 'papers'}")
    return " ".join(path.read_text().replace("**", "").split())


def numbers_of(module: ModuleType) -> set[str]:
    """The names of a module's published numbers: all of its constants."""
    return {name for name in vars(module) if name.isupper()}
