"""Objects from files outside the tree, ``path.py:NAME``."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from core.errors import SpecError

_loaded: list[Path] = []


def loaded_files() -> list[Path]:
    """The files outside the tree that objects were loaded from: other processes load them from there, too."""
    return list(_loaded)


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


def _load_file(path: Path) -> ModuleType:
    """Import a file under a name of its own, made of its path and contents; once for each version of it."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", "give the path of a Python file") from None
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + source).hexdigest()[:12]
    name = f"{path.stem}_{digest}"
    if path.resolve() not in _loaded:
        _loaded.append(path.resolve())
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being made
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else _line_in(path, error)
        raise SpecError(f"{path}:{line}: {type(error).__name__}: {error}", "mend the file") from error
    return module


def _line_in(path: Path, error: BaseException) -> int:
    """The last line of ``path`` on the way to the error."""
    line, frame = 1, error.__traceback__
    while frame is not None:
        if Path(frame.tb_frame.f_code.co_filename) == path:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line
