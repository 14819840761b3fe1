"""Options of a system that are text: spans of time, and names to choose from."""

from collections.abc import Iterable

from core.errors import SpecError
from core.registry import hint
from core.units import duration_ns


def span_ns(system: str, option: str, text: str, least: str = "1ns") -> int:
    """Nanoseconds of an option that holds a span such as ``"300ms"``.

    ``least``: the shortest span that will do, ``"0"`` for any.  SpecError names the system, the option,
    its value and the fix.
    """
    fix = f"give a span of at least {least!r}" if least != "0" else "give a span"
    try:
        found_ns = duration_ns(text)
    except ValueError as error:
        raise SpecError(f"{system}: {option} = {text!r}: {error}", fix) from None
    if found_ns < (0 if least == "0" else duration_ns(least)):
        raise SpecError(f"{system}: {option} = {text!r}", fix)
    return found_ns


def choice(system: str, option: str, value: str, known: Iterable[str]) -> str:
    """``value``, if it is one of those known; SpecError names the system, the option, its value and the nearest."""
    names = list(known)
    if value not in names:
        raise SpecError(f"{system}: {option} = {value!r}", hint(value, names))
    return value
