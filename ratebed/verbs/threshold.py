"""``ratebed threshold LOG``: the queue's frequency threshold, derived from a request log."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from core.errors import SpecError
from core.records import Options
from core.units import duration_text
from ratebed import options as o

Log = Annotated[str, typer.Argument(metavar="LOG", help="a request log; or A, C …: a data set of the thesis, whole")]
Columns = Annotated[
    str,
    typer.Option("--columns", help="user=NAME,instant=NAME,cost=NAME: names or 0-based numbers; empty = known logs"),
]
InstantUnit = Annotated[str, typer.Option("--instant-unit", metavar="s|ms|us|ns|iso", help="of the log's instants")]
Start = Annotated[str, typer.Option("--start", help="leave out what comes before this, as in 6h")]
Duration = Annotated[str, typer.Option("--duration", help="leave out what comes later, as in 1h; empty = to the end")]
Speed = Annotated[float, typer.Option("--speed", help="time compression")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="pass over lines that are no requests, and count them")]
Capacity = Annotated[str, typer.Option("--capacity", metavar="TOKENS|auto", help="c; auto: 5 % of requests rejected")]
Rate = Annotated[str, typer.Option("--rate", help="tokens a second of each user; empty = 0.001 of the capacity")]
Nodes = Annotated[int, typer.Option("--nodes", help="the window is capacity / nodes requests")]
Users = Annotated[int, typer.Option("--users", help="how many users count: those who sent the most, unlimited")]


def threshold(
    log: Log,
    columns: Columns = "",
    instant_unit: InstantUnit = "s",
    start: Start = "0s",
    duration: Duration = "",
    speed: Speed = 1.0,
    skip_bad: SkipBad = False,
    capacity: Capacity = "300",
    rate: Rate = "",
    nodes: Nodes = 30,
    users: Users = 10_000,
    seed: o.Seed = o.SEED,
    as_json: o.AsJson = False,
) -> None:
    """Derive the queue's frequency threshold (thesis 4.3.3) from a log, the thesis' way."""
    if nodes < 1:
        raise SpecError(f"--nodes {nodes}", "give at least 1")
    from systems.parts.frequency_threshold import frequency_threshold
    from systems.parts.limit import DIGITS
    from workloads import load
    from workloads.api import LoggedSchedule
    from workloads.auto_limit import auto_limit, rate_text
    from workloads.data_set import SETS

    of_files = {
        "--columns": columns != "", "--instant-unit": instant_unit != "s", "--start": start != "0s",
        "--duration": duration != "", "--speed": speed != 1.0, "--skip-bad": skip_bad,
    }  # fmt: skip
    if log in SETS and (given := [name for name, is_given in of_files.items() if is_given]):
        raise SpecError(f"{', '.join(given)}: data set {log} is taken whole", "leave that out, or name a file")
    options: Options = {"set": log} if log in SETS else {
        "path": log, "columns": columns, "instant_unit": instant_unit, "start": start, "duration": duration,
        "speed": speed, "skip_bad": skip_bad,
    }  # fmt: skip
    workload = load("data-set" if log in SETS else "request-log")
    schedule = workload.make(workload.configure(options), seed)
    at_ns, user, cost, names = schedule.columns()
    if capacity == "auto":
        if rate:
            raise SpecError(f"--rate {rate} with --capacity auto", "leave one of them out: auto finds both")
        limit = auto_limit(at_ns, user, cost)
        tokens, rate = limit.capacity, limit.rate
    elif len(capacity) <= DIGITS and capacity.isascii() and capacity.isdigit() and int(capacity):
        tokens, rate = int(capacity), rate or rate_text(int(capacity))
    else:
        raise SpecError(
            f"--capacity {capacity!r}", f"give a whole number of tokens, of at most {DIGITS} digits, or auto"
        )
    derived = frequency_threshold(at_ns, user, tokens // nodes, tokens, rate, users, cost)
    skipped = schedule.skipped if isinstance(schedule, LoggedSchedule) else {}
    if as_json:
        about = {"capacity": tokens, "rate": rate, "window": tokens // nodes, "users": len(names)}
        print(json.dumps({**asdict(derived), **about, "requests": len(at_ns), "skipped_lines": skipped}, indent=2))
        return
    print(f"frequency threshold {duration_text(derived.threshold_ns)}")
    windows = f"{derived.window_count:,} windows of {tokens // nodes} requests by {derived.user_count:,} users"
    print(f"  mean gap {derived.mean_gap_ns / 1e9:.3f} s in {windows}")
    print(
        f"  log: {len(at_ns):,} requests by {len(names):,} users, {derived.limited_count:,} of them limited "
        f"(and left out) at c = {tokens}, r = {rate}/s"
    )
    for reason, count in skipped.items():
        print(f"  skipped {count:,} lines: {reason}")
