"""Forest plots: of one check the tolerance, what the paper prints, our interval, and those of other readings."""

from collections.abc import Sequence
from math import isfinite, log10

from markupsafe import Markup, escape

from analysis.report.numbers import interval_text, number, wanted_text
from analysis.verdicts import Check, Interval

WIDTH, HEIGHT, READING_HEIGHT = 220.0, 24.0, 9.0  # pixels
_ROOM = 0.12  # of the span, at either end
_LOG_SPAN = 50.0  # positive values that are further apart stand on a logarithmic axis

Named = tuple[str, Interval]  # a reading and what it measures


class _Scale:
    """From a value to pixels; what is infinite stands at the edge."""

    def __init__(self, values: Sequence[float]):
        finite = [value for value in values if isfinite(value)] or [0.0]
        self.is_log = min(finite) > 0 and max(finite) > _LOG_SPAN * min(finite)
        ends = [self._on_axis(min(finite)), self._on_axis(max(finite))]
        span = (ends[1] - ends[0]) or abs(ends[0]) or 1.0
        self._low, self._span = ends[0] - _ROOM * span, (1 + 2 * _ROOM) * span

    def _on_axis(self, value: float) -> float:
        return log10(value) if self.is_log else value

    def __call__(self, value: float) -> float:
        if not isfinite(value) or (self.is_log and value <= 0):
            return WIDTH if value > 0 else 0.0
        return min(WIDTH, max(0.0, WIDTH * (self._on_axis(value) - self._low) / self._span))


def forest(check: Check, others: Sequence[Named] = ()) -> Markup:
    """The plot as SVG, told in words for those who cannot see it; empty where nothing was measured.

    Left to right: a band is where the mean must lie, a cross what the paper prints, a point with a line our mean with
    its 95 % interval, thin lines below it those of ``others``.  Where a line reaches an edge the interval is infinite.
    """
    own = check.interval
    if own.count == 0:
        return Markup("")
    values = [own.mean, own.low, own.high, check.low, check.high]
    values += [check.published] if check.published is not None else []
    values += [end for _, interval in others for end in (interval.mean, interval.low, interval.high)]
    at, middle = _Scale(values), HEIGHT / 2
    height = HEIGHT + READING_HEIGHT * len(others)
    left, right = at(check.low), at(check.high)
    parts = [
        f'<rect class="band" x="{left:.1f}" y="2" width="{max(1.5, right - left):.1f}" height="{HEIGHT - 4:.0f}"/>'
    ]
    parts.append(_line("interval", own, at, middle))
    if isfinite(own.mean):
        parts.append(f'<circle class="mean" cx="{at(own.mean):.1f}" cy="{middle:.0f}" r="3.5"/>')
    if check.published is not None:
        x = at(check.published)
        parts.append(f'<path class="published" d="M{x - 4:.1f} {middle - 4:.0f}l8 8m0-8l-8 8"/>')
    parts += [
        _line("reading", interval, at, HEIGHT + READING_HEIGHT * (n + 0.5), name)
        for n, (name, interval) in enumerate(others)
    ]
    words = f"measured {interval_text(check)}; wanted {wanted_text(check)}"
    words += f"; published {number(check.published)}" if check.published is not None else ""
    words += " (logarithmic)" if at.is_log else ""
    size = f'width="{WIDTH:.0f}" height="{height:.0f}" viewBox="0 0 {WIDTH:.0f} {height:.0f}"'
    return Markup(f'<svg class="forest" role="img" aria-label="{escape(words)}" {size}>{"".join(parts)}</svg>')


def _line(name: str, interval: Interval, at: _Scale, y: float, title: str = "") -> str:
    """An interval, with a tick at the mean of a reading."""
    left, right = at(interval.low), at(interval.high)
    tick = f"M{at(interval.mean):.1f} {y - 3:.1f}v6" if title and isfinite(interval.mean) else ""
    inner = f"<title>{escape(title)}</title>" if title else ""
    path = f"M{left:.1f} {y:.1f}H{max(right, left + 1):.1f}{tick}"
    return f'<path class="{name}" d="{path}">{inner}</path>' if inner else f'<path class="{name}" d="{path}"/>'
