"""What is asked of a log: which part of it, under which limits, at which nodes.

The part is the busiest span that a run can carry; its first half tunes the limiters, its second half judges them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from core.errors import SpecError
from core.records import Int32, Int64, Json
from core.units import MILLISECOND_NS, SECOND_NS, duration_ns, duration_text, rational
from paper_figs.beyond.limiters import CITIES
from paper_figs.beyond.load import SEED, Load, threshold_of
from paper_figs.beyond.sweeps import NODES
from systems.parts.limit import per_period
from testbed.topologies.tables import read_table
from workloads import load
from workloads.auto_limit import SHARE, centrally_admitted
from workloads.placement import Columns
from workloads.service_requests import AS_LOGGED, ServiceRequests

REQUESTS = 20_000  # ours: in the part that is run; more of a log says little more and takes longer
FEWEST = 100  # ours: requests that judge, below which nothing is said
PERIODS_RUN = 40  # ours: of the limit, in the part: the fastest protocols speak 60 times a period
PERIODS_LEAST = 8  # ours: 4 to tune and 4 to judge, so that what counts is the rate and not a first full bucket
PERIODS = ("1h", "10min", "1min", "10s", "1s")  # of limits, where none is given: the longest of which there are enough
AROUND = (Fraction(1, 2), Fraction(1), Fraction(2))  # of the users' own rate
HOME, ANYWHERE = "user", "random"  # placements: each user asks one node, or any


@dataclass(frozen=True)
class LogAsked:
    """A log, and how it is to be read and run; empty text = found out."""

    path: str
    columns: str = ""
    pattern: str = ""
    skip_bad: bool = False
    limit: str = ""  # N/PERIOD
    start: str = ""
    duration: str = ""
    nodes: int = 0
    cities: str = ""
    latency_table: str = ""
    arrivals: str = ""  # a placement

    def __post_init__(self) -> None:
        if self.nodes < 0 or self.nodes == 1:
            raise SpecError(f"--nodes {self.nodes}", "give at least 2; 0 = as many as the log names, or eight")
        places = HOME, ANYWHERE, AS_LOGGED
        if self.arrivals and self.arrivals not in places:
            raise SpecError(f"--arrivals {self.arrivals!r}", f"choose one of {', '.join(places)}")

    @property
    def places(self) -> str:
        """The cities, by default those of the table, or the usual ones."""
        if self.cities or not self.latency_table:
            return self.cities or CITIES
        return ",".join(dict.fromkeys(city for ends in read_table(self.latency_table) for city in ends))


@dataclass(frozen=True)
class TriedLimit:
    """``count`` requests of a user in ``period_ns``, and the share of the part that an exact limiter rejects."""

    count: int
    period_ns: int
    rejected_share: float

    @property
    def rate(self) -> str:
        """Tokens a second."""
        return str(Fraction(self.count * SECOND_NS, self.period_ns))

    @property
    def text(self) -> str:
        """As a user says it: ``100/1min``."""
        return f"{self.count}/{duration_text(self.period_ns)}"


@dataclass(frozen=True)
class Question:
    """What is run.  ``limits``: the usual one first; ``typical``: what the user of a typical request asks for in its
    busiest period; ``notes``: what was done to the log; ``columns``: what it was read by; ``start_ns``, ``half_ns``: of
    the two halves; ``judging``: the requests of the second, by which is judged.
    """

    asked: LogAsked
    nodes: int
    arrivals: str
    limits: tuple[TriedLimit, ...]
    typical: int
    requests: int
    judging: int
    users: int
    log_requests: int
    start_ns: int
    half_ns: int
    notes: tuple[str, ...]
    columns: Mapping[str, str]  # by role
    thresholds: tuple[str, ...]  # of frequency analysis, a limit each, by the half that tunes

    def load(self, limit: TriedLimit, judges: bool, arrivals: str = "") -> Load:
        """The half of the log that tunes, or that judges, under a limit."""
        start_ns = self.start_ns + (self.half_ns if judges else 0)
        options = read_as(self.asked, arrivals or self.arrivals)
        options |= {"start": duration_text(start_ns), "duration": duration_text(self.half_ns)}
        threshold = self.thresholds[self.limits.index(limit)]
        return Load("service-log", options, limit.count, limit.rate, threshold, self.half_ns / SECOND_NS)

    @property
    def is_fit(self) -> bool:
        """Whether enough requests judge that one can be best."""
        return self.judging >= FEWEST

    @property
    def place(self) -> dict[str, str]:
        """Options of the topology, beside nodes and cities."""
        return {"table": self.asked.latency_table} if self.asked.latency_table else {}


def read_as(asked: LogAsked, arrivals: str) -> Json:
    """How the workload reads the log: what was said of it, and no more."""
    said = {"columns": asked.columns, "pattern": asked.pattern, "skip_bad": asked.skip_bad}
    return {"path": asked.path, **{name: value for name, value in said.items() if value}, "placement": arrivals}


def question_of(asked: LogAsked) -> Question:
    """Read the log and settle what is run.

    SpecError for one that cannot be read, is too short for the limit, or has requests in one half of the part alone.
    """
    arrivals, nodes = _arrivals(asked)
    whole = _requests(read_as(asked, arrivals))
    start_ns, span_ns, period_ns = _part(asked, whole.columns().at_ns)
    half_ns = span_ns // 2 // MILLISECOND_NS * MILLISECOND_NS
    if half_ns == 0:
        raise SpecError(f"{asked.path}: all in {span_ns / SECOND_NS:g} s", "give a log of at least a few seconds")
    window = {"start": duration_text(start_ns), "duration": duration_text(2 * half_ns)}
    part = _requests({**read_as(asked, arrivals), **window}).columns()
    judging = int(np.count_nonzero(part.at_ns >= half_ns))
    if judging in (0, len(part.at_ns)):
        what = f"{asked.path}: all {len(part.at_ns):,} requests of the part are in one half of it"
        raise SpecError(what, "one half tunes and the other judges: give --start and --duration")
    tuning = Columns(part.at_ns[:-judging], part.user[:-judging], part.cost[:-judging], part.names)
    typical = typical_count(part.at_ns, part.user, period_ns)
    counts = [per_period(asked.limit)[0]] if asked.limit else swept(typical)
    limits = [TriedLimit(count, period_ns, _rejected(part.at_ns, part.user, count, period_ns)) for count in counts]
    limits.sort(key=lambda limit: (abs(limit.rejected_share - SHARE), limit.count))
    skipped = [f"skipped {count:,} lines: {reason}" for reason, count in whole.skipped.items()]
    return Question(
        asked, nodes, arrivals, tuple(limits), typical, len(part.at_ns), judging,
        len(part.names), len(whole.log.at_ns), start_ns, half_ns, (*whole.log.notes, *skipped, *_spread(whole)),
        whole.log.columns,
        tuple(threshold_of(tuning, limit.count, limit.rate, nodes) for limit in limits),
    )  # fmt: skip


def _spread(whole: ServiceRequests) -> list[str]:
    return ["stamps of whole seconds: requests are spread within theirs"] if whole.was_spread else []


def _requests(options: Json) -> ServiceRequests:
    workload = load("service-log")
    made: ServiceRequests = workload.make(workload.configure(options), SEED)
    return made


def _arrivals(asked: LogAsked) -> tuple[str, int]:
    """Where requests come to, and how many nodes there are: as the log says, if it names several."""
    arrivals = asked.arrivals
    logged = 0
    if not arrivals or arrivals == AS_LOGGED:
        logged = len(_requests(read_as(asked, AS_LOGGED)).log.nodes)
        if arrivals and logged < 2:
            raise SpecError(f"{asked.path}: one node in it", "name the column (--columns node=NAME), or leave it out")
    arrivals = arrivals or (AS_LOGGED if logged > 1 else ANYWHERE)
    return arrivals, asked.nodes or (logged if arrivals == AS_LOGGED else NODES)


def _part(asked: LogAsked, at_ns: Int64) -> tuple[int, int, int]:
    """Begin and length of the part that is run, and the limit's period, in ns."""
    whole_ns = int(at_ns[-1]) + 1
    start_ns, span_ns = _span("--start", asked.start), _span("--duration", asked.duration)
    left_ns = whole_ns - start_ns
    if left_ns <= 0:
        raise SpecError(f"--start {asked.start}: the log has {whole_ns / SECOND_NS:g} s", "give an earlier one")
    span_ns = min(span_ns or left_ns, left_ns)
    later = at_ns[np.searchsorted(at_ns, start_ns) :]
    if not asked.duration and len(later) > REQUESTS:
        spans = later[REQUESTS:] - later[:-REQUESTS]
        span_ns = min(span_ns, int(later[REQUESTS] - start_ns if asked.start else spans.min()))
    if asked.limit:
        count, rate = per_period(asked.limit)
        period_ns = round(count / rational(rate) * SECOND_NS)
    else:
        fitting = (duration_ns(period) for period in PERIODS if PERIODS_LEAST * duration_ns(period) <= span_ns)
        period_ns = next(fitting, SECOND_NS)
    if not asked.duration:  # of a busy log fewer requests than enough, or more than that for a limit's periods
        span_ns = max(min(span_ns, PERIODS_RUN * period_ns), min(PERIODS_LEAST * period_ns, left_ns))
    if span_ns < PERIODS_LEAST * period_ns:
        what = f"{asked.path}: {span_ns / SECOND_NS:g} s of it, and limits of {duration_text(period_ns)}"
        raise SpecError(what, f"give a log of at least {PERIODS_LEAST} such periods, or a limit of a shorter one")
    return (start_ns if asked.start else busiest(at_ns, span_ns)), span_ns, period_ns


def _span(name: str, text: str) -> int:
    try:
        return duration_ns(text) if text else 0
    except ValueError as error:
        raise SpecError(f"{name} {text!r}: {error}", "give a span such as 1h") from None


def busiest(at_ns: Int64, span_ns: int) -> int:
    """The begin, in whole seconds, of the span of this length with most requests; the whole begins with 0."""
    if span_ns > int(at_ns[-1]):
        return 0
    starts = np.unique(at_ns // SECOND_NS) * SECOND_NS
    starts = starts[starts + span_ns <= int(at_ns[-1]) + SECOND_NS]
    counts = np.searchsorted(at_ns, starts + span_ns) - np.searchsorted(at_ns, starts)
    return int(starts[counts.argmax()])


def typical_count(at_ns: Int64, user: Int32, period_ns: int) -> int:
    """What the user of the median request asks for within its own busiest period."""
    order = np.argsort(user, kind="stable")
    ends = np.cumsum(np.bincount(user))
    peaks = np.empty(len(user), np.int64)
    for low, high in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        its = at_ns[order[low:high]]
        if len(its):
            peaks[low:high] = (np.arange(1, len(its) + 1) - np.searchsorted(its, its - period_ns, "right")).max()
    return int(np.sort(peaks)[(len(peaks) - 1) // 2])


def swept(typical: int) -> Sequence[int]:
    """The limits that are tried around what users ask for."""
    return sorted({max(1, ceil(typical * factor)) for factor in AROUND})


def _rejected(at_ns: Int64, user: Int32, count: int, period_ns: int) -> float:
    """The share that one exact bucket a user rejects."""
    cost = np.ones(len(at_ns), np.int32)
    rate = str(Fraction(count * SECOND_NS, period_ns))
    return 1 - float(centrally_admitted(at_ns, user, cost, count, rate).mean())
