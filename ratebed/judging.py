"""Claims and the report, from the tables that figures left in ``out``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Judgement, Result, judge
from harness.experiment import SCALES
from paper_figs import CLAIM_LETTERS, FIGURES, PAPERS, all_claims, load_figure
from ratebed.options import core_count
from ratebed.pipeline import sections, tables_of
from testbed.virtual.broker_model import load_calibration

if TYPE_CHECKING:
    from analysis.report import FigureSection


def judge_all(out: Path) -> list[Result]:
    """Every claim, judged; one whose figures were not run is undecided."""
    present = {key: tables_of(out, key) for key, section in sections(out).items() if not section["skipped"]}
    tables = {f"{key}/{name}": frame for key, found in present.items() for name, frame in found.items()}
    fitted = fitted_claims(out)
    claims = [replace(claim, fitted=claim.fitted or claim.id in fitted) for claim in all_claims()]
    return [judge(claim, tables) for claim in claims]


def fitted_claims(out: Path) -> set[str]:
    """Claims that a calibration was fitted on, of those that the figures' runs used (DESIGN: badge "fitted")."""
    names = {section["calibration"] for section in sections(out).values()}
    return {claim for name in names for claim in load_calibration(name or "srtm-paper").fitted_on}


def summary_line(result: Result) -> str:
    """A claim in one line."""
    text = f"{result.claim.id:<4}{result.judgement.value:<16}{result.claim.sentence}"
    if result.problem:
        text += f" ({result.problem})"
    return text


def report(out: Path) -> tuple[Path, list[Result]]:
    """Write ``report/index.html`` over everything in ``out``; returns its path and the verdicts."""
    from datetime import datetime

    from analysis.report import ReportContext, write_report
    from harness.code_version import commit

    results = judge_all(out)
    found = sections(out)
    figures = [_section(out, key, found[key], results) for key in FIGURES if key in found]
    path = out / "report" / "index.html"
    scales = [name for name in SCALES if any(section["scale"] == name for section in found.values())]
    seeds = sorted({str(section["seed"]) for section in found.values()})
    whole = len(scales) == len(seeds) == 1 and len(found) == len(FIGURES)
    context = ReportContext(
        scale=", ".join(scales),
        seed=", ".join(seeds),
        code_version=commit(),
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=_machine(),
        command=f"ratebed figures --all --scale {scales[0]} --seed {seeds[0]}" if whole else "see each figure",
        runs_folder=out / "runs",
        papers={letter: PAPERS[paper] for letter, paper in CLAIM_LETTERS.items()},
    )
    write_report(path, figures, results, context)
    return path, results


def _section(out: Path, key: str, section: dict[str, Any], results: list[Result]) -> "FigureSection":
    from analysis.report import FigureSection

    figure = load_figure(key)
    drawing = out / "figures" / f"{key}.svg"
    own = [result for result in results if key in result.claim.figures]
    return FigureSection(
        key=key,
        title=figure.experiment.title,
        source=figure.experiment.source,
        svg=None if section["skipped"] else drawing.read_text(),
        skipped=section["skipped"],
        command=section["command"],
        results=own,
        run_ids=section["run_ids"],
        tables={} if section["skipped"] else tables_of(out, key),
        notes=" ".join(filter(None, [_failures_note(section["failed"]), figure.notes])),
        paper=PAPERS[key.partition("-")[0]],
    )


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
