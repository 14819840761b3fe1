"""A suite of tests again and again, beside processes that want the processors: which of its tests cry wolf?

``python -m tests.repeats live|go|test [--times N] [--beside N]``: strictly, what failed is not given another chance
(``make test`` gives its own).  Beside it fuzz so many sessions, each of which keeps a core busy and adds to
``fuzz.json``.  What was run is added to ``repeats.json`` after each time.  Both ledgers lie in ``results/``, or in
another folder, ``--ledgers``, lest they make the checkout another one than its commit.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from core.writing import replace_file
from harness.code_version import ROOT, commit
from testbed.brokers.brokerd.build import SOURCES
from testbed.golang import find_go
from testbed.making import alone_in

LEDGERS = ROOT / "results"
BESIDE_S = 24 * 3600  # of a session's processor time, at most
_FAILED = re.compile(r"^(?:(?:FAILED|ERROR) (?=tests/)|\s*--- FAIL: )(.+?)(?: - .*| \(\d\S*s\))?$", re.MULTILINE)


def suites() -> Mapping[str, tuple[str, Path]]:
    """The command and the folder of each."""
    race, cgo = ("-race", 1) if shutil.which("gcc") else ("", 0)
    go = f"CGO_ENABLED={cgo} GOTOOLCHAIN=local {find_go()} test {race} -count=1 -mod=readonly -buildvcs=false ."
    return {
        "live": ("make test-live again=", ROOT),
        "go": (go, SOURCES),
        "test": ("make test", ROOT),
    }


def run_once(command: str, folder: Path, log: Path) -> list[str]:
    """The tests that failed, by name; of a command that fails without one, its exit code."""
    with log.open("w") as file:
        code = subprocess.run(command, shell=True, cwd=folder, stdout=file, stderr=subprocess.STDOUT).returncode
    names = sorted(set(_FAILED.findall(log.read_text(errors="replace"))))
    return names or ([f"exit code {code}"] if code else [])


@contextmanager
def fuzzing(count: int, ledger: Path, log: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many fuzzing sessions meanwhile."""
    words = [sys.executable, "-m", "tests.fuzz", "--seconds", str(BESIDE_S), "--ledger", str(ledger)]
    with log.open("w") as file:
        start = partial(subprocess.Popen, words, cwd=ROOT, stdout=file, stderr=file, start_new_session=True)
        running = [start() for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)  # what it started, too: Go's fuzzing has processes of its own
            process.wait()


def enter(ledger: Path, suite: str, beside: int, failed: Sequence[str], seconds: float) -> str:
    """Add one time to the ledger; returns the sum of the suite at this commit, so accompanied."""
    with alone_in(ledger.parent):
        rows = json.loads(ledger.read_text()) if ledger.exists() else []
        key = {"suite": suite, "commit": commit(), "beside": beside}
        row = next((row for row in rows if key.items() <= row.items()), None)
        if row is None:
            rows.append(row := key | {"times": 0, "passed": 0, "hours": 0.0, "failed": {}})
        row["times"] += 1
        row["passed"] += not failed
        row["hours"] = round(row["hours"] + seconds / 3600, 3)
        row["failed"] |= {name: row["failed"].get(name, 0) + 1 for name in failed}
        row["last_at"] = datetime.now(UTC).isoformat("T", "minutes")
        replace_file(ledger, json.dumps(rows, indent=1, sort_keys=True).encode() + b"\n")
    return f"{row['passed']} of {row['times']} passed at {row['commit']}, beside {beside}, in {row['hours']:.2f} hours"


def main() -> int:
    """The exit code: 1 where a test failed."""
    words = argparse.ArgumentParser(prog="python -m tests.repeats", description=__doc__)
    words.add_argument("suite", choices=suites())
    words.add_argument("--times", type=int, default=1)
    words.add_argument("--beside", type=int, default=0, help="fuzzing sessions")
    words.add_argument("--ledgers", type=Path, default=LEDGERS, help="where times add up")
    asked = words.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what runs beside ends, too
    command, folder = suites()[asked.suite]
    logs = Path(tempfile.mkdtemp(prefix="ratebed-repeats-"))
    wrong = 0
    with fuzzing(asked.beside, asked.ledgers / "fuzz.json", logs / "fuzzing"):
        for number in range(1, asked.times + 1):
            began_s = time.monotonic()
            failed = run_once(command, folder, logs / f"{number}")
            wrong += bool(failed)
            print(
                enter(asked.ledgers / "repeats.json", asked.suite, asked.beside, failed, time.monotonic() - began_s),
                flush=True,
            )
            if failed:
                print(f"    {', '.join(failed)}: {logs / str(number)}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
