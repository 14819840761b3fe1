"""The points behind an answer: what is tried of each limiter, what judges it, and what else is looked at.

They are ``limiters-plane``'s: its limiters, its topology, its oracle.  Throttlers are left out, which were made for one
aggregate and not for many users.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.records import Options
from core.units import MILLISECOND_NS, duration_text
from harness.experiment import RunSpec
from paper_figs.beyond.limiters import LIMITERS, oracle, point, works
from ratebed.advising.question import HOME, Question, TriedLimit

NAMES = ("centralised", "static-split", "leases", "counter", "queue", "queue+F+L", "sliding-log")
LEFT_OUT = "throttlers are not among them: they were made for one aggregate; the sliding log is no token bucket"
SPOKEN = (60, 20, 8)  # ours: how often protocols speak in a limit's period; with 8 nodes less often cannot work
LEAST_NS = 100 * MILLISECOND_NS  # ours: between two words, nearly the time that one takes around the world
WINDOWS, LEASE = (6, 2), 3  # ours: parts of the limit's period


@dataclass(frozen=True)
class Condition:
    """Where limiters are judged: ``factor`` and ``value`` say what is not as usual; the rest makes it so."""

    factor: str
    value: str
    limit: TriedLimit
    varied: Options
    arrivals: str = ""
    period: str = ""  # of all who speak, instead of their own


@dataclass(frozen=True)
class Tuning:
    """A limiter with what was tuned of it; ``options`` as ``point`` takes them."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


def settings(limit: TriedLimit) -> list[Tuning]:
    """All that is tried under a limit."""
    periods = [duration_text(span_ns) for span_ns in spoken(limit)]
    tunings = []
    for name in NAMES:
        if not LIMITERS[name].period:
            tunings.append(Tuning(name))
            continue
        for period in periods:
            knobs = _lent(limit) if name == "leases" else [()]
            tunings += [Tuning(name, (("period", period), *knob)) for knob in knobs]
    return tunings


def spoken(limit: TriedLimit) -> list[int]:
    """The protocols' periods, in whole ms, as ns, ascending."""
    spans = (limit.period_ns // often // MILLISECOND_NS * MILLISECOND_NS for often in SPOKEN)
    return sorted({max(LEAST_NS, span_ns) for span_ns in spans})


def _lent(limit: TriedLimit) -> list[tuple[tuple[str, str], ...]]:
    lease = duration_text(limit.period_ns // LEASE // MILLISECOND_NS * MILLISECOND_NS)
    windows = (duration_text(limit.period_ns // part // MILLISECOND_NS * MILLISECOND_NS) for part in WINDOWS)
    return [(("window", window), ("lease", lease)) for window in windows]


def spec_of(question: Question, setting: Tuning, condition: Condition, judges: bool) -> RunSpec | None:
    """A limiter under a condition; None where it cannot work so (``limiters.works``)."""
    load = question.load(condition.limit, judges, condition.arrivals)
    options: Options = {**dict(setting.options), **question.place, **condition.varied}
    if condition.period and LIMITERS[setting.name].period:
        options = {**options, "period": condition.period}
    spec = point(setting.name, load, question.nodes, question.asked.places, **options)
    return spec if works(spec, load) else None


def oracle_of(question: Question, condition: Condition, judges: bool) -> RunSpec:
    """The exact limiter without delay on the same requests."""
    return oracle(question.load(condition.limit, judges, condition.arrivals), question.nodes)


def usual(limit: TriedLimit) -> Condition:
    """Nothing varied."""
    return Condition("limit", limit.text, limit, {})


def conditions(question: Question) -> Sequence[Condition]:
    """What else is looked at: other limits, and with the usual one distances, loss, periods, users at home."""
    first, *others = question.limits
    varied = [usual(limit) for limit in others]
    varied += [Condition("distances", f"x {factor:g}", first, {"delay_factor": factor}) for factor in (0.25, 4.0)]
    varied.append(Condition("loss between cities", "10 %", first, {"loss_probability": 0.1}))
    periods = [duration_text(span_ns) for span_ns in spoken(first)]
    varied += [Condition("all speak every", period, first, {}, period=period) for period in periods]
    if question.arrivals != HOME:
        varied.append(Condition("arrivals", "each user asks one node", first, {}, HOME))
    return varied
