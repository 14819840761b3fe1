"""Disturb live runs, one after another, by seeds.

    python -m harness.nemesis --count 200 --testbed mininet --seconds 4

Exit code 0 where nothing is found that must not be, 1 where something is, 2 for wrong usage.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from core.errors import HarnessError, SpecError
from core.units import SECOND_NS
from harness.code_version import commit
from harness.nemesis.clock import require_own_machine
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.ledger import read_ledger, write_ledger
from harness.nemesis.schedule import draw, with_step
from harness.nemesis.trial import LiveTrial, play
from testbed.making import alone_in

LEDGER = Path("results/nemesis.json")


def main(words: list[str]) -> int:
    """Play, tell, keep; returns the exit code."""
    options = _options(words)
    path = Path(options.ledger) if options.ledger else None
    ledger, begun = read_ledger(path) if path else None, datetime.now(UTC).isoformat(timespec="seconds")
    first = options.first or (ledger.next_seed(options.testbed) if ledger else 1)
    wrong = 0
    for seed in range(first, first + options.count):
        schedule = draw(seed, options.testbed, int(options.seconds * SECOND_NS), tuple(options.ground or ()))
        trial = play(with_step(schedule) if options.clock else schedule)
        wrong += bool(trial.problems)
        print("\n".join(_told(trial)), flush=True)
        if ledger is not None and path is not None:
            with alone_in(path.parent):  # what another adds meanwhile would be lost
                ledger = read_ledger(path).with_trial(trial, commit() or "", begun)
                write_ledger(path, ledger)
    if ledger is not None:
        print(ledger.summary())
    return 1 if wrong else 0


def _told(trial: LiveTrial) -> list[str]:
    schedule = trial.schedule
    offered = f", {trial.fates.offered} offered" if trial.fates else ""
    lines = [f"seed {schedule.seed}  {schedule.ground} on {schedule.testbed}: {'; '.join(trial.lines())}"]
    lines += [f"    {trial.outcome} after {trial.seconds:.1f} s{offered}: {'; '.join(trial.said)[:300]}"]
    lines += [f"    WRONG  {problem}  ->  {schedule.command}" for problem in trial.problems]
    return lines


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m harness.nemesis", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10, help="how many runs [10]")
    parser.add_argument("--first", type=int, default=0, help="the first seed [the ledger's next]")
    parser.add_argument("--testbed", choices=("mininet", "local"), default="mininet")
    parser.add_argument("--seconds", type=float, default=4.0, help="of load in each run [4]")
    parser.add_argument("--ground", action="append", choices=tuple(GROUNDS), help="only runs of this kind")
    parser.add_argument("--clock", action="store_true", help="set the clock as well: in the project's own VM alone")
    parser.add_argument("--ledger", default="", help=f"where runs add up, as in {LEDGER} [nowhere]")
    options = parser.parse_args(words)
    if options.seconds < 1:
        raise SpecError(f"--seconds {options.seconds:g}", "give at least 1: faults have to begin and to end")
    if options.clock:
        require_own_machine()
    return options


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HarnessError as error:
        print(f"nemesis: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, SpecError) else 1)
