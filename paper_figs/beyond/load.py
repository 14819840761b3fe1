"""What the limiters are offered: a request log, or without one synthetic requests; and the limit that goes with it.

Of a *log* the busiest ten minutes are run by default, as they came.  ``--limit auto`` is the limit under which the
centralised limiter rejects 5 % of what is run, r = c / 1000 s (``workloads.auto_limit``).  The threshold of frequency
analysis is derived from the load as the thesis derived its own (4.3.3).

Without a log there are several loads, in each of which a bucket is refilled four times, so that what counts is
the rate and not who notices that a first budget of c is used up: many users with a small limit, few with a large one,
and one aggregate of all users, for which throttlers were made.  Users are Poisson, at 0.8 to 2 times their rate r, and
ask some cities more often than others.
"""

import hashlib
import re
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from core.errors import SpecError
from core.reading import reading
from core.records import Json, Options
from core.units import MILLISECOND_NS, SECOND_NS, duration_ns, rational
from harness.experiment import Option
from paper_figs.crdt.published import THRESHOLD_MS
from systems.parts.limit import limit_of

if TYPE_CHECKING:
    from workloads.placement import Columns
    from workloads.request_log import RequestLog
    from workloads.service_requests import ServiceRequests

LIMITS = {(30, "1.2"): 12, (160, "6.4"): 4, (800, "32"): 1}  # capacity and rate: users; c/r is 25 s in all
USERS = 12  # at a limit that is given
REFILLS = 4  # r T / c, of a load of length T
LOWEST, HIGHEST, ONLY = 0.8, 2.0, 1.4  # offered by users, in units of r: from, to; and by a single one
SEED = 1  # of the placement within seconds, when a limit and a threshold are derived; that hardly matters
REQUESTS, SERVICE = "request-log", "service-log"  # workloads
BUSIEST, WHOLE, AUTO = "busiest", "all", "auto"
THRESHOLD = f"{THRESHOLD_MS}ms"  # where none can be derived

OPTIONS = (
    Option("log", "request log: user, instant[, cost], or a service's own log; default: a synthetic one"),
    Option("columns", "log: user=NAME,instant=NAME[,cost=NAME], by name or 0-based number; or user=NAME,time=NAME", ""),
    Option("limit", "auto (a log's: 5 % rejected), or capacity,rate as in 20,0.02 (tokens, tokens a second)", AUTO),
    Option("skip-bad", "log: pass over lines that are no requests, and count them", False, bool),
    Option("start", "log: what comes before is left out, as in 6h; or busiest", BUSIEST),
    Option("duration", "log: how much of it, in its own time, as in 1h; or all", "10min"),
    Option("speed", "log: time compression", 1.0, float),
)


class Load(NamedTuple):
    """A workload with its options, and the limit.

    ``threshold``: of frequency analysis; ``span_s``: its length, ``duration``: the same where it has to be said.
    """

    workload: str
    options: dict[str, object]
    capacity: int
    rate: str
    threshold: str
    span_s: float
    duration: str = ""


def loads_of(options: Options, nodes: int) -> list[Load]:
    """What the figure's options ask for, the usual one first: a log, or synthetic ones.

    SpecError for a log that cannot be read, with its line.
    """
    limit = _limit(options["limit"])
    if not options["log"]:
        for option in OPTIONS:
            if option.help.startswith("log: ") and options[option.name] != option.default:
                raise SpecError(f"--{option.name} without a log", "give --log FILE, too")
        limits = {limit: USERS} if limit else LIMITS
        return [synthetic(*each, users, nodes) for each, users in limits.items()]
    path = str(Path(options["log"]).absolute())
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise SpecError(f"--log {path}: {error.strerror}", "give a readable file") from None
    choice = options["columns"], options["skip-bad"], options["start"], options["duration"], options["speed"]
    return [_from_log(path, digest, choice, limit, nodes)]


def _limit(text: str) -> tuple[int, str] | None:
    """Capacity and rate of ``--limit``; None = auto."""
    if text == AUTO:
        return None
    capacity, comma, rate = text.replace(" ", "").partition(",")
    try:
        limit = int(capacity), rate
        if not (comma and limit[0] > 0 and rational(rate) > 0):
            raise ValueError
    except ValueError:
        raise SpecError(f"--limit {text!r}", "give auto, or capacity,rate as in 20,0.02") from None
    limit_of(*limit)  # what the limiters would refuse: now
    return limit


def synthetic(capacity: int, rate: str, users: int, nodes: int) -> Load:
    """Poisson users whose requests reach some nodes more often than others.

    Frequency analysis: a node tells of those at once who ask it for more than its share of the rate, r / n.
    """
    rate_rps = float(rational(rate))
    span_s = ceil(REFILLS * capacity / rate_rps)
    lowest, highest = (LOWEST, HIGHEST) if users > 1 else (ONLY, ONLY)
    options: dict[str, object] = {"users": users, "rate_rps": lowest * rate_rps, "highest_rps": highest * rate_rps}
    options |= {"sticky": False, "uneven": True}
    threshold = f"{max(1, round(1000 * nodes / rate_rps))}ms"
    return Load("requests", options, capacity, rate, threshold, span_s, f"{span_s}s")


@lru_cache(maxsize=8)
def _from_log(
    path: str, digest: str, choice: tuple[str, bool, str, str, float], limit: tuple[int, str] | None, nodes: int
) -> Load:
    """A log's load; ``digest`` of its content, so that an edited file is read anew."""
    from workloads.auto_limit import auto_limit

    columns, skip_bad, start, duration, speed = choice
    options: Json = {"path": path, "columns": columns, "skip_bad": skip_bad}
    workload = _workload_of(path, columns)
    start, duration = _window(_read(workload, options), start, duration)
    options |= {"start": start, "duration": duration, "speed": speed}
    part = _read(workload, options)
    options["spread"] = part.was_spread  # as a factor, so that the figure can say it
    requests = part.columns()
    capacity, rate = limit or auto_limit(requests.at_ns, requests.user, requests.cost)[:2]
    threshold, span_s = threshold_of(requests, capacity, rate, nodes), float(ceil(requests.at_ns[-1] / SECOND_NS))
    return Load(workload, options, capacity, rate, threshold, span_s)


def _workload_of(path: str, columns: str) -> str:
    """Who reads a log: ``request-log`` those with an instant, a cost, columns by number, or known to it.

    Others that find themselves, or have a column ``time``, are read as a service's log.
    """
    from workloads.log_reader import KNOWN, text_lines
    from workloads.service_log import TIME, finds_itself
    from workloads.text_columns import open_bytes

    if columns:
        return SERVICE if f"{TIME}=" in columns.replace(" ", "") else REQUESTS
    with reading(path, "give a readable file"), open_bytes(path) as raw:
        if raw.read(4) == b"PAR1":
            return SERVICE
    with reading(path, "give a readable file"), open_bytes(path) as raw:
        _, line = next(text_lines(raw), (0, ""))
    plain = {"user", "instant"} <= {name.strip() for name in re.split(r"[,;\t]", line)}
    return REQUESTS if plain or any(known.matches(line) for known in KNOWN) or not finds_itself(path) else SERVICE


def _read(workload: str, options: Options) -> "RequestLog | ServiceRequests":
    from workloads import load

    made = load(workload)
    try:
        log: RequestLog | ServiceRequests = made.make(made.configure(options), SEED)
    except SpecError as error:
        fix = error.fix if "columns=" not in error.fix else "say --columns user=NAME,instant=NAME, or time=NAME"
        raise SpecError(error.what, fix) from None
    return log


def _window(log: "RequestLog | ServiceRequests", start: str, duration: str) -> tuple[str, str]:
    """Start and duration as the workload has them; ``busiest``: the start, in whole seconds, with most requests."""
    import numpy as np

    at_ns = log.columns().at_ns
    if duration == WHOLE:
        return ("0s" if start == BUSIEST else start), ""
    try:
        span_ns = duration_ns(duration)
    except ValueError as error:
        raise SpecError(f"--duration {duration!r}: {error}", "give a span such as 1h, or all") from None
    if start != BUSIEST:
        return start, duration
    starts = np.unique(at_ns // SECOND_NS) * SECOND_NS
    counts = np.searchsorted(at_ns, starts + span_ns) - np.searchsorted(at_ns, starts)
    busiest = int(starts[counts.argmax()]) // SECOND_NS
    return f"{busiest}s", ("" if span_ns >= int(at_ns[-1]) + 1 else duration)


def threshold_of(columns: "Columns", capacity: int, rate: str, nodes: int) -> str:
    """The threshold of frequency analysis (thesis 4.3.3); the thesis' own where the load has no such users."""
    from systems.parts.frequency_threshold import frequency_threshold

    window = max(2, capacity // nodes)
    try:
        derived = frequency_threshold(columns.at_ns, columns.user, window, capacity, rate, cost=columns.cost)
    except SpecError:
        return THRESHOLD
    return f"{derived.threshold_ns // MILLISECOND_NS}ms"
