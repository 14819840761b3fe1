"""``ratebed audit``: what a log of a rate limiter in operation proves of it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from ratebed import options as o

PROMISES = {"bucket": "c at once, refilled", "sliding-window": "in any period", "fixed-window": "in each since 1970"}
Log = Annotated[list[str], typer.Option("--log", help="the log; once a node where nodes have files of their own")]
LimitText = Annotated[str, typer.Option("--limit", metavar="N/PERIOD", help="of each user, as in 100/minute or 20/1s")]
PromiseName = Annotated[
    str, typer.Option("--promise", metavar="|".join(PROMISES), help="what of N per period is promised")
]
Burst = Annotated[int, typer.Option("--burst", help="of a bucket: its size, where that is not N")]
Skew = Annotated[str, typer.Option("--skew", help="how far stamps may be off; a log written when requests end: longer")]
Columns = Annotated[
    str, typer.Option("--columns", help="time=NAME,user=NAME,node=NAME,verdict=NAME; empty = as logs usually have them")
]
Rejected = Annotated[str, typer.Option("--rejected", help="verdicts that are rejections, as in 429,503; empty = usual")]
Users = Annotated[int, typer.Option("--users", help="how many users are named, of each kind")]


def audit(
    log: Log,
    limit: LimitText,
    promise: PromiseName = "bucket",
    burst: Burst = 0,
    skew: Skew = "0s",
    columns: Columns = "",
    pattern: o.UserPattern = "",
    rejected: Rejected = "",
    skip_bad: o.SkipBad = False,
    users: Users = 10,
    out: o.Out = Path("out"),
    as_json: o.AsJson = False,
) -> int:
    """The least by which users got more than a limit allows, and the least that was wrongly rejected.

    Whatever is said holds for all clocks within --skew of the truth.  The exit code is 1 where something is proven.
    """
    from analysis.audit import BUCKET, Promise
    from analysis.audit import PROMISES as KINDS
    from ratebed.audit_drawing import draw
    from ratebed.auditing import Audit
    from systems.parts.limit import limit_of, per_period
    from workloads.service_log import REJECTED, ROLES, LogQuery, read_service_log
    from workloads.text_columns import column_map

    if promise not in KINDS:
        raise SpecError(f"--promise {promise!r}", f"choose one of {', '.join(KINDS)}")
    if burst and promise != BUCKET:
        raise SpecError(f"--burst belongs to --promise {BUCKET}", "leave it out")
    if burst < 0:
        raise SpecError(f"--burst {burst}", "give a bucket's size of at least 1 token")
    try:
        skew_ns = duration_ns(skew)
    except ValueError:
        skew_ns = -1
    if skew_ns < 0:
        raise SpecError(f"--skew {skew!r}", 'give a span, as in "50ms"')
    count, rate = per_period(limit)
    its = limit_of(burst or count, rate)
    promised = Promise(
        promise, burst or count, its.ticks_per_ns, its.token_ticks, round(count / its.rate_rps * SECOND_NS)
    )
    named = {role: str(name) for role, name in column_map(columns, ROLES).items()}
    wanted = LogQuery(named, pattern, rejected.split(",") if rejected else REJECTED, skip_bad=skip_bad)
    audited = Audit(read_service_log(log, wanted), promised, skew_ns)
    paths = draw(audited, out / "audit")
    if as_json:
        print(json.dumps(audited.document() | {"drawing": [str(path) for path in paths]}, indent=2))
    else:
        print("\n".join([*audited.lines(max(1, users)), "", f"drawn: {paths[0]}, {paths[1].name}"]))
    return 0 if audited.is_clean else 1
