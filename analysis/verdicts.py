"""Claims are code: what a paper says, how we measure it, and how the answer is judged.

A claim's measure returns *checks*: samples (one a repetition, paired where systems are compared)
and the interval that their mean must lie in.  The 95 % t-interval of the mean decides:

* inside the wanted interval: the check **holds**;
* disjoint from it: it **fails**;
* otherwise it is **unsure**.

A claim is reproduced where all of its checks hold, so each may err as often as the claim may.  It is contradicted where
one of them fails, and of many some fail by chance: a check among m fails only where the 1 - 5 % / m interval says so
(Bonferroni).  Repetitions are fixed by the scale before results are seen: who adds some until a claim is decided has to
say so, and to judge it on fresh seeds.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np

from core.records import Float64, Options

if TYPE_CHECKING:
    import pandas as pd

LATENCY_TOLERANCE = 0.25  # DESIGN: latencies +-25 %, ratios +-15 %, set before results are seen
RATIO_TOLERANCE = 0.15
REPETITIONS_MAXIMUM = 10_000  # more decide nothing that matters


class Status(Enum):
    """The state of one check."""

    HOLDS = "holds"
    FAILS = "fails"
    UNSURE = "unsure"


class Judgement(Enum):
    """The verdict on a claim."""

    REPRODUCED = "reproduced"
    DIRECTION_ONLY = "direction only"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % t-interval; a single sample has an infinite one."""

    mean: float
    low: float
    high: float
    count: int


def t_interval(samples: Sequence[float], error: float = 0.05, resolution: float = 0.0) -> Interval:
    """Mean and 1 - ``error`` interval of ``samples``; identical samples give a point (a deterministic quantity).

    ``resolution``: what samples are rounded to.  They deviate as much as rounding does at least: if they are
    identical, that proves no more.
    """
    values = np.asarray(samples, float)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return Interval(float("nan"), -inf, inf, 0)
    if len(values) == 1:
        return Interval(float(values[0]), -inf, inf, 1)
    if values.min() == values.max() and not resolution:  # a mean may differ in the last bit, and a bound is a bound
        return Interval(float(values[0]), float(values[0]), float(values[0]), len(values))
    if not np.isfinite(values).all():
        return Interval(float(values.mean()), -inf, inf, len(values))
    mean, half = float(values.mean()), half_width(len(values), error) * _deviation(values, resolution)
    return Interval(mean, mean - half, mean + half, len(values))


def _deviation(values: Float64, resolution: float) -> float:
    """Their standard deviation, at least that of rounding to ``resolution``."""
    return max(float(values.std(ddof=1)), resolution / 12**0.5)


@cache
def half_width(count: int, error: float = 0.05) -> float:
    """Half of a mean's 1 - ``error`` interval, in standard deviations of ``count`` repetitions; 0 of a single one."""
    from scipy.special import stdtrit  # Student's t, as scipy.stats has it, which takes a second to import

    return float(stdtrit(count - 1, 1 - error / 2)) / count**0.5 if count > 1 else 0.0


@dataclass(frozen=True)
class Check:
    """``samples``' mean must lie in [low, high]."""

    label: str
    samples: tuple[float, ...]
    low: float = -inf
    high: float = inf
    published: float | None = None
    unit: str = ""
    resolution: float = 0.0  # what samples are rounded to

    @property
    def interval(self) -> Interval:
        """Mean and interval of the samples."""
        return t_interval(self.samples, resolution=self.resolution)

    def status(self, minimum_repetitions: int, family: int = 1) -> Status:
        """Does the check, one of a ``family``, hold?  Too few samples: unsure; an infinite mean proves no ratio."""
        interval = self.interval
        if interval.count < minimum_repetitions or isnan(interval.mean):
            return Status.UNSURE
        if isfinite(interval.mean) and self.low <= interval.low and interval.high <= self.high:
            return Status.HOLDS
        wide = t_interval(self.samples, 0.05 / family, self.resolution)
        if wide.high < self.low or wide.low > self.high:
            return Status.FAILS
        return Status.UNSURE

    def repetitions_wanted(self) -> int | None:
        """Repetitions in all that would decide the check, mean and spread staying what they are.

        None: more than ``REPETITIONS_MAXIMUM``, or the spread is not known.
        """
        values = np.asarray(self.samples, float)
        values = values[~np.isnan(values)]
        if len(values) < 2:
            return None
        distance = min(abs(float(values.mean()) - bound) for bound in (self.low, self.high))
        varied = values.min() < values.max() or self.resolution
        wanted = distance / _deviation(values, self.resolution) if varied else inf
        if half_width(REPETITIONS_MAXIMUM) > wanted:
            return None
        return bisect_left(range(REPETITIONS_MAXIMUM), -wanted, lo=2, key=lambda count: -half_width(count))


def within(
    label: str, samples: Sequence[float], published: float, relative: float = LATENCY_TOLERANCE, unit: str = ""
) -> Check:
    """The mean is within ``relative`` of the published value."""
    low, high = sorted((published * (1 - relative), published * (1 + relative)))
    return Check(label, tuple(samples), low, high, published, unit)


def above(label: str, samples: Sequence[float], bound: float = 0.0, unit: str = "") -> Check:
    """The mean is above ``bound``; with paired differences, the sign."""
    return Check(label, tuple(samples), low=np.nextafter(bound, inf), unit=unit)


def below(label: str, samples: Sequence[float], bound: float = 0.0, unit: str = "") -> Check:
    """The mean is below ``bound``."""
    return Check(label, tuple(samples), high=np.nextafter(bound, -inf), unit=unit)


def at_most(label: str, samples: Sequence[float], bound: float, unit: str = "") -> Check:
    """The mean is not above ``bound``."""
    return Check(label, tuple(samples), high=bound, unit=unit)


def at_least(label: str, samples: Sequence[float], bound: float, unit: str = "") -> Check:
    """The mean is not below ``bound``."""
    return Check(label, tuple(samples), low=bound, unit=unit)


@dataclass(frozen=True)
class Evidence:
    """What a measure found: ``exact`` checks say "reproduced", ``direction`` checks say the sign is right."""

    exact: tuple[Check, ...]
    direction: tuple[Check, ...] = ()

    @property
    def all(self) -> tuple[Check, ...]:
        """Every check, exact ones first."""
        return self.exact + self.direction

    @property
    def decisive(self) -> tuple[Check, ...]:
        """The checks of which one that fails contradicts the claim."""
        return self.direction or self.exact


Tables = dict[str, "pd.DataFrame"]  # the figure tables of every figure in ``Claim.figures``


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper."""

    id: str
    source: str  # section or figure
    sentence: str  # what the paper claims, in our words
    figures: tuple[str, ...]  # whose tables the measure reads: tables["srtm-fig5/p99"]
    measure: Callable[[Tables], Evidence] | None = None  # None: nothing here can measure it
    needs: str = ""  # what the measure takes besides virtual time, "mininet": without its figures, not run
    testbed: str = "virtual"
    minimum_repetitions: int = 5  # what a claim on random quantities takes; fewer samples: unsure
    fitted: bool = False  # what is judged was made from this very claim (calibrations say so themselves)
    substitute: bool = False  # the paper's input is secret: at most "direction only"
    why: str = ""  # if it is not reproduced: the reason, as far as known

    @property
    def family(self) -> str:
        """What claims of one source have in common, their ids' head: ``S`` of ``S20a``, ``mine-`` of ``mine-1``."""
        return rank_of(self.id)[0]

    @property
    def best(self) -> Judgement:
        """The best verdict that there can be on it."""
        return Judgement.DIRECTION_ONLY if self.substitute else Judgement.REPRODUCED


def rank_of(claim_id: str) -> tuple[str, int, str]:
    """By which claims are ordered: their ids' head, the number in it, and what follows."""
    head = re.split(r"\d", claim_id, maxsplit=1)[0]
    digits = re.match(r"\d*", claim_id[len(head) :])
    return head, int(digits[0] or 0) if digits else 0, claim_id


@dataclass(frozen=True)
class Tried:
    """What a claim's verdict is under other readings of its source than those of record."""

    readings: Options
    after: bool  # one of them was thought of after results were seen
    judgement: Judgement
    checks: Sequence[Check] = ()  # what was measured under them
    fitted: bool = False  # one of them, or a calibration of theirs, was made from this very claim
    validity: str = ""  # as of ``Result``

    @property
    def text(self) -> str:
        """The readings, when they were thought of, and what is to be said against the runs."""
        doubt = "" if self.validity in ("", "valid") else f" ({self.validity} runs)"
        return readings_text(self.readings) + " (thought of after results were seen)" * self.after + doubt


def readings_text(readings: Options) -> str:
    """``envelope literal, margin 1.1``."""
    return ", ".join(f"{name} {value}" for name, value in readings.items())


@dataclass(frozen=True)
class Result:
    """A judged claim."""

    claim: Claim
    judgement: Judgement
    evidence: Evidence | None = None
    problem: str = ""  # why it could not be judged
    validity: str = ""  # of the runs behind it, the least valid one's; empty where there are none
    validity_reasons: Sequence[str] = ()
    from_invalid: bool = False  # all runs behind it are invalid, or left it without any because they are
    record: Options = field(default_factory=dict)  # the readings under which it was judged
    tried: Sequence[Tried] = ()

    def status(self, check: Check) -> Status:
        """Of one check among the claim's."""
        assert self.evidence is not None
        return check.status(self.claim.minimum_repetitions, len(self.evidence.decisive))

    @property
    def repetitions_wanted(self) -> int | None:
        """Repetitions in all that would decide an undecided claim; None where it is decided, or where none would."""
        if self.judgement is not Judgement.UNDECIDED or self.evidence is None:
            return None
        unsure = [check for check in self.evidence.decisive if self.status(check) is Status.UNSURE]
        wanted = [check.repetitions_wanted() for check in unsure]
        counts = [max(count, self.claim.minimum_repetitions) for count in wanted if count is not None]
        return max(counts) if counts and len(counts) == len(wanted) else None


def judge(claim: Claim, tables: Tables) -> Result:
    """The verdict on ``claim``, from the figure tables."""
    absent = not any(name.partition("/")[0] in claim.figures for name in tables)
    if claim.measure is None or (claim.needs and absent):
        return Result(claim, Judgement.NOT_RUN, problem=f"needs {claim.needs}")
    try:
        evidence = claim.measure(tables)
    except KeyError as error:
        return Result(claim, Judgement.UNDECIDED, problem=f"no data: {error}")
    except Exception as error:  # a measure that stumbles over missing runs must not cost the whole report
        return Result(claim, Judgement.UNDECIDED, problem=f"not measured: {type(error).__name__}: {error}")
    result = Result(claim, Judgement.UNDECIDED, evidence)
    exact, direction = (list(map(result.status, checks)) for checks in (evidence.exact, evidence.direction))
    return replace(result, judgement=_verdict(claim, exact, direction))


def _verdict(claim: Claim, exact: list[Status], direction: list[Status]) -> Judgement:
    if exact and all(status is Status.HOLDS for status in exact) and all(s is Status.HOLDS for s in direction):
        return claim.best
    if direction and all(status is Status.HOLDS for status in direction):
        return Judgement.DIRECTION_ONLY
    if Status.FAILS in (direction or exact):
        return Judgement.CONTRADICTED
    return Judgement.UNDECIDED
