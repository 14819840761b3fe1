"""Tables of a figure that need no Spark, and its drawing: the very same code made them from the very same runs.

Whatever else may change what comes out voids them: any file of the tree but other figures', a library's version, a run
that was made anew, a file that is not as it was written.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from core.digests import digest_of
from core.errors import MachineError
from core.records import Json
from core.registry import known
from harness.code_version import ROOT, imported
from paper_figs import FIGURES
from paper_figs.saving import drawn_files
from ratebed.pipeline import figure_folders, section_of, tables_of

if TYPE_CHECKING:
    from analysis.verdicts import Tables

ORIGIN = "origin"  # the section's key
DRAWING = "drawing"  # another one: file -> SHA-256 of what was drawn, and under ``LOOK`` what else that hangs on
LOOK = "look"
_TREE = ("core", "collectors", "systems", "workloads", "testbed", "studies", "harness", "analysis")
_SAVED_BY = ("paper_figs.saving", "paper_figs.sheets")  # of paper_figs, these and what the figure imports
_LIBRARIES = ("numpy", "pandas", "pyarrow", "pyspark", "scipy")
_DRAW = ("matplotlib", "seaborn")


def note_code(keys: Iterable[str]) -> None:
    """Have the code looked at that makes these figures' tables: now, while it is what was imported."""
    for key in keys:
        _code(key)


def origin_of(seals: Mapping[str, str], key: str) -> str:
    """What this figure's tables of these runs, by this code, are made from: a digest.

    ``seals``: run id -> its manifest's digest.
    """
    return digest_of("\n".join([_code(key), *(f"{run_id} {seals[run_id]}" for run_id in sorted(seals))]).encode())


def kept_tables(out: Path, name: str, origin: str) -> "Tables | None":
    """The tables of a figure by its name, if they are there as they were written, and of this origin."""
    folder = out / "tables" / name
    if folder not in figure_folders(out):
        return None
    try:
        section = section_of(folder)
    except MachineError as damage:
        print(f"damaged: {damage.what}; made anew", flush=True)
        return None
    return tables_of(out, name) if section.get(ORIGIN) == origin and not section["skipped"] else None


def look_of(footnotes: Sequence[str]) -> str:
    """What a drawing hangs on beside its tables: a digest."""
    return digest_of("\n".join([*footnotes, *(f"{name} {version(name)}" for name in _DRAW)]).encode())


def kept_drawing(out: Path, name: str, look: str) -> Json | None:
    """The section of a figure whose tables are kept, if its drawing is there as it was written, and looks so."""
    section = section_of(out / "tables" / name)
    for what in drawing_damage(out, section).values():
        print(f"damaged: {what}", flush=True)
    is_whole = [*drawing_of(out, section)] == [path.name for path in drawn_files(out / "figures", name)]
    return section if is_whole and section[DRAWING].get(LOOK) == look else None


def drawing_of(out: Path, section: Json) -> dict[str, bytes]:
    """The files of a figure's drawing that are there as they were written, by name: what every reader shows."""
    paths = (path for path in drawn_files(out / "figures", section["name"]) if path.is_file())
    contents = {path.name: path.read_bytes() for path in paths}
    return {name: content for name, content in contents.items() if digest_of(content) == section[DRAWING].get(name)}


def drawing_damage(out: Path, section: Json) -> dict[str, str]:
    """The files of a figure's drawing that are not as they were written, or gone, and what is said of each."""
    lost = sorted(section[DRAWING].keys() - {LOOK} - drawing_of(out, section).keys())
    return {name: said_of_lost(name, section) for name in lost}


def said_of_lost(file: str, section: Json) -> str:
    """Of a file of a figure's drawing that is not shown."""
    return f"figures/{file} is gone, or not as it was written: `{section['command']}` draws it anew"


@cache
def _code(key: str) -> str:
    """A digest of the files that a figure, of the tree or of a package, may hang on, and of what they run on."""
    figure = known("figure", FIGURES).get(key, "")  # those of files are made anew each time
    modules = imported((figure, *_SAVED_BY), ROOT).items()
    versions = [platform.python_version(), *(f"{name} {version(name)}" for name in _LIBRARIES)]
    return digest_of("\n".join([*_tree(), *(f"{path} {digest}" for path, digest in modules), *versions]).encode())


@cache
def _tree() -> list[str]:
    every = (path for name in _TREE for path in (ROOT / name).rglob("*"))
    files = sorted(path for path in every if "__pycache__" not in path.parts and path.is_file())
    return [f"{path.relative_to(ROOT)} {digest_of(path.read_bytes())}" for path in files]
