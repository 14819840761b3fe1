"""Plays a figure with systems that are not what they are called, through the code that judges true ones.

A *broken* figure has the grid, the seeds, the tables and the measures of the true one; but points that ``Swap.one``
names are acted by the points that ``Swap.other`` names: what these bring home is written under those' own names.
So a figure may be told that two systems are two, when they are one (identical), or each the other (reversed), or
that one runs that does nothing (frozen).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

import msgspec

from analysis.verdicts import Judgement, judge
from harness import run as harness_run
from harness.experiment import SCALES, RunSpec, Scale, repeated
from paper_figs import load_figure
from studies.api import Journal
from systems.loader import load_system
from tests.paper_figs.tables import claim_called
from workloads import load as load_workload

if TYPE_CHECKING:
    from analysis.tables import Data

SEED = 11  # ours: of the plays
REPETITIONS = 5  # what a claim takes
UPHELD = (Judgement.REPRODUCED, Judgement.DIRECTION_ONLY)
Who = Mapping[str, object]  # "system" -> its name, "workload.batch" -> the option's value, as in a run's factors


@dataclass(frozen=True)
class Swap:
    """Points ``one`` are acted by the same points as ``other`` has them, or where the grid has none, made so."""

    one: Who
    other: Who


@dataclass(frozen=True)
class Broken:
    """How a figure is broken, in words, and what does it: swaps of points, or (target, value) put in a target's place.

    ``patches``: as ``unittest.mock.patch`` takes them, "module.attribute" -> a function of what was there.
    """

    name: str  # identical, reversed, frozen, and which
    swaps: tuple[Swap, ...] = ()
    patches: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Play:
    """Figures played together, what is kept of their grids, how they are broken, and the claims that this must flip.

    ``breaks``: claim -> names of ``broken``, each of which takes the claim away.
    """

    figures: tuple[str, ...]
    broken: tuple[Broken, ...]
    breaks: Mapping[str, tuple[str, ...]]
    keep: Callable[[RunSpec], bool] = lambda spec: True
    scale: str = "quick"
    tier: str = "command"  # "fast": in every test run; "long": in the long ones; else by ``python -m tests.broken``
    repetitions: int = REPETITIONS


def identical(one: Who, other: Who, name: str = "") -> Broken:
    """The one is the other."""
    return Broken(f"identical: {name or _words(one, other)}", (Swap(one, other),))


def reversed_(one: Who, other: Who, name: str = "") -> Broken:
    """Each is the other."""
    return Broken(f"reversed: {name or _words(one, other)}", (Swap(one, other), Swap(other, one)))


def frozen(one: Who, options: Who, name: str = "") -> Broken:
    """The one never acts."""
    return Broken(f"frozen: {name or _words(one, options)}", (Swap(one, options),))


def _words(one: Who, other: Who) -> str:
    return f"{' '.join(map(str, one.values()))} is {' '.join(map(str, other.values()))}"


# --- who acts ------------------------------------------------------------------------------------


def fact(spec: RunSpec, key: str) -> object:
    """What a point has for ``system`` or ``workload.batch``: its option, or else the default."""
    axis, _, option = key.partition(".")
    if not option:
        return getattr(spec, axis)
    told = getattr(spec, f"{axis}_options")
    if option in told or axis not in ("system", "workload"):
        return told.get(option)
    config = load_system(spec.system).config if axis == "system" else load_workload(spec.workload).config
    return next((field.default for field in fields(config) if field.name == option), None)


def matches(spec: RunSpec, who: Who) -> bool:
    """Whether a point is among those that ``who`` names."""
    return all(fact(spec, key) == value for key, value in who.items())


def actor(spec: RunSpec, swaps: Sequence[Swap], specs: Sequence[RunSpec]) -> RunSpec:
    """Who acts at a point: the point itself, or of the first swap that names it, its partner."""
    for swap in swaps:
        if matches(spec, swap.one):
            partners = [each for each in specs if matches(each, swap.other) and _alike(spec, each, swap)]
            if partners:
                return max(partners, key=lambda each: _shared(spec, each))
            return _made(spec, swap.other)
    return spec


def _alike(spec: RunSpec, other: RunSpec, swap: Swap) -> bool:
    """Whether two points differ in nothing but who they are."""
    told = swap.one.keys() | swap.other.keys()
    names = [name for name in ("workload", "topology", "testbed", "calibration", "study", "seed") if name not in told]
    if any(getattr(spec, name) != getattr(other, name) for name in names):
        return False
    one, two = spec.factors(), other.factors()
    keys = {key for key in one.keys() | two.keys() if key not in told}
    if "system" in told or any(key.startswith("system.") for key in told):
        keys = {key for key in keys if not key.startswith("system.")}
    return all(one.get(key) == two.get(key) for key in keys)


def _shared(spec: RunSpec, other: RunSpec) -> int:
    return len(spec.factors().items() & other.factors().items())


def _made(spec: RunSpec, who: Who) -> RunSpec:
    """The point with what ``who`` says; of another system's options those that this one has as well."""
    changed: dict[str, Any] = {}
    if "system" in who:
        known = {field.name for field in fields(load_system(str(who["system"])).config)}
        changed["system_options"] = {name: value for name, value in spec.system_options.items() if name in known}
    for key, value in who.items():
        axis, _, option = key.partition(".")
        name = f"{axis}_options" if option else axis
        changed[name] = {**changed.get(name, getattr(spec, name)), option: value} if option else value
    return msgspec.structs.replace(spec, **changed)


# --- plays ---------------------------------------------------------------------------------------

_JOURNALS: dict[bytes, Journal] = {}


def grid(play: Play) -> dict[str, list[RunSpec]]:
    """The points of each figure, repeated."""
    scale = Scale(play.scale, play.repetitions, SCALES[play.scale].physics)
    grids = {}
    for key in play.figures:
        experiment = load_figure(key).experiment
        options = {option.name: option.default for option in experiment.options}
        points = [spec for spec in experiment.points(scale, options) if play.keep(spec)]
        grids[key] = repeated(points, play.repetitions, SEED)
    return grids


def journals(specs: Sequence[RunSpec], processes: int) -> None:
    """Carry out what has not been yet."""
    missing = list({spec.to_json(): spec for spec in specs if spec.to_json() not in _JOURNALS}.values())
    if processes > 1 and len(missing) > 8:
        made = list(_pool(processes).map(_carried_out, missing, chunksize=4))
    else:
        made = [_carried_out(spec) for spec in missing]
    _JOURNALS.update({spec.to_json(): journal for spec, journal in zip(missing, made, strict=True)})


@lru_cache(maxsize=1)
def _pool(processes: int) -> ProcessPoolExecutor:
    """Of this process, for all plays: to start one takes as long as many runs."""
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def _carried_out(spec: RunSpec) -> Journal:
    return harness_run.carried_out(harness_run.resolve(spec))


def tables_of(play: Play, broken: Broken | None, folder: Path, processes: int = 1) -> dict[str, Any]:
    """The tables of all figures of a play, true or broken, as claims read them."""
    from analysis import spark
    from analysis import tables as raw

    tables: dict[str, Any] = {}
    for key, specs in grid(play).items():
        figure = load_figure(key)
        with _patched(broken.patches if broken else {}) as is_patched:
            if specs:
                acted = _acted(specs, broken.swaps if broken else (), 0 if is_patched else processes)
                folders = _written(acted, specs, folder / key)
                made = figure.tables(raw.load(spark.session(), folders))
            else:  # computed from formulas alone
                made = figure.tables(cast("Data", None))
        tables |= {f"{key}/{name}": table for name, table in made.items()}
    return tables


def _acted(specs: Sequence[RunSpec], swaps: Sequence[Swap], processes: int) -> dict[bytes, Journal]:
    """Point -> what its actor brought home; ``processes`` = 0: made here and now, and not kept."""
    actors = {spec.to_json(): actor(spec, swaps, specs) for spec in specs}
    if not processes:
        return {point: _carried_out(acting) for point, acting in actors.items()}
    journals(list(actors.values()), processes)
    return {point: _JOURNALS[acting.to_json()] for point, acting in actors.items()}


def _written(acted: Mapping[bytes, Journal], specs: Sequence[RunSpec], folder: Path) -> list[Path]:
    """The run folders, under the points' own names."""
    folders = [folder / f"{number:04d}" for number in range(len(specs))]
    with mock.patch.object(harness_run, "carried_out", lambda point: acted[point.spec.to_json()]):
        for spec, its in zip(specs, folders, strict=True):
            harness_run.execute(spec, its.name, its)
    return folders


@contextmanager
def _patched(patches: Mapping[str, Callable[[Any], Any]]) -> Iterator[bool]:
    with ExitStack() as stack:
        for target, change in patches.items():
            module, _, name = target.rpartition(".")
            stack.enter_context(mock.patch(target, change(getattr(import_module(module), name))))
        yield bool(patches)


@dataclass(frozen=True)
class Verdict:
    """What a claim came to, intact and broken: a row of the table."""

    claim: str
    broken: str
    intact: Judgement
    verdict: Judgement

    @property
    def is_flipped(self) -> bool:
        """Whether the broken system takes the claim away."""
        return self.verdict not in UPHELD

    @property
    def says_something(self) -> bool:
        """Whether there was something to take away."""
        return self.intact in UPHELD


def verdicts(play: Play, folder: Path, processes: int = 1, in_vain: bool = True) -> list[Verdict]:
    """A row a claim and broken system; not of claims that do not hold where all is intact, unless ``in_vain``."""
    intact = tables_of(play, None, folder / "intact", processes)
    before = {claim: judge(claim_called(claim), intact).judgement for claim in play.breaks}
    rows = []
    for number, broken in enumerate(play.broken):
        taken = [
            claim
            for claim, names in play.breaks.items()
            if broken.name in names and (in_vain or before[claim] in UPHELD)
        ]
        tables = tables_of(play, broken, folder / str(number), processes) if taken else {}
        for claim in taken:
            rows.append(Verdict(claim, broken.name, before[claim], judge(claim_called(claim), tables).judgement))
    return rows
