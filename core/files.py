"""Objects from files outside the tree, ``path.py:NAME``, and what such a file is made of."""

import ast
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from core.errors import SpecError
from core.reading import reading

_TREE = Path(__file__).resolve().parents[1]
_loaded: dict[Path, Path] = {}  # each as it was named
_modules: list[ModuleType] = []


def loaded_files() -> list[Path]:
    """The files outside the tree that objects were loaded from, and those beside them that they name.

    Other processes load them from there, too.
    """
    return list(_loaded)


def line_outside(error: BaseException) -> str:
    """``file:line`` of the last line in one of ``loaded_files`` on the way to an error; empty: it was in none."""
    lines = [
        f"{_loaded[path]}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (path := Path(frame.f_code.co_filename).resolve()) in _loaded
    ]
    return lines[-1] if lines else ""


def loaded_modules() -> list[ModuleType]:
    """The modules that they are."""
    return list(_modules)


def is_file(name: str) -> bool:
    """Whether ``name`` means a file outside the tree."""
    return name.partition(":")[0].endswith(".py")


def load_object(name: str, default: str) -> object:
    """The object ``path.py:NAME``; ``:NAME`` may be left out for ``default``.

    SpecError names the file, line or attribute that is wrong.
    """
    file, _, attribute = name.partition(":")
    module = _load_file(Path(file))
    attribute = attribute or default
    if attribute not in vars(module):
        raise SpecError(f"{file} has no {attribute}", f"define one {default.capitalize()} object of that name")
    return vars(module)[attribute]


def files_of(name: str) -> list[Path]:
    """What an object ``path.py:NAME`` is made of: its file, the files beside or below that its text names, and theirs.

    SpecError where the file cannot be read.
    """
    files: dict[Path, None] = {}
    waiting = [Path(name.partition(":")[0])]
    while waiting:
        path = waiting.pop()
        if path not in files:
            files[path] = None
            waiting += _named_beside(path) if path.suffix == ".py" else ()
    return list(files)


def _named_beside(path: Path) -> list[Path]:
    named = (path.parent / text for text in _file_names(path, _content(path)))
    return [file for file in named if file.is_file()]


@lru_cache(maxsize=256)
def _file_names(path: Path, source: bytes) -> tuple[str, ...]:
    """Texts in a file's source that may name another, ``table.csv`` or ``other.py:OBJECT``."""
    constants = (node.value for node in ast.walk(_parsed(path, source)) if isinstance(node, ast.Constant))
    texts = (text for text in constants if isinstance(text, str) and len(text) < 256 and text.isprintable())
    names = (text.partition(":")[0] if is_file(text) else text for text in texts)
    return tuple(sorted({text for text in names if Path(text).suffix and not Path(text).is_absolute()}))


def _content(path: Path) -> bytes:
    with reading(str(path), "give the path of a Python file"):
        return path.read_bytes()


def _parsed(path: Path, source: bytes) -> ast.Module:
    try:
        return ast.parse(source, str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise SpecError(f"{path}:{line}: {type(error).__name__}: {error}", "mend the file") from error


def _load_file(path: Path) -> ModuleType:
    """Import a file under a name of its own, made of its path and contents; once for each version of it."""
    source = _content(path)
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + source).hexdigest()[:12]
    name = f"{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    _refuse_neighbours(path, source)
    _loaded.update((file.resolve(), file) for file in files_of(str(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being made
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script may end itself
        del sys.modules[name]
        where = line_outside(error) or f"{path}:1"
        raise SpecError(f"{where}: {type(error).__name__}: {error}", "mend the file") from error
    _modules.append(module)
    return module


def _refuse_neighbours(path: Path, source: bytes) -> None:
    """SpecError where a file imports one beside it: other processes do not find it, and no run's id shows it."""
    for line, module in _imports(_parsed(path, source)):
        first = module.partition(".")[0]
        beside = [path.parent / f"{first}.py", path.parent / first / "__init__.py"]
        if (_TREE / first / "__init__.py").is_file() or not (module == "." or any(map(Path.is_file, beside))):
            continue
        spec = None if module == "." else importlib.util.find_spec(first)
        if spec is None or Path(spec.origin or "") in map(Path.resolve, beside):
            raise SpecError(
                f"{path}:{line}: it imports a file beside it" + f", {first}" * bool(first),
                "keep both in one file, or make a package of them and install it: docs/extending.md",
            )


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and module of each import, ``.`` for a relative one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." if node.level else node.module or ""
