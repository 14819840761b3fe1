"""Cell towers of a city, in km: a generated city, or a list with latitudes and longitudes.

The paper's towers of Atlanta (ePulsar 5.1.1) are not published with it.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.errors import SpecError
from core.reading import reading
from core.records import Float64
from core.seeds import generator
from workloads.text_columns import find_columns, lines_of, open_bytes

ROLES = ("latitude", "longitude")
LIMITS = {"latitude": 90.0, "longitude": 180.0}  # degrees
EARTH_RADIUS_KM = 6371.0088  # mean

# Of the generated city, all ours: towers thin out from a centre and from the middles of quarters.
CENTRE_SHARE, CENTRE_SPREAD = 0.4, 0.10  # of the towers; standard deviation over the city's width
QUARTERS, QUARTER_SHARE, QUARTER_SPREAD = 6, 0.4, 0.06  # the rest of the towers are anywhere


@dataclass(frozen=True)
class Towers:
    """Positions in km, float64 (towers, 2): to the east, to the north.  ``skipped``: lines left out, by reason."""

    km: Float64
    skipped: dict[str, int]


def generated(city: int, count: int, width_km: float) -> Towers:
    """``count`` towers of a made-up square city; ``city`` is its number, and all that its plan depends on."""
    rng = generator(city, "towers", "plan")
    middles = rng.uniform(0.1, 0.9, (QUARTERS, 2))
    places = np.empty((count, 2))
    for tower in range(count):
        draws = generator(city, "towers", tower)
        kind = draws.random()
        if kind < CENTRE_SHARE:
            middle, spread = np.array([0.5, 0.5]), CENTRE_SPREAD
        elif kind < CENTRE_SHARE + QUARTER_SHARE:
            middle, spread = middles[draws.integers(QUARTERS)], QUARTER_SPREAD
        else:
            places[tower] = draws.random(2)
            continue
        place = draws.normal(middle, spread)
        while not ((place >= 0) & (place <= 1)).all():
            place = draws.normal(middle, spread)
        places[tower] = place
    return Towers(places * width_km, {})


def read_towers(path: str, columns: Mapping[str, str | int], skip_bad: bool = False) -> Towers:
    """Towers of a CSV file (gzip too) whose first line names its columns, in any case, or 0-based numbers.

    ``columns`` maps ``latitude`` and ``longitude`` (degrees) to them, by default columns of these names.  The first
    bad line is a SpecError with file, line and field; with ``skip_bad`` such lines are counted by reason.
    """
    skipped: Counter[str] = Counter()
    degrees: list[tuple[float, float]] = []
    with reading(path, "give a readable list of towers"), open_bytes(path) as raw:
        width, at = 0, dict[str, int]()
        for number, line in enumerate(lines_of(raw), 1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", "backslashreplace").strip("\r\n")
            if not text.strip():
                continue
            try:
                row = _fields(text, width)
                if not width:
                    width, at = len(row), _layout(path, columns, row)
                    if any(_is_number(field) for field in (row[at[role]] for role in ROLES)):
                        raise SpecError(f"{path}, line {number}: no header", "name the columns in the first line")
                    continue
                degrees.append((_degrees(row, at, "latitude"), _degrees(row, at, "longitude")))
            except _BadLine as bad:
                if not (skip_bad and width):
                    fix = "mend it, or skip such lines with skip_bad"
                    raise SpecError(f"{path}, line {number}: {bad.what}", fix) from None
                skipped[bad.reason] += 1
    if not degrees:
        raise SpecError(f"{path}: no towers in it", "give a header and at least one line with a position")
    return Towers(_projected(np.array(degrees)), dict(sorted(skipped.items())))


class _BadLine(Exception):
    def __init__(self, reason: str, what: str):
        super().__init__(reason, what)
        self.reason, self.what = reason, what


def _fields(text: str, width: int) -> list[str]:
    try:
        row = [field.strip() for field in next(csv.reader([text], strict=True))]
    except csv.Error:
        raise _BadLine("open quote", "a quote that does not end") from None
    if width and len(row) != width:
        raise _BadLine("number of fields", f"{len(row)} fields, the first line has {width}")
    return row


def _layout(path: str, columns: Mapping[str, str | int], header: list[str]) -> dict[str, int]:
    wanted = {role: name.lower() if isinstance(name, str) else name for role, name in columns.items()}
    return find_columns(path, wanted, [name.lower() for name in header], len(header), ROLES, ())


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _degrees(row: list[str], at: Mapping[str, int], role: str) -> float:
    text, limit = row[at[role]], LIMITS[role]
    if not _is_number(text) or abs(float(text)) > limit:
        raise _BadLine(role, f"{role}: {text!r} is no number from {-limit:g} to {limit:g}")
    return float(text)


def _projected(degrees: Float64) -> Float64:
    """Km from the south-west corner, on the plane that touches the middle (a city is small: within 0.1 %)."""
    low, high = degrees.min(axis=0), degrees.max(axis=0)
    scale = np.radians(1.0) * EARTH_RADIUS_KM * np.array([1.0, math.cos(math.radians((low[0] + high[0]) / 2))])
    km: Float64 = ((degrees - low) * scale)[:, ::-1].copy()
    return km
