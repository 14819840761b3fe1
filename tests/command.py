"""The command line as tests give it: in a process of its own, as users do, or in this one."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from collectors import integrity
from ratebed.cli import answer

ROOT = Path(__file__).parents[1]


def process(*words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """What came of ``ratebed`` with these words; ``options``: of ``subprocess.run``."""
    options = {"cwd": ROOT, **options}
    return subprocess.run([sys.executable, "-m", "ratebed", *words], capture_output=True, text=True, **options)


def ratebed(*words: str) -> "subprocess.CompletedProcess[str]":
    """The same by the same code, without the start of another Python and another Java, which is most of what it takes.

    Not for systems and figures of a file, which stay known, nor for signals.
    """
    integrity.forget()
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
        code = answer(words)
    return subprocess.CompletedProcess(["ratebed", *words], code, out.getvalue(), errors.getvalue())
