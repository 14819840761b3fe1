"""The papers' digests, which stand beside the checkout; a test that needs one is skipped where there are none."""

from pathlib import Path
from types import ModuleType

import pytest

PAPERS = Path(__file__).resolve().parents[3] / "shared" / "papers"


def paper(name: str) -> str:
    """A paper or a digest, as it is."""
    path = PAPERS / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside this checkout, in {Path('..') / 'shared' / 'papers'}")
    return path.read_text()


def digest(name: str) -> str:
    """A digest, or a paper, as one line, without the marks of emphasis."""
    return " ".join(paper(name).replace("**", "").split())


def numbers_of(module: ModuleType) -> set[str]:
    """The names of a module's published numbers: all of its constants."""
    return {name for name in vars(module) if name.isupper()}
