"""Claims, judged from the tables that figures left in ``out``."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from analysis.verdicts import Claim, Evidence, Judgement, Result, Tables, Tried, judge, rank_of, readings_text
from core.records import Json
from harness.experiment import Reading
from paper_figs import load_figure
from paper_figs.catalogue import Catalogue, catalogue
from paper_figs.figure import Figure
from ratebed.pipeline import sections, tables_of
from ratebed.settings import SMALL, VIRTUAL, FigureSetting, other_readings, readings_among
from ratebed.validity import are_invalid, standings_of, worst
from testbed.trust.evidence import DEGRADED, INVALID, VALID

Named = Mapping[str, str]  # figure -> what its results are called


def results_by_setting(
    out: Path, claims: Sequence[str] = (), described: Mapping[str, Json] | None = None
) -> dict[str, list[Result]]:
    """The verdicts of each setting (``ratebed.settings``); "" first, which has every claim, judged where it belongs.

    A claim whose figures were not run is undecided there, and in other settings has no verdict.  All are of the
    cell of record; with those that belong there comes what other readings say.  ``claims``: more than the tree's and
    those of figures from outside it (``paper_figs.outside``).  ``described``: the figures, if not all in ``out``.
    """
    judged = _Judged(out, claims, described)
    suffixes = ["", *sorted({section["setting"] for section in judged.present.values()} - {""})]
    verdicts = {"": [judged.everywhere(claim) for claim in judged.known.claims]}
    for suffix in suffixes[1:]:
        of_record = {
            section["key"]: name
            for name, section in judged.present.items()
            if section["setting"] == suffix and not section["readings"] and not section["settings"]
        }
        verdicts[suffix] = judged.at(suffix, of_record, judged.known.claims)
    return verdicts


def judged_from(out: Path, named: Named, suffix: str) -> dict[str, Result]:
    """Claim -> the verdict from figures of ``out`` that are ``named`` and of one setting; of claims that they have."""
    judged = _Judged(out)
    return {result.claim.id: result for result in judged.at(suffix, named, judged.known.claims)}


class _Judged:
    """The figures in ``out``, with the tables that were read once."""

    def __init__(self, out: Path, claims: Sequence[str] = (), described: Mapping[str, Json] | None = None):
        self.described = sections(out) if described is None else described
        self.known: Catalogue = catalogue(self.described.values(), claims)
        self.present = {name: section for name, section in self.described.items() if not section["skipped"]}
        self._tables = cache(lambda name: tables_of(out, name))

    def everywhere(self, claim: Claim) -> Result:
        """The verdict in the cell of record, and under each other reading for which all figures were made."""
        readings = readings_of(claim, self.known.figures)
        record = {reading.name: reading.default for reading in readings}
        result = self.result(claim, {key: key for key in claim.figures})
        tried = {}
        for section in self.present.values():
            if (
                section["key"] in claim.figures
                and section["readings"]
                and not (section["setting"] or section["settings"])
            ):
                cell = section["readings"]
                named = {key: self._name_under(key, cell) for key in claim.figures}
                if self.present.keys() >= {*named.values()}:
                    tried[tuple(cell.items())] = cell, self.result(claim, named)
        late = {reading.name for reading in readings if reading.after}
        cells = [
            Tried(
                cell,
                bool(late & cell.keys()),
                judged.judgement,
                judged.evidence.all if judged.evidence else (),
                judged.claim.fitted,
                judged.validity,
            )
            for cell, judged in tried.values()
        ]
        return replace(result, record=record, tried=tuple(cells))

    def at(self, suffix: str, named: Named, claims: Iterable[Claim]) -> list[Result]:
        """The verdicts on the claims that the figures which are ``named``, all in one setting, can decide."""
        here = [claim for claim in claims if claim.measure and claim.figures and named.keys() >= {*claim.figures}]
        return [self.result(_at(claim, suffix[1:]) if suffix else claim, named) for claim in here]

    def _name_under(self, key: str, cell: Mapping[str, object]) -> str:
        """What a figure's results are called where they belong, under those readings of a cell that it declares."""
        readings = other_readings(self.known.figures[key].experiment.options, cell)
        return FigureSetting(frozenset(), "", "", "", readings).name(key)

    def result(self, claim: Claim, named: Named) -> Result:
        """The verdict from the figures that are ``named``; the claim is fitted where one of them was made from it."""
        tables: Tables = {
            f"{key}/{table}": frame
            for key, name in named.items()
            if name in self.present
            for table, frame in self._tables(name).items()
        }
        own = [self.described[name] for name in named.values() if name in self.described]
        fitted = claim.fitted or any(claim.id in section["fitted_on"] for section in own)
        return _trusted(judge(replace(claim, fitted=fitted), tables), own)


def readings_of(claim: Claim, known: Mapping[str, Figure] = MappingProxyType({})) -> list[Reading]:
    """What the figures behind a claim leave to a reading, by name; ``known``: those from outside the tree, by key."""
    figures = [known.get(key) or load_figure(key) for key in claim.figures]
    options = [option for figure in figures for option in figure.experiment.options]
    return sorted({reading.name: reading for reading in readings_among(options)}.values(), key=lambda each: each.name)


def _trusted(result: Result, own: Sequence[Json]) -> Result:
    """The verdict with what is to be said for or against the runs behind it; or why there are none."""
    runs = [(standings_of(section), section["run_ids"]) for section in own]
    behind = [standings[run_id] for standings, drawn in runs for run_id in drawn]
    every = behind or [each for standings, _ in runs for each in standings.values()]
    result = replace(result, from_invalid=result.claim.measure is not None and are_invalid(every))
    if result.evidence is None:
        undrawn = [f"{section['name']}: {section['skipped']}" for section in own if section["skipped"]]
        return replace(result, problem="; ".join(undrawn)) if undrawn else result
    standing = worst(behind)
    if standing is None:
        return result
    lacking = tuple(chain.from_iterable(map(_lacking, own)))
    validity = DEGRADED if lacking and standing.validity == VALID else standing.validity
    return replace(result, validity=validity, validity_reasons=(*lacking, *standing.reasons))


def _lacking(section: Json) -> list[str]:
    """What a figure is judged without; that it was not as well as the others may be what its system did."""
    drawn = set(section["run_ids"])
    left_out = {run_id for run_id, each in standings_of(section).items() if each.validity == INVALID} - drawn
    counts = {"failed": len(section["failed"]), "invalid and left out": len(left_out)}
    total = len(drawn) + sum(counts.values())
    return [f"{count} of {total} runs of {section['name']} {words}" for words, count in counts.items() if count]


def in_order(verdicts: Mapping[str, Sequence[Result]]) -> list[Result]:
    """The verdicts of all settings by claim; after each claim's own come those of other settings."""
    return sorted(chain(*verdicts.values()), key=lambda result: rank_of(result.claim.id))


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


def summary_line(result: Result) -> str:
    """A claim in one line."""
    where = "" if result.claim.testbed == VIRTUAL else f"[{result.claim.testbed}] "
    text = f"{result.claim.id:<3} {result.judgement.value:<16}{where}{result.claim.sentence}"
    if result.problem:
        text += f" ({result.problem})"
    if result.repetitions_wanted:
        text += f" (some {result.repetitions_wanted:,} repetitions would decide it)"
    if result.tried:
        text += f" [read otherwise: {_otherwise(result)}]"
    if result.validity not in ("", VALID):
        text += f" [{result.validity} runs: {'; '.join(result.validity_reasons)}]"
    return text


def _otherwise(result: Result) -> str:
    """Under which other readings a claim holds, of a substitute its direction; those that were made from it apart."""
    plain = [each for each in result.tried if not each.fitted]
    holding = [each.text for each in plain if each.judgement is result.claim.best]
    texts = []
    if plain and result.claim.substitute:
        texts.append(f"in direction under {len(holding)} of {len(plain)}")
    elif plain:
        texts.append(f"reproduced with {'; '.join(holding)}" if holding else "not reproduced either")
    if fitted_count := len(result.tried) - len(plain):
        texts.append(f"fitted under {fitted_count} of {len(result.tried)}")
    return "; ".join(texts)


def counts_line(results: list[Result]) -> str:
    """Counts by verdict and of doubtful runs, as in ``19 reproduced, 3 direction only (2 with degraded runs)``."""
    counts = [(judgement, sum(result.judgement is judgement for result in results)) for judgement in Judgement]
    line, doubts = ", ".join(f"{count} {judgement.value}" for judgement, count in counts if count), doubts_line(results)
    return f"{line} ({doubts})" if doubts else line


def doubts_line(results: Sequence[Result]) -> str:
    """How many verdicts have doubtful runs behind them, as in ``2 with degraded runs, 1 from invalid runs alone``."""
    kinds = Counter(
        "from invalid runs alone" if result.from_invalid else f"with {result.validity} runs"
        for result in results
        if result.from_invalid or result.validity not in ("", VALID)
    )
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def joint_counts(results: Sequence[Result]) -> dict[str, str]:
    """The family of claims' ids -> how many hold *together* in that paper's cell of record, in words.

    ``results``: as ``in_order`` gives them.  What holds somewhere else in the grid of readings is not counted.
    """
    own: dict[str, Result] = {}
    for result in results:
        own.setdefault(result.claim.id, result)
    texts = {}
    for family in dict.fromkeys(result.claim.family for result in own.values()):
        of_paper = [result for result in own.values() if result.claim.family == family]
        holding = sum(result.judgement is Judgement.REPRODUCED and not result.claim.fitted for result in of_paper)
        fitted = sum(result.judgement is Judgement.REPRODUCED and result.claim.fitted for result in of_paper)
        readings = {name: value for result in of_paper for name, value in result.record.items()}
        cell = f" in the cell of record ({readings_text(readings)})" if readings else ""
        more = f", {fitted} more that a calibration was fitted on" if fitted else ""
        texts[family] = f"{holding} of {len(of_paper)} claims reproduced together{cell}{more}"
    return texts
