"""Disturb live runs, one after another, by seeds.

    python -m harness.nemesis --until 200 --seconds 3 --ledger results/nemesis.json
    python -m harness.nemesis --for 1h --seconds 3 --ledger results/nemesis.json

Exit code 0 where nothing is found that must not be, 1 where something is, 2 for wrong usage, 130 if interrupted.
"""

import argparse
import sys
from pathlib import Path

from core.errors import HarnessError, SpecError
from core.units import SECOND_NS, duration_ns
from harness.nemesis.clock import require_own_machine
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.session import NemesisPlan, NemesisSession
from harness.nemesis.trial import LiveTrial

LEDGER = Path("results/nemesis.json")


def main(words: list[str]) -> int:
    """Play, tell, keep; returns the exit code.  What was played until an interruption is told as well."""
    plan, wrong, is_cut_short = _plan(words), 0, False
    session = NemesisSession(plan)
    try:
        for trial in session.trials():
            wrong += bool(trial.problems)
            print("\n".join(_told(trial)), flush=True)
    except KeyboardInterrupt:
        is_cut_short = True
    print(session.ledger.summary())
    grown = [soak.problem for soak in session.ledger.soaks() if soak.begun == session.begun and soak.problem]
    print("".join(f"    WRONG  {problem}\n" for problem in grown), end="")
    if is_cut_short:
        print(f"nemesis: interrupted; {_left(plan)}", file=sys.stderr)
        return 130
    return 1 if wrong or grown else 0


def _left(plan: NemesisPlan) -> str:
    """What is left of an interrupted session."""
    if plan.ledger is None:
        return "what was played is kept nowhere, as no --ledger was given"
    goes_on = ", and the same command goes on" if plan.until and not plan.first else ""
    return f"what was played is in {plan.ledger}{goes_on}"


def _told(trial: LiveTrial) -> list[str]:
    schedule = trial.schedule
    offered = f", {trial.fates.offered} offered" if trial.fates else ", no fates"
    memory = f"{trial.resident_bytes / 1e6:.1f} MB" + f" + {trial.beside_bytes / 1e6:.1f}" * bool(trial.beside_bytes)
    lines = [f"seed {schedule.seed}  {schedule.ground} on {schedule.testbed}: {'; '.join(trial.lines())}"]
    lines += [f"    {trial.outcome} after {trial.seconds:.1f} s, {memory}{offered}: {'; '.join(trial.said)[:300]}"]
    lines += [f"    WRONG  {problem}  ->  {schedule.command}" for problem in trial.problems]
    return lines


def _plan(words: list[str]) -> NemesisPlan:
    parser = argparse.ArgumentParser("python -m harness.nemesis", description=__doc__.splitlines()[0])
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument("--count", type=int, help="how many runs [10]")
    how_many.add_argument("--until", type=int, help="until so many of the ledger's have counted fates")
    how_many.add_argument("--for", dest="span", default="", help='a soak: after a warm-up for so long, as in "1h"')
    parser.add_argument("--first", type=int, default=0, help="the first seed [the ledger's next]")
    parser.add_argument("--testbed", choices=("mininet", "local"), default="mininet")
    parser.add_argument("--seconds", type=float, default=4.0, help="of load in each run [4]")
    parser.add_argument("--ground", action="append", choices=tuple(GROUNDS), help="only runs of this kind")
    parser.add_argument("--clock", action="store_true", help="set the clock as well: in the project's own VM alone")
    parser.add_argument("--ledger", default="", help=f"where runs add up, as in {LEDGER} [nowhere]")
    options = parser.parse_args(words)
    if options.seconds < 1:
        raise SpecError(f"--seconds {options.seconds:g}", "give at least 1: faults have to begin and to end")
    try:
        soak_ns = duration_ns(options.span) if options.span else None
    except ValueError as error:
        raise SpecError(f"--for {options.span}", str(error)) from None
    for name, amount in (("count", options.count), ("until", options.until), ("for", soak_ns)):
        if amount is not None and amount <= 0:
            raise SpecError(f"--{name} {options.span if name == 'for' else amount}", "give more than 0")
    if options.first < 0:
        raise SpecError(f"--first {options.first}", "seeds are 1 and above; 0: the ledger's next")
    if options.clock:
        require_own_machine()
    return NemesisPlan(
        options.testbed,
        int(options.seconds * SECOND_NS),
        tuple(options.ground or ()),
        options.clock,
        Path(options.ledger) if options.ledger else None,
        options.first,
        options.count or (0 if options.until or soak_ns else 10),
        options.until or 0,
        soak_ns or 0,
    )


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except HarnessError as error:
        print(f"nemesis: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, SpecError) else 1)
