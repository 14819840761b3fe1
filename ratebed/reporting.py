"""The report over everything in ``out``: figures, verdicts, doubts, and what depends on the testbed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analysis.verdicts import Result
from collectors.integrity import Damage
from core.records import Json
from harness.experiment import SCALES
from paper_figs import CLAIM_LETTERS, FIGURES, OWN, PAPERS, paper_of
from paper_figs.catalogue import Catalogue, catalogue
from paper_figs.style import STYLES
from ratebed.behind import made_by, runs_of
from ratebed.comparing import flipped_claims
from ratebed.digitised import curves_of
from ratebed.judging import in_order, joint_counts, results_by_setting
from ratebed.kept import drawing_of, said_of_lost
from ratebed.options import core_count
from ratebed.pipeline import tables_of, whole_sections
from ratebed.record import MADE, MADE_BY, differences, read_record
from ratebed.settings import VIRTUAL
from testbed.trust.evidence import DEGRADED, INVALID

if TYPE_CHECKING:
    from analysis.report import FigureSection, PaperEntry


OWN_PAGE = "own"  # the slug of what is of no paper


class WrittenReport(NamedTuple):
    """A report's index page, the verdicts in it, what is said of what it was left without, and the figures there.

    ``described``: the sections of those whose tables are whole; ``left_out``: those of them whose runs or drawing are
    not.
    """

    page: Path
    results: list[Result]
    damaged: list[str]
    described: dict[str, Json]
    left_out: list[str]

    def lacks(self, name: str) -> bool:
        """Whether a figure that was made for the report is not in it, or not its drawing."""
        return name not in self.described or name in self.left_out


def report(out: Path, since: str = "") -> WrittenReport:
    """Write the report over everything in ``out``.

    A drawing that is not as it was written is left out, and so is a figure one of whose tables or runs is not.
    ``since``: an earlier report, its folder or its ``report.json``, or a record of claims; what changed is then said.
    """
    from datetime import datetime

    from analysis.report import ReportContext, write_report
    from harness.code_version import commit

    before = earlier(since) if since else None  # first: it may be what is about to be replaced
    described, damaged = whole_sections(out)
    verdicts = results_by_setting(out, described=described)
    results = in_order(verdicts)
    known = catalogue(described.values())
    keys = dict.fromkeys([*known.figures, *known.lost])
    names = [name for key in keys for name in sorted(described) if _is_shown(described[name], key)]
    figures, left_out = [], []
    for name in names:
        try:
            figures.append(_section(out, described[name], verdicts, known))
        except Damage as damage:  # of a run; what others asked for may have taken hours
            damaged.append(f"{name}: {damage}")
            left_out.append(name)
    undrawn = {shown.key: shown.skipped for shown in figures if shown.svg is None}
    lost = {name: said for name, said in undrawn.items() if not described[name]["skipped"]}
    damaged += lost.values()
    path = out / "report" / "index.html"
    scales = [name for name in SCALES if any(section["scale"] == name for section in described.values())]
    seeds = sorted({str(section["seed"]) for section in described.values()})
    whole = len(scales) == len(seeds) == 1 and names == list(FIGURES)
    testbeds = sorted({section["testbed"] for section in described.values()})
    commits = made_by(described.values(), out / "runs")
    context = ReportContext(
        scale=", ".join(scales),
        seed=", ".join(seeds),
        code_version=commit(),
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        machine=this_machine(),
        command=f"ratebed figures --all --scale {scales[0]} --seed {seeds[0]}" if whole else "see each figure",
        notes=(
            *_flips_note(verdicts),
            *_code_note(commits, commit()),
            *(f"Not to be had any more: {why}" for why in known.lost.values()),
        ),
        papers=_papers(joint_counts(results)),
        since=f"{since} ({before[MADE]['date']})" if before else "",
        changes=_changes(before, results, described) if before else (),
        made={"scale": scales, "seed": seeds, "testbed": testbeds, MADE_BY: commits},
        table_files={name: out / "tables" / name for name in (shown.key for shown in figures)},
    )
    write_report(path, figures, results, context)
    return WrittenReport(path, results, damaged, described, [*left_out, *lost])


def earlier(since: str) -> Json:
    """The earlier report that ``--since`` names; SpecError where there is none."""
    path = Path(since)
    return read_record(path / "report.json" if path.is_dir() else path)


def _changes(before: Json, results: Sequence[Result], described: Mapping[str, Json]) -> list[str]:
    """In lines: claims and numbers that are others than then, figures whose tables are."""
    judged = [result for result in results if not result.claim.figures or result.evidence is not None or result.problem]
    lines = differences(before, judged)
    then = before.get("figures", {})
    now = {
        name: {Path(file).stem: digest for file, digest in section["tables"].items()}
        for name, section in described.items()
    }
    if then:
        lines += [f"{name}: drawn then, not now" for name in then.keys() - now.keys()]
        lines += [f"{name}: new" for name in now.keys() - then.keys()]
        changed = {name: [table for table in now[name] if now[name][table] != then[name].get(table)]
                   for name in now.keys() & then.keys()}  # fmt: skip
        lines += [f"{name}: other numbers in {', '.join(tables)}" for name, tables in sorted(changed.items()) if tables]
    return lines


def _papers(joint: Mapping[str, str]) -> "list[PaperEntry]":
    """The papers with what holds of each, and the user's own; families of one name share a page."""
    from analysis.report import PaperEntry

    slugs: dict[str, str] = {}
    for family, name in PAPERS.items():
        slugs.setdefault(name, family)
    lettered = {name: [letter for letter, family in CLAIM_LETTERS.items() if PAPERS[family] == name] for name in slugs}
    slugs[OWN], lettered[OWN] = OWN_PAGE, [family for family in joint if family not in CLAIM_LETTERS]
    return [
        PaperEntry(
            slug, name, tuple(lettered[name]), "; ".join(joint[each] for each in lettered[name] if each in joint)
        )
        for name, slug in slugs.items()
    ]


def _slug(key: str) -> str:
    name = paper_of(key)
    return next((family for family, other in PAPERS.items() if other == name), OWN_PAGE)


def _flips_note(verdicts: Mapping[str, Sequence[Result]]) -> tuple[str, ...]:
    """Claims whose verdict depends on the testbed, under the report's header."""
    texts = [f"{row['claim']} ({row['virtual_verdict']}; on {row['testbed']} {row['live_verdict']})"
             for row in flipped_claims(verdicts)]  # fmt: skip
    return (f"Claims with another verdict than in virtual time: {', '.join(texts)}.",) if texts else ()


def _code_note(commits: Sequence[str], judging: str) -> tuple[str, ...]:
    """Whose code made the numbers, where it is not, or not alone, that which judges them."""
    texts = f"Runs and tables were made by the code of {', '.join(commits)}; that of {judging} judged them."
    return (texts,) if {*commits} - {judging} else ()


def _is_shown(section: Json, key: str) -> bool:
    """Whether a figure is that of ``key``; under other readings than those of record only where it was drawn."""
    drawn = section["skipped"] or not section["readings"] or section["drawing"]
    return bool(section["key"] == key and drawn)


def _section(out: Path, section: Json, verdicts: Mapping[str, Sequence[Result]], known: Catalogue) -> "FigureSection":
    from analysis.report import FigureSection
    from analysis.report.live import folders_there, usage_over_time

    name, figure = section["name"], known.figures.get(section["key"])
    tables = {} if section["skipped"] else tables_of(out, name)
    is_beside = section["readings"] or section["settings"]  # those stand beside the claim
    results = () if is_beside else verdicts.get(section["setting"], ())
    svg, skipped = _drawing(out, section)
    doubts = doubts_note(section["doubtful"], section["run_ids"])
    mended = "".join(f"Delays: {note}. " for note in section.get("notes", ())).strip()
    lacking = f"Not on this machine: {'; '.join(section.get('lacking', ()))}." if section.get("lacking") else ""
    notes = [_failures_note(section["failed"]), lacking, doubts, mended, figure.notes if figure else ""]
    runs, unlisted = runs_of(out / "runs", section)
    return FigureSection(
        key=name,
        title=(figure.experiment.title if figure else name) + (f" ({section['where']})" if section["where"] else ""),
        source=figure.experiment.source if figure else section["place"],
        svg=svg,
        skipped=skipped,
        command=section["command"],
        results=[result for result in results if section["key"] in result.claim.figures],
        run_ids=section["run_ids"],
        runs=runs,
        unlisted=unlisted,
        tables=tables,
        sheets=section.get("sheets", ()),
        usage=usage_over_time(folders_there(out / "runs", section["run_ids"]))
        if section["testbed"] != VIRTUAL
        else None,
        notes=" ".join(filter(None, notes)),
        texts=figure.texts() if figure else {},
        paper=_slug(section["key"]),
        digitised=curves_of(out, name, tables),
        looks={system: (look.label, look.colour) for system, look in STYLES.items()},
    )


def _drawing(out: Path, section: Json) -> tuple[str | None, str]:
    """A figure's drawing, or why there is none."""
    if section["skipped"]:
        return None, section["skipped"]
    file = f"{section['name']}.svg"
    content = drawing_of(out, section).get(file)
    return (None, said_of_lost(file, section)) if content is None else (content.decode(), "")


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
