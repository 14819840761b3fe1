"""``ratebed soak``: seeded schedules of faults over every system, judged by their invariants."""

import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.errors import SpecError
from core.registry import hint
from ratebed import options as o

System = Annotated[str, typer.Option("--system", help="schedules of this system only; empty = of all")]
First = Annotated[int, typer.Option("--first", help="the first seed; 0 = after those of the ledger")]
Count = Annotated[int, typer.Option("--count", help="schedules to play")]
Seconds = Annotated[float, typer.Option("--seconds", help="begin no more after so long; 0 = all")]
LedgerFile = Annotated[str, typer.Option("--ledger", metavar="FILE", help="add to it what was played, as in results/")]
Replay = Annotated[int | None, typer.Option("--replay", metavar="SEED", help="play one schedule, shrink it, draw it")]
ScheduleFile = Annotated[str, typer.Option("--schedule", metavar="FILE", help="play a schedule of a file, and draw it")]

if TYPE_CHECKING:
    from harness.soak.schedule import SoakSchedule

PROGRESS_S = 10.0
COUNT = 1_000  # of schedules, unless told otherwise


def soak(
    system: System = "",
    first: First = 0,
    count: Count = COUNT,
    jobs: o.Jobs = 0,
    seconds: Seconds = 0.0,
    ledger: LedgerFile = "",
    replay: Replay = None,
    schedule: ScheduleFile = "",
    out: o.Out = Path("out"),
    as_json: o.AsJson = False,
) -> int:
    """Crashes, partitions, loss, disorder and skewed clocks in virtual time, by the thousand; 1 if anything broke."""
    from harness.soak.draw import draw
    from harness.soak.schedule import read_schedule
    from harness.soak.variants import SOAKED

    for name, value, least in (
        ("--count", count, 1),
        ("--first", first, 0),
        ("--jobs", jobs, 0),
        ("--replay", replay or 0, 0),
    ):
        if value < least:
            raise SpecError(f"{name} {value}", f"give at least {least}")
    if not 0 <= seconds < math.inf:
        raise SpecError(f"--seconds {seconds:g}", "give at least 0, which is all schedules")
    many = {"--system": system, "--first": first, "--count": count != COUNT, "--jobs": jobs, "--seconds": seconds}
    _check_alone({"--replay": replay is not None, "--schedule": schedule}, {**many, "--ledger": ledger})
    if system and system not in SOAKED:
        raise SpecError(f"--system {system!r} is not soaked", hint(system, SOAKED))
    if schedule:
        return _show(read_schedule(Path(schedule)), out, as_json, minimal=False)
    if replay is not None:
        return _show(draw(replay), out, as_json, minimal=True)
    return _many(system, first, count, jobs or o.core_count(), seconds, ledger, as_json)


def _check_alone(one: Mapping[str, object], many: Mapping[str, object]) -> None:
    """SpecError where an option of ``one``, that plays one schedule, is given beside another one."""
    chosen = [name for name, value in one.items() if value]
    beside = [*chosen[1:], *(name for name, value in many.items() if value)]
    if chosen and beside:
        raise SpecError(f"{chosen[0]} plays one schedule: {beside[0]} says nothing of it", "leave one of them out")


def _many(system: str, first: int, count: int, jobs: int, seconds: float, ledger: str, as_json: bool) -> int:
    from harness.code_version import commit
    from harness.soak.ledger import SoakLedger, add_to, read_ledger
    from harness.soak.session import Failure
    from harness.soak.session import soak as play_all

    path = Path(ledger) if ledger else None
    book = read_ledger(path) if path else SoakLedger()
    begin, version = first or book.next_seed(system), commit()
    kept_count, new_count = book.count, 0
    failures: list[Failure] = []
    done, spent, told_at = 0, 0.0, time.monotonic()
    for chunk in play_all(begin, count, system, jobs, seconds):
        done, spent = done + chunk.count, spent + chunk.seconds
        failures += chunk.failures
        for failure in chunk.failures:
            if not as_json:
                print(failure.line(), flush=True)
        if path:
            kept_count, more = add_to(path, version, system, chunk)
            new_count += more
        if time.monotonic() - told_at > PROGRESS_S:
            told_at = time.monotonic()
            left_s = (count - done) * spent / done / jobs
            print(f"{done:,} of {count:,}, {len(failures)} failed, about {left_s:.0f} s left", file=sys.stderr)
    if as_json:
        rows = [msgspec.to_builtins(failure) for failure in failures]
        print(json.dumps({"schedules": done, "processor_seconds": round(spent, 1), "failures": rows}, indent=2))
    else:
        kept = f"; {path} has {kept_count:,}, {new_count:,} of them new" if path else ""
        print(f"{done:,} schedules from seed {begin} on, {len(failures)} failed, {spent:.0f} s of processor time{kept}")
    return 1 if failures else 0


def _show(schedule: "SoakSchedule", out: Path, as_json: bool, minimal: bool) -> int:
    """One schedule: whether it holds; if not, the smallest that fails alike, as JSON and drawn."""
    from harness.soak.schedule import write_schedule
    from harness.soak.shrink import shrink
    from harness.soak.trial import play
    from paper_figs.space_time import draw_space_time

    played = play(schedule, twice=True)
    size = schedule.size
    if played.breaches and minimal:
        played = shrink(played)
    stem = out / "soak" / f"{schedule.system}-{schedule.seed}"
    write_schedule(stem.with_suffix(".json"), played.schedule)
    drawn = draw_space_time(played, stem)
    files = [str(path) for path in (stem.with_suffix(".json"), *drawn)]
    if as_json:
        breaches = [msgspec.to_builtins(breach) for breach in played.breaches]
        print(
            json.dumps(
                {"seed": schedule.seed, "system": schedule.system, "breaches": breaches, "files": files}, indent=2
            )
        )
        return 1 if played.breaches else 0
    print(f"seed {schedule.seed}: {schedule.system} {schedule.options}")
    for breach in played.breaches:
        print(f"  {breach.at_ns / 1e9:.6f} s  {breach.invariant}: {breach.node} {breach.what}")
    if not played.breaches:
        print("  every invariant holds")
    elif minimal:
        print(f"  shrunk from {size} to {played.schedule.size} faults, requests, reports and nodes")
    print(f"  {', '.join(files)}")
    return 1 if played.breaches else 0
