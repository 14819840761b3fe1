"""A run on a disk that is too small: the command itself, in a mount namespace of its own, and what it leaves there.

    unshare --mount python -m harness.nemesis.disk ROOM_BYTES FOLDER SPEC.toml

mounts so much room over an empty folder, runs ``ratebed run SPEC.toml`` with its results and temporary folders there,
and prints what became of it as JSON (``DiskOutcome``).  The mount goes with the namespace.
"""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from collectors.integrity import check_run, read_manifest
from collectors.partials import left_partials
from core.errors import LINE, HarnessError
from core.records import Json
from harness.campaign import finished_runs
from studies.spec import RunSpec
from testbed.hosts.capabilities import require, tool
from testbed.trust.evidence import INVALID

COMMAND_S = 300.0
_NO_ROOM = os.strerror(errno.ENOSPC)
_FIELDS = ("system", "workload", "topology", "testbed", "calibration", "study", "slo", "round")
_OPTIONS = ("system_options", "workload_options", "topology_options", "study_options")


class DiskOutcome(msgspec.Struct, frozen=True):
    """How the command ended, and what is wrong with that: a sentence each."""

    exit_code: int
    line: str  # the last one about the disk
    finished: int  # runs that are whole
    validity: tuple[str, ...]
    problems: tuple[str, ...]


def run_on_small_disk(spec: RunSpec, seed: int, room_bytes: int, folder: Path) -> DiskOutcome:
    """Run a spec so; ``folder``: empty, for the mount and the matrix file.  MachineError where that needs root."""
    require("root")
    matrix, mounted = folder / "matrix.toml", folder / "small"
    mounted.mkdir()
    matrix.write_text(as_matrix(spec))
    module = [sys.executable, "-m", "harness.nemesis.disk"]
    words = [tool("unshare") or "unshare", "--mount", *module, str(room_bytes), str(mounted), str(matrix), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * COMMAND_S)
    if done.returncode:
        return DiskOutcome(done.returncode, "", 0, (), (f"the trial itself failed: {done.stderr.strip()[-300:]}",))
    return msgspec.json.decode(done.stdout, type=DiskOutcome)


def as_matrix(spec: RunSpec) -> str:
    """A matrix file of one point.  JSON's plain values are TOML's; a list is one value of an axis."""

    def value(of: object) -> str:
        if isinstance(of, dict):
            return "{ " + ", ".join(f"{key} = {value(its)}" for key, its in of.items() if its != []) + " }"
        return json.dumps([of] if isinstance(of, list) else of)

    lines = [f"{name} = {value(getattr(spec, name))}" for name in (*_FIELDS, *_OPTIONS)]
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
            manifests.append(read_manifest(folder))
        except HarnessError as error:
            problems.append(f"half-written: {error}")
    problems += [f"left: {path.name}" for path in left_partials(out / "runs")]
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
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=COMMAND_S)
    sys.stdout.buffer.write(msgspec.json.encode(judge(done.returncode, done.stdout + done.stderr, out)))


if __name__ == "__main__":
    main(*sys.argv[1:])
