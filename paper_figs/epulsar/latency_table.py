"""``--latency-table``: cities and their measured delays instead of those that are derived from distances."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import SpecError
from harness.experiment import Option

OPTION = Option("latency-table", "CSV of measured delays between cities, as testbed/latencies/README.md says; "
                "default: derived from distances")  # fmt: skip


class Measured(NamedTuple):
    """A table's cities, those that are to be had first, and the files that were read."""

    path: str
    cities: tuple[str, ...]
    inputs: tuple[str, ...]

    def topology_options(self, count: int) -> dict[str, Any]:
        """Of ``us-cities`` with so many of the cities; the first has the load manager."""
        names = list(self.cities[:count])
        return {"cities": names, "table": self.path, "repair": "detour", "control": names[0]}


def measured(options: Mapping[str, Any]) -> Measured | None:
    """The table that was asked for, None without one: the shipped US cities in it, or all its places if under two.

    SpecError for a file that cannot be read or has fewer than two places.
    """
    from testbed.wan import known_cities, read_table

    if not options.get(OPTION.name):
        return None
    path = Path(options[OPTION.name]).absolute()
    found = read_table(str(path))
    places = dict.fromkeys(name for ends in found for name in ends)
    shipped = [name for name in known_cities("us_cities.csv") if name in places]
    cities = tuple(shipped if len(shipped) > 1 else places)
    if len(cities) < 2:
        raise SpecError(f"--{OPTION.name} {path}: {len(cities)} places", "give a table of two or more")
    return Measured(str(path), cities, (str(path), *map(str, sorted(path.parent.glob("servers*.csv"))[:1])))
