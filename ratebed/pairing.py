"""Runs of two folders of results, paired: those of one spec, and those whose specs differ in as little as possible."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from collectors.integrity import verified
from core.errors import SpecError
from core.records import Json, Options
from harness.campaign import code_listing
from ratebed.behind import readable_runs
from ratebed.pipeline import sections

_NOT_ASKED = ("keep", "inputs")  # of a spec: what it keeps changes no result, and files are compared by what is in them
APART_MOST = 2  # options in which specs may differ at first: the fewest that pair the most runs


@dataclass(frozen=True)
class Side:
    """A folder of results."""

    name: str  # as the user said it
    out: Path
    manifests: Mapping[str, Json]  # run id -> manifest
    sections: Mapping[str, Json]  # figure -> what is known of it
    listings: Mapping[str, Mapping[str, str] | None]  # code hash -> file -> digest; None: nobody noted it

    def folder(self, run_id: str) -> Path:
        """Where a run is."""
        return self.out / "runs" / run_id


class RunPair(NamedTuple):
    """A run of either side."""

    one: str
    other: str
    apart: tuple[str, ...] = ()  # options, by which their specs differ


class Pairing(NamedTuple):
    """All pairs, and the runs without a counterpart."""

    pairs: list[RunPair]
    only_one: list[str]
    only_other: list[str]


def side_of(name: str, out: Path, figures: Collection[str] = ()) -> Side:
    """What is in a folder, or of it these figures and their runs alone, each run verified.

    Of several runs of one spec, by other code or of other files, the latest counts.  SpecError where there is nothing,
    MachineError where it is damaged.
    """
    described = {key: section for key, section in sections(out).items() if not figures or section["key"] in figures}
    asked = {run_id for section in described.values() for run_id in (*section["run_ids"], *section["doubtful"])}
    folders = [folder for folder in readable_runs(out) if not figures or folder.name in asked]
    everything = sorted(map(verified, folders), key=lambda manifest: manifest["started_at"])
    latest = {repr(sorted(flat(manifest["spec"]).items())): manifest for manifest in everything}
    manifests = {manifest["run_id"]: manifest for manifest in latest.values()}
    if not manifests and not described:
        of = f" of {', '.join(figures)}" if figures else ""
        raise SpecError(f"{out}: no results{of}", "name two folders of results (--out), or commits and figures")
    hashes = {manifest["code_hash"] for manifest in manifests.values()}
    return Side(name, out, manifests, described, {code: code_listing(out / "runs", code) for code in sorted(hashes)})


def paired(one: Side, other: Side, renamed: Mapping[str, str]) -> Pairing:
    """Each run of one side with its counterpart on the other.

    ``renamed``: a system of ``one`` -> the system of ``other`` that it is compared with.
    """
    flats = [_flats(side, renamed if side is one else {}) for side in (one, other)]
    if renamed:
        flats[0] = _without(flats[0], one, set(renamed.values()) - set(renamed))
        flats[1] = _without(flats[1], other, set(renamed) - set(renamed.values()))
    pairs: list[RunPair] = []
    waiting = [dict(each) for each in flats]
    while all(waiting):
        apart, matched = _best(*waiting)
        if not matched:
            break
        pairs += [RunPair(a, b, apart) for a, b in matched]
        for number, taken in enumerate(zip(*matched, strict=True)):
            for run_id in taken:
                del waiting[number][run_id]
    return Pairing(pairs, sorted(waiting[0]), sorted(waiting[1]))


def flat(spec: Json) -> dict[str, object]:
    """A spec's axes and options in one level, ``system.band``."""
    options = {
        f"{axis.removesuffix('_options')}.{name}": value
        for axis, table in spec.items()
        if axis.endswith("_options")
        for name, value in table.items()
    }
    axes = {name: value for name, value in spec.items() if not name.endswith("_options") and name not in _NOT_ASKED}
    return {**axes, **options}


def _flats(side: Side, renamed: Mapping[str, str]) -> dict[str, Options]:
    flats = {run_id: flat(manifest["spec"]) for run_id, manifest in side.manifests.items()}
    return {
        run_id: {**each, "system": renamed.get(str(each["system"]), each["system"])} for run_id, each in flats.items()
    }


def _without(flats: dict[str, Options], side: Side, systems: Iterable[str]) -> dict[str, Options]:
    out = set(systems)
    return {run_id: each for run_id, each in flats.items() if side.manifests[run_id]["spec"]["system"] not in out}


def _best(one: Mapping[str, Options], other: Mapping[str, Options]) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The fewest options that, left out, pair runs one to one, and these pairs; of as few options those of most."""
    names = {name for each in (*one.values(), *other.values()) for name in each}
    differing = sorted(name for name in names if _values(one, name) != _values(other, name))
    for count in range(APART_MOST + 1):
        tried = [(apart, _matched(one, other, apart)) for apart in combinations(differing, count)]
        best = max(tried, key=lambda each: len(each[1]), default=((), []))
        if best[1]:
            return best
    return tuple(differing), _matched(one, other, differing)


def _values(flats: Mapping[str, Options], name: str) -> set[str]:
    return {repr(each.get(name)) for each in flats.values()}


def _matched(one: Mapping[str, Options], other: Mapping[str, Options], apart: Sequence[str]) -> list[tuple[str, str]]:
    """Runs that alone on their side have the options that they have, those ``apart`` aside."""
    left, right = _grouped(one, apart), _grouped(other, apart)
    return [(ids[0], right[key][0]) for key, ids in left.items() if len(ids) == 1 == len(right.get(key, ()))]


def _grouped(flats: Mapping[str, Options], apart: Sequence[str]) -> dict[str, list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for run_id, each in flats.items():
        groups[repr(sorted((name, repr(value)) for name, value in each.items() if name not in apart))].append(run_id)
    return groups
