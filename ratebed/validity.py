"""Whether the runs behind a number can be trusted: in words, in ``--json``, and in the exit code.

Every verb that shows a number of a run shows how valid that run is.  Where all that it shows comes from invalid runs,
or all of one figure or claim, its exit code is 1.  (``threshold`` has no run: it computes from a log.)
"""

import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from core.records import Json, Row
from testbed.trust.evidence import INVALID, LEAST_VALID_LAST, VALID

LINES_MOST = 10  # of doubtful runs


class Standing(NamedTuple):
    """Of a run, or of all that a number is made of: valid, degraded or invalid, and why it is not valid."""

    validity: str = VALID
    reasons: tuple[str, ...] = ()

    def row(self) -> Row:
        """For ``--json``."""
        return {"validity": self.validity, "validity_reasons": list(self.reasons)}

    def text(self) -> str:
        """In a line, as in ``invalid: agent broker1 was lost``."""
        return ": ".join(filter(None, [self.validity, "; ".join(self.reasons)]))


def standing_of(manifest: Json) -> Standing:
    """Of a finished run."""
    return Standing(manifest["validity"], tuple(manifest["validity_reasons"]))


def standings_of(section: Json) -> dict[str, Standing]:
    """Of the runs of a figure, by id: those that are drawn, and those that were left out."""
    doubtful = {run_id: Standing(kind, tuple(why)) for run_id, (kind, *why) in section["doubtful"].items()}
    return dict.fromkeys(section["run_ids"], Standing()) | doubtful


def standing_rows(sections: Mapping[str, Json]) -> dict[str, dict[str, Row]]:
    """The same of figures, by what they are called, for ``--json``."""
    return {
        name: {run_id: standing.row() for run_id, standing in standings_of(section).items()}
        for name, section in sections.items()
    }


def worst(standings: Iterable[Standing]) -> Standing | None:
    """The first of the least valid ones; None where there are none."""
    return max(standings, key=by_validity, default=None)


def by_validity(standing: Standing) -> int:
    """What the least valid one has most of."""
    return LEAST_VALID_LAST.index(standing.validity)


def are_invalid(standings: Iterable[Standing]) -> bool:
    """Whether there are any, and none that is not."""
    return {standing.validity for standing in standings} == {INVALID}


def told(named: Mapping[str, Standing]) -> int:
    """Says on standard error which runs are not valid, and why; returns the exit code: 1 where all are invalid."""
    doubtful = [f"{standing.text()} ({name})" for name, standing in named.items() if standing.validity != VALID]
    more = [f"and {len(doubtful) - LINES_MOST} more that are not valid"] * (len(doubtful) > LINES_MOST)
    for line in [*doubtful[:LINES_MOST], *more]:
        print(f"ratebed: {line}", file=sys.stderr)
    return 1 if are_invalid(named.values()) else 0


def told_of_figures(sections: Iterable[Json]) -> int:
    """The same of the runs of figures; the code is 1 where all runs of one of them are invalid."""
    of_figures = [standings_of(section) for section in sections]
    told({run_id: standing for runs in of_figures for run_id, standing in runs.items()})
    return int(any(are_invalid(runs.values()) for runs in of_figures))
