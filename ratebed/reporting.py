"""The report over everything in ``out``: figures, verdicts, doubts, and what depends on the testbed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.verdicts import Result
from core.records import Json
from harness.experiment import SCALES
from paper_figs import FIGURES, paper_of, paper_of_claims
from paper_figs.catalogue import Catalogue, catalogue
from ratebed.comparing import flipped_claims
from ratebed.judging import in_order, joint_counts, results_by_setting
from ratebed.options import core_count
from ratebed.pipeline import sections, tables_of
from testbed.trust.evidence import DEGRADED, INVALID

if TYPE_CHECKING:
    from analysis.report import FigureSection


def report(out: Path) -> tuple[Path, list[Result]]:
    """Write ``report/index.html`` over everything in ``out``; returns its path and the verdicts."""
    from datetime import datetime

    from analysis.report import ReportContext, write_report
    from harness.code_version import commit

    verdicts = results_by_setting(out)
    results = in_order(verdicts)
    described = sections(out)
    known = catalogue(described.values())
    keys = dict.fromkeys([*known.figures, *known.lost])
    names = [name for key in keys for name in sorted(described) if _is_shown(out, described[name], key)]
    figures = [_section(out, described[name], verdicts, known) for name in names]
    path = out / "report" / "index.html"
    scales = [name for name in SCALES if any(section["scale"] == name for section in described.values())]
    seeds = sorted({str(section["seed"]) for section in described.values()})
    whole = len(scales) == len(seeds) == 1 and names == list(FIGURES)
    joint = joint_counts(results)
    context = ReportContext(
        scale=", ".join(scales),
        seed=", ".join(seeds),
        code_version=commit(),
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=this_machine(),
        command=f"ratebed figures --all --scale {scales[0]} --seed {seeds[0]}" if whole else "see each figure",
        runs_folder=out / "runs",
        notes=(*_flips_note(verdicts), *(f"Not to be had any more: {why}" for why in known.lost.values())),
        papers={family: f"{paper_of_claims(family)}: {counted}" for family, counted in joint.items()},
    )
    write_report(path, figures, results, context)
    return path, results


def _flips_note(verdicts: Mapping[str, Sequence[Result]]) -> tuple[str, ...]:
    """Claims whose verdict depends on the testbed, under the report's header."""
    texts = [f"{row['claim']} ({row['virtual_verdict']}; on {row['testbed']} {row['live_verdict']})"
             for row in flipped_claims(verdicts)]  # fmt: skip
    return (f"Claims with another verdict than in virtual time: {', '.join(texts)}.",) if texts else ()


def _is_shown(out: Path, section: Json, key: str) -> bool:
    """Whether a figure is that of ``key``; under other readings than those of record only where it was drawn."""
    drawn = section["skipped"] or not section["readings"] or (out / "figures" / f"{section['name']}.svg").is_file()
    return bool(section["key"] == key and drawn)


def _section(out: Path, section: Json, verdicts: Mapping[str, Sequence[Result]], known: Catalogue) -> "FigureSection":
    from analysis.report import FigureSection

    name, figure = section["name"], known.figures.get(section["key"])
    is_beside = section["readings"] or section["settings"]  # those stand beside the claim
    results = () if is_beside else verdicts.get(section["setting"], ())
    drawing = out / "figures" / f"{name}.svg"
    doubts = doubts_note(section["doubtful"], section["run_ids"])
    mended = "".join(f"Delays: {note}. " for note in section.get("notes", ())).strip()
    lacking = f"Not on this machine: {'; '.join(section.get('lacking', ()))}." if section.get("lacking") else ""
    notes = [_failures_note(section["failed"]), lacking, doubts, mended, figure.notes if figure else ""]
    return FigureSection(
        key=name,
        title=(figure.experiment.title if figure else name) + (f" ({section['where']})" if section["where"] else ""),
        source=figure.experiment.source if figure else section["place"],
        svg=None if section["skipped"] else drawing.read_text(),
        skipped=section["skipped"],
        command=section["command"],
        results=[result for result in results if section["key"] in result.claim.figures],
        run_ids=section["run_ids"],
        tables={} if section["skipped"] else tables_of(out, name),
        notes=" ".join(filter(None, notes)),
        texts=figure.texts() if figure else {},
        paper=paper_of(section["key"]),
    )


def doubts_note(doubtful: dict[str, list[str]], drawn: list[str]) -> str:
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


def this_machine() -> str:
    """Processor, cores, system and Python, in a line."""
    import platform

    cores = core_count()
    return f"{platform.machine()}, {cores} cores, {platform.system()}, Python {platform.python_version()}"
