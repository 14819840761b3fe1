"""Fuzz parsers and brokerd for some processor time: ``python -m tests.fuzz [--seconds N] [--parser P] [--seed S]``.

Each parser gets its share, in a process of its own, which gives each input 5 s and 1 GB; a long session goes round them
again and again.  An input that fails is kept in ``corpus/<parser>/``, where every later run begins with it; the sum of
all runs is in ``results/fuzz.json``.
"""

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.writing import replace_file
from harness.code_version import commit
from testbed.making import alone_in
from tests.fuzz.broker import TARGETS, has_go, run_go
from tests.fuzz.parsers import PARSERS
from tests.fuzz.worker import Outcome, run

LEDGER = Path(__file__).parents[2] / "results" / "fuzz.json"
ROUND_S = 900.0  # of all parsers: a session that is interrupted has added nearly all


def main() -> int:
    """The exit code: 1 where an input failed."""
    every = [*PARSERS, *(TARGETS if has_go() else ())]
    words = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    words.add_argument("--seconds", type=float, default=60.0, help="of processor time, over all parsers")
    words.add_argument("--parser", action="append", choices=every, help="this one only; may be repeated")
    words.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="of the first parser's inputs")
    words.add_argument("--ledger", type=Path, default=LEDGER, help="where the sum is kept")
    asked = words.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the parser's process ends, too
    names = asked.parser or least_fuzzed_first(every, asked.ledger)
    rounds = math.ceil(asked.seconds / ROUND_S)
    share_s = asked.seconds / rounds / len(names)
    failures = 0
    for number, name in enumerate(names * rounds):
        outcome = run_go(name, share_s) if name in TARGETS else run(name, asked.seed + number, share_s)
        enter(asked.ledger, name, outcome)
        failures += len(outcome.failures)
        print(f"{name:<14}{outcome.inputs:>9,} inputs  {outcome.seconds:6.1f} s  seed {outcome.seed}", flush=True)
        for file, why in outcome.failures.items():
            print(f"    {file}: {why}", flush=True)
    return int(failures > 0)


def least_fuzzed_first(names: Sequence[str], ledger: Path) -> list[str]:
    """By processor time in the ledger: many short sessions, too, come to all parsers."""
    kept = json.loads(ledger.read_text())["parsers"] if ledger.exists() else {}
    return sorted(names, key=lambda name: kept[name]["seconds"] if name in kept else 0.0)


def enter(ledger: Path, name: str, outcome: Outcome) -> None:
    """Add a parser's outcome to the ledger: sums by parser, and the latest seed and commit."""
    with alone_in(ledger.parent):  # what another adds meanwhile would be lost
        kept: dict[str, Any] = json.loads(ledger.read_text()) if ledger.exists() else {"parsers": {}}
        of = kept["parsers"].setdefault(name, {"inputs": 0, "seconds": 0.0, "runs": 0, "failures": {}})
        of["inputs"] += outcome.inputs
        of["seconds"] = round(of["seconds"] + outcome.seconds, 1)
        of["runs"] += 1
        if outcome.slowest_s:  # Go tells none
            of["slowest_seconds"] = max(of.get("slowest_seconds", 0.0), round(outcome.slowest_s, 2))
        of["largest_megabytes"] = max(of.get("largest_megabytes", 0), outcome.megabytes)
        of["failures"] |= outcome.failures
        of |= {"last_seed": outcome.seed, "last_commit": commit()}
        of |= {"last_at": datetime.now(UTC).isoformat("T", "minutes")}
        every = kept["parsers"].values()
        kept["inputs"] = sum(each["inputs"] for each in every)
        kept["processor_hours"] = round(sum(each["seconds"] for each in every) / 3600, 3)
        replace_file(ledger, json.dumps(kept, indent=2, sort_keys=True).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
