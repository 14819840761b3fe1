"""The topology ``wan``: cities of the world, as far apart as light in fibre makes them, or as a table says.

Delays are derived from the shipped table of cities; see ``testbed/topologies/latencies/README.md`` for how well.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from math import asin, cos, isfinite, radians, sin, sqrt
from pathlib import Path

from core.errors import SpecError
from core.registry import hint
from core.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS, duration_ns
from testbed.topologies.delays import Pair, between
from testbed.topologies.topology import SWITCH, Host, Link, Topology
from workloads.text_columns import open_bytes, readable

FIVE_CITIES = "New York, London, Singapore, Sao Paulo, Sydney"  # ours: five continents
LIGHT_KM_PER_S = 299_792.458
FIBRE = 2 / 3  # of the speed of light
ROUTE_FACTOR = 1.93  # fitted: latencies/README.md
ACCESS_NS = 250 * MICROSECOND_NS  # ours: one way, node to city
EARTH_RADIUS_KM = 6371.0088  # mean

_HEADERS = ("ms", "rtt_ms", "one_way_ms")  # of the third column of a table


@dataclass(frozen=True)
class City:
    """A place, in degrees north and east."""

    name: str
    country: str
    latitude: float
    longitude: float


def wan(
    nodes: int = 5,
    cities: str | list[str] = FIVE_CITIES,
    table: str = "",
    servers: str = "",
    route_factor: float = ROUTE_FACTOR,
    delay_factor: float = 1.0,
    jitter: str = "0%",
    loss_probability: float = 0.0,
    cores: int = 1,
    brokers: str | list[str] = "",
    publishers: str | list[str] = "",
    subscribers: str | list[str] = "",
    repair: str = "",
) -> Topology:
    """Nodes ``n1`` ... ``nN`` spread in turn over ``cities``, between which is a full mesh.

    Each city is a switch with an access link of 0.25 ms to each of its nodes.  Between cities are the
    derived delays, or those of the measured ``table`` (a file: see ``read_table``; ``servers`` names
    its places; ``repair`` = ``detour`` fills its holes).  A path takes a detour through a third city
    where a table makes that faster.  ``delay_factor`` stretches all delays.  ``jitter``, plus or minus, is
    a share of the delay ("10%") or a duration; it and ``loss_probability`` are of the links between cities.

    For a topic: ``brokers``, ``publishers`` and ``subscribers`` name the cities of such hosts, ``broker1`` and so on
    in that order; there are then no other nodes, and of ``cities`` only those that are named.
    """
    if nodes < 1:
        raise SpecError(f"topology wan: nodes = {nodes}", "give at least 1")
    if not (isfinite(delay_factor) and delay_factor >= 0 and isfinite(route_factor) and route_factor >= 1):
        what = f"topology wan: delay_factor = {delay_factor}, route_factor = {route_factor}"
        raise SpecError(what, "give a delay_factor from 0 on and a route_factor from 1 on")
    wanted = _names(cities)
    delays = _measured(wanted, table, servers, repair) if table else _derived(wanted, route_factor)
    of_roles = _hosts_of_roles(wanted, {"broker": brokers, "publisher": publishers, "subscriber": subscribers}, cores)
    if of_roles:
        placed, places = of_roles, [place for place in wanted if place in [city for _, city in of_roles]]
    else:
        places = list(wanted)[:nodes]
        placed = [(Host(f"n{i + 1}", cores, "node"), places[i % len(places)]) for i in range(nodes)]
    hosts = [host for host, _ in placed]
    access_ns = round(ACCESS_NS * delay_factor)
    links = [Link(host.name, slug(place), access_ns) for host, place in placed]
    for i, a in enumerate(places):
        for b in places[i + 1 :]:
            delay_ns = round(delays[frozenset((a, b))] * delay_factor)
            links.append(Link(slug(a), slug(b), delay_ns, _jitter_ns(jitter, delay_ns), loss_probability))
    return Topology("wan", (*hosts, *(Host(slug(place), role=SWITCH) for place in places)), tuple(links))


def _hosts_of_roles(wanted: list[str], roles: dict[str, str | list[str]], cores: int) -> list[tuple[Host, str]]:
    """A host for each city that a role names, and the city; none where no role names any."""
    placed = []
    for role, cities in roles.items():
        names = cities.split(",") if isinstance(cities, str) else cities
        for number, name in enumerate(filter(None, (name.strip() for name in names)), 1):
            if name not in wanted:
                raise SpecError(f"topology wan: {role} in {name!r}", f"it is none of cities: {hint(name, wanted)}")
            placed.append((Host(f"{role}{number}", cores, role), name))
    return placed


def known_cities(table: str = "cities.csv") -> dict[str, City]:
    """A shipped table, of the world or of the United States (``us_cities.csv``): name -> city."""
    text = files("testbed.topologies").joinpath("latencies", table).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        row["city"]: City(row["city"], row["country"], float(row["latitude"]), float(row["longitude"])) for row in rows
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


def _derived(wanted: Iterable[str], route_factor: float) -> dict[Pair, int]:
    known = known_cities()
    for name in wanted:
        if name not in known:
            raise SpecError(f"topology wan: no city {name!r}", hint(name, known) + "; or give a table")
    return {
        frozenset((a, b)): fibre_delay_ns(great_circle_km(known[a], known[b]), route_factor)
        for a in wanted
        for b in wanted
        if a < b
    }


def _measured(wanted: Iterable[str], table: str, servers: str, repair: str) -> dict[Pair, int]:
    """Of a table: the mean of both directions, less the access links at the ends."""
    delays, _ = between(table, read_table(table, servers), list(wanted), repair)
    return {ends: max(0, delay_ns - 2 * ACCESS_NS) for ends, delay_ns in delays.items()}


def read_table(table: str, servers: str = "") -> dict[tuple[str, str], int]:
    """One-way delays in ns by (from, to), out of a CSV file (``.gz`` too).

    Either ``city,city,ms`` lines, where ms is a round trip as ping shows it (a first line may name the
    third column ``ms``, ``rtt_ms``, or ``one_way_ms``, which it then is); or a square matrix, whose first line is
    such a word (or nothing) and the cities, and whose others are a city and its delays to all, blank where
    unknown; or WonderNetwork's pings (columns source, destination and avg among others, the ids of servers), to
    which ``servers`` names the ids (columns id and title; by default the only ``servers*.csv`` beside the table).
    SpecError with file and line.
    """
    rows = _rows(table)
    line, first = next(rows, (1, []))
    if "source" in first and "destination" in first:
        return _wondernetwork(table, first, rows, servers)
    if first and first[0] in ("", *_HEADERS):
        return _matrix(table, first, rows)
    last = first[2] if len(first) == 3 else ""
    halves = 1 if last == "one_way_ms" else 2
    delays_ns = {}
    for number, row in rows if last in _HEADERS else chain([(line, first)] if first else [], rows):
        if len(row) != 3:
            raise SpecError(f"{table}, line {number}: {len(row)} fields", "write city,city,ms")
        delays_ns[row[0], row[1]] = _ns(table, number, row[2], halves)
    if not delays_ns:
        raise SpecError(f"{table}: no delays", "write lines of city,city,ms")
    return delays_ns


def _matrix(table: str, header: list[str], rows: Iterator[tuple[int, list[str]]]) -> dict[tuple[str, str], int]:
    halves = 1 if header[0] == "one_way_ms" else 2
    cities = header[1:]
    if len(cities) < 2 or not all(cities) or len(set(cities)) < len(cities):
        raise SpecError(f"{table}, line 1: cities {', '.join(cities)}", "name two or more, each once")
    delays_ns: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for number, row in rows:
        if len(row) != len(header):
            raise SpecError(f"{table}, line {number}: {len(row)} fields", f"the first line has {len(header)}")
        source = row[0]
        if source not in cities or source in seen:
            raise SpecError(f"{table}, line {number}: city {source!r}", "begin with each city of line 1, once")
        seen.add(source)
        for target, text in zip(cities, row[1:], strict=True):
            if text and target != source:
                delays_ns[source, target] = _ns(table, number, text, halves)
    if not delays_ns:
        raise SpecError(f"{table}: no delays", "write lines of a city and its delays")
    return delays_ns


def _wondernetwork(
    table: str, header: list[str], rows: Iterator[tuple[int, list[str]]], servers: str
) -> dict[tuple[str, str], int]:
    if "avg" not in header:
        raise SpecError(f"{table}, line 1: no column avg", "give WonderNetwork's pings, or city,city,ms")
    titles = _titles(servers or _beside(table))
    source, target, avg = (header.index(name) for name in ("source", "destination", "avg"))
    delays_ns: dict[tuple[str, str], int] = {}
    for number, row in rows:
        if len(row) != len(header):
            raise SpecError(f"{table}, line {number}: {len(row)} fields", f"the first line has {len(header)}")
        ends = titles.get(row[source]), titles.get(row[target])
        if ends[0] is not None and ends[1] is not None and row[source] != row[target]:
            delays_ns.setdefault((ends[0], ends[1]), _ns(table, number, row[avg], 2))
    return delays_ns


def _titles(servers: str) -> dict[str, str]:
    """Id -> title of the first server that has it."""
    rows = _rows(servers)
    _, header = next(rows, (1, []))
    if not {"id", "title"} <= set(header):
        raise SpecError(f"{servers}, line 1: no columns id and title", "give WonderNetwork's list of servers")
    number_at, title_at = header.index("id"), header.index("title")
    titles: dict[str, str] = {}
    for number, row in rows:
        if len(row) <= max(number_at, title_at):
            raise SpecError(f"{servers}, line {number}: {len(row)} fields", f"the first line has {len(header)}")
        if row[title_at] not in titles.values():
            titles[row[number_at]] = row[title_at]
    return titles


def _beside(table: str) -> str:
    lists = sorted(Path(table).parent.glob("servers*.csv"))
    if len(lists) != 1:
        what = f"{table}: {len(lists)} files servers*.csv beside it"
        raise SpecError(what, "name the list of servers with the option servers")
    return str(lists[0])


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped fields of each line that is not blank."""
    try:
        with readable(path, "CSV file"), open_bytes(path) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: {error}", "give a CSV file in UTF-8") from None
    reader = csv.reader(text.splitlines())
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, [field.strip() for field in row]
    except csv.Error as error:
        raise SpecError(f"{path}, line {reader.line_num}: {error}", "mend that line") from None


def _ns(table: str, number: int, text: str, halves: int) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise SpecError(f"{table}, line {number}: {text!r}", "give milliseconds, 0 or more")
    return round(value * MILLISECOND_NS / halves)


def _names(cities: str | list[str]) -> list[str]:
    names = cities.split(",") if isinstance(cities, str) else cities
    names = [name.strip() for name in names]
    if not names or not all(names):
        raise SpecError(f"topology wan: cities = {cities!r}", 'name some, as in "London, Tokyo"')
    if len(set(names)) < len(names):
        raise SpecError(f"topology wan: cities = {cities!r}: one is there twice", "name each once")
    return names


def slug(city: str) -> str:
    """The name of a city's switch."""
    return city.lower().replace(" ", "-")


def _jitter_ns(jitter: str, delay_ns: int) -> int:
    """Half the width of the jitter: of a share of the delay, or a duration."""
    try:
        if jitter.strip().endswith("%"):
            share = float(jitter.strip()[:-1]) / 100
            if not 0 <= share <= 1:
                raise ValueError(f"a share of the delay is from 0% to 100%, not {jitter!r}")
            return int(share * delay_ns)
        return duration_ns(jitter)
    except ValueError as error:
        raise SpecError(f"topology wan: jitter: {error}", 'give "10%" or "2ms"') from None
