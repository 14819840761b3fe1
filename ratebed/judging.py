"""Claims and the report, from the tables that figures left in ``out``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Judgement, Result, judge
from paper_figs import FIGURES, all_claims, load_figure
from ratebed.pipeline import sections, tables_of

if TYPE_CHECKING:
    from analysis.report import FigureSection


def judge_all(out: Path) -> list[Result]:
    """Every claim, judged; one whose figures were not run is undecided."""
    present = {key: tables_of(out, key) for key, section in sections(out).items() if not section["skipped"]}
    tables = {f"{key}/{name}": frame for key, found in present.items() for name, frame in found.items()}
    return [judge(claim, tables) for claim in all_claims()]


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
    scales = sorted({section["scale"] for section in found.values()})
    seeds = sorted({str(section["seed"]) for section in found.values()})
    context = ReportContext(
        scale=", ".join(scales),
        seed=", ".join(seeds),
        code_version=commit(),
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=_machine(),
        command=f"ratebed figures --all --scale {scales[-1]} --seed {seeds[0]}" if scales else "",
        runs_folder=out / "runs",
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
        notes=figure.notes,
    )


def _machine() -> str:
    import os
    import platform

    cores = len(os.sched_getaffinity(0))
    return f"{platform.machine()}, {cores} cores, {platform.system()}, Python {platform.python_version()}"


def counts_line(results: list[Result]) -> str:
    """Counts by verdict, as in ``19 reproduced, 3 direction only``."""
    counts = [(judgement, sum(result.judgement is judgement for result in results)) for judgement in Judgement]
    return ", ".join(f"{count} {judgement.value}" for judgement, count in counts if count)
