"""Options of systems, workloads and procedures: plain values into config dataclasses."""

import dataclasses
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from core.errors import SpecError

Config = TypeVar("Config")


def make_config(kind: type[Config], options: dict[str, Any], where: str) -> Config:
    """The dataclass ``kind`` from plain values; SpecError names an unknown key or a wrong value."""
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in options:
        if key not in known:
            raise SpecError(f"{where}: unknown option {key!r}", suggestion(key, known))
    try:
        config = msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise SpecError(f"{where}: {error}", f"options: {', '.join(known) or 'none'}") from None
    validate = getattr(config, "validate", None)
    if validate is not None:
        validate()
    return config


def suggestion(word: str, known: list[str]) -> str:
    """``did you mean "srtm"?``, or the list of what there is."""
    close = get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"


def changed(config: Any) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    found = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            found[field.name] = value
    return found
