"""On a worker, from the archive: carry out a batch of runs, whatever each of them does to its process.

At first all of a batch go on in the task's own process.  A worker that ends over them leaves a suspect batch: then the
runs that have not finished go on in a process of their own, and where that ends, the run that it had begun is recorded
as failed and the others go on.  A run may take its executor along; two that ended so while it went on by itself are
enough to say that it does, and it is not begun a third time.

Finished runs are in the folder that all hosts share or, where they share none, in packs: then a task writes into a
folder of its own and brings what has finished when all of it has, a suspect run as soon as it has.

    python -P -m harness.executors.worker     # that process: {"order": …, "batch": [RUN …]} in, a line a run out
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import IO

import msgspec

from collectors.integrity import is_whole, verified
from collectors.packs import RunPacks
from collectors.partials import partial_of, remove_partials
from collectors.store.hadoop import place_of
from collectors.writer import record_failure
from core.errors import HarnessError, MachineError, SystemFault
from core.garbage import collect_rarely
from harness.code_version import code_hash, id_of
from harness.executors.api import work
from harness.executors.orders import Errand, Order, Told
from harness.experiment import RunSpec
from studies.inputs import inputs_of

STRIKES = 2  # executors that ended over a run by itself, until it is not begun any more


def carry_out(root: Path, order: Order, batch: list[Errand], is_suspect: bool) -> list[Told]:
    """What came of each run of a batch, or why none was begun.  ``root``: where our code is unpacked."""
    if not Path(__file__).is_relative_to(root):
        return [_refused(f"{Path(__file__).parents[2]} was imported there, not the archive")]
    with _inside(order["folder"]):
        for asked in batch:
            if refused := _differing(asked):
                return [_refused(refused)]
        _prepared(_written_to(root, order))
        if not is_suspect:
            return _carried_out(root, order, batch)
        try:
            return list(_by_themselves(root, order, batch))
        except OSError as error:  # where strikes are noted
            return _fatal(batch, error)


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
    files = ", ".join(inputs_of(spec))
    return "" if run_id == asked["run_id"] else f"of run {asked['run_id']}, {files or 'the spec'} is another there"


def _spec_of(asked: Errand) -> RunSpec:
    return msgspec.json.decode(asked["spec"], type=RunSpec)


@cache
def _prepared(runs: Path) -> None:
    """Once a process: fewer pauses, and away with what killed workers of this machine have left."""
    collect_rarely()
    remove_partials(runs)


def _written_to(root: Path, order: Order) -> Path:
    """The folder of all runs, or of this executor's."""
    return Path(order["runs"]) if order["runs"] else root.parent / "runs"


def _carried_out(root: Path, order: Order, batch: list[Errand]) -> list[Told]:
    """Carry all out; they have finished when they are where finished runs are wanted."""
    runs = _written_to(root, order)
    if not order["packs"]:
        return [_told(asked, runs) for asked in batch]
    own = partial_of(runs / token_hex(4))
    try:
        packs = RunPacks(place_of(order["packs"], order["hadoop"]))
        there = packs.state().of_run
        told = [_of(asked["run_id"], 0.0) if asked["run_id"] in there else _told(asked, own) for asked in batch]
        packs.bring([own / one["run_id"] for one in told if not one["error"] and one["run_id"] not in there])
    except MachineError as error:
        return _fatal(batch, error)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return told


def _fatal(batch: list[Errand], error: Exception) -> list[Told]:
    return [_of(asked["run_id"], 0.0, f"{platform.node()}: {error}", True) for asked in batch]


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
    runs = _written_to(root, order)
    waiting = []
    for asked in batch:
        if _strikes(order, asked) < STRIKES:
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


def _strikes(order: Order, asked: Errand) -> int:
    return sum(1 for _ in place_of(order["strikes"], order["hadoop"]).glob(f"{asked['run_id']}-*"))


@contextmanager
def _struck(order: Order, asked: Errand) -> Iterator[None]:
    """A file of a name of its own says that the run was begun, until it has ended."""
    strikes = place_of(order["strikes"], order["hadoop"])
    strikes.mkdir(parents=True, exist_ok=True)
    strike = strikes / f"{asked['run_id']}-{token_hex(4)}"
    strike.open("xb").close()
    yield
    strike.unlink()


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
    order: Order = asked["order"]
    for one in asked["batch"]:
        try:
            with _struck(order, one):
                (told,) = _carried_out(Path(__file__).parents[2], order, [one])
        except OSError as error:
            (told,) = _fatal([one], error)
        print(json.dumps(told), file=sink, flush=True)


def _end_with(source: IO[str]) -> None:
    """End as soon as whoever asked has: nobody would hear what comes of the rest."""
    os.read(source.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    own = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a run prints is not for whoever asked
    main(sys.stdin, own)
