"""``--latency-table``: cities and their measured delays instead of those that are derived from distances."""

from pathlib import Path
from typing import NamedTuple

from core.errors import SpecError
from core.records import Json
from harness.experiment import Option
from paper_figs.epulsar.published import GAME_ACCESS_MS
from paper_figs.figure import Options

OPTION = Option(
    "latency-table",
    "measured delays between cities, or any matrix of round trips, as testbed/topologies/latencies/README.md says; "
    "default: derived from distances",
)
ACCESS = f"{GAME_ACCESS_MS}ms"  # client to broker in a city, one way: us-cities has it built in
DRAWN = 1  # the seed by which places of a matrix without names are drawn


class DelayTable(NamedTuple):
    """A table's places, in the order in which cities are taken, and the files that were read."""

    path: str
    places: tuple[str, ...]
    has_names: bool
    inputs: tuple[str, ...]

    def topology(self, count: int) -> tuple[str, Json]:
        """A topology of so many of the places, and its options; a city's is the first of them's load manager."""
        mended = {"table": self.path, "repair": "detour"}
        if not self.has_names:
            return "matrix-sites", {**mended, "sites": count, "seed": DRAWN}
        names = list(self.places[:count])
        return "us-cities", {**mended, "cities": names, "control": names[0]}


def measured(options: Options) -> DelayTable | None:
    """The table that was asked for, None without one; the shipped US cities in it, or all its places if under two.

    SpecError for a file that cannot be read or has fewer than two places.
    """
    from testbed.topologies.cities import known_cities

    if not options.get(OPTION.name):
        return None
    table = read(options[OPTION.name])
    shipped = tuple(name for name in known_cities("us_cities.csv") if name in table.places)
    return table._replace(places=shipped) if len(shipped) > 1 else table


def read(text: str) -> DelayTable:
    """The table of that path, with all its places; SpecError if it cannot be read or has fewer than two."""
    from testbed.topologies.tables import read_square, read_table

    path = Path(text).absolute()
    square = read_square(str(path))
    if square is not None:
        return DelayTable(str(path), tuple(square[0]), False, (str(path),))
    places = tuple(dict.fromkeys(name for ends in read_table(str(path)) for name in ends))
    if len(places) < 2:
        raise SpecError(f"--{OPTION.name} {path}: {len(places)} places", "give a table of two or more")
    return DelayTable(str(path), places, True, (str(path), *map(str, sorted(path.parent.glob("servers*.csv"))[:1])))
