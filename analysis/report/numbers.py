"""Numbers as people read them in the report."""

from collections.abc import Iterable
from math import inf, isfinite, nextafter

from analysis.verdicts import Check


def number(value: float | None) -> str:
    """Three significant digits, or whole numbers with separators; never an exponent where people read."""
    if value is None or value != value:
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 100:
        text = f"{value:,.0f}"
    elif size >= 1e-3:
        text = f"{value:#.3g}".rstrip("0").rstrip(".")
    else:
        text = "0" if size < 1e-300 else f"{value:.2e}"
    return text.replace("-", "−")


def interval_text(check: Check) -> str:
    """Mean and interval of a check's samples, with the unit."""
    interval = check.interval
    if interval.count == 0:
        return "no data"
    text = f"{number(interval.mean)} {check.unit}".strip()
    ends: Iterable[float] = (interval.low, interval.high)
    return text if interval.low == interval.high else f"{text} [{', '.join(map(number, ends))}]"


def wanted_text(check: Check) -> str:
    """The interval that the mean must lie in, in words of mathematics."""
    if check.low == -inf and check.high == inf:
        return "anything"
    if check.low == -inf:
        return _bound(check.high, "<", "≤", -inf)
    if check.high == inf:
        return _bound(check.low, ">", "≥", inf)
    return f"{number(check.low)} to {number(check.high)}"


def _bound(value: float, strict: str, loose: str, away: float) -> str:
    """``above(0)`` is kept as the next number after 0: show the round number that was meant."""
    rounder = nextafter(value, -away)
    return f"{strict} {number(rounder)}" if len(repr(rounder)) < len(repr(float(value))) else f"{loose} {number(value)}"
