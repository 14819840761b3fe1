"""The progress of a campaign: a bar with the time left, and one line for each finished run."""

import sys
from collections.abc import Mapping
from types import TracebackType

from harness.campaign import Finished
from harness.estimate import expected_seconds
from harness.experiment import RunSpec


class RunProgress:
    """Prints while runs finish; the bar appears on a terminal only."""

    def __init__(self, missing: Mapping[str, RunSpec], total: int, jobs: int):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.count, self.done = len(missing), 0
        self.bar = Bar(
            TextColumn("runs"), BarColumn(), TextColumn("{task.fields[done]}/{task.fields[count]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=self.console, transient=True,
            disable=not self.console.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task(
            "runs", total=sum(map(expected_seconds, missing.values())), done=0, count=self.count
        )
        have = total - self.count
        self.console.print(
            f"{total} runs: {have} there already, {self.count} to do on {jobs} process{'es' * (jobs != 1)}"
        )

    def __enter__(self) -> "RunProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def finished(self, run: Finished) -> None:
        """A run came home."""
        self.done += 1
        self.bar.update(self.task, advance=expected_seconds(run.spec), done=self.done)
        outcome = f"FAILED: {run.error}" if run.error else f"{run.seconds:.1f} s"
        self.console.print(f"[{self.done}/{self.count}] {run.run_id} {describe(run.spec)}  {outcome}", markup=False)


def describe(spec: RunSpec) -> str:
    """A run in a few words: axes, and the options that make it a point of its grid."""
    factors = [f"{key.partition('.')[2]}={value}" for key, value in spec.factors().items() if len(value) < 24]
    where = [] if spec.testbed == "virtual" else [f"on {spec.testbed}"]
    return " ".join([spec.system, spec.workload, *where, *factors, f"#{spec.repetition}"])
