"""Units: integer nanoseconds inside, strings such as ``"20ms"`` at the edge."""

import re
from fractions import Fraction
from functools import lru_cache

MICROSECOND_NS = 1_000
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
NEVER_NS = 2**62  # later than any instant of a run

_SUFFIX_NS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "min": 60 * SECOND_NS,
    "h": 3_600 * SECOND_NS,
}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")
_RATIONAL = re.compile(r"\s*[+-]?[0-9]{1,40}(?:/[0-9]{1,40}|(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,2})?)\s*")

SPAN_MAXIMUM_NS = 10 * 8_766 * _SUFFIX_NS["h"]  # ten years: 29 of them fit into the 64 bits of an instant


def duration_ns(text: str | int) -> int:
    """Nanoseconds of a span written as ``"20ms"``; an integer is taken as nanoseconds already.

    Raises ValueError where the number, the unit or a whole nanosecond is missing, and for more than ten years: sums
    and products of spans are instants, of which tables and kernels have 64 bits.
    """
    return text if isinstance(text, int) else _read_ns(text)


@lru_cache(maxsize=1024)  # a run asks hundreds of times, for few different ones
def _read_ns(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _SUFFIX_NS:
        raise ValueError(f"not a duration: {text!r} (write a number and one of {', '.join(_SUFFIX_NS)}, as in 20ms)")
    exact = Fraction(match[1]) * _SUFFIX_NS[match[2]]
    if exact.denominator != 1:
        raise ValueError(f"not a whole number of nanoseconds: {text!r}")
    if exact > SPAN_MAXIMUM_NS:
        raise ValueError(f"longer than ten years, which is the most: {text!r}")
    return int(exact)


def rational(text: str) -> Fraction:
    """A number written ``"0.3"`` or ``"1/3"``, exactly; ValueError for another, or one of very many digits."""
    if not _RATIONAL.fullmatch(text):
        raise ValueError(f"not a number: {text!r} (write it as in 0.3 or 1/3)")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"not a number: {text!r} divides by zero") from None


def duration_text(span_ns: int) -> str:
    """The shortest exact spelling of a span, ``20_000_000`` as ``"20ms"``."""
    for suffix in ("h", "min", "s", "ms", "us"):
        if span_ns and span_ns % _SUFFIX_NS[suffix] == 0:
            return f"{span_ns // _SUFFIX_NS[suffix]}{suffix}"
    return f"{span_ns}ns"
