"""What is known of the runs behind a figure, from their manifests: axes, validity, the options that vary, the code."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from collectors.integrity import NoRun, OtherVersion, readable, verified
from core.errors import MachineError
from core.records import Json, Row
from harness.campaign import finished_runs
from ratebed.validity import standings_of
from testbed.trust.evidence import VALID

RUNS_LISTED = 2_000  # a page with a row for each of 100,000 runs has 24 MB, and no reader
AXES = ("system", "workload", "topology", "testbed", "repetition")
COMMITS = "commits"  # a section's key
UNREAD = "unread"  # of a run, in place of its facts: why they are not known
UNKNOWN = "unknown"  # a commit of which nobody can say any more which it was
_OPTIONS = ("system_options", "workload_options", "topology_options", "study_options", "testbed_options")


def _on_stderr(line: str) -> None:
    print(f"ratebed: {line}", file=sys.stderr)


def readable_runs(out: Path, tell: Callable[[str], None] = _on_stderr) -> list[Path]:
    """The finished runs in ``out`` but those with tables of another version; where there are some, a line is told.

    ``Damage`` where one is not as it was written.
    """
    folders, others = readable(finished_runs(out))
    if others:
        count = f"{len(others)} runs" if len(others) > 1 else "1 run"
        tell(f"{out}: {count} with tables of another schema version left out; `ratebed clean` removes them")
    return folders


def runs_of(runs: Path, section: Json) -> tuple[list[Row], int]:
    """A row a run that a figure shows or left out, all with the same columns: run_id, validity, reasons, axes, options.

    A run that is not on this machine, or has tables of another version, which its reasons say, has but its validity; of
    options those that differ between the runs.  Of more than ``RUNS_LISTED`` runs the first have a row, those that are
    not valid before the others; returns how many have none.  ``Damage`` where one of those that are there is not as it
    was written.
    """
    all_standings = standings_of(section)
    doubtful_first = sorted(all_standings, key=lambda run_id: all_standings[run_id].validity == VALID)
    listed = set(doubtful_first[:RUNS_LISTED])
    standings = {run_id: standing for run_id, standing in all_standings.items() if run_id in listed}
    told = {run_id: _facts(runs / run_id) for run_id in standings}
    unread = {run_id: [str(facts.pop(UNREAD))] for run_id, facts in told.items() if UNREAD in facts}
    names = list(dict.fromkeys(name for facts in told.values() for name in facts))
    varying = [name for name in names if name in AXES or len({str(facts.get(name)) for facts in told.values()}) > 1]
    rows: list[Row] = [
        {
            "run_id": run_id,
            "validity": standing.validity,
            "reasons": "; ".join([*standing.reasons, *unread.get(run_id, ())]),
            **{name: told[run_id].get(name, "") for name in varying},
        }
        for run_id, standing in standings.items()
    ]
    return rows, len(all_standings) - len(rows)


def made_by(sections: Iterable[Json], runs: Path) -> list[str]:
    """The commits whose code made the runs and tables of these figures, in order."""
    return sorted({name for section in sections if not section["skipped"] for name in _commits(section, runs)})


def _commits(section: Json, runs: Path) -> Collection[str]:
    """As was noted when its tables were made; before that was, those of its runs."""
    noted: Collection[str] | None = section.get(COMMITS)
    return {_commit_of(runs / run_id) for run_id in section["run_ids"]} if noted is None else noted


def _commit_of(folder: Path) -> str:
    try:
        return str(verified(folder).get("commit", UNKNOWN))
    except MachineError:  # it is gone, or not as it was written
        return UNKNOWN


def _facts(folder: Path) -> Row:
    try:
        spec = verified(folder)["spec"]
    except NoRun:
        return {}
    except OtherVersion as other:
        return {UNREAD: other.reason}
    facts = {axis: spec[axis] for axis in AXES}
    for group in _OPTIONS:
        facts |= {name: _plain(value) for name, value in spec[group].items() if name not in facts}
    return facts


def _plain(value: object) -> object:
    """An option as it stands in a table."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(_plain(each)) for each in value)
    return value
