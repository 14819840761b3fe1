"""Figures made by the code of a commit of this checkout, in a copy of it that goes when they are made."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from collectors.partials import partial_of
from core.digests import digest_of
from core.errors import MachineError, SpecError
from harness.code_version import ROOT
from ratebed import interrupts

GRACE_S = 20.0  # in which what Ctrl-C has interrupted, too, takes down what it made


def commit_of(name: str) -> str:
    """The whole hash of a commit, tag or branch; empty where this checkout has none of that name."""
    if name.startswith("-"):
        return ""
    try:
        return _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except (OSError, subprocess.CalledProcessError):
        return ""


def results_at(commit: str, out: Path, words: Sequence[str]) -> tuple[Path, bool]:
    """Make the figures of ``words`` (of ``ratebed run``) by the code of ``commit``.

    Returns the folder of results, and whether something failed there, as that code says.  What is there already is not
    repeated.  SpecError where that code does not take these words, or ends otherwise.
    """
    from core.java import find_java

    # Of its own: all that is in both folders is compared, and another time other words may have been asked of one.
    name = f"{commit[:12]}-{digest_of(' '.join(words).encode())[:8]}"
    folder = (out / interrupts.AT_COMMITS / name).resolve()
    interrupts.writes_to(out)
    folder.mkdir(parents=True, exist_ok=True)
    copy = partial_of(folder)
    try:
        copy.mkdir()
        _check_out(commit, copy)
        environment = {**os.environ, "PYTHONPATH": str(copy), "JAVA_HOME": str(find_java())}
        command = [sys.executable, "-m", "ratebed", "run", *words, "--out", str(folder)]
        code = _code_of(subprocess.Popen(command, cwd=copy, env=environment, stdout=sys.stderr))
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    if code == interrupts.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (0, 1):  # 1: some run failed; what came of the others is compared
        raise SpecError(f"commit {commit[:12]}: `ratebed run {' '.join(words)}` ended with {code}", "see above")
    return folder, code == 1


def _check_out(commit: str, folder: Path) -> None:
    try:
        _git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder))
        _git("-C", str(folder), "checkout", "--quiet", "--detach", commit)
    except subprocess.CalledProcessError as error:
        raise MachineError(f"commit {commit[:12]}: {error.stderr.strip()}", "free disk, or repair git") from None


def _code_of(command: "subprocess.Popen[bytes]") -> int:
    """The exit code of a command that ends when this one does; Ctrl-C at a terminal reaches both."""
    with interrupts.ends_with_us(command):
        try:
            return command.wait()
        except KeyboardInterrupt:
            with suppress(subprocess.TimeoutExpired):
                command.wait(GRACE_S)
            command.terminate()
            command.wait()
            raise


def _git(*words: str) -> str:
    process = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return process.stdout.strip()
