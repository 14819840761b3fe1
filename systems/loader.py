"""Systems by name: a key of the registry, or a file outside the tree, ``path.py:SYSTEM``."""

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from core.errors import SpecError
from core.registry import lookup
from systems import SYSTEMS
from systems.api import System

_loaded: list[Path] = []


def loaded_files() -> list[Path]:
    """The files outside the tree that systems were loaded from: other processes load them from there, too."""
    return list(_loaded)


def is_file(name: str) -> bool:
    """Whether ``name`` means a file outside the tree."""
    return name.partition(":")[0].endswith(".py")


def load_system(name: str) -> System:
    """The system called ``"srtm"`` or ``"path.py:SYSTEM"`` (``:SYSTEM`` may be left out).

    SpecError names the file, line or attribute that is wrong, or the closest registered name.
    """
    if not is_file(name):
        system = lookup("system", SYSTEMS, name)
    else:
        file, _, attribute = name.partition(":")
        attribute = attribute or "SYSTEM"
        system = vars(_load_file(Path(file))).get(attribute)
        if system is None:
            raise SpecError(f"{file} has no {attribute}", "define one System object of that name")
    if not isinstance(system, System):
        raise SpecError(f"{name} is a {type(system).__name__}", "it must be a systems.api.System")
    return system


def declared(system: System, name: str) -> object:
    """What a system names: ``"module:OBJECT"``, ``"path.py:OBJECT"``, or ``":OBJECT"`` of the system's own file.

    SpecError, with the fix, where there is no such thing.
    """
    place, colon, attribute = name.partition(":")
    fix = f"{system.key} declares it: name an object there is, as module:OBJECT, path.py:OBJECT or :OBJECT"
    if not colon or not attribute:
        raise SpecError(f"{name!r} names no object", fix)
    if is_file(name):
        module = _load_file(Path(place))
    else:
        try:
            module = importlib.import_module(place or system.config.__module__)
        except ImportError as error:
            raise SpecError(f"{name!r}: {error}", fix) from error
    if attribute not in vars(module):
        raise SpecError(f"{name!r}: {module.__name__} has no {attribute}", fix)
    thing: object = vars(module)[attribute]
    return thing


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


def name_of(system: System) -> str:
    """A name by which ``load_system`` finds ``system``, in another process too; SpecError where it has none."""
    if system.key in SYSTEMS and lookup("system", SYSTEMS, system.key) is system:
        return system.key
    module = sys.modules.get(system.config.__module__)
    file = getattr(module, "__file__", None)
    for attribute, thing in vars(module).items() if file else ():
        if thing is system:
            return f"{file}:{attribute}"
    raise SpecError(f"system {system.key} is in no file", "a live testbed loads it by name: keep it in its module")
