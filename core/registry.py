"""Registries are visible dicts, name -> "module:OBJECT", imported on use; options are checked by name and type.

What is not in one is looked for outside the tree, in one way for all ``OUTSIDE``: as ``path.py:OBJECT``, the object
being called as its kind is unless told otherwise (``WORKLOAD``), or among the entry points of installed packages
(group ``ratebed.workloads``).  The tree's own names stay the tree's.
"""

import dataclasses
import importlib
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec

from core.errors import SpecError, described, quoted
from core.files import is_file, load_object
from core.records import Options

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, SelectableGroups

    from _typeshed import DataclassInstance

OUTSIDE = {  # what may come from outside the tree -> the group of entry points
    "system": "ratebed.systems",
    "server": "ratebed.servers",
    "workload": "ratebed.workloads",
    "topology": "ratebed.topologies",
    "study": "ratebed.studies",
    "figure": "ratebed.figures",
    "claims": "ratebed.claims",
}
Made = TypeVar("Made")
NUMBER_LIMIT = 2**63
INPUT_FILE = {"input_file": True}  # metadata of a config's field that holds the path of an input file


@dataclasses.dataclass(frozen=True)
class InputFiles:
    """Note of an option's type, ``Annotated[str, InputFiles(of)]``: the files that are read where it is set.

    ``of``: them, of its value and of all options; by default the value is the path of the only one.
    """

    of: Callable[[str, Options], Iterable[str]] = lambda path, options: [path]


def lookup(kind: str, registry: Mapping[str, str], name: str) -> Any:
    """The object called ``name``: registered, installed, or ``path.py:OBJECT``, ``:OBJECT`` being the kind in capitals.

    SpecError lists the known names and the closest one, or says what is wrong with the file or the package.
    """
    if is_file(name) and kind in OUTSIDE:
        return load_object(name, kind.upper())
    if name in registry:
        return _imported(registry[name])
    names = known(kind, registry)
    if name not in names:
        raise SpecError(f"unknown {kind} {name!r}", hint(name, names))
    try:
        thing = _imported(names[name])
    except (Exception, SystemExit) as error:
        raise SpecError(f"{kind} {name!r}, {names[name]}: {described(error)}", "mend its package") from error
    if getattr(thing, "key", name) != name:
        raise SpecError(f"{kind} {name!r}, {names[name]}: its key is {thing.key!r}", "have its entry point called so")
    return thing


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def known(kind: str, registry: Mapping[str, str]) -> dict[str, str]:
    """The names of a registry and those that installed packages add, each with its "module:OBJECT".

    SpecError where a package takes a name that there is.
    """
    names = dict(registry)
    for point in _installed(kind):
        if names.setdefault(point.name, point.value) != point.value:
            package = f"the package {point.dist.name}" if point.dist else "a package"
            what = f"{package} adds a {kind} {point.name!r}, which there is: {names[point.name]}"
            raise SpecError(what, "give its entry point another name, or uninstall it")
    return names


def packages() -> dict[str, Path]:
    """The installed packages that add something, and the folder that each is in."""
    points = [point for kind in OUTSIDE for point in _installed(kind)]
    places = {}
    for name in dict.fromkeys(point.module.partition(".")[0] for point in points):
        spec = find_spec(name)
        if spec is not None:
            folders = list(spec.submodule_search_locations or ())
            places[name] = Path(folders[0] if folders else spec.origin or "").parent
    return places


def _installed(kind: str) -> "tuple[EntryPoint, ...]":
    return tuple(_entry_points().select(group=OUTSIDE.get(kind, "")))


@cache
def _entry_points() -> "SelectableGroups":
    """Those of all groups: they are read together."""
    from importlib.metadata import entry_points  # a tenth of a node's start, which asks for none

    return entry_points()


def hint(name: str, known: Iterable[str]) -> str:
    """How to mend a name: the closest known one, and all of them."""
    names = sorted(known)
    close = get_close_matches(name, names, 1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"known: {', '.join(names) or 'none'}"


def configure(kind: str, factory: Callable[..., Made], options: Options) -> Made:
    """Call ``factory`` (a config dataclass or a builder function) with ``options`` as keyword arguments.

    A number where text is wanted is its text: a rate may be written ``0.3`` or ``"1/3"``.  SpecError names
    the option that is unknown, missing, of the wrong type, or larger than its type allows (``core.limits``).
    """
    parameters, hints = _taken_by(factory)
    values = {}
    for name, value in options.items():
        if name not in parameters:
            raise SpecError(f"{kind} has no option {name!r}", hint(name, parameters))
        try:
            _check_numbers(value)
            if hints.get(name) is str and isinstance(value, int | float) and not isinstance(value, bool):
                value = str(value)
            values[name] = msgspec.convert(value, hints.get(name, Any))
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            fix = _reason(hints.get(name, Any)) or "give a value of that type"
            raise SpecError(f"{kind}, option {name} = {quoted(value)}: {error}", fix) from None
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in values:
            raise SpecError(f"{kind} needs option {name!r}", "set it")
    return factory(**values)


def files_named(factory: Callable[..., object], options: Options) -> Iterator[str]:
    """The input files that ``options`` name of what ``factory`` takes.

    They are those of types with a note ``InputFiles``, and a config's fields with ``INPUT_FILE`` as metadata.
    SpecError where one cannot be read that names others.
    """
    for name, (default, note) in _file_options(factory).items():
        if value := options.get(name, default):
            yield from note.of(str(value), options)


@lru_cache(maxsize=256)
def _file_options(factory: Callable[..., object]) -> dict[str, tuple[object, InputFiles]]:
    """The options that name files, each with its default, None if it has none."""
    parameters, hints = _taken_by(factory)
    fields = dataclasses.fields(factory) if dataclasses.is_dataclass(factory) else ()
    notes = {field.name: InputFiles() for field in fields if INPUT_FILE.items() <= field.metadata.items()}
    for name, its in hints.items():
        notes.update((name, note) for note in getattr(its, "__metadata__", ()) if isinstance(note, InputFiles))
    defaults = {name: parameters[name].default for name in notes}
    return {
        name: (None if default is inspect.Parameter.empty else default, notes[name])
        for name, default in defaults.items()
    }


@lru_cache(maxsize=256)
def _taken_by(factory: Callable[..., object]) -> tuple[Mapping[str, inspect.Parameter], dict[str, object]]:
    """What can be given to a factory by name, and of which types."""
    hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory, include_extras=True)
    return inspect.signature(factory).parameters, hints


def _check_numbers(value: object) -> None:
    """ValueError for a number, in whatever depth, that is not finite, or too large for a column of a table."""
    rest = [value]
    while rest:
        match rest.pop():
            case int(number) if not -NUMBER_LIMIT <= number < NUMBER_LIMIT:
                raise ValueError("a number of more than 64 bits")
            case float(number) if not math.isfinite(number):
                raise ValueError("no finite number")
            case list(values) | tuple(values):
                rest.extend(values)
            case dict(table):
                rest.extend(table.values())


def _reason(hint: object) -> str:
    """What a limit of ``core.limits`` says of itself."""
    said = (note.description for note in getattr(hint, "__metadata__", ()) if isinstance(note, msgspec.Meta))
    return next(filter(None, said), "")


def changed(config: "DataclassInstance") -> dict[str, object]:
    """The fields of a config dataclass that differ from their defaults."""
    options = {}
    for field in dataclasses.fields(config):
        factory = field.default_factory
        default = field.default if factory is dataclasses.MISSING else factory()
        if getattr(config, field.name) != default:
            options[field.name] = getattr(config, field.name)
    return options
