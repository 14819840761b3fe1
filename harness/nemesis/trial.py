"""One trial: a live run on the usual path, a nemesis beside it, and the audit of both."""

import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from collectors.integrity import check_run, read_manifest
from core.errors import HarnessError, MachineError
from harness.code_version import id_of
from harness.experiment import RunSpec
from harness.nemesis.audit import counted, is_named, missed, told_wrong, unbelieved, unnamed
from harness.nemesis.disk import run_on_small_disk
from harness.nemesis.disturber import Nemesis, Strike, disturbed
from harness.nemesis.fates import Fates
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.remains import beside_bytes, descriptor_count, remains, resident_bytes
from harness.nemesis.schedule import ClockStep, FullDisk, LiveSchedule
from harness.run import execute, resolve
from studies.distribution.asked import TRIALS_MAXIMUM
from testbed.hosts.lock import machine_lock

ENDED = "ended"  # with an error, and without a result
AUDIT_FAILED = "audit failed"  # what is there is no result
NOT_PLAYED = "not played"  # this machine cannot


@dataclass(frozen=True)
class LiveTrial:
    """``outcome``: the run's validity, ``ENDED``, ``AUDIT_FAILED`` or ``NOT_PLAYED``; ``said``: its reasons, or error.

    ``problems``: what must not be, a sentence each.  ``fates``: as counted here, of a run with a result: of one that
    ends with an error the actors' files do not come home.
    """

    schedule: LiveSchedule
    outcome: str
    said: tuple[str, ...]
    problems: tuple[str, ...]
    fates: Fates | None
    strikes: tuple[Strike, ...]
    seconds: float
    resident_bytes: int  # ours, afterwards
    descriptor_count: int
    beside_bytes: int = 0  # of processes of ours that live on

    def lines(self) -> list[str]:
        """All that went wrong, in words, and what did not come to pass."""
        return self.schedule.lines({strike.trouble: strike.why_not for strike in self.strikes if strike.why_not})


def play(schedule: LiveSchedule) -> LiveTrial:
    """Play and audit a schedule; waits for the machine's lock."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="nemesis-") as name:
        folder = Path(name)
        disk = schedule.full_disk
        parts = _on_small_disk(schedule, disk, folder) if disk else _disturbed(schedule, folder)
    seconds = round(time.monotonic() - began, 2)
    return LiveTrial(schedule, *parts, seconds, resident_bytes(), descriptor_count(), beside_bytes())


Parts = tuple[str, tuple[str, ...], tuple[str, ...], Fates | None, tuple[Strike, ...]]


def _disturbed(schedule: LiveSchedule, folder: Path) -> Parts:
    ground = GROUNDS[schedule.ground]
    spec = ground.make(schedule.testbed, schedule.seed, schedule.load_ns, schedule.faults)
    run_id = id_of(spec)
    kept, run = folder / "kept", folder / "runs" / run_id
    kept.mkdir()
    run.parent.mkdir()
    nemesis = Nemesis(schedule.troubles, kept)
    error, problems = "", list[str]()
    with machine_lock():
        try:
            execute(spec, run_id, run, partial(disturbed, nemesis))
        except HarnessError as ended:
            error = str(ended)
        except Exception as ended:  # a bug: any of them would be a traceback to people
            error = f"{type(ended).__name__}: {ended}"
            problems.append(f"a traceback: {error}")
    done = nemesis.outcomes()
    problems += [f"the nemesis has ended: {nemesis.fault}"] if nemesis.fault else []
    problems += missed(done, schedule.faults, schedule.load_ns, has_result=not error)
    problems += [f"left: {what}" for traces in nemesis.traces for what in remains(traces)]
    if error:
        problems += [f"half-written: {path.name}" for path in run.parent.iterdir()]
        struck = [
            strike.trouble.process
            for strike in done
            if not isinstance(strike.trouble, ClockStep) and not strike.why_not
        ]
        if not any(is_named(process, [error]) for process in struck):
            problems.append(f"ended, and names nobody who was disturbed: {error}")
        return ENDED, (error,), tuple(problems), None, done
    try:
        validity, reasons, wrong, fates = _audited(schedule, spec, run, kept, done)
    except Exception as ended:  # it is no run, or not as its manifest says: told with its seed, as everything
        return AUDIT_FAILED, (), (*problems, f"the audit failed: {type(ended).__name__}: {ended}"), None, done
    shutil.rmtree(run)
    return validity, reasons, (*problems, *wrong), fates, done


def _audited(
    schedule: LiveSchedule, spec: RunSpec, run: Path, kept: Path, done: tuple[Strike, ...]
) -> tuple[str, tuple[str, ...], list[str], Fates]:
    """The validity of a run that is there, its reasons, what must not be, and the fates that were counted."""
    check_run(run)
    manifest, numbers = (told := read_manifest(run)), told["fidelity"]
    fates = counted(resolve(spec), kept, TRIALS_MAXIMUM * schedule.load_ns)
    reasons, validity = tuple(manifest["validity_reasons"]), str(manifest["validity"])
    load_ns = manifest["epoch_ns"], manifest["epoch_ns"] + schedule.load_ns
    problems = [*fates.problems(), *told_wrong(spec.study, run, numbers, fates)]
    problems += unnamed(done, reasons, load_ns, int(numbers["scale_ns"]))
    problems += unbelieved(done, validity, load_ns)
    return validity, reasons, problems, fates


def _on_small_disk(schedule: LiveSchedule, disk: FullDisk, folder: Path) -> Parts:
    ground = GROUNDS[schedule.ground]
    spec = ground.make(schedule.testbed, schedule.seed, schedule.load_ns, ())
    with machine_lock():
        try:
            told = run_on_small_disk(spec, schedule.seed, disk.room_bytes, folder)
        except MachineError as lacking:  # others can: the seed draws the same for everyone
            return NOT_PLAYED, (str(lacking),), (), None, ()
    outcome = told.validity[0] if told.validity else ENDED
    return outcome, (told.line,), told.problems, None, ()
