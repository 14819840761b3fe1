"""Units: integer nanoseconds inside, strings such as ``"20ms"`` at the edge."""

import re
from fractions import Fraction

MICROSECOND_NS = 1_000
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000

_SUFFIX_NS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "min": 60 * SECOND_NS,
    "h": 3_600 * SECOND_NS,
}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")


def duration_ns(text: str | int) -> int:
    """Nanoseconds of a span written as ``"20ms"``; an integer is taken as nanoseconds already.

    Raises ValueError where the number, the unit or a whole nanosecond is missing.
    """
    if isinstance(text, int):
        return text
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _SUFFIX_NS:
        raise ValueError(f"not a duration: {text!r} (write a number and one of {', '.join(_SUFFIX_NS)}, as in 20ms)")
    exact = Fraction(match[1]) * _SUFFIX_NS[match[2]]
    if exact.denominator != 1:
        raise ValueError(f"not a whole number of nanoseconds: {text!r}")
    return int(exact)


def duration_text(span_ns: int) -> str:
    """The shortest exact spelling of a span, ``20_000_000`` as ``"20ms"``."""
    for suffix in ("h", "min", "s", "ms", "us"):
        if span_ns and span_ns % _SUFFIX_NS[suffix] == 0:
            return f"{span_ns // _SUFFIX_NS[suffix]}{suffix}"
    return f"{span_ns}ns"
