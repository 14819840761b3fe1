"""request-log: the requests of a recorded log, as they came or faster.

Instant 0 is the log's first request, or ``start`` after it.  Time is divided by ``speed`` (rounded down to
a nanosecond).  A log of whole seconds has its requests spread: each gets a place within its second
drawn uniformly from a stream named by its user, and the places of one second are dealt out in the order
of the file, so that the order of requests stays that of the log.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import SpecError
from core.limits import Factor
from core.records import Int32, Int64
from core.seeds import generator
from core.units import SECOND_NS
from workloads.api import INPUT_FILE, Offer, Workload, require, span_of
from workloads.log_reader import ROLES, LogFormat, LogRows, read_log
from workloads.placement import RULES, Columns, PlacedRequests
from workloads.text_columns import INSTANT_UNITS, column_map

SEPARATORS = {"tab": "\t", "space": " "}


@dataclass(frozen=True)
class LogOptions:
    """Options of every log's config, its base: which part is played, and to whom.  Raises SpecError when made."""

    PLACEMENTS: ClassVar[tuple[str, ...]] = RULES

    path: str = field(metadata=INPUT_FILE)  # the file; gzip is recognised
    placement: str = "injector"  # injector (thesis 4.3.1) | user | random; service-log: or node, as the log names them
    start: str = "0s"  # leave out what comes before it, in the log's time
    duration: str = ""  # leave out what comes later than this after start, in the log's time; empty = to the end
    speed: Factor = 1.0  # time compression
    spread: bool = True  # whole-second logs: spread requests within the second
    skip_bad: bool = False  # pass over lines that are no requests, and count them

    def __post_init__(self) -> None:
        require(bool(self.path), "path", self.path, "give the log's file")
        rules = self.PLACEMENTS
        require(self.placement in rules, "placement", self.placement, f"choose one of {', '.join(rules)}")
        require(span_of("start", self.start) >= 0, "start", self.start, "give a span such as 6h")
        if self.duration:
            require(span_of("duration", self.duration) > 0, "duration", self.duration, "give a span above 0")
        require(0 < self.speed < math.inf, "speed", self.speed, "give a finite factor above 0")


@dataclass(frozen=True)
class RequestLogConfig(LogOptions):
    """Options of a request log; all of them are ours.  Raises SpecError when made."""

    # Column of user, instant and, if there, cost, by header name or 0-based number; text "user=host,instant=time"
    # works too; "user==all" makes all requests one user's.  Known logs (log_reader.KNOWN) need none.
    columns: dict[str, str | int] | str = field(default_factory=dict)
    instant_unit: str = "s"  # s | ms | us | ns | iso (2023-11-16 18:17:03.98)
    separator: str = ""  # one character, "tab", or "space" = any white space; empty = found out
    header: bool | None = None  # whether the first line names the columns; null = unless all columns are numbers
    cost_per: Factor = 1.0  # tokens = cost column / this, rounded up, at least 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.form()
        units = ", ".join(INSTANT_UNITS)
        require(self.instant_unit in INSTANT_UNITS, "instant_unit", self.instant_unit, f"choose one of {units}")
        mark = SEPARATORS.get(self.separator, self.separator)
        usable = len(mark) < 2 and mark not in tuple('\r\n"0123456789')
        require(usable, "separator", self.separator, "give one character, tab, or space for any white space")
        require(0 < self.cost_per < math.inf, "cost_per", self.cost_per, "give a finite number above 0")

    def form(self) -> LogFormat:
        """How the file is written."""
        separator = SEPARATORS.get(self.separator, self.separator)
        return LogFormat(column_map(self.columns, ROLES), self.instant_unit, separator, self.header)


class RequestLog(PlacedRequests):
    """The requests of a log.

    ``skipped``: lines that were left out, by reason; ``was_spread``: whether requests were spread within
    their seconds.
    """

    def __init__(self, config: RequestLogConfig, seed: int):
        rows = read_log(config.path, config.form(), config.skip_bad)
        self.config, self.skipped = config, rows.skipped
        self.was_spread = config.spread and bool((rows.at_ns % SECOND_NS == 0).all())
        part = part_of(rows, config, np.full(len(rows.at_ns), self.was_spread), seed)
        costs = _tokens(None if rows.cost is None else rows.cost[part.rows], len(part.at_ns), config)
        super().__init__(part.columns(rows, costs), part.span_ns, config.placement, seed)


class Part(NamedTuple):
    """Which rows of a log, in the order of their instants, these from 0 on, and how long that is."""

    rows: Int64
    at_ns: Int64
    span_ns: int

    def columns(self, rows: LogRows, cost: Int32) -> Columns:
        """The part as a workload has it; of the users those who are in it."""
        present, user = np.unique(rows.user[self.rows], return_inverse=True)
        names = tuple(rows.names[number] for number in present.tolist())
        return Columns(self.at_ns, user.astype(np.int32), cost, names)


def part_of(rows: LogRows, config: LogOptions, is_spread: NDArray[np.bool_], seed: int) -> Part:
    """The part of a log from ``start`` on, ``duration`` long, ``speed`` times as fast; SpecError for an empty one.

    ``is_spread``: of each row whether it gets a place within its second.
    """
    at_ns = rows.at_ns - rows.at_ns[0]
    end_ns = int((at_ns + np.where(is_spread, SECOND_NS, 1)).max())
    if is_spread.any():
        at_ns[is_spread] = _spread(at_ns, rows, seed, is_spread)
    order = np.argsort(at_ns, kind="stable")
    at_ns = at_ns[order]
    start_ns = span_of("start", config.start)
    if config.duration:
        end_ns = start_ns + span_of("duration", config.duration)
    low, high = np.searchsorted(at_ns, [start_ns, end_ns])
    if low >= high:
        last = f"the log's requests end {int(at_ns[-1]) / SECOND_NS:g} s after its first"
        raise SpecError(f"{config.path}: no requests from {config.start} on ({last})", "change start or duration")
    at_ns = at_ns[low:high] - start_ns
    span_ns = end_ns - start_ns
    if config.speed != 1:
        require(span_ns / config.speed < 2**62, "speed", config.speed, "give a larger factor: instants have 64 bits")
        at_ns, span_ns = np.floor(at_ns / config.speed).astype(np.int64), math.ceil(span_ns / config.speed)
    return Part(order[low:high], at_ns, max(span_ns, int(at_ns[-1]) + 1))


def _spread(at_ns: Int64, rows: LogRows, seed: int, is_spread: NDArray[np.bool_]) -> Int64:
    """Those of whole seconds with a place within the second each, in order."""
    place = np.empty_like(at_ns)
    order = np.argsort(rows.user, kind="stable")
    ends = np.cumsum(np.bincount(rows.user, minlength=len(rows.names))).tolist()
    for name, start, end in zip(rows.names, [0, *ends], ends, strict=False):
        rng = generator(seed, "request-log", "spread", name)
        place[order[start:end]] = rng.integers(SECOND_NS, size=end - start)
    return np.sort((at_ns + place)[is_spread])  # the seconds are in order, so that this sorts within each


def _tokens(amounts: Int64 | None, count: int, config: RequestLogConfig) -> Int32:
    """What each request costs."""
    if amounts is None:
        return np.ones(count, np.int32)
    tokens = np.maximum(1, np.ceil(amounts / config.cost_per))
    require(tokens.max() < 2**31, "cost_per", config.cost_per, f"a request costs {tokens.max():.3g} tokens: give more")
    return tokens.astype(np.int32)


WORKLOAD = Workload(
    "request-log", "the requests of a recorded log, by user", RequestLogConfig, RequestLog, Offer.REQUESTS
)
