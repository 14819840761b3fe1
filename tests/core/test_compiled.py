"""Compiled kernels on disk: by which code they are told apart, and when two processes keep theirs at once."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core import compiled
from core.compiled import KernelFiles
from tests.tidy import ROOT, tracked_files


def files(folder: Path) -> Any:
    kind: Any = KernelFiles  # of Numba's, which has no types
    return kind(str(folder), "kernel", 1)


@pytest.mark.parametrize("step", ["_load_index", "_save_index", "_save_data"])
def test_signatures_that_two_processes_keep_at_once_are_never_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The second has read the index, which is empty, when the first begins; and goes on after a step of the first."""
    first, second, reader = (files(tmp_path) for _ in range(3))
    carried_out: Any = getattr(first, step)
    came: list[bool] = []
    monkeypatch.setattr(second, "_load_index", dict)

    def interrupted(*given: Any) -> Any:
        answer = carried_out(*given)
        if not came:
            came.append(True)
            second.save("floats", "code for floats")
        return answer

    monkeypatch.setattr(first, step, interrupted)
    first.save("integers", "code for integers")
    kept = {name: reader.load(name) for name in ("integers", "floats")}
    assert came and any(kept.values())
    assert all(code in (None, f"code for {name}") for name, code in kept.items())
    for name in kept:  # who does not find its code keeps it again
        first.save(name, f"code for {name}")
    assert {name: reader.load(name) for name in kept} == {name: f"code for {name}" for name in kept}


def sources_frozen_by(path: Path, name: str, seen: set[tuple[Path, str]]) -> None:
    """Add to ``seen`` where what a module calls ``name``, or ``module.name``, is defined, and what that is made of."""
    if (path, name) in seen:
        return
    first, _, attribute = name.partition(".")
    for node in _parsed(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if first in (alias.asname, alias.name):
                    for its in _files_of(f"{node.module}.{alias.name}"):
                        sources_frozen_by(its, attribute if its.stem == alias.name else alias.name, seen)
        elif name in _bound(ast.Module([node], [])):
            seen.add((path, name))
            for part in _loaded(node):
                sources_frozen_by(path, part, seen)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_bytes())


def _files_of(name: str) -> list[Path]:
    """The module called so, or in which that object is, if it is ours."""
    whole = Path(*name.split("."))
    places = (whole.with_suffix(".py"), whole.parent.with_suffix(".py"), whole.parent / "__init__.py")
    return [path for path in places if (ROOT / path).is_file()][:1]


def _bound(module: ast.Module) -> set[str]:
    """The names that its functions, classes and assignments make."""
    names = {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = [node for node in module.body if isinstance(node, ast.Assign | ast.AnnAssign | ast.For | ast.If)]
    targets = (part for node in assigned for part in ast.walk(node) if isinstance(part, ast.Name))
    return names | {part.id for part in targets if isinstance(part.ctx, ast.Store)}


def _loaded(node: ast.AST) -> set[str]:
    """The names that are read in a statement, annotations and a function's own variables aside."""
    own: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef):
            part.returns = None
            own |= {arg.arg for arg in [*part.args.args, *part.args.kwonlyargs]}
        elif isinstance(part, ast.arg | ast.AnnAssign):
            part.annotation = ast.Constant(None)
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    if isinstance(node, ast.FunctionDef):
        own |= {part.id for part in names if isinstance(part.ctx, ast.Store)}
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)]
    read = {part.id for part in names if isinstance(part.ctx, ast.Load)} - own
    return read | {f"{part.value.id}.{part.attr}" for part in parts if part.value.id in read}


def test_what_kernels_are_made_of_names_the_folder_of_their_machine_code() -> None:
    """Numba freezes constants, and inlines functions, of other modules: all that a kernel reads is in the hash."""
    ours = [path.relative_to(ROOT) for path in tracked_files() if path.suffix == ".py"]
    kernels = [path for path in ours if path.parts[0] != "tests" and "import njit" in (ROOT / path).read_text()]
    seen: set[tuple[Path, str]] = set()
    for path in kernels:
        for node in _parsed(path).body:
            if "njit" in _loaded(node):
                for name in _loaded(node) | _bound(ast.Module([node], [])):
                    sources_frozen_by(path, name, seen)
    hashed = {path.relative_to(ROOT) for pattern in compiled._SOURCES for path in ROOT.glob(pattern)}
    frozen = {path for path, _ in seen}
    assert len(kernels) >= 10 and set(kernels) <= frozen
    assert {("core/units.py", "NEVER_NS"), ("systems/limiting/queue_common.py", "IDENTITIES")} <= {
        (str(path), name) for path, name in seen
    }
    assert frozen <= hashed


def test_a_folder_that_a_user_chose_has_one_for_each_version_of_the_code_and_each_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    usual = compiled._cache_folder()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    chosen = compiled._cache_folder()
    assert chosen.parent == tmp_path and usual.name == chosen.name and chosen.name.endswith(f"-{os.getuid()}")
    monkeypatch.setattr(compiled, "_SOURCES", ("core/units.py",))
    assert compiled._cache_folder().parent == tmp_path and compiled._cache_folder() != chosen
    look = "import core.compiled, numba; print(numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == f"{chosen}\n", done.stderr
