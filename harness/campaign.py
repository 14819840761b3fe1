"""Many runs: what is done already is not repeated, a failed run does not stop the others."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from collectors.integrity import Damage, is_whole, verified
from collectors.partials import remove_partials
from collectors.writer import set_aside
from core.digests import is_sealed, sealed
from core.errors import MachineError
from core.writing import replace_file
from harness.code_version import code_hash, code_of, id_of
from harness.estimate import expected_seconds
from harness.executors.api import Executor, Finished
from harness.experiment import RunSpec

_RUN = re.compile(r"[0-9a-f]{16}")


@dataclass
class Campaign:
    """The runs of one command, by id; equal points of several figures are one run."""

    runs: Path  # the folder of all runs
    wanted: dict[str, RunSpec] = field(default_factory=dict)
    groups: list[list[str]] = field(default_factory=list)  # runs that are wanted together
    whole: set[str] = field(default_factory=set)  # known to be finished and as they were written

    def add(self, specs: Iterable[RunSpec], tell: Callable[[str], None] = lambda run_id: None) -> list[str]:
        """Ask for these runs, which are a group; returns their ids, each once.  Tells of each as soon as it has it."""
        group = {}
        for spec in specs:
            run_id = id_of(spec)
            tell(run_id)
            group[run_id] = spec
        self.wanted |= group
        self.groups.append(ids := list(group))
        return ids

    def missing(self) -> dict[str, RunSpec]:
        """The runs that are not there yet, or not as they were written."""
        self.whole |= {folder.name for folder in self._there() if is_whole(folder)}
        return {run_id: spec for run_id, spec in self.wanted.items() if run_id not in self.whole}

    def damaged(self) -> dict[str, str]:
        """The runs that are there and not as they were written, and what is wrong with each."""
        reasons = {}
        for folder in self._there():
            try:
                verified(folder)
            except Damage as damage:
                reasons[folder.name] = damage.reason
            except MachineError:  # there is none
                pass
        return reasons

    def _there(self) -> list[Path]:
        """The folders of those runs that are there and of which nobody has asked yet whether they are whole."""
        unknown = [run_id for run_id in self.wanted if run_id not in self.whole]
        if not unknown:
            return []
        try:
            names = set(os.listdir(self.runs))
        except OSError:
            return []
        return [self.runs / run_id for run_id in unknown if run_id in names]

    def run(self, executor: Executor, notify: Callable[[Finished], None]) -> list[Finished]:
        """Execute what is missing; returns the failures.

        A MachineError (full disk) ends the campaign, in real time the second in a row: what is finished stays.
        """
        prepare_folder(self.runs)
        for run_id in self.damaged():
            if not is_whole(self.runs / run_id):  # another campaign may have made it anew meanwhile
                with suppress(FileNotFoundError):
                    set_aside(self.runs / run_id)
        missing = self.missing()
        note_code(self.runs, missing.values())
        failures = []
        try:
            ordered = in_order(missing, self.groups)
            work_list = [(missing[run_id], run_id, self.runs) for run_id in ordered]
            with closing(executor.map(work_list)) as home:  # on Ctrl-C here workers end now, and not some time later
                for finished in home:
                    if finished.fatal:
                        raise MachineError(finished.error)
                    notify(finished)
                    if finished.error:
                        failures.append(finished)
        finally:
            remove_partials(self.runs)  # of workers of a killed command that had not quite ended when this one began
        return failures


def note_code(runs: Path, specs: Iterable[RunSpec]) -> None:
    """Among the runs, which files their code is: a manifest has its hash alone.  ``code_listing`` reads it.

    MachineError where it cannot be written.
    """
    by_hash = {code_hash(spec): spec for spec in specs}
    for code, spec in by_hash.items():
        if code_listing(runs, code) is None:
            path, content = _listing(runs, code), sealed({"code_hash": code, "files": code_of(spec)})
            try:
                path.parent.mkdir(exist_ok=True)
                replace_file(path, json.dumps(content, indent=1).encode())
            except OSError as error:
                raise MachineError(f"{path}: {error.strerror}", "free disk there, or choose another --out") from None


def code_listing(runs: Path, code: str) -> dict[str, str] | None:
    """File -> digest of the code of a hash; None where it was not noted, or not so."""
    try:
        noted = json.loads(_listing(runs, code).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_its_own = is_sealed(noted) and noted.get("code_hash", code) == code  # at first they did not say whose they are
    return dict(noted["files"]) if is_its_own else None


def _listing(runs: Path, code: str) -> Path:
    return runs / ".code" / f"{code[:16]}.json"


def finished_runs(out: Path) -> list[Path]:
    """The folders of finished runs in ``out``, those of failed, damaged and half-written ones left out."""
    return sorted(folder for folder in (out / "runs").glob("*") if _RUN.fullmatch(folder.name))


def in_order(runs: Mapping[str, RunSpec], groups: Sequence[Sequence[str]] = ()) -> list[str]:
    """The ids of runs in the order to execute them: group by group, the shortest group first, in each the longest run.

    So a group can be worked on while others still run, and when all have run only the last group's work is left;
    short runs at the very end keep all workers busy.  But before all others comes one run of each system: its
    kernels, which take seconds to compile, are compiled by one worker and not by all.  Systems of one study
    share kernels, so these runs take turns between studies.
    """
    seconds = {run_id: expected_seconds(spec) for run_id, spec in runs.items()}
    longest_first = sorted(runs, key=lambda run_id: -seconds[run_id])
    ahead: defaultdict[str, dict[str, str]] = defaultdict(dict)  # study -> system -> run id
    for run_id in longest_first:
        ahead[runs[run_id].study].setdefault(runs[run_id].system, run_id)
    turns = zip_longest(*(of.values() for of in ahead.values()))
    shortest_first = sorted(groups, key=lambda group: sum(seconds.get(run_id, 0.0) for run_id in group))
    grouped = [run_id for group in map(frozenset, shortest_first) for run_id in longest_first if run_id in group]
    return list(dict.fromkeys([*(run_id for turn in turns for run_id in turn if run_id), *grouped, *longest_first]))


def prepare_folder(folder: Path) -> None:
    """Make the folder and clear what dead processes left; MachineError where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_partials(folder)
        probe = folder / f".writable-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise MachineError(f"{folder}: {error.strerror}", "choose another folder with --out") from None
