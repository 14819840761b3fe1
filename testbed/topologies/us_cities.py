"""The topology ``us-cities``: edge sites in cities of the United States (ePulsar 5.1.2).

The paper names neither its cities nor its latencies, only their source.  Delays are derived from the shipped table of
cities, or from the shipped table that is fitted to measured pings (``latencies/README.md`` says how well), or those of
a measured table.
"""

from importlib.resources import files
from itertools import combinations
from typing import Annotated

from core.errors import SpecError
from core.limits import Factor, HostCount
from core.registry import InputFiles, hint
from testbed.topologies.cities import ACCESS_NS, ROUTE_FACTOR, fibre_delays, known_cities, listed, slug
from testbed.topologies.delays import Repairs, between, with_detours
from testbed.topologies.places import STORE, actor, joined
from testbed.topologies.tables import ServersFile, files_with, read_table
from testbed.topologies.topology import Link, Topology, at_least, one_way

NAME, SHIPPED = "us-cities", "us_cities.csv"
FITTED, PINGS = "fitted", "us_pings.csv"  # the option ``table`` that takes the shipped pings
HALF = 0.5  # of a ping that is one way
_Table = Annotated[str, InputFiles(lambda table, options: [] if table == FITTED else files_with(table, options))]


def us_cities(
    cities: int | str | list[str] = 5,
    edge_sites: HostCount = 1,
    table: _Table = "",
    servers: ServersFile = "",
    repair: str = "",
    route_factor: Factor = ROUTE_FACTOR,
    one_way_share: Factor = HALF,
    access: str = "5ms",
    control: str = "New York",
    managers: HostCount = 1,
    detours: bool = False,
) -> Topology:
    """US cities with a broker and edge sites each; managers and store in New York (ePulsar 5.1.2).

    ``cities``: so many of the shipped table, the largest first, or their names.  City N is a switch with ``brokerN``
    on it, and with ``edge_sites`` site switches, each with a coordinate proxy, ``access`` from it; sites are numbered
    through, those of the first city first.  The paper's 5 ms between broker and game server is taken one way (it does
    not say).  Between cities is a full mesh: the round trips of ``table`` (``servers`` names its places; see
    ``tables.read_table``; ``fitted``: the shipped ones), or fibre ``route_factor`` times as long as the great circle
    and 0.5 ms; of a round trip ``one_way_share`` is one way, half of it unless a ping is read as a link's delay.  A
    pair that ``table`` lacks is an error, unless ``repair`` is ``detour``.  Messages go the direct way, unless
    ``detours`` lets them take a faster one through a third city.  ``control``: the city of managers and store.
    """
    at_least(NAME, "edge_sites", edge_sites, 1)
    at_least(NAME, "managers", managers, 1)
    names = _chosen(cities)
    if control not in names:
        raise SpecError(f"topology {NAME}: control in {control!r}", f"it is none of cities: {hint(control, names)}")
    if not 0 < one_way_share <= 1:
        raise SpecError(f"topology {NAME}: one_way_share = {one_way_share}", "give a share of a round trip, 0.5 or 1")
    if table:
        shipped = str(files("testbed.topologies").joinpath("latencies", PINGS))
        delays, repairs = between(table, read_table(shipped if table == FITTED else table, servers), names, repair)
    else:
        fibre = fibre_delays(NAME, names, route_factor, SHIPPED)
        delays, repairs = {ends: delay_ns + 2 * ACCESS_NS for ends, delay_ns in fibre.items()}, Repairs(len(fibre))
    sites = [f"site{n}" for n in range(1, edge_sites * len(names) + 1)]
    placed = [(actor("broker", n), slug(name)) for n, name in enumerate(names, 1)]
    placed += [(actor("proxy", n), site) for n, site in enumerate(sites, 1)]
    placed += [*((actor("manager", n), slug(control)) for n in range(1, managers + 1)), (STORE, slug(control))]
    access_ns = one_way(NAME, "access", access)
    links = [Link(site, slug(names[i // edge_sites]), access_ns) for i, site in enumerate(sites)]
    notes = with_detours(repairs, delays, names, detours).notes()
    ways = ((a, b, round(delays[frozenset((a, b))] * one_way_share / HALF)) for a, b in combinations(names, 2))
    links += [Link(slug(a), slug(b), delay_ns) for a, b, delay_ns in ways]
    return joined(NAME, placed, [*sites, *map(slug, names)], links, direct=not detours, notes=notes)


def _chosen(cities: int | str | list[str]) -> list[str]:
    if isinstance(cities, int) or (isinstance(cities, str) and cities.strip().isdigit()):
        shipped = list(known_cities(SHIPPED))
        if not 1 <= int(cities) <= len(shipped):
            raise SpecError(f"topology {NAME}: cities = {cities}", f"give 1 to {len(shipped)}, or their names")
        return shipped[: int(cities)]
    return listed(NAME, cities)
