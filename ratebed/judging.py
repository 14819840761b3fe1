"""Claims and the report, from the tables that figures left in ``out``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Judgement, Result, Tables, judge
from harness.experiment import SCALES
from paper_figs import CLAIM_LETTERS, FIGURES, PAPERS, all_claims, load_figure
from ratebed.options import core_count
from ratebed.pipeline import sections, tables_of
from ratebed.settings import SMALL
from testbed.brokers.model import load_calibration
from testbed.trust.evidence import DEGRADED, INVALID

if TYPE_CHECKING:
    from analysis.report import FigureSection


def judge_all(out: Path) -> list[Result]:
    """Every claim, judged where it belongs; one whose figures were not run is undecided.

    After each come its verdicts on other testbeds and at scale small, where its figures are there.
    """
    found = results_by_setting(out)
    order = [claim.id for claim in all_claims()]
    return sorted((result for results in found.values() for result in results), key=lambda r: order.index(r.claim.id))


def results_by_setting(out: Path) -> dict[str, list[Result]]:
    """The verdicts of each setting (``ratebed.settings``); "" first, which has every claim."""
    present = {name: section for name, section in sections(out).items() if not section["skipped"]}
    suffixes = ["", *sorted({section["setting"] for section in present.values()} - {""})]
    fitted = fitted_claims(out)
    claims = [replace(claim, fitted=claim.fitted or claim.id in fitted) for claim in all_claims()]
    found = {}
    for suffix in suffixes:
        keys = {section["key"] for section in present.values() if section["setting"] == suffix}
        tables = {f"{key}/{table}": frame for key in keys for table, frame in tables_of(out, key + suffix).items()}
        if suffix:
            elsewhere = [
                claim for claim in claims if claim.measure and claim.figures and keys.issuperset(claim.figures)
            ]
            found[suffix] = [judge(_at(claim, suffix[1:]), tables) for claim in elsewhere]
        else:
            found[suffix] = [judge(claim, tables) for claim in claims]
    return found


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
    return text


def report(out: Path) -> tuple[Path, list[Result]]:
    """Write ``report/index.html`` over everything in ``out``; returns its path and the verdicts."""
    from datetime import datetime

    from analysis.report import ReportContext, write_report
    from harness.code_version import commit

    verdicts, results = results_by_setting(out), judge_all(out)
    found = sections(out)
    names = [name for key in FIGURES for name in sorted(found) if found[name]["key"] == key]
    figures = [_section(out, found[name], verdicts.get(found[name]["setting"], [])) for name in names]
    path = out / "report" / "index.html"
    scales = [name for name in SCALES if any(section["scale"] == name for section in found.values())]
    seeds = sorted({str(section["seed"]) for section in found.values()})
    whole = len(scales) == len(seeds) == 1 and names == list(FIGURES)
    context = ReportContext(
        scale=", ".join(scales),
        seed=", ".join(seeds),
        code_version=commit(),
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=_machine(),
        command=f"ratebed figures --all --scale {scales[0]} --seed {seeds[0]}" if whole else "see each figure",
        runs_folder=out / "runs",
        notes=_flips_note(out),
        papers={letter: PAPERS[paper] for letter, paper in CLAIM_LETTERS.items()},
    )
    write_report(path, figures, results, context)
    return path, results


def _flips_note(out: Path) -> tuple[str, ...]:
    """Claims whose verdict depends on the testbed, under the report's header."""
    from ratebed.comparing import flipped_claims

    texts = [f"{row['claim']} ({row['virtual_verdict']}; on {row['testbed']} {row['live_verdict']})"
             for row in flipped_claims(out)]  # fmt: skip
    return (f"Claims with another verdict than in virtual time: {', '.join(texts)}.",) if texts else ()


def _section(out: Path, section: dict[str, Any], results: list[Result]) -> "FigureSection":
    from analysis.report import FigureSection

    name, figure = section["name"], load_figure(section["key"])
    drawing = out / "figures" / f"{name}.svg"
    doubts = _doubts_note(section["doubtful"], section["run_ids"])
    mended = "".join(f"Delays: {note}. " for note in section.get("notes", ())).strip()
    notes = [_failures_note(section["failed"]), doubts, mended, figure.notes]
    return FigureSection(
        key=name,
        title=figure.experiment.title + (f" ({section['where']})" if section["where"] else ""),
        source=figure.experiment.source,
        svg=None if section["skipped"] else drawing.read_text(),
        skipped=section["skipped"],
        command=section["command"],
        results=[result for result in results if section["key"] in result.claim.figures],
        run_ids=section["run_ids"],
        tables={} if section["skipped"] else tables_of(out, name),
        notes=" ".join(filter(None, notes)),
        paper=PAPERS[section["key"].partition("-")[0]],
    )


def _doubts_note(doubtful: dict[str, list[str]], drawn: list[str]) -> str:
    """Runs that are not valid, by kind, with the reasons of the first."""
    parts = []
    for validity in (DEGRADED, INVALID):
        runs = {run_id: reasons for run_id, (kind, *reasons) in doubtful.items() if kind == validity}
        if runs:
            fate = "" if set(runs) & set(drawn) else ", left out"
            first = next(iter(runs.values()))
            parts.append(
                f"{len(runs)} {'runs are' if len(runs) > 1 else 'run is'} {validity}{fate}: {'; '.join(first)}."
            )
    return " ".join(parts)


def _failures_note(failed: dict[str, str]) -> str:
    if not failed:
        return ""
    first = next(iter(failed.values()))
    return f"INCOMPLETE: {len(failed)} of its runs failed and are missing here; the first one: {first}."


def _machine() -> str:
    import platform

    cores = core_count()
    return f"{platform.machine()}, {cores} cores, {platform.system()}, Python {platform.python_version()}"


def counts_line(results: list[Result]) -> str:
    """Counts by verdict, as in ``19 reproduced, 3 direction only``."""
    counts = [(judgement, sum(result.judgement is judgement for result in results)) for judgement in Judgement]
    return ", ".join(f"{count} {judgement.value}" for judgement, count in counts if count)
