"""Systems by name: a key of the registry, an installed package's, or a file outside the tree, ``path.py:SYSTEM``."""

import importlib
import sys
from pathlib import Path

from core.errors import SpecError
from core.files import is_file, load_object
from core.registry import known, lookup
from systems import SYSTEMS
from systems.api import System


def load_system(name: str) -> System:
    """The system called ``"srtm"`` or ``"path.py:SYSTEM"`` (``:SYSTEM`` may be left out).

    SpecError names the file, line or attribute that is wrong, or the closest registered name.
    """
    system = lookup("system", SYSTEMS, name)
    if not isinstance(system, System):
        raise SpecError(f"{name} is a {type(system).__name__}", "it must be a systems.api.System")
    return system


def declared(system: System, name: str) -> object:
    """What a system names: ``"module:OBJECT"``, ``"path.py:OBJECT"``, or ``":OBJECT"`` of the system's own file.

    The path is from the system's own file on, if there is such a file there; else from the working directory on.
    SpecError, with the fix, where there is no such thing.
    """
    place, colon, attribute = name.partition(":")
    fix = f"{system.key} declares it: name an object there is, as module:OBJECT, path.py:OBJECT or :OBJECT"
    if not colon or not attribute:
        raise SpecError(f"{name!r} names no object", fix)
    if is_file(name):
        return load_object(f"{_place_of(system, place)}:{attribute}", attribute)
    try:
        module = importlib.import_module(place or system.config.__module__)
    except ImportError as error:
        raise SpecError(f"{name!r}: {error}", fix) from error
    if attribute not in vars(module):
        raise SpecError(f"{name!r}: {module.__name__} has no {attribute}", fix)
    thing: object = vars(module)[attribute]
    return thing


def declared_files(system: System) -> list[Path]:
    """The files outside the tree that a system names for real hosts, as ``declared`` takes them."""
    stand_in = system.stand_in
    names = [*system.servers, system.plane, *((stand_in.make, *stand_in.servers) if stand_in else ())]
    return [_place_of(system, name.partition(":")[0]) for name in names if is_file(name)]


def _place_of(system: System, path: str) -> Path:
    beside = Path(getattr(sys.modules.get(system.config.__module__), "__file__", None) or "").parent / path
    return beside if beside.is_file() else Path(path)


def name_of(system: System) -> str:
    """A name by which ``load_system`` finds ``system``, in another process too; SpecError where it has none."""
    if system.key in known("system", SYSTEMS) and load_system(system.key) is system:
        return system.key
    module = sys.modules.get(system.config.__module__)
    file = getattr(module, "__file__", None)
    for attribute, value in vars(module).items() if file else ():
        if value is system:
            return f"{file}:{attribute}"
    raise SpecError(f"system {system.key} is in no file", "a live testbed loads it by name: keep it in its module")
