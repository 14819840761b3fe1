"""Results of record: every claim's verdict as somebody saw it, with what it was made of, to compare others with."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from analysis.report import claims_json
from analysis.verdicts import Result, rank_of
from collectors.integrity import verified
from collectors.schema import MANIFEST
from core.digests import digest_of
from core.reading import reading
from core.records import Json
from core.writing import replace_file
from ratebed.behind import UNKNOWN
from testbed import load_testbed

MADE, RUNS, CLAIMS = "made", "runs", "claims"  # what a file holds
MADE_BY = "made_by"  # of ``MADE``: the commits whose code made the numbers; ``commit`` is the one that judged them
VALIDITY = "validity"  # of a claim
_WANTED = ("wanted_low", "wanted_high", "published")
NEAR = 1e-9  # numbers differ by less between two orders of one sum: of the larger, or absolute below 1


class _Made(msgspec.Struct):
    machine: str
    commit: str
    date: str
    scale: list[str]
    seed: list[str]
    testbed: list[str]
    made_by: list[str] = []  # records did not say it at first


class _Check(msgspec.Struct):
    kind: str
    label: str
    mean: float | None = None
    wanted_low: float | None = None
    wanted_high: float | None = None
    published: float | None = None


class _Claim(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(max_length=1_000)]  # its digits are a number
    testbed: str
    verdict: str
    measured: list[_Check]
    validity: str | None = None  # nor this


class _Record(msgspec.Struct):
    """What is read of a record, or of a report, of which ``figures`` are."""

    made: _Made
    claims: list[_Claim]
    runs: dict[str, dict[str, str]] = {}
    figures: dict[str, dict[str, str]] = {}


def write_record(
    path: Path, results: Sequence[Result], sections: Iterable[Json], made: Json, runs: Path, before: Json | None = None
) -> None:
    """``made``: machine, commit, ``MADE_BY`` and date; seed, scale and testbed are those of the figures' sections.

    ``runs``: the folder of these.  ``before``: a record whose other claims and runs stay; what it was made of is then
    told beside what these were made of.
    """
    sections = [section for section in sections if not section["skipped"]]
    of_figures = {name: sorted({str(section[name]) for section in sections}) for name in ("scale", "seed", "testbed")}
    made, claims = {**made, **of_figures}, claims_json(results)
    hashes = {section["name"]: manifest_hashes(section, runs) for section in sections if _is_live(section)}
    if before is not None:
        made = _both(before[MADE], made)
        claims = sorted({**_by_claim(before[CLAIMS]), **_by_claim(claims)}.values(), key=_rank)
        hashes = {**before.get(RUNS, {}), **hashes}
    content = {MADE: made, **({RUNS: hashes} if hashes else {}), CLAIMS: claims}
    replace_file(path, json.dumps(content, indent=2).encode() + b"\n")


def manifest_hashes(section: Json, runs: Path) -> Json:
    """Of a figure's runs, the SHA-256 of each one's manifest, which has those of its tables.

    ``Damage`` where one is not as it was written.
    """
    folders = [folder for run_id in section["run_ids"] if (folder := runs / run_id).is_dir()]
    return {str(verified(folder)["run_id"]): digest_of((folder / MANIFEST).read_bytes()) for folder in folders}


def _is_live(section: Json) -> bool:
    """Whether its runs cannot be made again: those of virtual time can, and so have no hashes."""
    return load_testbed(section["testbed"]).real_time


def _both(one: Json, other: Json) -> Json:
    """What two records were made of: texts one after the other, lists together; what is alike once."""
    one = {MADE_BY: [UNKNOWN], **one}  # records did not say it at first
    return {
        name: sorted({*one[name], *value}) if isinstance(value, list) else ", ".join(dict.fromkeys([one[name], value]))
        for name, value in other.items()
    }


def _rank(claim: Json) -> tuple[str, int, str, str]:
    """As claims are ordered, then by testbed."""
    return *rank_of(claim["id"]), claim["testbed"]


def read_record(path: Path) -> Json:
    """What ``write_record`` wrote, whole, or a report; SpecError for a file that is something else."""
    with reading(str(path), "name a file that ratebed claims --record wrote, as results/claims-quick.json"):
        content = path.read_bytes()
        msgspec.json.decode(content, type=_Record)
        record: Json = msgspec.json.decode(content)
        return record


def differences(record: Json, results: Sequence[Result]) -> list[str]:
    """In lines: claims with another verdict, validity or other numbers than the record's, those that one side has."""
    then, now = _by_claim(record[CLAIMS]), _by_claim(claims_json(results))
    lines = [f"{name}: only in the record" for name in then.keys() - now.keys()]
    lines += [f"{name}: not in the record" for name in now.keys() - then.keys()]
    for name in then.keys() & now.keys():
        old, new = then[name], now[name]
        moved, doubts = _moved(old, new), _doubts(old, new)
        if old["verdict"] != new["verdict"]:
            lines.append("; ".join([f"{name}: {old['verdict']} then, {new['verdict']} now", *doubts]))
        elif moved or doubts:
            numbers = [f"other numbers: {'; '.join(moved)}"] if moved else []
            lines.append("; ".join([f"{name}: {new['verdict']} as then", *numbers, *doubts]))
    return sorted(lines, key=lambda line: rank_of(line.split(":")[0].rpartition(" (")[0]))


def _by_claim(claims: Sequence[Json]) -> dict[str, Json]:
    """By id and, where a claim was judged on several testbeds, its testbed."""
    return {f"{claim['id']} ({claim['testbed']})": claim for claim in claims}


def _doubts(old: Json, new: Json) -> list[str]:
    """How valid the runs behind a claim are, where it is not as then; records did not say it at first."""
    before, after = old.get(VALIDITY, new[VALIDITY]), new[VALIDITY]
    reasons = f": {'; '.join(new['validity_reasons'])}" if new["validity_reasons"] else ""
    return [] if before == after else [f"runs {before or 'none'} then, {after or 'none'} now{reasons}"]


def _moved(old: Json, new: Json) -> list[str]:
    """The checks whose mean or bounds are others, or that are gone, at most three; of one label by their order."""
    there: dict[tuple[str, str], list[Json]] = {}
    for check in old["measured"]:
        there.setdefault((check["kind"], check["label"]), []).append(check)
    texts = []
    for check in new["measured"]:
        known = there.get((check["kind"], check["label"]))
        before = known.pop(0) if known else {}
        if not _alike(before.get("mean"), check["mean"]):
            texts.append(f"{check['label']} {_text(before.get('mean'))}, now {_text(check['mean'])}")
        elif not all(_alike(before.get(bound), check[bound]) for bound in _WANTED):
            wanted = (f"[{', '.join(_text(each.get(bound)) for bound in _WANTED)}]" for each in (before, check))
            texts.append(f"{check['label']} wanted in {', now in '.join(wanted)}")
    texts += [f"{check['label']} is gone" for each in there.values() for check in each]
    return texts[:3] + [f"and {len(texts) - 3} more"] * (len(texts) > 3)


def _alike(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one == other
    return abs(one - other) <= NEAR * max(1.0, abs(one), abs(other))


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
