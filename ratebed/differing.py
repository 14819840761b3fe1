"""What ``diff`` finds between two folders of results: why runs differ, by how much, and what that does to claims."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from analysis.difference import ERROR, Comparison, holm
from analysis.spark import Starter
from collectors.store.keeping import Store
from core.records import Json, Row
from ratebed.judging import judged_from
from ratebed.pairing import Pairing, RunPair, Side, paired
from ratebed.pipeline import tables_of
from ratebed.reasons import Reason, reasons
from ratebed.validity import Standing, by_validity, standing_of
from testbed.trust.evidence import INVALID

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

POINTS = "points"  # runs of no figure
SEED = "seed"


class ComparedGroup(NamedTuple):
    """What is compared together."""

    figure: str
    system: str
    measure: str


@dataclass(frozen=True)
class Tested:
    """A group's comparison, and how sure it is among all."""

    group: ComparedGroup
    comparison: Comparison
    p: float  # adjusted

    @property
    def is_significant(self) -> bool:
        """At 5 % over everything that was compared."""
        return self.p <= ERROR

    def row(self) -> Row:
        """For ``--json``: means of either side, mean difference and its 95 % interval (null: of one draw)."""
        compared, mean = self.comparison, self.comparison.difference
        return {
            **self.group._asdict(),
            "pair_count": len(compared.one),
            "draw_count": compared.draw_count,
            "one": fmean(compared.by_draw(compared.one)),
            "other": fmean(compared.by_draw(compared.other)),
            "difference": mean.mean,
            "difference_low": mean.low if compared.draw_count > 1 else None,
            "difference_high": mean.high if compared.draw_count > 1 else None,
            "p_holm": self.p,
            "is_significant": self.is_significant,
        }


class Flip(NamedTuple):
    """A claim with another verdict."""

    claim: str
    sentence: str
    one: str
    other: str


@dataclass(frozen=True)
class FoundDifferences:
    """Everything that ``diff`` says."""

    one: Side
    other: Side
    pairing: Pairing
    left_out: int  # pairs with an invalid run
    same_count: int  # pairs whose tables are the very same
    unmeasured: Mapping[str, int]  # tables that differ in pairs where no measure of theirs does -> how many
    one_sided: Mapping[str, int]  # measures that one run of a pair has alone, outcomes that are others -> how many
    reasons: Sequence[Reason]
    tested: Sequence[Tested]  # by p
    figures: Mapping[str, Sequence[str]]  # a figure that is another one -> its tables that differ
    only: Mapping[str, str]  # a figure that only one side has -> which
    failing: Mapping[str, str]  # a figure of which runs failed on one side alone -> which
    flips: Sequence[Flip]
    standings: Mapping[str, Standing]  # by run id

    @property
    def significant(self) -> list[Tested]:
        """The differences that chance does not explain."""
        return [each for each in self.tested if each.is_significant]

    @property
    def is_repeatable(self) -> bool:
        """Whether all pairs are of one seed, in virtual time: a flipped claim then is the change's doing."""
        specs = [self.one.manifests[pair.one]["spec"] for pair in self.pairing.pairs]
        return all(spec["testbed"] == "virtual" for spec in specs) and not any(
            SEED in pair.apart for pair in self.pairing.pairs
        )

    @property
    def is_void(self) -> bool:
        """Whether there are pairs, and in each of them an invalid run: nothing was compared."""
        return 0 < self.left_out == len(self.pairing.pairs)

    @property
    def differs(self) -> bool:
        """What the exit code says."""
        told = self.flips or self.one_sided or self.failing
        return bool(self.significant or (told and self.is_repeatable))


def differences(
    one: Side, other: Side, renamed: Mapping[str, str], on: Starter, keep_invalid: bool = False
) -> FoundDifferences:
    """Compare two folders of results; where pairs differ, by Spark, which ``on`` starts."""
    pairing = paired(one, other, renamed)
    standings: dict[str, Standing] = {}
    for pair in pairing.pairs:
        for run_id, side in zip(pair[:2], (one, other), strict=True):  # one id on both sides: it may be invalid on one
            standings[run_id] = max(
                standing_of(side.manifests[run_id]), standings.get(run_id, Standing()), key=by_validity
            )
    kept = [p for p in pairing.pairs if keep_invalid or INVALID not in {standings[i].validity for i in p[:2]}]
    tables = {pair: _differing_tables(one, other, pair) for pair in kept}
    tested, unmeasured, alone = _tested(one, other, tables, on)
    figures, only = _figures(one, other)
    counterparts = {name: counterpart for name, (counterpart, _) in figures.items()}
    return FoundDifferences(
        one,
        other,
        pairing,
        left_out=len(pairing.pairs) - len(kept),
        same_count=sum(not names for names in tables.values()),
        unmeasured=_counted(unmeasured),
        one_sided=_counted([*alone, *_outcomes(one, other, kept)]),
        reasons=reasons(one, other, pairing.pairs),
        tested=tested,
        figures={name: changed for name, (_, changed) in figures.items() if changed},
        only=only,
        failing=_failing(one, other, counterparts),
        flips=_flips(one, other, counterparts),
        standings=standings,
    )


def _differing_tables(one: Side, other: Side, pair: RunPair) -> list[str]:
    """The tables of two runs that are not the same, run ids aside; ``runs`` says the options again and is left out."""
    files = one.manifests[pair.one]["files"], other.manifests[pair.other]["files"]
    names = sorted({name for each in files for name in each if name.endswith(".parquet")} - {"runs.parquet"})
    if pair.one == pair.other:
        return [name for name in names if files[0].get(name) != files[1].get(name)]
    folders = one.folder(pair.one), other.folder(pair.other)
    return [
        name
        for name in names
        if not (name in files[0] and name in files[1] and _content(folders[0] / name) == _content(folders[1] / name))
    ]


def _content(path: Path) -> "pa.Table":
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return table.drop_columns("run_id") if "run_id" in table.column_names else table


def _tested(
    one: Side, other: Side, differing: Mapping[RunPair, Sequence[str]], on: Starter
) -> tuple[list[Tested], list[str], list[str]]:
    """Every group with a pair that differs, tested; each table of a pair that differs, but no measure of it does.

    And each measure of a pair that only one of its runs has: what is compared is compared without it.
    ``differing``: the tables of each pair that do.
    """
    if not any(differing.values()):
        return [], [], []
    from analysis.measures import READ

    values = _values(one, [p.one for p in differing], on), _values(other, [p.other for p in differing], on)
    figures = _figures_of_runs(one)
    groups: defaultdict[ComparedGroup, list[tuple[float, float, Hashable]]] = defaultdict(list)
    unmeasured, alone = list[str](), list[str]()
    for pair, names in differing.items():
        before, after = values[0].get(pair.one, {}), values[1].get(pair.other, {})
        shared = [name for name in before if name in after]
        alone += [f"{name}, of {one.name} alone" for name in sorted(before.keys() - after.keys())]
        alone += [f"{name}, of {other.name} alone" for name in sorted(after.keys() - before.keys())]
        is_measured = before != after
        unmeasured += [name for name in names if not (is_measured and name.removesuffix(".parquet") in READ)]
        specs = one.manifests[pair.one]["spec"], other.manifests[pair.other]["spec"]
        systems = [spec["system"] for spec in specs]
        draw = tuple((spec["seed"], spec["repetition"]) for spec in specs) if SEED in pair.apart else pair
        for figure in figures.get(pair.one, [POINTS]):
            for name in shared:
                group = ComparedGroup(figure, " -> ".join(dict.fromkeys(systems)), name)
                groups[group].append((before[name], after[name], draw))
    compared = {group: Comparison(*zip(*pairs, strict=True)) for group, pairs in groups.items()}
    apart = {group: comparison for group, comparison in compared.items() if not comparison.is_same}
    adjusted = holm([comparison.p for comparison in apart.values()])
    tested = [Tested(*item, p) for item, p in zip(apart.items(), adjusted, strict=True)]
    return sorted(tested, key=lambda each: (each.p, each.group)), unmeasured, alone


def _outcomes(one: Side, other: Side, kept: Sequence[RunPair]) -> list[str]:
    """Of pairs whose runs ended in another way: which, and in which."""
    outcomes = [(one.manifests[pair.one]["outcome"], other.manifests[pair.other]["outcome"]) for pair in kept]
    return [f"outcome {before}, now {after}" for before, after in outcomes if before != after]


def _values(side: Side, run_ids: Sequence[str], on: Starter) -> dict[str, dict[str, float]]:
    """Run id -> measure -> value."""
    from analysis.measures import measures
    from analysis.spark import java_answers
    from analysis.tables import collect, load

    folders = [side.folder(run_id) for run_id in sorted(set(run_ids))]
    with Store.of(side.out).in_use() as store, java_answers():
        frame = collect(measures(load(on(), folders, store)), ["run_id", "measure"])
    values: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for run_id, measure, value in zip(frame["run_id"], frame["measure"], frame["value"], strict=True):
        values[run_id][measure] = value
    return values


def _figures_of_runs(side: Side) -> dict[str, list[str]]:
    figures: defaultdict[str, list[str]] = defaultdict(list)
    for name, section in side.sections.items():
        for run_id in section["run_ids"]:
            figures[run_id].append(name)
    return figures


def _figures(one: Side, other: Side) -> tuple[dict[str, tuple[str, list[str]]], dict[str, str]]:
    """A figure of ``one`` -> its name on the other side and its tables that differ; and those without a counterpart.

    First by name, then by what they are of: the figure on a testbed, whatever was set in it.
    """
    waiting = {name: section for name, section in other.sections.items() if name not in one.sections}
    paired_names = {name: name for name in one.sections if name in other.sections}
    for name in one.sections.keys() - paired_names.keys():
        own = one.sections[name]
        alike = [each for each, section in waiting.items() if _made_of(section) == _made_of(own)]
        if alike:
            paired_names[name] = alike[0]
            del waiting[alike[0]]
    only = dict.fromkeys(one.sections.keys() - paired_names.keys(), one.name) | dict.fromkeys(waiting, other.name)
    figures = {
        name: (paired_names[name], _changed_tables(one, other, name, paired_names[name]))
        for name in one.sections
        if name in paired_names
    }
    return figures, only


def _made_of(section: Json) -> tuple[str, str]:
    return section["key"], section["setting"]


def _changed_tables(one: Side, other: Side, name: str, counterpart: str) -> list[str]:
    """The tables of a figure that are not the same; that it was drawn on one side alone counts as one."""
    before, after = tables_of(one.out, name), tables_of(other.out, counterpart)
    changed = [table for table in sorted({*before, *after}) if not _alike(before.get(table), after.get(table))]
    drawn = bool(one.sections[name]["skipped"]), bool(other.sections[counterpart]["skipped"])
    return changed or ["drawn"] * (drawn[0] != drawn[1])


def _failing(one: Side, other: Side, counterparts: Mapping[str, str]) -> dict[str, str]:
    """Paired figures of which runs failed on one side and none on the other: such runs are in no pair."""
    failed = {
        name: (bool(one.sections[name]["failed"]), bool(other.sections[counterpart]["failed"]))
        for name, counterpart in counterparts.items()
    }
    return {name: one.name if mine else other.name for name, (mine, its) in failed.items() if mine != its}


def _alike(before: "pd.DataFrame | None", after: "pd.DataFrame | None") -> bool:
    if before is None or after is None:
        return False
    plain = [frame[[name for name in frame if not str(name).endswith("run_id")]] for frame in (before, after)]
    return bool(plain[0].equals(plain[1]))


def _flips(one: Side, other: Side, counterparts: Mapping[str, str]) -> list[Flip]:
    """Claims that the paired figures decide otherwise."""
    drawn = {
        name: counterpart
        for name, counterpart in counterparts.items()
        if not one.sections[name]["skipped"] and not other.sections[counterpart]["skipped"]
    }
    flips = []
    for suffix in sorted({one.sections[name]["setting"] for name in drawn}):
        named = {name: each for name, each in drawn.items() if one.sections[name]["setting"] == suffix}
        keys = {one.sections[name]["key"]: name for name in sorted(named, key=len, reverse=True)}
        before = judged_from(one.out, keys, suffix)
        after = judged_from(other.out, {key: named[name] for key, name in keys.items()}, suffix)
        flips += [
            Flip(claim_id, result.claim.sentence, result.judgement.value, after[claim_id].judgement.value)
            for claim_id, result in before.items()
            if claim_id in after and after[claim_id].judgement is not result.judgement
        ]
    return flips


def _counted(names: Sequence[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}
