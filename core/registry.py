"""Registries are visible dicts, name -> "module:OBJECT", imported on use; options are checked by name and type."""

import dataclasses
import importlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec

from core.errors import SpecError, quoted
from core.records import Options

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Made = TypeVar("Made")
NUMBER_LIMIT = 2**63


def lookup(kind: str, registry: Mapping[str, str], name: str) -> Any:
    """The object registered as ``name``; SpecError lists the known names and the closest one."""
    if name not in registry:
        raise SpecError(f"unknown {kind} {name!r}", hint(name, registry))
    module, _, attribute = registry[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


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
    parameters = inspect.signature(factory).parameters
    hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory, include_extras=True)
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
