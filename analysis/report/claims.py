"""Claims in words and for machines: what stands in a row of the report."""

import re
from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from markupsafe import Markup

from analysis.report.forest import Named, forest
from analysis.report.numbers import interval_text, number, wanted_text
from analysis.verdicts import Check, Judgement, Result, Status, readings_text
from core.records import Json

# A sign each, so that verdicts are told apart without colour.
SIGNS = {
    Judgement.REPRODUCED: "✓",
    Judgement.DIRECTION_ONLY: "↗",
    Judgement.CONTRADICTED: "✗",
    Judgement.UNDECIDED: "?",
    Judgement.NOT_RUN: "–",
}
_STATUS_SIGNS = {Status.HOLDS: "✓", Status.FAILS: "✗", Status.UNSURE: "?"}
_WHOLE = re.compile(r"(?<![\d.])\d+(?!\.?\d)")  # a size in a label; what was measured has a point
LEGEND = (
    "Reproduced: the 95 % interval lies inside the tolerance. Direction only: the sign is sure, the size is not. "
    "Contradicted: the interval excludes both. Undecided: too few runs, or the interval straddles a bound. "
    "Not run: this testbed cannot measure it. Readings: where a source leaves something open, a claim counts in the "
    "cell of record, what the text says best; other cells are shown and never counted. "
    "Fitted: our model was calibrated on this claim, so its agreement says little."
)


def claims_json(results: Sequence[Result]) -> list[Json]:
    """Every claim as plain JSON values; an unbounded end of an interval is null.

    id, source, sentence, testbed, verdict, fitted, why, problem, validity (of the least valid run behind it; null:
    there is none) with validity_reasons, published (values), and measured: one entry a check with label, mean, low,
    high, count, unit, wanted_low, wanted_high, published, status, and of an unsure one the repetitions in all that
    would decide it.  readings: under which it was judged; tried: the verdicts under others with their validity, and
    whether one of these was made from the claim (fitted).
    """
    return [
        {
            "id": result.claim.id,
            "source": result.claim.source,
            "sentence": result.claim.sentence,
            "testbed": result.claim.testbed,
            "verdict": result.judgement.value,
            "measured": [_check_json(result, kind, check) for kind, check in checks_of(result)],
            "published": [check.published for _, check in checks_of(result) if check.published is not None],
            "fitted": result.claim.fitted,
            "why": result.claim.why,
            "problem": result.problem,
            "validity": result.validity or None,
            "validity_reasons": list(result.validity_reasons),
            "readings": dict(result.record),
            "tried": [
                {
                    "readings": dict(each.readings),
                    "after": each.after,
                    "verdict": each.judgement.value,
                    "validity": each.validity or None,
                    "fitted": each.fitted,
                }
                for each in result.tried
            ],
            "repetitions_wanted": result.repetitions_wanted,
        }
        for result in results
    ]


def _check_json(result: Result, kind: str, check: Check) -> Json:
    interval = check.interval
    return {
        "label": check.label,
        "kind": kind,
        "mean": _finite(interval.mean),
        "low": _finite(interval.low),
        "high": _finite(interval.high),
        "count": interval.count,
        "unit": check.unit,
        "wanted_low": _finite(check.low),
        "wanted_high": _finite(check.high),
        "published": check.published,
        "status": result.status(check).value,
        "repetitions_wanted": check.repetitions_wanted() if result.status(check) is Status.UNSURE else None,
    }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def checks_of(result: Result) -> list[tuple[str, Check]]:
    """The checks of a claim, exact ones first."""
    evidence = result.evidence
    if evidence is None:
        return []
    return [("value", check) for check in evidence.exact] + [("direction", check) for check in evidence.direction]


# --- for the pages --------------------------------------------------------------------------------


class Badge(NamedTuple):
    """A judgement as the pages show it."""

    text: str
    sign: str

    @property
    def slug(self) -> str:
        """Its style, and its name in the address."""
        return self.text.replace(" ", "-")


class CheckRow(NamedTuple):
    """One check as the pages show it."""

    label: str
    measured: str
    runs: int
    wanted: str
    published: str
    status: str
    sign: str
    plot: Markup


class ReadingRow(NamedTuple):
    """What one reading of the source makes of a claim."""

    text: str
    verdict: Badge


class ClaimRow(NamedTuple):
    """One claim as the pages show it."""

    id: str
    anchor: str  # where it stands on a page; it may be judged on several testbeds
    sentence: str
    source: str
    testbed: str
    verdict: Badge
    is_fitted: bool
    reasons: list[str]
    checks: list[CheckRow]  # what did not hold first
    record: str  # the readings of record
    readings: list[ReadingRow]  # of record and others
    said: str  # under how many of them it holds


def verdict_of(judgement: Judgement) -> Badge:
    """A judgement's name and sign."""
    return Badge(judgement.value, SIGNS[judgement])


def claim_row(result: Result, is_elsewhere: bool = False) -> ClaimRow:
    """A judged claim, ready to be shown; ``is_elsewhere``: on another testbed than its own, which its anchor says."""
    claim = result.claim
    checks = [check for _, check in checks_of(result)]
    rows = list(zip(checks, _elsewhere(result, checks), strict=True))
    rows.sort(key=lambda row: result.status(row[0]) is Status.HOLDS)
    readings = [ReadingRow(each.text + " (fitted)" * each.fitted, verdict_of(each.judgement)) for each in result.tried]
    if readings:
        of_record = f"of record: {readings_text(result.record)}" + " (fitted)" * claim.fitted
        readings.insert(0, ReadingRow(of_record, verdict_of(result.judgement)))
    return ClaimRow(
        claim.id,
        f"{claim.id}-{claim.testbed}" if is_elsewhere else claim.id,
        claim.sentence,
        claim.source,
        claim.testbed,
        verdict_of(result.judgement),
        claim.fitted,
        _reasons(result),
        [_check_row(result, check, others) for check, others in rows],
        readings_text(result.record),
        readings,
        _holds_under(result),
    )


def _holds_under(result: Result) -> str:
    """Under how many readings, that of record among them, a claim holds, of a substitute its direction.

    One that was made from the claim says nothing about it, and is counted apart.
    """
    cells = [(result.judgement, result.claim.fitted), *((each.judgement, each.fitted) for each in result.tried)]
    plain = [judgement for judgement, is_fitted in cells if not is_fitted]
    if not plain:
        return "under no reading that is not fitted"
    holding = plain.count(result.claim.best)
    where = "in direction " if result.claim.substitute else ""
    said = f"{where}under {holding} of {len(plain)} readings" if holding else "under no reading tried"
    return said + (f", {len(cells) - len(plain)} more fitted" if len(plain) < len(cells) else "")


def _elsewhere(result: Result, checks: Sequence[Check]) -> list[list[Named]]:
    """Of each check what other readings measured: under its label, or else in its place.

    A label may name the reading, or what was measured.  Places mean the same only where there are as many checks, all
    of the same kinds.
    """
    kinds = list(map(_kind, checks))
    measured: list[list[Named]] = [[] for _ in checks]
    for each in result.tried:
        labelled = {check.label: check for check in reversed(each.checks)}
        is_alike = list(map(_kind, each.checks)) == kinds
        in_place: Sequence[Check | None] = each.checks if is_alike else [None] * len(checks)
        for others, check, beside in zip(measured, checks, in_place, strict=True):
            other = labelled.get(check.label, beside)
            if other is not None:
                others.append((each.text, other.interval))
    return measured


def _kind(check: Check) -> tuple[object, ...]:
    """What checks of one thing under two readings have in common: unit, bounded ends, the sizes in the label."""
    return check.unit, isfinite(check.low), isfinite(check.high), check.published is None, _WHOLE.findall(check.label)


def _check_row(result: Result, check: Check, others: Sequence[Named]) -> CheckRow:
    status = result.status(check)
    published = "" if check.published is None else f"{number(check.published)} {check.unit}".strip()
    return CheckRow(
        check.label,
        interval_text(check),
        check.interval.count,
        wanted_text(check),
        published,
        status.value,
        _STATUS_SIGNS[status],
        forest(check, others),
    )


def _reasons(result: Result) -> list[str]:
    """Why a claim was not reproduced, or not judged; and what is to be said against its runs."""
    texts = [result.problem] if result.problem else []
    if result.claim.why and result.judgement is not Judgement.REPRODUCED:
        texts.append(result.claim.why)
    if result.repetitions_wanted:
        texts.append(f"Some {result.repetitions_wanted:,} repetitions in all would decide it.")
    if result.validity_reasons:
        texts.append(f"Of its runs some are {result.validity}: {'; '.join(result.validity_reasons)}.")
    return texts
