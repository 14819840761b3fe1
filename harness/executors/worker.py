"""On a worker, from the archive: carry out a batch of runs, whatever each of them does to its process.

At first all of a batch go on in the task's own process.  A worker that ends over them leaves a suspect batch: then the
runs that have not finished go on in a process of their own, and where that ends, the run that it had begun is recorded
as failed and the others go on.  A run may take its executor along; two that ended so while it went on by itself are
enough to say that it does, and it is not begun a third time.

    python -P -m harness.executors.worker     # that process: {"runs": FOLDER, "batch": [RUN …]} in, a line a run out
"""

import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

import msgspec

from collectors.integrity import verified
from collectors.partials import remove_partials
from collectors.writer import is_whole, record_failure
from core.errors import HarnessError, SystemFault
from core.garbage import collect_rarely
from harness.code_version import code_hash, id_of
from harness.executors.api import work
from harness.executors.orders import Errand, Order, Told
from harness.experiment import RunSpec

STRIKES = 2  # executors that ended over a run by itself, until it is not begun any more


def carry_out(root: Path, order: Order, batch: list[Errand], is_suspect: bool) -> list[Told]:
    """What came of each run of a batch, or why none was begun.  ``root``: where our code is unpacked."""
    if not Path(__file__).is_relative_to(root):
        return [_refused(f"{Path(__file__).parents[2]} was imported there, not the archive")]
    runs = Path(order["runs"])
    with _inside(order["folder"]):
        for asked in batch:
            if refused := _differing(asked):
                return [_refused(refused)]
        _prepared(runs)
        if is_suspect:
            return list(_by_themselves(root, order, batch))
        return [_told(asked, runs) for asked in batch]


def _refused(why: str) -> Told:
    return {"refused": why, "host": platform.node()}


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """In the folder that the command was given in, if it is here: paths of files may be relative."""
    before = Path.cwd()
    if Path(folder).is_dir():
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _differing(asked: Errand) -> str:
    """What makes a run another one here than where it was planned; empty: nothing."""
    spec = _spec_of(asked)
    try:
        code, run_id = code_hash(spec), id_of(spec)
    except HarnessError as error:  # a file or a package from outside the tree
        return f"{error} (all hosts must have it under this path)"
    if code != asked["code"]:
        return f"the code of run {asked['run_id']} has the hash {code[:16]} there, here it is {asked['code'][:16]}"
    files = ", ".join(spec.input_digests())
    return "" if run_id == asked["run_id"] else f"of run {asked['run_id']}, {files or 'the spec'} is another there"


def _spec_of(asked: Errand) -> RunSpec:
    return msgspec.json.decode(asked["spec"], type=RunSpec)


@cache
def _prepared(runs: Path) -> None:
    """Once a process: fewer pauses, and away with what killed workers of this machine have left."""
    collect_rarely()
    remove_partials(runs)


def _told(asked: Errand, runs: Path) -> Told:
    """Carry one run out, unless somebody has by now."""
    run_id = asked["run_id"]
    if is_whole(runs / run_id):
        return _of(run_id, float(verified(runs / run_id).get("wall_seconds", 0.0)))
    finished = work(_spec_of(asked), run_id, runs)
    where = f"{platform.node()}: " if finished.fatal else ""
    return _of(run_id, finished.seconds, where * bool(finished.error) + finished.error, finished.fatal)


def _of(run_id: str, seconds: float, error: str = "", is_fatal: bool = False) -> Told:
    return {"run_id": run_id, "seconds": seconds, "error": error, "fatal": is_fatal}


# --- suspects ----------------------------------------------------------------------------------------


def _by_themselves(root: Path, order: Order, batch: list[Errand]) -> Iterator[Told]:
    """The runs of a batch in a process beside this one, and in another where that has ended."""
    runs, strikes = Path(order["runs"]), Path(order["strikes"])
    waiting = []
    for asked in batch:
        if _strikes(strikes, asked) < STRIKES:
            waiting.append(asked)
        else:
            yield _failed(asked, runs, f"its executor ended with it, {STRIKES} times by itself")
    while waiting:
        with _process(root, order, waiting) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{sys.executable} starts no process for suspect runs")
            for line in process.stdout:
                waiting.pop(0)
                yield json.loads(line)
        if waiting:
            code = process.returncode
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            yield _failed(waiting.pop(0), runs, f"the run ended its process {how}")
            remove_partials(runs)


def _failed(asked: Errand, runs: Path, what: str) -> Told:
    error = SystemFault(what, "its companions are kept")
    record_failure(runs / asked["run_id"], asked["spec"], error)
    return _of(asked["run_id"], 0.0, str(error))


def _strikes(strikes: Path, asked: Errand) -> int:
    try:
        return (strikes / asked["run_id"]).stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _process(root: Path, order: Order, batch: list[Errand]) -> Iterator[subprocess.Popen[str]]:
    """A process that carries out runs, one after the other; it ends with this one."""
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-P", "-m", "harness.executors.worker"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            json.dump({"order": order, "batch": batch}, process.stdin)
            process.stdin.write("\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: that is seen from what it did not say
        yield process


def main(source: IO[str], sink: IO[str]) -> None:
    """Carry out the runs that ``source`` names in its first line; a line when it begins, one of JSON for each run."""
    print("begun", file=sink, flush=True)
    asked = json.loads(source.readline())
    threading.Thread(target=_end_with, args=(source,), daemon=True).start()
    runs, strikes = Path(asked["order"]["runs"]), Path(asked["order"]["strikes"])
    for one in asked["batch"]:
        strike = strikes / one["run_id"]
        strikes.mkdir(exist_ok=True)
        with strike.open("a") as file:
            file.write("x")
        told = _told(one, runs)
        strike.unlink(missing_ok=True)
        print(json.dumps(told), file=sink, flush=True)


def _end_with(source: IO[str]) -> None:
    """End as soon as whoever asked has: nobody would hear what comes of the rest."""
    os.read(source.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a run prints is not for whoever asked
    main(sys.stdin, own)
