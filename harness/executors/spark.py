"""The workers of a Spark cluster: batches of runs are its tasks.

The run folder is one that all hosts see; or workers bring runs in packs to where all hosts reach, and they are fetched
from there into the run folder of this one as soon as they are told of.

One job carries out all that is to be done.  What comes of each run comes home in an accumulator, with the task that
it was in.  Where tasks end their workers again and again, Spark gives the job up: the batch that it names is suspect
then (``harness.executors.worker``), and another job goes on with what has not come home.
"""

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING

from collectors.integrity import is_whole
from collectors.packs import RunPacks
from collectors.partials import own_mark
from collectors.store.hadoop import HadoopPath, Place, place_of
from collectors.writer import record_failure
from core.errors import MachineError, SystemFault
from core.spark import ENVIRONMENT_FIX, machines_part, reason_of
from harness.code_version import code_hash
from harness.estimate import expected_seconds
from harness.executors import task
from harness.executors.api import Finished, Work, is_live
from harness.executors.batches import batched
from harness.executors.local import LocalExecutor
from harness.executors.orders import Errand, Order, Told
from harness.executors.shipping import code_archive
from harness.run import LIBRARIES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

LOOK_EVERY_S = 0.1
TRIES = 4  # jobs in a row that were given up without a run that came home
POOL = "runs"  # beside that of queries, which so get their share of the executors while runs go on
_CRASHED = re.compile(r"Python worker exited unexpectedly|ExecutorLostFailure|Python worker .*(died|killed)")
_NAMED = re.compile(r"Task (\d+) in stage [\d.]+ failed")

Batch = list[Work]


class SparkExecutor:
    """The workers of a cluster; runs in real time stay on this machine.

    ``start`` gives the context when there is something to do.  ``packs``: where runs go whose hosts share no folder.
    """

    def __init__(self, start: "Callable[[], SparkContext]", packs: RunPacks | None = None):
        self.start, self.packs = start, packs

    def map(self, work_list: list[Work]) -> Generator[Finished, None, None]:
        """See ``Executor.map``.  MachineError where workers are no place for these runs, or do not answer.

        Ctrl-C cancels the job; what has finished stays.
        """
        away = [item for item in work_list if not is_live(item)]
        if away and self.packs:
            self.packs.fetch([run_id for _, run_id, _ in away], away[0][2])
            came = {run_id: is_whole(runs / run_id) for _, run_id, runs in away}
            yield from (Finished(spec, run_id, 0.0) for spec, run_id, _ in away if came[run_id])
            away = [item for item in away if not came[item[1]]]
        if away:
            yield from self._on_the_cluster(away)
            if self.packs:
                self.packs.tidy()
        yield from LocalExecutor(1).map([item for item in work_list if is_live(item)])

    def _on_the_cluster(self, work_list: list[Work]) -> Iterator[Finished]:
        context = self.start()
        runs = work_list[0][2]
        order = _order(context, runs, self.packs)
        waiting = {run_id: (spec, run_id, runs) for spec, run_id, runs in work_list}
        suspects: set[str] = set()
        in_vain = 0
        try:
            while waiting:
                count = len(waiting)
                batches = _batches(list(waiting.values()), suspects, context.defaultParallelism)
                job = _Job(context, order, batches, suspects)
                for told in job.told():
                    if item := waiting.get(told["run_id"]):
                        error = _seen(told, item) if self.packs is None else self._fetched(told, item, waiting)
                        del waiting[told["run_id"]]
                        yield Finished(item[0], item[1], told["seconds"], error, told["fatal"])
                assert job.error or not waiting, "runs have not come home, and Spark says that they have"
                if job.error is not None:
                    suspects.update(run_id for _, run_id, _ in _culprit(job.error, batches))
                    in_vain = 0 if len(waiting) < count else in_vain + 1
                    if in_vain == TRIES:
                        raise MachineError(f"tasks go on ending their workers: {reason_of(job.error)}", ENVIRONMENT_FIX)
        finally:
            _remove(place_of(order["strikes"], order["hadoop"]))

    def _fetched(self, told: Told, item: Work, waiting: Mapping[str, Work]) -> str:
        """Have a run that was told of, and what others have come by now; what is wrong with it, or nothing."""
        assert self.packs is not None
        folder, error = item[2] / item[1], str(told["error"])
        if not error and not is_whole(folder):
            self.packs.fetch(waiting, item[2])
            error = "" if is_whole(folder) else f"{told['run_id']}: what came home is not as it was written"
        if error and not told["fatal"]:
            record_failure(folder, item[0].to_json(), SystemFault(error, "repeat the command"))
        return error


def _seen(told: Told, item: Work) -> str:
    """What is wrong with a run that was told of, or nothing."""
    if told["error"] or is_whole(item[2] / item[1]):
        return str(told["error"])
    return f"{item[1]} was run on a worker and is not in {item[2]}: share that folder with all hosts, or give --packs"


def _remove(strikes: Place) -> None:
    with suppress(OSError):  # there may be none
        for strike in strikes.iterdir():
            strike.unlink()
        strikes.rmdir()


def _order(context: "SparkContext", runs: Path, packs: RunPacks | None) -> Order:
    """Have the code sent; what all tasks shall know."""
    archive = code_archive()
    there = packs.root if packs else runs.resolve()
    context.addArchive(f"{archive.path}#{archive.name}")
    return {
        "archive": archive.name,
        "digest": archive.digest,
        "versions": task.versions_of(LIBRARIES),
        "runs": "" if packs else str(there),
        "packs": str(there) if packs else "",
        "hadoop": dict(there.settings) if isinstance(there, HadoopPath) else {},
        "strikes": str(there / f".strikes{own_mark()}"),  # as a half-written run, where we are killed
        "folder": os.getcwd(),
    }


def _batches(work_list: list[Work], suspects: set[str], cores: int) -> list[Batch]:
    """Batches in the order of the runs; in one with suspects are no others."""
    parts = [[item for item in work_list if (item[1] in suspects) is suspect] for suspect in (False, True)]
    return [batch for part in parts for batch in batched(part, lambda item: expected_seconds(item[0]), cores)]


class _Job:
    """One Spark job; ``error`` says afterwards why it was given up."""

    def __init__(self, context: "SparkContext", order: Order, batches: list[Batch], suspects: set[str]):
        from pyspark import InheritableThread, cloudpickle
        from pyspark.accumulators import AddingAccumulatorParam

        cloudpickle.register_pickle_by_value(task)
        self.context, self.group = context, f"runs-{token_hex(4)}"
        self.error: Exception | None = None
        self.home: Accumulator[list[Told]] = context.accumulator([], AddingAccumulatorParam([]))
        asked = [([_asked(item) for item in batch], batch[0][1] in suspects) for batch in batches]
        self.thread: Thread = InheritableThread(target=self._run, args=(order, asked), daemon=True)

    def _run(self, order: Order, asked: list[tuple[list[Errand], bool]]) -> None:
        carry_out, home = task.carry_out, self.home
        try:
            self.context.setJobGroup(self.group, f"{sum(len(runs) for runs, _ in asked)} runs", True)
            self.context.setLocalProperty("spark.scheduler.pool", POOL)
            batches = self.context.parallelize(asked, len(asked))
            batches.foreach(lambda batch: carry_out(order, *batch, home))
        except Exception as error:
            self.error = error

    def told(self) -> Iterator[Told]:
        """What comes home, as it does, until the job is over.  MachineError where a worker refuses to compute."""
        seen = 0
        self.thread.start()
        try:
            is_over = False
            while not is_over:
                self.thread.join(LOOK_EVERY_S)
                is_over = not self.thread.is_alive()  # seen first: what has come home by then is read below
                news = self.home.value[seen:]
                seen += len(news)
                for told in news:
                    if "refused" in told:
                        raise MachineError(
                            f"{told['host']}: {told['refused']}", f"nothing was run there; {ENVIRONMENT_FIX}"
                        )
                    yield told
        finally:
            if self.thread.is_alive():
                with suppress(Exception):  # Java may have ended
                    self.context.cancelJobGroup(self.group)


def _asked(item: Work) -> Errand:
    spec, run_id, _ = item
    return {"spec": spec.to_json().decode(), "run_id": run_id, "code": code_hash(spec)}


def _culprit(error: Exception, batches: list[Batch]) -> Batch:
    """The batch over which workers ended; else MachineError, with the reason, or the error of Spark's Java."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, Py4JNetworkError | OSError | EOFError):
        raise error
    text = str(error)
    named = _NAMED.search(text)
    if named is None or not _CRASHED.search(text):
        raise machines_part(error) or MachineError(f"Spark gave up: {reason_of(error)}", ENVIRONMENT_FIX)
    return batches[int(named[1])]
