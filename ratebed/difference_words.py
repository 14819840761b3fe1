"""What ``diff`` found, in lines of text and for ``--json``."""

from collections.abc import Iterator

from core.records import Json, Row
from ratebed.differing import FoundDifferences
from ratebed.pairing import Side
from ratebed.reasons import Reason
from ratebed.rows import columns

LINES_MOST = 20  # of differences in text; --json has all
FEW = 2  # draws: even a single comparison's mean has to be 13 of its standard errors off to be significant
_HEAD = ("figure", "system", "measure", "pairs", "draws", "one", "other", "difference", "95 % interval", "p (Holm)")


def as_json(compared: FoundDifferences) -> Json:
    """Everything, for machines."""
    return {
        "one": compared.one.name,
        "other": compared.other.name,
        "pair_count": len(compared.pairing.pairs),
        "same_count": compared.same_count,
        "left_out_count": compared.left_out,
        "only_one": compared.pairing.only_one,
        "only_other": compared.pairing.only_other,
        "reasons": [reason.row() for reason in compared.reasons],
        "differences": [each.row() for each in compared.tested],
        "unmeasured_tables": dict(compared.unmeasured),
        "one_sided": dict(compared.one_sided),
        "figures": {name: list(tables) for name, tables in compared.figures.items()},
        "only_figures": dict(compared.only),
        "failing_figures": dict(compared.failing),
        "claims": [flip._asdict() for flip in compared.flips],
        "standings": {run_id: standing.row() for run_id, standing in compared.standings.items()},
        "is_repeatable": compared.is_repeatable,
        "differs": compared.differs,
        "is_void": compared.is_void,
    }


def lines(compared: FoundDifferences) -> Iterator[str]:
    """For people: why, how much, what it does to figures and claims, and the answer last."""
    for mark, side in (("one", compared.one), ("other", compared.other)):
        yield f"{mark + ':':<7}{side.name}  ({made(side)})"
    yield from pair_lines(compared)
    yield (
        "why runs differ:"
        if compared.reasons
        else "why runs differ: they do not, in options, inputs, code or environment"
    )
    yield from (f"  {_reason(reason)}" for reason in compared.reasons)
    if compared.tested:
        yield f"differences, at 5 % after Holm's correction over {len(compared.tested)}:"
        yield from _table(compared)
    yield from draw_lines(compared)
    yield from unmeasured_lines(compared)
    yield from (f"changed figure: {line}" for line in changed_figures(compared))
    for flip in compared.flips:
        yield f"claim {flip.claim}: {flip.one} -> {flip.other}  {flip.sentence}"
    if compared.flips and not compared.is_repeatable:
        yield "seeds differ, or the runs are of real time: a claim may turn by chance"
    yield answer(compared)


def made(side: Side) -> str:
    """Of what a folder is."""
    commits = sorted({manifest["commit"] for manifest in side.manifests.values()})
    scales = sorted({section["scale"] for section in side.sections.values()})
    told = f"{len(side.manifests)} run{'s' * (len(side.manifests) != 1)}"
    return ", ".join([told, *(f"scale {scale}" for scale in scales), *(f"commit {commit}" for commit in commits)])


def pair_lines(compared: FoundDifferences) -> Iterator[str]:
    """How many runs have a counterpart."""
    count = len(compared.pairing.pairs)
    yield f"{count} pair{'s' * (count != 1)} of runs, {compared.same_count} of which with the very same tables"
    if compared.left_out:
        yield f"{compared.left_out} pair{'s' * (compared.left_out > 1)} left out, as a run is invalid"
    for side, ids in ((compared.one, compared.pairing.only_one), (compared.other, compared.pairing.only_other)):
        if ids:
            yield f"{len(ids)} run{'s' * (len(ids) > 1)} of {side.name} alone"


def _reason(reason: Reason) -> str:
    where = f"in {reason.pair_count} pair{'s' * (reason.pair_count > 1)}, of {', '.join(sorted(reason.systems))}"
    if reason.kind == "option" and reason.what == "seed":
        return f"option seed: others, {where}"
    if reason.kind == "code":
        return f"code {reason.what}, {where}"
    before, after = (", ".join(sorted(values)) for values in (reason.one, reason.other))
    return f"{reason.kind} {reason.what}: {before} -> {after}, {where}"


def _table(compared: FoundDifferences) -> list[str]:
    shown = (compared.significant or list(compared.tested))[:LINES_MOST]
    rows = []
    for each in shown:
        texts = row_texts(each.row())
        rows.append([*each.group, str(len(each.comparison.one)), str(each.comparison.draw_count), *texts.values()])
    more = len(compared.significant or compared.tested) - len(shown)
    return columns(_HEAD, rows) + [f"  and {more} more: --json has all"] * (more > 0)


def row_texts(row: Row) -> dict[str, str]:
    """The numbers of a row of ``as_json``'s differences as text, in the order of the table's columns."""
    interval = "" if row["difference_low"] is None else f"[{row['difference_low']:.4g}, {row['difference_high']:.4g}]"
    numbers = {f"{name}_text": f"{row[name]:.5g}" for name in ("one", "other", "difference")}
    return {**numbers, "interval_text": interval, "p_text": f"{row['p_holm']:.2g}"}


def draw_lines(compared: FoundDifferences) -> Iterator[str]:
    """What counts once, and where that leaves too little to tell anything from chance."""
    if any(each.comparison.draws_are_shared for each in compared.tested):
        yield "seeds differ: all points of a repetition have one draw of the load, and count once"
    few = sum(each.comparison.draw_count <= FEW and not each.is_significant for each in compared.tested)
    if few:
        yield (
            f"{few} of {len(compared.tested)} comparisons are of one or two draws of the load, "
            "too few to tell a difference from chance: more repetitions would"
        )


def unmeasured_lines(compared: FoundDifferences) -> Iterator[str]:
    """Measures that cannot be compared, outcomes that are others, and tables that differ though none of theirs does."""
    for what, count in compared.one_sided.items():
        yield f"{what}: in {count} pair{'s' * (count > 1)}"
    for name, count in compared.unmeasured.items():
        yield f"{name} differs in {count} pair{'s' * (count > 1)}, and nothing that is measured of it does"


def changed_figures(compared: FoundDifferences) -> Iterator[str]:
    """Figures that are other ones, those of one side alone, and those of which one side alone has failed runs."""
    for name, tables in compared.figures.items():
        yield f"{name} ({', '.join(tables)})"
    for name, side_name in compared.only.items():
        yield f"{name}, of {side_name} alone"
    for name, side_name in compared.failing.items():
        yield f"{name}, of which runs failed in {side_name} alone"


def answer(compared: FoundDifferences) -> str:
    """In a sentence; the exit code says the same."""
    if compared.is_void:
        return f"nothing is compared: of {compared.left_out} pairs of runs each has an invalid one"
    significant, tested = len(compared.significant), len(compared.tested)
    if significant:
        return f"{significant} significant difference{'s' * (significant > 1)} of {tested} compared"
    if compared.differs:
        others = [f"{len(compared.flips)} claims with another verdict"] * bool(compared.flips)
        others += ["measures or outcomes of one side alone"] * bool(compared.one_sided)
        others += ["runs that failed on one side alone"] * bool(compared.failing)
        return f"no significant difference of {tested} compared, and {' and '.join(others)}"
    if tested or compared.unmeasured:
        count, chance = len(compared.unmeasured), f"what differs in {tested} comparisons may be chance"
        tables = f", and nothing is compared of what differs in {count} table{'s' * (count > 1)}"
        return f"0 significant differences: {chance}{tables * bool(count)}"
    if unpaired := _unpaired(compared):
        count = len(compared.pairing.pairs)
        return f"0 differences in {count} pair{'s' * (count != 1)} of runs, and {', '.join(unpaired)}"
    return "0 differences"


def _unpaired(compared: FoundDifferences) -> list[str]:
    """What no comparison of pairs tells: runs and figures of one side alone, and figures that are other ones."""
    counts = {
        "run{} of one side alone": len(compared.pairing.only_one) + len(compared.pairing.only_other),
        "figure{} of one side alone": len(compared.only),
        "changed figure{}": len(compared.figures),
    }
    return [f"{count} {what.format('s' * (count > 1))}" for what, count in counts.items() if count]
