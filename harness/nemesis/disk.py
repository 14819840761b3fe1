"""A run on a disk that is too small: the command itself, in a mount namespace of its own, and what it leaves there.

    unshare --mount python -m harness.nemesis.disk ROOM_BYTES FOLDER SPEC.toml SEED

mounts so much room over an empty folder, runs ``ratebed run SPEC.toml`` with its results and temporary folders there,
and prints what became of it as JSON (``DiskOutcome``).  The mount goes with the namespace.  What else is left of it is
looked for outside.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import msgspec

from collectors.integrity import check_run, read_manifest
from collectors.partials import PARTIAL
from core.errors import LINE, HarnessError, MachineError
from core.records import Json
from harness.campaign import finished_runs
from harness.nemesis.audit import account_wrong
from harness.nemesis.remains import CommandTraces
from harness.run import resolve
from studies.spec import AXES, CONFIGURED, RunSpec
from testbed.hosts.capabilities import require, tool, tries
from testbed.hosts.lock import BESIDE
from testbed.trust.evidence import INVALID

COMMAND_S = 300.0
END_S = 60.0  # in which a command takes down what it has made
_NO_ROOM = os.strerror(errno.ENOSPC)


class DiskOutcome(msgspec.Struct, frozen=True):
    """How the command ended, and what is wrong with that: a sentence each."""

    exit_code: int
    line: str  # the last one about the disk
    finished: int  # runs that are whole
    validity: tuple[str, ...]
    problems: tuple[str, ...]


class Ended(NamedTuple):
    """A command that has ended; ``is_late``: because it was told to."""

    code: int
    out: str
    err: str
    is_late: bool


def ended(words: Sequence[str], environment: Mapping[str, str], most_s: float, patience_s: float) -> Ended:
    """Run a command in a session of its own, for ``most_s``; then SIGTERM, and SIGKILL for all of it after a while."""
    with TemporaryFile("w+", errors="replace") as out, TemporaryFile("w+", errors="replace") as err:  # no pipe to block
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True
        )
        is_late = False
        try:
            process.wait(most_s)
        except subprocess.TimeoutExpired:
            is_late = True
            _end(process, patience_s)
        except BaseException:  # Ctrl-C, which does not reach another session
            _end(process, patience_s)
            raise
        for file in (out, err):
            file.seek(0)
        return Ended(process.returncode, out.read(), err.read(), is_late)


def _end(process: "subprocess.Popen[bytes]", patience_s: float) -> None:
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def require_small_disk(mounted: Path) -> None:
    """MachineError where this machine lets us mount none over the folder."""
    require("root", "unshare")
    if not tries(*_unshared(), tool("mount") or "mount", "-t", "tmpfs", "ratebed-small", str(mounted)):
        raise MachineError("a small disk cannot be mounted here", "run it as root, and outside of containers")


def _unshared() -> list[str]:
    return [tool("unshare") or "unshare", "--mount"]


def run_on_small_disk(spec: RunSpec, seed: int, room_bytes: int, folder: Path) -> DiskOutcome:
    """Run a spec so, with the machine's lock held; ``folder``: empty, for the mount, the matrix file and the state.

    MachineError, before anything is run, where this machine does not let us.
    """
    matrix, mounted = folder / "matrix.toml", folder / "small"
    mounted.mkdir()
    require_small_disk(mounted)
    matrix.write_text(as_matrix(spec))
    traces = CommandTraces(folder / "state")
    module = [sys.executable, "-m", "harness.nemesis.disk"]
    words = [*_unshared(), *module, str(room_bytes), str(mounted), str(matrix), str(seed)]
    beside = ",".join([*filter(None, [os.environ.get(BESIDE)]), str(os.getuid())])  # it need not wait for our lock
    try:
        done = ended(words, {**os.environ, **traces.environment, BESIDE: beside}, 2 * COMMAND_S, 2 * END_S)
        left = tuple(f"left: {what}" for what in traces.left())
    finally:
        traces.remove()
    outcome = _outcome(done)
    return msgspec.structs.replace(outcome, problems=(*outcome.problems, *left))


def _outcome(done: Ended) -> DiskOutcome:
    """What the process in the namespace says of it."""
    last = done.err.strip()[-300:]
    if done.is_late:
        return DiskOutcome(done.code, "", 0, (), (f"the trial did not end within {2 * COMMAND_S:g} s: {last}",))
    try:
        if not done.code:
            return msgspec.json.decode(done.out, type=DiskOutcome)
    except msgspec.DecodeError as error:
        last = f"{error}: {last}"
    return DiskOutcome(done.code, "", 0, (), (f"the trial itself failed: {last}",))


def as_matrix(spec: RunSpec) -> str:
    """A matrix file of one point.  JSON's plain values are TOML's; a list is one value of an axis."""

    def value(of: object) -> str:
        if isinstance(of, dict):
            return "{ " + ", ".join(f"{key} = {value(its)}" for key, its in of.items() if its != []) + " }"
        return json.dumps([of] if isinstance(of, list) else of)

    lines = [f"{name} = {value(getattr(spec, name))}" for name in (*AXES, *(f"{axis}_options" for axis in CONFIGURED))]
    return "\n".join(["[[grid]]", *lines, ""])


def judge(exit_code: int, said: str, out: Path) -> DiskOutcome:
    """What the command said, and whether all that is there is whole."""
    lines = [line for line in said.splitlines() if line.strip()]
    spoken = [line for line in lines if _NO_ROOM in line]
    last, problems = (spoken or lines or [""])[-1], list[str]()
    if "Traceback" in said or "a fault of Ratebed's" in said:
        problems.append(f"a traceback, or none that was shown: {last}")
    if exit_code not in (0, 1):
        problems.append(f"exit code {exit_code}")
    if any(len(line) > LINE + 10 for line in spoken if not line.startswith("failed")):
        problems.append(f"a line of {len(last)} letters")
    manifests: list[Json] = []
    for folder in finished_runs(out):
        try:
            check_run(folder)
            manifests.append(manifest := read_manifest(folder))
            point = resolve(msgspec.convert(manifest["spec"], RunSpec))
            problems += account_wrong(point, folder, manifest["fidelity"])
        except HarnessError as error:
            problems.append(f"half-written: {error}")
    problems += [f"half-written: {path.name}" for path in (out / "runs").glob(f"*{PARTIAL}*")]
    validity = tuple(str(manifest["validity"]) for manifest in manifests)
    if exit_code == 0 and not manifests:
        problems.append("exit code 0, and no run")
    if exit_code and not spoken and INVALID not in validity:
        problems.append(f"nobody says that the disk is full: {last}")
    return DiskOutcome(exit_code, last, len(manifests), validity, tuple(problems))


def main(room_bytes: str, mounted: str, matrix: str, seed: str) -> None:
    """In the namespace."""
    folder = Path(mounted)
    size = f"size={room_bytes},mode=0755"
    subprocess.run([tool("mount") or "mount", "-t", "tmpfs", "-o", size, "ratebed-small", mounted], check=True)
    out = folder / "out"
    words = [sys.executable, "-m", "ratebed", "run", matrix, "--seed", seed, "--out", str(out)]
    environment = {**os.environ, "TMPDIR": mounted}
    signal.signal(signal.SIGTERM, _interrupted)
    done = ended(words, environment, COMMAND_S, END_S)
    outcome = judge(done.code, done.out + done.err, out)
    late = [f"it did not end within {COMMAND_S:g} s"] if done.is_late else []
    left = [f"left: {path.name}" for path in folder.glob("ratebed-*")]  # the folders of its runs
    outcome = msgspec.structs.replace(outcome, problems=(*late, *outcome.problems, *left))
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt  # so that the command, which is in a session of its own, is ended first


if __name__ == "__main__":
    main(*sys.argv[1:])
