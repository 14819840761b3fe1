"""The topology ``matrix-sites``: sites as far apart as a matrix of round trips says, PlanetLab's for one (ours).

Without a table, sites are the shipped cities of the world, with the delays of the topology ``wan``.
"""

from math import isfinite

from core.errors import SpecError
from core.seeds import generator
from core.units import MILLISECOND_NS
from testbed.topologies.delays import Pair, Repairs, between, matrix_of, with_detours
from testbed.topologies.site_hosts import at_least, broker, manager, proxy, store
from testbed.topologies.topology import SWITCH, Host, Link, Topology
from testbed.topologies.wan import ACCESS_NS, fibre_delay_ns, great_circle_km, known_cities, read_table
from workloads.text_columns import open_bytes, readable

NAME = "matrix-sites"
CONTROLS = ("first", "central")
HOLES = ("", "-", "nan", "-1")  # of a matrix without names, in any case; and 0 off its diagonal


def matrix_sites(
    table: str = "",
    servers: str = "",
    sites: int = 16,
    seed: int | None = None,
    repair: str = "",
    control: str = "first",
    managers: int = 1,
    detours: bool = False,
) -> Topology:
    """Sites half a round trip of a matrix apart, each with a broker and a coordinate proxy (ours).

    ``table``: see ``read_square`` for a matrix without names, ``wan.read_table`` for others; without one,
    cities of the world.  ``sites`` of its places are taken, the first, or drawn by ``seed``.  ``control``: managers
    and store are at the first of them, or at the ``central`` one, from which the sum of delays is least.  A pair that
    was not measured is an error, unless ``repair`` is ``detour``.  Messages go the direct way, unless ``detours`` lets
    them take a faster one through a third site.
    """
    at_least(NAME, "managers", managers, 1)
    if control not in CONTROLS:
        raise SpecError(f"topology {NAME}: control = {control!r}", f"choose one of {', '.join(CONTROLS)}")
    places, delays, repairs = _chosen(table, servers, sites, seed, repair)
    centre = 1
    if control == "central":
        centre += int(matrix_of(delays, places).sum(axis=0).argmin())
    numbers = range(1, sites + 1)
    placed = [(broker(n), f"site{n}") for n in numbers] + [(proxy(n), f"site{n}") for n in numbers]
    placed += [(manager(n), f"site{centre}") for n in range(1, managers + 1)]
    placed.append((store(), f"site{centre}"))
    links = [Link(host.name, switch) for host, switch in placed]
    for i, a in enumerate(places):
        for j in range(i + 1, sites):
            links.append(Link(f"site{i + 1}", f"site{j + 1}", delays[frozenset((a, places[j]))]))
    hosts = [host for host, _ in placed] + [Host(f"site{n}", role=SWITCH) for n in numbers]
    notes = with_detours(repairs, delays, places, detours).notes()
    return Topology(NAME, tuple(hosts), tuple(links), direct=not detours, notes=notes)


def read_square(table: str) -> tuple[list[str], dict[tuple[str, str], int]] | None:
    """Places "1", "2", ... and one-way delays in ns by (from, to), of a square matrix of numbers and nothing else.

    Round trips in ms, a line a row, between tabs, commas or blanks (``.gz`` too).  Not measured: nothing (between tabs
    or commas), ``-``, ``nan``, ``-1``, and 0 off the diagonal.  None for a file whose first line is no row of numbers;
    SpecError with file, line and field for any other that is wrong.
    """
    names: list[str] = []
    delays_ns: dict[tuple[str, str], int] = {}
    mark: str | None = None
    row = 0
    with readable(table, "table of delays"), open_bytes(table) as file:
        for number, line in enumerate(file, 1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", "backslashreplace").rstrip("\r\n")
            if not text.strip():
                continue
            if not names:
                mark = next((mark for mark in "\t," if mark in text), None)
                if not _is_row(text.split(mark)):
                    return None
                names = [str(n) for n in range(1, len(text.split(mark)) + 1)]
            fields = [field.strip() for field in text.split(mark)]
            if len(fields) != len(names):
                raise SpecError(f"{table}, line {number}: {len(fields)} fields", f"the first line has {len(names)}")
            if row == len(names):
                raise SpecError(f"{table}, line {number}: a row too many", f"a row has {len(names)} fields")
            for column, field in enumerate(fields):
                delay_ns = _one_way_ns(table, number, column + 1, field)
                if delay_ns and column != row:
                    delays_ns[names[row], names[column]] = delay_ns
            row += 1
    if row < len(names):
        raise SpecError(f"{table}: {row} rows", f"a row has {len(names)} fields: give as many rows")
    return (names, delays_ns) if names else None


def _is_row(fields: list[str]) -> bool:
    texts = [field.strip() for field in fields]
    return len(texts) >= 2 and any(map(_number, texts)) and all(_number(t) or t.lower() in HOLES for t in texts)


def _number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _one_way_ns(table: str, line: int, column: int, text: str) -> int:
    """0 where it was not measured."""
    if text.lower() in HOLES:
        return 0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        what = f"{table}, line {line}, field {column}: {text!r}"
        raise SpecError(what, "give milliseconds, 0 or more, or nan where it was not measured")
    return round(value * MILLISECOND_NS / 2)


def _chosen(
    table: str, servers: str, sites: int, seed: int | None, repair: str
) -> tuple[list[str], dict[Pair, int], Repairs]:
    """The places that are sites, the delays between them, and what was mended."""
    at_least(NAME, "sites", sites, 1)
    names, delays_ns = (read_square(table) or _named(table, servers)) if table else _cities()
    if sites > len(names):
        raise SpecError(f"topology {NAME}: sites = {sites}", f"there are {len(names)} places: give at most that")
    chosen = list(range(sites))
    if seed is not None:
        drawn = generator(seed, NAME, "sites").permutation(len(names))
        chosen = sorted(drawn[:sites].tolist())
    places = [names[number] for number in chosen]
    delays, repairs = between(table, delays_ns, places, repair)
    return places, delays, repairs


def _named(table: str, servers: str) -> tuple[list[str], dict[tuple[str, str], int]]:
    """In the order of the table."""
    delays_ns = read_table(table, servers)
    return list(dict.fromkeys(name for ends in delays_ns for name in ends)), delays_ns


def _cities() -> tuple[list[str], dict[tuple[str, str], int]]:
    known = known_cities()
    ways = [(a, b) for a in known for b in known if a != b]
    return list(known), {(a, b): fibre_delay_ns(great_circle_km(known[a], known[b])) + 2 * ACCESS_NS for a, b in ways}
