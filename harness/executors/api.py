"""What a campaign asks of whoever executes its runs."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from collectors.integrity import is_whole
from collectors.writer import record_failure
from core.errors import MachineError, SpecError, described
from harness.experiment import RunSpec
from testbed import load_testbed
from testbed.api import Testbed

Work = tuple[RunSpec, str, Path]  # a run, its id, and the folder of all runs


@dataclass(frozen=True)
class Finished:
    """One run came home: ``error`` is empty where it worked."""

    spec: RunSpec
    run_id: str
    seconds: float
    error: str = ""
    fatal: bool = False  # the machine is at fault: going on makes no sense


class Executor(Protocol):
    """Where the runs of a campaign are executed."""

    def map(self, work: list[Work]) -> Generator[Finished, None, None]:
        """Execute all, in any order; yield each as it finishes.  Closed before its end, it ends what still runs."""
        ...


def is_live(item: Work) -> bool:
    """Whether a run goes on in real time, and so on this machine, alone."""
    return load_testbed(item[0].testbed).real_time


def work(
    spec: RunSpec, run_id: str, runs: Path, place: Callable[[Testbed], Testbed] = lambda testbed: testbed
) -> Finished:
    """One run, errors caught: what a worker process executes.  ``place``: see ``harness.run.execute``."""
    from harness.code_version import id_of
    from harness.run import execute

    try:
        if id_of(spec) != run_id:
            raise SpecError(
                f"the code of run {run_id} or an input was changed since it was planned", "repeat the command"
            )
        # Another command may have made it since this one was planned.
        seconds = 0.0 if is_whole(runs / run_id) else execute(spec, run_id, runs / run_id, place)
    except Exception as error:
        fatal = isinstance(error, MachineError)
        if not fatal or load_testbed(spec.testbed).real_time:  # the logs of its processes tell why
            record_failure(runs / run_id, spec.to_json(), error)
        return Finished(spec, run_id, 0.0, described(error), fatal)
    return Finished(spec, run_id, seconds)
