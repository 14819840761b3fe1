"""The topology ``us-cities``: edge sites in cities of the United States (ePulsar 5.1.2).

The paper names neither its cities nor its latencies, only their source.  Delays are derived from the shipped table of
cities (``latencies/README.md`` says how well), or those of a measured table.
"""

from math import isfinite

from core.errors import SpecError
from core.registry import hint
from testbed.topologies.delays import Pair, Repairs, between, with_detours
from testbed.topologies.site_hosts import at_least, broker, manager, one_way, proxy, store
from testbed.topologies.topology import SWITCH, Host, Link, Topology
from testbed.topologies.wan import (
    ACCESS_NS,
    ROUTE_FACTOR,
    fibre_delay_ns,
    great_circle_km,
    known_cities,
    read_table,
    slug,
)

NAME = "us-cities"


def us_cities(
    cities: int | str | list[str] = 5,
    edge_sites: int = 1,
    table: str = "",
    servers: str = "",
    repair: str = "",
    route_factor: float = ROUTE_FACTOR,
    access: str = "5ms",
    control: str = "New York",
    managers: int = 1,
    detours: bool = False,
) -> Topology:
    """US cities with a broker and edge sites each; managers and store in New York (ePulsar 5.1.2).

    ``cities``: so many of the shipped table, the largest first, or their names.  City N is a switch with ``brokerN``
    on it, and with ``edge_sites`` site switches, each with a coordinate proxy, ``access`` from it; sites are numbered
    through, those of the first city first.  The paper's 5 ms between broker and game server is taken one way (it does
    not say).  Between cities is a full mesh: half the round trips of ``table`` (``servers`` names its places; see
    ``wan.read_table``), or fibre ``route_factor`` times as long as the great circle and 0.5 ms.  A pair that
    ``table`` lacks is an error, unless ``repair`` is ``detour``.  Messages go the direct way, unless ``detours`` lets
    them take a faster one through a third city.  ``control``: the city of managers and store.
    """
    at_least(NAME, "edge_sites", edge_sites, 1)
    at_least(NAME, "managers", managers, 1)
    names = _chosen(cities)
    if control not in names:
        raise SpecError(f"topology {NAME}: control in {control!r}", f"it is none of cities: {hint(control, names)}")
    delays, repairs = _delays(names, table, servers, repair, route_factor)
    placed = [(broker(n), slug(name)) for n, name in enumerate(names, 1)]
    count = edge_sites * len(names)
    placed += [(proxy(n), f"site{n}") for n in range(1, count + 1)]
    placed += [(manager(n), slug(control)) for n in range(1, managers + 1)]
    placed.append((store(), slug(control)))
    access_ns = one_way(NAME, "access", access)
    links = [Link(host.name, switch) for host, switch in placed]
    links += [Link(f"site{n + 1}", slug(names[n // edge_sites]), access_ns) for n in range(count)]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    links += [Link(slug(a), slug(b), delays[frozenset((a, b))]) for a, b in pairs]
    switches = [f"site{n}" for n in range(1, count + 1)] + [slug(name) for name in names]
    hosts = [host for host, _ in placed] + [Host(name, role=SWITCH) for name in switches]
    notes = with_detours(repairs, delays, names, detours).notes()
    return Topology(NAME, tuple(hosts), tuple(links), direct=not detours, notes=notes)


def _delays(
    names: list[str], table: str, servers: str, repair: str, route_factor: float
) -> tuple[dict[Pair, int], Repairs]:
    """City to city, one way."""
    if table:
        return between(table, read_table(table, servers), names, repair)
    if not (isfinite(route_factor) and route_factor >= 1):
        raise SpecError(f"topology {NAME}: route_factor = {route_factor}", "give 1 or more")
    known = known_cities("us_cities.csv")
    for name in names:
        if name not in known:
            raise SpecError(f"topology {NAME}: no city {name!r}", hint(name, known) + "; or give a table")
    delays = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            fibre_ns = fibre_delay_ns(great_circle_km(known[a], known[b]), route_factor)
            delays[frozenset((a, b))] = fibre_ns + 2 * ACCESS_NS
    return delays, Repairs(len(delays))


def _chosen(cities: int | str | list[str]) -> list[str]:
    """The names of the cities."""
    if isinstance(cities, int) or (isinstance(cities, str) and cities.strip().isdigit()):
        shipped = list(known_cities("us_cities.csv"))
        if not 1 <= int(cities) <= len(shipped):
            raise SpecError(f"topology {NAME}: cities = {cities}", f"give 1 to {len(shipped)}, or their names")
        return shipped[: int(cities)]
    names = [name.strip() for name in (cities.split(",") if isinstance(cities, str) else cities)]
    if not names or not all(names):
        raise SpecError(f"topology {NAME}: cities = {cities!r}", 'name some, as in "New York, Chicago"')
    if len({slug(name) for name in names}) < len(names):
        raise SpecError(f"topology {NAME}: cities = {cities!r}: one is there twice", "name each once")
    return names
