"""Figures made by the code of a commit of this checkout, in a copy of it that goes when they are made."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from core.digests import digest_of
from core.errors import MachineError, SpecError
from harness.code_version import ROOT

FOLDER = "commits"  # in --out: a folder of results a commit and what was asked of it


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
    folder = (out / FOLDER / f"{commit[:12]}-{digest_of(' '.join(words).encode())[:8]}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ratebed-commit-") as scratch:
        copy = Path(scratch) / commit[:12]
        try:
            _git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(copy))
            _git("-C", str(copy), "checkout", "--quiet", "--detach", commit)
        except subprocess.CalledProcessError as error:
            raise MachineError(f"commit {commit[:12]}: {error.stderr.strip()}", "free disk, or repair git") from None
        environment = {**os.environ, "PYTHONPATH": str(copy), "JAVA_HOME": str(find_java())}
        command = [sys.executable, "-m", "ratebed", "run", *words, "--out", str(folder)]
        done = subprocess.run(command, cwd=copy, env=environment, stdout=sys.stderr)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode not in (0, 1):  # 1: some run failed; what came of the others is compared
        raise SpecError(
            f"commit {commit[:12]}: `ratebed run {' '.join(words)}` ended with {done.returncode}", "see above"
        )
    return folder, done.returncode == 1


def _git(*words: str) -> str:
    process = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return process.stdout.strip()
