"""Stamps in logs of services: of which kind they are, and when that was.

ISO 8601, seconds to nanoseconds since 1970, ``10/Oct/2000:13:55:36 -0700``, ``Oct 10 13:55:36``.
"""

from datetime import UTC, datetime
from typing import Any

from core.errors import SpecError
from core.units import SECOND_NS
from workloads.log_formats import BadRow, Nanoseconds
from workloads.text_columns import INSTANT_LIMIT_NS, INSTANT_UNITS, instant_ns, scaled_int

_CLF, _SYSLOG = "%d/%b/%Y:%H:%M:%S %z", "%Y %b %d %H:%M:%S"
_EPOCHS = {"ns": 10**17, "us": 10**14, "ms": 10**11, "s": 10**8}  # unit: the least number that is one of 1973 or later
_LEAP_YEAR = 2000
_LEAP_DAY_NS = 951_782_400 * SECOND_NS  # where stamps have no year, the first of the first file is nearest to this one


class LogClock:
    """Reads a file's stamps, all of the kind of its first.

    ``near``: a span, in ns since 1970; where stamps have no year, the first is the nearest to it.  Without one it is
    within half a year of a leap day, before or after, so that a log over it has it.
    """

    def __init__(self, path: str, first: Any, near: tuple[int, int] | None):
        self.notes: list[str] = []
        self._year = _LEAP_YEAR
        text = str(first).strip()
        self._kind = kind_of(first)
        if not self._kind and scaled_int(text, 0) is not None:
            self._kind = "s"
            self.notes.append("its stamps are no times of 1973 or later: taken as seconds")
        if not self._kind:
            fix = "give ISO 8601, a number since 1970, 10/Oct/2000:13:55:36 -0700 or Oct 10 13:55:36"
            raise SpecError(f"{path}: {text[:60]!r} is no stamp that is known", fix)
        self._last_ns = _since_1970_ns(self._kind, text) or 0
        self.has_no_year = self._kind == "syslog"
        if self.has_no_year:
            self._begin_near(text, *(near or (_LEAP_DAY_NS, _LEAP_DAY_NS)))
            self.notes.append(f"its stamps have no year: they begin within half a year of 29 February {_LEAP_YEAR}")

    def _begin_near(self, text: str, low_ns: int, high_ns: int) -> None:
        """Nodes' files lie side by side, and parts of one end where others begin: over New Year not in one year."""
        low, high = (datetime.fromtimestamp(at_ns // SECOND_NS, UTC).year for at_ns in (low_ns, high_ns))
        read = [
            (max(low_ns - at_ns, at_ns - high_ns, 0), at_ns, year)
            for year in range(low - 1, high + 2)
            if (at_ns := _since_1970_ns(self._kind, text, year)) is not None
        ]
        if read:  # else it is a leap day, and none of them has one
            _, self._last_ns, self._year = min(read)

    def at_ns(self, field: Any) -> int:
        """Since 1970."""
        text = str(field).strip()
        # Without a year it is the nearest to the line before: lines out of order go over New Year both ways.
        years = (self._year - 1, self._year, self._year + 1) if self.has_no_year else (self._year,)
        read = [
            (abs(at_ns - self._last_ns), at_ns, year)
            for year in years
            if (at_ns := _since_1970_ns(self._kind, text, year)) is not None
        ]
        if not read or abs(min(read)[1]) >= INSTANT_LIMIT_NS:
            raise BadRow(f"no stamp: {text[:60]!r} is not of the kind of the first line's")
        _, self._last_ns, self._year = min(read)
        return self._last_ns


def kind_of(field: Any) -> str:
    """Of which kind a stamp is; empty: of none, or a number that is no time of 1973 or later."""
    if isinstance(field, Nanoseconds):
        return "ns"
    text = str(field).strip()
    number = abs(scaled_int(text, 0) or 0)
    said = (kind for kind in ("iso", "clf", "syslog") if _since_1970_ns(kind, text) is not None)
    return next(said, next((unit for unit, least in _EPOCHS.items() if number >= least), ""))


def _since_1970_ns(kind: str, text: str, year: int = _LEAP_YEAR) -> int | None:
    if kind in INSTANT_UNITS:
        return instant_ns(text, kind)
    form, text = (_CLF, text) if kind == "clf" else (_SYSLOG, f"{year} {text}")
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        return None
    past = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (past.days * 86_400 + past.seconds) * SECOND_NS
