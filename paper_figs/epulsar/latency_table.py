"""Cities and the delays between them: of the shipped table that is fitted to pings, or of ``--latency-table``."""

from pathlib import Path
from typing import NamedTuple

from core.errors import SpecError
from core.records import Json
from harness.experiment import Option
from paper_figs.epulsar.published import GAME_ACCESS_MS
from paper_figs.epulsar.readings import CITY_DELAYS, PING
from paper_figs.figure import Options

OPTION = Option(
    "latency-table",
    "measured delays between cities, or any matrix of round trips, as testbed/topologies/latencies/README.md says",
)
ACCESS = f"{GAME_ACCESS_MS}ms"  # client to broker in a city, one way: us-cities has it built in
DRAWN = 1  # the seed by which places of a matrix without names are drawn
FITTED = "fitted"  # what us-cities calls its table


class DelayTable(NamedTuple):
    """A table's places, in the order in which cities are taken."""

    path: str
    places: tuple[str, ...]
    has_names: bool
    one_way: Json  # options of us-cities: what of a ping is one way

    def topology(self, count: int) -> tuple[str, Json]:
        """A topology of so many of the places, and its options; a city's is the first of them's load manager."""
        if self.path == FITTED:
            return "us-cities", {"table": FITTED, "cities": count, **self.one_way}
        mended = {"table": self.path, "repair": "detour"}
        if not self.has_names:
            return "matrix-sites", {**mended, "sites": count, "seed": DRAWN}
        names = list(self.places[:count])
        return "us-cities", {**mended, "cities": names, "control": names[0], **self.one_way}


def measured(options: Options) -> DelayTable:
    """The shipped table, or the one that was asked for: the shipped US cities in it, or all its places if under two.

    SpecError for a file that cannot be read or has fewer than two places.  A matrix without names is of round trips
    between machines, and halved whatever the reading of ``CITY_DELAYS``.
    """
    from testbed.topologies.cities import known_cities

    cities = tuple(known_cities("us_cities.csv"))
    one_way: Json = {"one_way_share": 1.0} if CITY_DELAYS.of(options) == PING else {}
    if not options.get(OPTION.name):
        return DelayTable(FITTED, cities, True, one_way)
    table = read(options[OPTION.name])._replace(one_way=one_way)
    shipped = tuple(name for name in cities if name in table.places)
    return table._replace(places=shipped) if len(shipped) > 1 else table


def read(text: str) -> DelayTable:
    """The table of that path, with all its places, halved; SpecError if it cannot be read or has fewer than two."""
    from testbed.topologies.tables import read_square, read_table

    path = Path(text).absolute()
    square = read_square(str(path))
    if square is not None:
        return DelayTable(str(path), tuple(square[0]), False, {})
    places = tuple(dict.fromkeys(name for ends in read_table(str(path)) for name in ends))
    if len(places) < 2:
        raise SpecError(f"--{OPTION.name} {path}: {len(places)} places", "give a table of two or more")
    return DelayTable(str(path), places, True, {})
