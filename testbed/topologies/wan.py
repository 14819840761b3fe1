"""The topology ``wan``: cities of the world, as far apart as light in fibre makes them, or as a table says."""

from itertools import combinations
from math import isfinite

from core.errors import SpecError
from core.limits import Factor, HostCount
from core.registry import hint
from core.units import duration_ns
from testbed.topologies.cities import ACCESS_NS, ROUTE_FACTOR, fibre_delays, listed, slug
from testbed.topologies.delays import between
from testbed.topologies.places import joined
from testbed.topologies.tables import ServersFile, TableFile, read_table
from testbed.topologies.topology import Host, Link, Topology, at_least

FIVE_CITIES = "New York, London, Singapore, Sao Paulo, Sydney"  # ours: five continents


def wan(
    nodes: HostCount = 5,
    cities: str | list[str] = FIVE_CITIES,
    table: TableFile = "",
    servers: ServersFile = "",
    route_factor: Factor = ROUTE_FACTOR,
    delay_factor: Factor = 1.0,
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
    at_least("wan", "nodes", nodes, 1)
    if not (isfinite(delay_factor) and delay_factor >= 0):
        raise SpecError(f"topology wan: delay_factor = {delay_factor}", "give 0 or more")
    wanted = listed("wan", cities)
    if table:  # which counts the access links at both ends
        measured, _ = between(table, read_table(table, servers), wanted, repair)
        delays = {ends: max(0, delay_ns - 2 * ACCESS_NS) for ends, delay_ns in measured.items()}
    else:
        delays = fibre_delays("wan", wanted, route_factor)
    placed = _hosts_of_roles(wanted, {"broker": brokers, "publisher": publishers, "subscriber": subscribers}, cores)
    if placed:
        places = [place for place in wanted if place in [city for _, city in placed]]
    else:
        places = wanted[:nodes]
        placed = [(Host(f"n{i + 1}", cores, "node"), places[i % len(places)]) for i in range(nodes)]
    links = []
    for a, b in combinations(places, 2):
        delay_ns = round(delays[frozenset((a, b))] * delay_factor)
        links.append(Link(slug(a), slug(b), delay_ns, _jitter_ns(jitter, delay_ns), loss_probability))
    at_switches = [(host, slug(place)) for host, place in placed]
    return joined("wan", at_switches, map(slug, places), links, round(ACCESS_NS * delay_factor))


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
