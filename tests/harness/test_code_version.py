"""What voids results and what does not: a byte of every kind of file is edited, in a copied tree."""

import shutil
from pathlib import Path

import pytest

from harness.code_version import ROOT, code_hash
from tests.tidy import tracked_files

HASHED = ("core", "systems", "workloads", "testbed", "studies", "collectors", "harness")
IDLE = {".md", ".json", ".rb", ".sh", ""}  # for people; test vectors; what makes machines and images


def kinds() -> list[Path]:
    """One tracked file of each kind in each folder whose code makes results."""
    firsts: dict[tuple[str, str], Path] = {}
    for path in (path.relative_to(ROOT) for path in tracked_files()):
        if path.parts[0] in HASHED:
            firsts.setdefault((path.parts[0], path.suffix), path)
    return [*firsts.values(), Path("requirements.lock")]


KINDS = kinds()
COUNT = [path for path in KINDS if path.suffix not in IDLE]
NEVER = [path for path in KINDS if path.suffix in IDLE]
NEVER += [Path("harness/campaign.py"), Path("paper_figs/style.py"), Path("analysis/metrics.py"), Path("README.md")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in {*COUNT, *NEVER}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def hash_of(tree: Path) -> str:
    return code_hash.__wrapped__(tree)  # not the one that is remembered


def test_the_kinds_are_those_that_the_tree_has() -> None:
    assert {path.suffix for path in COUNT} == {".py", ".toml", ".csv", ".go", ".mod", ".sum", ".lock"}
    assert {path.parts[0] for path in COUNT} == {*HASHED, "requirements.lock"}


@pytest.mark.parametrize("path", COUNT, ids=str)
def test_a_byte_of_it_voids_results(tree: Path, path: Path) -> None:
    before = hash_of(tree)
    text = bytearray((tree / path).read_bytes() or b" ")
    text[-1] ^= 1
    (tree / path).write_bytes(text)
    assert hash_of(tree) != before


@pytest.mark.parametrize("path", NEVER, ids=str)
def test_a_byte_of_it_voids_nothing(tree: Path, path: Path) -> None:
    before = hash_of(tree)
    (tree / path).write_bytes((tree / path).read_bytes() + b" ")
    assert hash_of(tree) == before


def test_so_do_its_name_and_its_folder(tree: Path) -> None:
    before = hash_of(tree)
    path = tree / next(path for path in COUNT if path.suffix == ".csv")
    path.rename(path.with_name("renamed.csv"))
    assert hash_of(tree) != before


def test_two_copies_of_a_tree_are_one_version(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other") / "tree"
    shutil.copytree(tree, other)
    assert hash_of(other) == hash_of(tree)
