"""``ratebed advise``: which limiter, with which settings, for a log; which distributor for a trace."""

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import SpecError
from core.records import Json
from core.units import MILLISECOND_NS, duration_ns
from ratebed import options as o

if TYPE_CHECKING:
    from ratebed.advising.answer import Bounds
    from ratebed.advising.question import LogAsked

SEEDS = 5
SLO = "1ms"  # of traces

Log = Annotated[str, typer.Option("--log", metavar="FILE", help="a request log, in whatever format")]
Trace = Annotated[str, typer.Option("--trace", metavar="FILE", help="a trace of messages: which distributor?")]
Slo = Annotated[str, typer.Option("--slo", help="with --trace: the 99th percentile to be met; empty = 1ms")]
Speed = Annotated[float, typer.Option("--speed", help="with --trace: time compression; 0 = 1, of ULB's sensors 600")]
Replicas = Annotated[int, typer.Option("--replicas", help="with --trace: copies of it; 0 = 1, of ULB's sensors 53")]
InstantUnit = Annotated[str, typer.Option("--instant-unit", help="with --trace: s, ms, us, ns or iso; empty = s")]
LimitText = Annotated[
    str, typer.Option("--limit", metavar="N/PERIOD", help="of each user, as in 100/minute; empty = several are tried")
]
Columns = Annotated[
    str, typer.Option("--columns", help="time=NAME,user=NAME,node=NAME; of a trace publisher=NAME,instant=NAME")
]
Start = Annotated[str, typer.Option("--start", help="of the part that is run, as in 6h; empty = where most is asked")]
Duration = Annotated[str, typer.Option("--duration", help="of the part that is run, as in 1h; empty = what is enough")]
Nodes = Annotated[int, typer.Option("--nodes", help="nodes; 0 = as many as the log names, or eight")]
Cities = Annotated[str, typer.Option("--cities", help="where they are, with commas; empty = eight in the world")]
LatencyTable = Annotated[
    str, typer.Option("--latency-table", metavar="FILE", help="measured delays: city,city,ms or a square matrix")
]
Arrivals = Annotated[
    str,
    typer.Option(
        "--arrivals", metavar="random|user|node", help="requests come to any node, to their user's, as logged"
    ),
]
Bytes = Annotated[
    float, typer.Option("--bytes", help="that limiters may send a request; 0 = what the one needs that needs most")
]
Wait = Annotated[str, typer.Option("--wait", help="that a decision may take (99th percentile), as in 50ms")]
Brief = Annotated[bool, typer.Option("--brief", help="the ranking alone, not where it turns")]
Repetitions = Annotated[int, typer.Option("--repetitions", help="seeds that judge, at least 2")]


def advise(
    log: Log = "",
    trace: Trace = "",
    slo: Slo = "",
    speed: Speed = 0.0,
    replicas: Replicas = 0,
    instant_unit: InstantUnit = "",
    limit: LimitText = "",
    columns: Columns = "",
    pattern: o.UserPattern = "",
    skip_bad: o.SkipBad = False,
    start: Start = "",
    duration: Duration = "",
    nodes: Nodes = 0,
    cities: Cities = "",
    latency_table: LatencyTable = "",
    arrivals: Arrivals = "",
    bytes_most: Bytes = 0.0,
    wait: Wait = "",
    brief: Brief = False,
    repetitions: Repetitions = SEEDS,
    seed: o.Seed = o.SEED,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    executor: o.ExecutorName = o.LOCAL,
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    packs: o.Packs = "",
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> int:
    """Which limiter, with which settings, for your log (--log); which distributor for your trace (--trace).

    Exit code 3: it cannot be decided.
    """
    if bool(log) == bool(trace):
        raise SpecError("advise about what?", "give --log FILE, or --trace FILE")
    of_trace = {"--slo": slo, "--speed": speed, "--replicas": replicas, "--instant-unit": instant_unit}
    of_log = {
        "--limit": limit, "--pattern": pattern, "--skip-bad": skip_bad, "--start": start, "--duration": duration,
        "--nodes": nodes, "--cities": cities, "--latency-table": latency_table, "--arrivals": arrivals,
        "--bytes": bytes_most, "--wait": wait, "--brief": brief,
    }  # fmt: skip
    _check_unused(of_trace if log else of_log, "--trace" if log else "--log")
    if repetitions < 2:
        raise SpecError(f"--repetitions {repetitions}", "give at least 2: one has no interval")
    request = o.make_request(
        [], False, "quick", seed, jobs, out, [],
        repetitions=repetitions, is_quiet=quiet,
        executor=executor, spark_master=spark_master, spark_conf=spark_conf, packs=packs,
    )  # fmt: skip
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        if trace:
            from ratebed.advising.traces import TraceAsked, advise_trace

            asked_trace = TraceAsked(trace, slo or SLO, columns, instant_unit, speed, replicas)
            said, document, is_decided = advise_trace(asked_trace, request)
        else:
            from ratebed.advising.question import LogAsked

            asked = LogAsked(
                log, columns, pattern, skip_bad, limit, start, duration, nodes, cities, latency_table, arrivals
            )
            said, document, is_decided = _about_log(asked, request, _terms(bytes_most, wait), not brief)
    print(json.dumps(document, indent=2) if as_json else "\n".join(said))
    return 0 if is_decided else o.UNDECIDED


def _check_unused(options: Mapping[str, object], belong_to: str) -> None:
    for name, value in options.items():
        if value:
            raise SpecError(f"{name} belongs to {belong_to}", "leave it out")


def _terms(bytes_most: float, wait: str) -> "Bounds":
    from ratebed.advising.answer import Bounds

    if not 0 <= bytes_most < inf:
        raise SpecError(f"--bytes {bytes_most:g}", "give 0 or more")
    try:
        wait_ms = duration_ns(wait) / MILLISECOND_NS if wait else inf
    except ValueError as error:
        raise SpecError(f"--wait {wait!r}: {error}", "give a span such as 50ms") from None
    return Bounds(bytes_most or None, wait_ms)


def _about_log(
    asked: "LogAsked", request: o.RunRequest, terms: "Bounds", with_turns: bool
) -> tuple[list[str], Json, bool]:
    from ratebed.advising import words
    from ratebed.advising.answer import advise as answered
    from ratebed.advising.answer import stop_spark
    from ratebed.advising.page import write_page
    from ratebed.advising.question import question_of

    question = question_of(asked)
    advice = answered(question, request, terms, with_turns)
    stop_spark(request)
    out = str(request.out)
    page = write_page(advice, request.out)
    document = words.document(advice, out) | {"page": str(page)}
    return [*words.lines(advice, out), f"page: {page}"], document, words.is_decided(advice)
