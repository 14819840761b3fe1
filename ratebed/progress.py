"""The progress of a campaign: on a terminal a bar with the time left, elsewhere a line every half a minute."""

import sys
import time
from collections.abc import Mapping
from types import TracebackType

from harness.estimate import expected_seconds
from harness.executors.api import Finished
from harness.experiment import RunSpec
from ratebed.wording import span

EVERY_S = 30.0
TRUSTED = 0.05  # ours: of the work; so much is taken from what was expected before anything is seen


class RunProgress:
    """Prints while runs finish; what fails is said at once.  ``where``: they run.  ``is_quiet``: nothing else is."""

    def __init__(self, missing: Mapping[str, RunSpec], total: int, jobs: int, where: str, is_quiet: bool = False):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.count, self.done, self.jobs, self.is_quiet = len(missing), 0, jobs, is_quiet
        self.bar = Bar(
            TextColumn("runs"), BarColumn(), TextColumn("{task.fields[done]}/{task.fields[count]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=self.console, transient=True,
            disable=is_quiet or not self.console.is_terminal,
        )  # fmt: skip
        self.work_s, self.worked_s = sum(map(expected_seconds, missing.values())), 0.0
        self.task = self.bar.add_task("runs", total=self.work_s, done=0, count=self.count)
        self.begin_s = self.said_s = time.monotonic()
        if not is_quiet:
            have = total - self.count
            runs = f"{total} run{'s' * (total != 1)}"
            self.console.print(f"{runs}: {have} there already, {self.count} to do on {where}", markup=False)

    def __enter__(self) -> "RunProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def say(self, what: str) -> None:
        """A line that is no run's."""
        self.console.print(what, markup=False)

    def finished(self, run: Finished) -> None:
        """A run came home."""
        self.done += 1
        self.worked_s += expected_seconds(run.spec)
        self.bar.update(self.task, completed=self.worked_s, done=self.done)
        if run.error:
            self.console.print(f"failed: {run.run_id} {describe(run.spec)}: {run.error}", markup=False)
        now_s = time.monotonic()
        if self.bar.disable and not self.is_quiet and now_s - self.said_s >= EVERY_S and self.done < self.count:
            self.said_s = now_s
            print(f"{self.done} of {self.count} runs, about {self._left(now_s)} left", flush=True)

    def _left(self, now_s: float) -> str:
        """As the expected and the passed time of what is done say; at first, when that is little, as was expected."""
        before_s = TRUSTED * self.work_s  # as if that much had been done in the time that was expected
        passed_s = now_s - self.begin_s + before_s / self.jobs
        return span((self.work_s - self.worked_s) * passed_s / (self.worked_s + before_s))


def describe(spec: RunSpec) -> str:
    """A run in a few words: axes, and the options that make it a point of its grid."""
    factors = [f"{key.partition('.')[2]}={value}" for key, value in spec.factors().items() if len(value) < 24]
    where = [] if spec.testbed == "virtual" else [f"on {spec.testbed}"]
    return " ".join([spec.system, spec.workload, *where, *factors, f"#{spec.repetition}"])
