"""The topology ``matrix-sites``: sites as far apart as a matrix of round trips says, PlanetLab's for one (ours).

Without a table, sites are the shipped cities of the world, with the delays of the topology ``wan``.
"""

from itertools import combinations, permutations

from core.errors import SpecError
from core.limits import HostCount
from core.seeds import generator
from testbed.topologies.cities import ACCESS_NS, fibre_delays, known_cities
from testbed.topologies.delays import Pair, Repairs, between, matrix_of, with_detours
from testbed.topologies.places import STORE, actor, joined
from testbed.topologies.tables import Delays, ServersFile, TableFile, read_square, read_table
from testbed.topologies.topology import Link, Topology, at_least

NAME = "matrix-sites"
CONTROLS = ("first", "central")


def matrix_sites(
    table: TableFile = "",
    servers: ServersFile = "",
    sites: HostCount = 16,
    seed: int | None = None,
    repair: str = "",
    control: str = "first",
    managers: HostCount = 1,
    detours: bool = False,
) -> Topology:
    """Sites half a round trip of a matrix apart, each with a broker and a coordinate proxy (ours).

    ``table``: see ``read_square`` for a matrix without names, ``read_table`` for others; without one,
    cities of the world.  ``sites`` of its places are taken, the first, or drawn by ``seed``.  ``control``: managers
    and store are at the first of them, or at the ``central`` one, from which the sum of delays is least.  A pair that
    was not measured is an error, unless ``repair`` is ``detour``.  Messages go the direct way, unless ``detours`` lets
    them take a faster one through a third site.
    """
    at_least(NAME, "managers", managers, 1)
    if control not in CONTROLS:
        raise SpecError(f"topology {NAME}: control = {control!r}", f"choose one of {', '.join(CONTROLS)}")
    places, delays, repairs = _chosen(table, servers, sites, seed, repair)
    switches = [f"site{n}" for n in range(1, sites + 1)]
    centre = switches[int(matrix_of(delays, places).sum(axis=0).argmin()) if control == "central" else 0]
    placed = [(actor(role, n), site) for role in ("broker", "proxy") for n, site in enumerate(switches, 1)]
    placed += [*((actor("manager", n), centre) for n in range(1, managers + 1)), (STORE, centre)]
    ways = combinations(zip(switches, places, strict=True), 2)
    links = [Link(site, other, delays[frozenset((a, b))]) for (site, a), (other, b) in ways]
    notes = with_detours(repairs, delays, places, detours).notes()
    return joined(NAME, placed, switches, links, direct=not detours, notes=notes)


def _chosen(
    table: str, servers: str, sites: int, seed: int | None, repair: str
) -> tuple[list[str], dict[Pair, int], Repairs]:
    at_least(NAME, "sites", sites, 1)
    names, delays_ns = _read(table, servers)
    if sites > len(names):
        raise SpecError(f"topology {NAME}: sites = {sites}", f"there are {len(names)} places: give at most that")
    chosen = list(range(sites))
    if seed is not None:
        drawn = generator(seed, NAME, "sites").permutation(len(names))
        chosen = sorted(drawn[:sites].tolist())
    places = [names[number] for number in chosen]
    delays, repairs = between(table, delays_ns, places, repair)
    return places, delays, repairs


def _read(table: str, servers: str) -> tuple[list[str], Delays]:
    """All places, in the order of the table, and the delays between them."""
    if not table:
        names = list(known_cities())
        fibre = fibre_delays(NAME, names)
        return names, {(a, b): fibre[frozenset((a, b))] + 2 * ACCESS_NS for a, b in permutations(names, 2)}
    if square := read_square(table):
        return square
    delays_ns = read_table(table, servers)
    return list(dict.fromkeys(name for ends in delays_ns for name in ends)), delays_ns
