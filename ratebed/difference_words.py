"""What ``diff`` found, in lines of text and for ``--json``."""

from collections.abc import Iterator

from core.records import Json, Row
from ratebed.differing import FoundDifferences
from ratebed.pairing import Side
from ratebed.reasons import Reason
from ratebed.rows import columns

LINES_MOST = 20  # of differences in text; --json has all
_HEAD = ("figure", "system", "measure", "pairs", "one", "other", "difference", "95 % interval", "p (Holm)")


def as_json(found: FoundDifferences) -> Json:
    """Everything, for machines."""
    return {
        "one": found.one.name,
        "other": found.other.name,
        "pair_count": len(found.pairing.pairs),
        "same_count": found.same_count,
        "left_out_count": found.left_out,
        "only_one": found.pairing.only_one,
        "only_other": found.pairing.only_other,
        "reasons": [reason.row() for reason in found.reasons],
        "differences": [each.row() for each in found.tested],
        "unmeasured_tables": dict(found.unmeasured),
        "one_sided": dict(found.one_sided),
        "figures": {name: list(tables) for name, tables in found.figures.items()},
        "only_figures": dict(found.only),
        "failing_figures": dict(found.failing),
        "claims": [flip._asdict() for flip in found.flips],
        "is_repeatable": found.is_repeatable,
        "differs": found.differs,
    }


def lines(found: FoundDifferences) -> Iterator[str]:
    """For people: why, how much, what it does to figures and claims, and the answer last."""
    for mark, side in (("one", found.one), ("other", found.other)):
        yield f"{mark + ':':<7}{side.name}  ({made(side)})"
    yield from pair_lines(found)
    yield (
        "why runs differ:" if found.reasons else "why runs differ: they do not, in options, inputs, code or environment"
    )
    yield from (f"  {_reason(reason)}" for reason in found.reasons)
    if found.tested:
        yield f"differences, at 5 % after Holm's correction over {len(found.tested)}:"
        yield from _table(found)
    yield from unmeasured_lines(found)
    yield from (f"changed figure: {line}" for line in changed_figures(found))
    for flip in found.flips:
        yield f"claim {flip.claim}: {flip.one} -> {flip.other}  {flip.sentence}"
    if found.flips and not found.is_repeatable:
        yield "seeds differ, or the runs are of real time: a claim may turn by chance"
    yield answer(found)


def made(side: Side) -> str:
    """Of what a folder is."""
    commits = sorted({manifest["commit"] for manifest in side.manifests.values()})
    scales = sorted({section["scale"] for section in side.sections.values()})
    told = f"{len(side.manifests)} run{'s' * (len(side.manifests) != 1)}"
    return ", ".join([told, *(f"scale {scale}" for scale in scales), *(f"commit {commit}" for commit in commits)])


def pair_lines(found: FoundDifferences) -> Iterator[str]:
    """How many runs have a counterpart."""
    count = len(found.pairing.pairs)
    yield f"{count} pair{'s' * (count != 1)} of runs, {found.same_count} of which with the very same tables"
    if found.left_out:
        yield f"{found.left_out} pair{'s' * (found.left_out > 1)} left out, as a run is invalid"
    for side, ids in ((found.one, found.pairing.only_one), (found.other, found.pairing.only_other)):
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


def _table(found: FoundDifferences) -> list[str]:
    shown = (found.significant or list(found.tested))[:LINES_MOST]
    rows = []
    for each in shown:
        texts = row_texts(each.row())
        rows.append([*each.group, str(len(each.comparison.one)), *texts.values()])
    more = len(found.significant or found.tested) - len(shown)
    return columns(_HEAD, rows) + [f"  and {more} more: --json has all"] * (more > 0)


def row_texts(row: Row) -> dict[str, str]:
    """The numbers of a row of ``as_json``'s differences as text, in the order of the table's columns."""
    interval = "" if row["difference_low"] is None else f"[{row['difference_low']:.4g}, {row['difference_high']:.4g}]"
    numbers = {f"{name}_text": f"{row[name]:.5g}" for name in ("one", "other", "difference")}
    return {**numbers, "interval_text": interval, "p_text": f"{row['p_holm']:.2g}"}


def unmeasured_lines(found: FoundDifferences) -> Iterator[str]:
    """Measures that cannot be compared, outcomes that are others, and tables that differ though no measure does."""
    for what, count in found.one_sided.items():
        yield f"{what}: in {count} pair{'s' * (count > 1)}"
    for name, count in found.unmeasured.items():
        yield f"{name} differs in {count} pair{'s' * (count > 1)}, and nothing that is measured does"


def changed_figures(found: FoundDifferences) -> Iterator[str]:
    """Figures that are other ones, those of one side alone, and those of which one side alone has failed runs."""
    for name, tables in found.figures.items():
        yield f"{name} ({', '.join(tables)})"
    for name, side_name in found.only.items():
        yield f"{name}, of {side_name} alone"
    for name, side_name in found.failing.items():
        yield f"{name}, of which runs failed in {side_name} alone"


def answer(found: FoundDifferences) -> str:
    """In a sentence; the exit code says the same."""
    significant, tested = len(found.significant), len(found.tested)
    if significant:
        return f"{significant} significant difference{'s' * (significant > 1)} of {tested} compared"
    if found.differs:
        others = [f"{len(found.flips)} claims with another verdict"] * bool(found.flips)
        others += ["measures or outcomes of one side alone"] * bool(found.one_sided)
        others += ["runs that failed on one side alone"] * bool(found.failing)
        return f"no significant difference of {tested} compared, and {' and '.join(others)}"
    if tested or found.unmeasured:
        return f"0 significant differences: what differs in {tested} comparisons may be chance"
    if unpaired := _unpaired(found):
        count = len(found.pairing.pairs)
        return f"0 differences in {count} pair{'s' * (count != 1)} of runs, and {', '.join(unpaired)}"
    return "0 differences"


def _unpaired(found: FoundDifferences) -> list[str]:
    """What no comparison of pairs tells: runs and figures of one side alone, and figures that are other ones."""
    counts = {
        "run{} of one side alone": len(found.pairing.only_one) + len(found.pairing.only_other),
        "figure{} of one side alone": len(found.only),
        "changed figure{}": len(found.figures),
    }
    return [f"{count} {what.format('s' * (count > 1))}" for what, count in counts.items() if count]
