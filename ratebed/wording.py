"""Numbers as people say them."""

_UNITS = (("h", 3_600, 6_000), ("min", 60, 100), ("s", 1, 0))  # its length and where it begins, in seconds


def span(seconds: float, digits: int = 0) -> str:
    """A time span in its handy unit, as in ``90 s``, ``12 min``, ``2.5 h``; ``digits``: so many, ``0.001 s``."""
    unit, length = next(((unit, length) for unit, length, begin in _UNITS if seconds >= begin), ("s", 1))
    value = seconds / length
    return f"{value:.{digits}g} {unit}" if digits else f"{value:.{1 if unit == 'h' else 0}f} {unit}"
