"""Claims, judged from the tables that figures left in ``out``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from analysis.verdicts import Claim, Evidence, Judgement, Result, Tables, judge
from core.records import Json
from paper_figs import all_claims
from ratebed.pipeline import sections, tables_of
from ratebed.settings import SMALL
from ratebed.validity import standings_of, worst
from testbed.brokers.model import load_calibration
from testbed.trust.evidence import VALID


def results_by_setting(out: Path) -> dict[str, list[Result]]:
    """The verdicts of each setting (``ratebed.settings``); "" first, which has every claim, judged where it belongs.

    A claim whose figures were not run is undecided there, and in other settings has no verdict.
    """
    described = sections(out)
    present = {name: section for name, section in described.items() if not section["skipped"]}
    suffixes = ["", *sorted({section["setting"] for section in present.values()} - {""})]
    fitted = fitted_claims(out)
    claims = [replace(claim, fitted=claim.fitted or claim.id in fitted) for claim in all_claims()]
    verdicts = {}
    for suffix in suffixes:
        keys = {section["key"] for section in present.values() if section["setting"] == suffix}
        tables = {f"{key}/{table}": frame for key in keys for table, frame in tables_of(out, key + suffix).items()}
        here = [claim for claim in claims if claim.measure and claim.figures and keys.issuperset(claim.figures)]
        asked = [_at(claim, suffix[1:]) for claim in here] if suffix else claims
        verdicts[suffix] = [_trusted(judge(claim, tables), suffix, described) for claim in asked]
    return verdicts


def _trusted(result: Result, suffix: str, described: Mapping[str, Json]) -> Result:
    """The verdict with what is to be said for or against the runs behind it; or why there are none."""
    own = [described[key + suffix] for key in result.claim.figures if key + suffix in described]
    if result.evidence is None:
        undrawn = [f"{section['name']}: {section['skipped']}" for section in own if section["skipped"]]
        return replace(result, problem="; ".join(undrawn)) if undrawn else result
    runs = [(standings_of(section), section["run_ids"]) for section in own]
    standing = worst(standings[run_id] for standings, drawn in runs for run_id in drawn)
    if standing is None:
        return result
    return replace(result, validity=standing.validity, validity_reasons=standing.reasons)


def in_order(verdicts: Mapping[str, Sequence[Result]]) -> list[Result]:
    """The verdicts of all settings by claim; after each claim's own come those of other settings."""
    order = [claim.id for claim in all_claims()]
    return sorted(chain(*verdicts.values()), key=lambda result: order.index(result.claim.id))


def _at(claim: Claim, where: str) -> Claim:
    """The claim on another testbed.  At scale small the paper's numbers say nothing, only its directions do."""
    if not where.endswith(SMALL):
        return replace(claim, testbed=where)
    return replace(claim, testbed=where, measure=_without_numbers(claim.measure), substitute=True)


def _without_numbers(measure: Callable[[Tables], Evidence] | None) -> Callable[[Tables], Evidence]:
    """The same measure without checks against published values."""
    assert measure is not None

    def measured(tables: Tables) -> Evidence:
        evidence = measure(tables)
        kept = tuple(check for check in evidence.exact if check.published is None)
        return Evidence(kept, tuple(check for check in evidence.direction if check.published is None))

    return measured


def counts(result: Result) -> bool:
    """Whether the verdict decides about the exit code: at scale small the physics is not the paper's."""
    return not result.claim.testbed.endswith(f"-{SMALL}")


def fitted_claims(out: Path) -> set[str]:
    """Claims that a calibration was fitted on, of those that the figures' runs used (DESIGN: badge "fitted")."""
    names = {section["calibration"] for section in sections(out).values()}
    return {claim for name in names for claim in load_calibration(name or "srtm-paper").fitted_on}


def summary_line(result: Result) -> str:
    """A claim in one line."""
    where = "" if result.claim.testbed in ("virtual", "mininet") else f"[{result.claim.testbed}] "
    text = f"{result.claim.id:<4}{result.judgement.value:<16}{where}{result.claim.sentence}"
    if result.problem:
        text += f" ({result.problem})"
    if result.validity not in ("", VALID):
        text += f" [{result.validity} runs: {'; '.join(result.validity_reasons)}]"
    return text


def counts_line(results: list[Result]) -> str:
    """Counts by verdict, as in ``19 reproduced, 3 direction only``."""
    counts = [(judgement, sum(result.judgement is judgement for result in results)) for judgement in Judgement]
    return ", ".join(f"{count} {judgement.value}" for judgement, count in counts if count)
