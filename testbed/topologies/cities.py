"""Cities, and how far apart light in fibre makes them.

Delays are derived from the shipped tables of cities; see ``testbed/topologies/latencies/README.md`` for how well.
"""

import csv
from collections.abc import Sequence
from importlib.resources import files
from itertools import combinations
from math import asin, cos, isfinite, radians, sin, sqrt
from typing import NamedTuple

from core.errors import SpecError
from core.registry import hint
from core.units import MICROSECOND_NS, SECOND_NS
from testbed.topologies.delays import Pair

LIGHT_KM_PER_S = 299_792.458
FIBRE = 2 / 3  # of the speed of light
ROUTE_FACTOR = 1.93  # fitted: latencies/README.md
ACCESS_NS = 250 * MICROSECOND_NS  # ours: one way, node to city
EARTH_RADIUS_KM = 6371.0088  # mean


class City(NamedTuple):
    """A place, in degrees north and east."""

    name: str
    country: str
    latitude: float
    longitude: float


def known_cities(table: str = "cities.csv") -> dict[str, City]:
    """A shipped table, of the world or of the United States (``us_cities.csv``): name -> city."""
    text = files("testbed.topologies").joinpath("latencies", table).read_text(encoding="utf-8")
    return {
        row["city"]: City(row["city"], row["country"], float(row["latitude"]), float(row["longitude"]))
        for row in csv.DictReader(text.splitlines())
    }


def great_circle_km(a: City, b: City) -> float:
    """Distance over the ground (haversine formula)."""
    north, other_north = radians(a.latitude), radians(b.latitude)
    east = radians(b.longitude - a.longitude)
    half = sin((other_north - north) / 2) ** 2 + cos(north) * cos(other_north) * sin(east / 2) ** 2
    return 2 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, half)))


def fibre_delay_ns(distance_km: float, route_factor: float = ROUTE_FACTOR) -> int:
    """One way through fibre that is ``route_factor`` times as long as the distance."""
    return round(distance_km * route_factor / (FIBRE * LIGHT_KM_PER_S) * SECOND_NS)


def fibre_delays(
    topology: str, names: Sequence[str], route_factor: float = ROUTE_FACTOR, shipped: str = "cities.csv"
) -> dict[Pair, int]:
    """One way between cities of a shipped table, in ns; SpecError for others."""
    if not (isfinite(route_factor) and route_factor >= 1):
        raise SpecError(f"topology {topology}: route_factor = {route_factor}", "give 1 or more")
    known = known_cities(shipped)
    for name in names:
        if name not in known:
            raise SpecError(f"topology {topology}: no city {name!r}", hint(name, known) + "; or give a table")
    return {
        frozenset((a, b)): fibre_delay_ns(great_circle_km(known[a], known[b]), route_factor)
        for a, b in combinations(names, 2)
    }


def listed(topology: str, cities: str | Sequence[str]) -> list[str]:
    """The names in an option ``cities``."""
    names = [name.strip() for name in (cities.split(",") if isinstance(cities, str) else cities)]
    if not names or not all(names):
        raise SpecError(f"topology {topology}: cities = {cities!r}", 'name some, as in "New York, Chicago"')
    if len({slug(name) for name in names}) < len(names):
        raise SpecError(f"topology {topology}: cities = {cities!r}: one is there twice", "name each once")
    return names


def slug(city: str) -> str:
    """The name of a city's switch."""
    return city.lower().replace(" ", "-")
