"""Grids that users write: a matrix file, or one ad-hoc point.

A matrix file is TOML.  Every value that is a list is an axis; a list-valued option is written as a
list of lists::

    repetitions = 3
    runs_maximum = 200000     # where it is to be more than the usual 100,000
    [[grid]]
    system = ["lb", "srtm"]
    workload = "periodic"
    workload_options = { publishers = [1000, 2000], batch = 10 }
    study_options = { envelope = "conformant" }
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from pathlib import Path

import msgspec

from core.errors import SpecError, quoted
from core.reading import read_toml, reading
from core.records import Json
from core.registry import hint, known, lookup
from harness.experiment import RUNS_MAXIMUM, RunSpec, check_runs, repeated
from studies import STUDIES, load_study
from studies.spec import AXES, CONFIGURED
from systems.loader import load_system
from systems.parts.limit import per_period
from testbed.topologies.topology import TOPOLOGIES
from workloads import load as load_workload

_OPTIONS = tuple(f"{axis}_options" for axis in CONFIGURED)


Adapt = Callable[[RunSpec], RunSpec]


def as_written(spec: RunSpec) -> RunSpec:
    """What runs is what is read."""
    return spec


def read_matrix(path: Path, seed: int, repetitions: int = 0, adapt: Adapt = as_written) -> list[RunSpec]:
    """The runs of a matrix file, with its repetitions or those given; SpecError: file, grid and key that is wrong.

    ``adapt``: what will be made of a run before it runs; so it is checked, on another testbed maybe.
    """
    raw = read_toml(path)
    counts = {"repetitions": 1, "runs_maximum": RUNS_MAXIMUM}
    for name, default in counts.items():
        counts[name] = raw.pop(name, default)
        if type(counts[name]) is not int or counts[name] < 1:
            raise SpecError(f"{path}: {name} = {quoted(counts[name])}", "give a whole number of at least 1")
    counts["repetitions"] = repetitions or counts["repetitions"]
    grids = raw.pop("grid", [])
    if raw:
        raise SpecError(f"{path}: unknown key {next(iter(raw))!r}", f"known: {', '.join(counts)}, [[grid]]")
    if not grids or not isinstance(grids, list):
        raise SpecError(f"{path}: no grid", "write at least one [[grid]] table")
    with reading(str(path)):
        numbered = {f"{path}: grid {number}": grid for number, grid in enumerate(grids, start=1)}
        choices = {where: _choices(grid, where) for where, grid in numbered.items()}
        points = sum(_combinations(choice) for choice in choices.values())
        check_runs(points * counts["repetitions"], counts["runs_maximum"], f"{path}: ")
        specs = [spec for where, choice in choices.items() for spec in _points(choice, where, adapt)]
        return repeated(specs, counts["repetitions"], seed, counts["runs_maximum"])


def ad_hoc(
    system: str,
    workload: str,
    topology: str,
    settings: Sequence[str],
    repetitions: int,
    seed: int,
    adapt: Adapt = as_written,
) -> list[RunSpec]:
    """One point; ``settings`` are words such as ``workload.publishers=2000`` or ``round=30s``.

    ``topology``: empty: as they say, or the usual one.  ``adapt``: as in ``read_matrix``.
    """
    axes: Json = {"system": system, "workload": workload, **({"topology": topology} if topology else {})}
    options: dict[str, Json] = {name: {} for name in _OPTIONS}
    told = settings_of(settings)
    check_told_once(told, axes)
    for key, value in told.items():
        axis, dot, name = key.partition(".")
        if dot:
            options[f"{axis}_options"][name] = value
        else:
            axes[axis] = value
    if repetitions < 1:
        raise SpecError(f"--repetitions {repetitions}", "give at least 1")
    check_runs(repetitions, where="--repetitions: ")
    load_system(system), load_workload(workload)  # these are no settings
    if topology:
        lookup("topology", TOPOLOGIES, topology)
    where = "--set" if settings else f"{system} on {workload}"
    with reading(where):
        return repeated([_spec({**axes, **options}, where, adapt)], repetitions, seed)


def settings_of(words: Sequence[str]) -> dict[str, object]:
    """``workload.publishers=2000`` as (``workload.publishers``, 2000); SpecError for no such axis, or two values."""
    settings: dict[str, object] = {}
    for word in words:
        key, equals, text = word.partition("=")
        axis, dot, name = key.partition(".")
        if not equals or (dot and (f"{axis}_options" not in _OPTIONS or not name)) or (not dot and axis not in AXES):
            raise SpecError(f"--set {word!r}", _of_the_point([key]) or _SET)
        value = _value(text) if dot else text
        check_told_once(settings, {key: value})
        settings[key] = value
    return settings


def check_told_once(settings: Mapping[str, object], others: Mapping[str, object]) -> None:
    """SpecError where a setting has another value in ``others``, what else was said of it."""
    for key, value in others.items():
        if settings.get(key, value) != value:
            raise SpecError(f"--set {key}={quoted(settings[key])}, and {key} {quoted(value)}", "give one of them")


_SET = "write AXIS.KEY=VALUE, with AXIS system, workload, topology, testbed or study; or slo=VALUE, round=VALUE"


def _of_the_point(keys: Iterable[str]) -> str:
    """How to write the first of ``axis.key`` that is no option of an axis, but an axis itself; empty: all are."""
    names = (name for key in keys for _, dot, name in [key.partition(".")] if dot and name in AXES)
    return next((f"{name} is the point's own: --set {name}=VALUE, in a matrix {name} = VALUE" for name in names), "")


def testbed_options(settings: Sequence[str]) -> tuple[Json, list[str]]:
    """The options of the testbed among ``settings``, and the other words: they hold for figures too."""
    own = [word for word in settings if word.startswith("testbed.") and "=" in word]
    options = {key.removeprefix("testbed."): value for key, value in settings_of(own).items()}
    return options, [word for word in settings if word not in own]


def _value(text: str) -> object:
    """A number, true, false, a JSON list, or else the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):  # no UTF-8, nested without end
        return text


def _choices(grid: Json, where: str) -> dict[str, list[object]]:
    """The values of each key, of options their combinations; SpecError for keys and values that cannot be."""
    if not isinstance(grid, dict):
        raise SpecError(f"{where}: {quoted(grid)} is no table", "write [[grid]] and its keys below")
    for key in grid:
        if key in _OPTIONS and not isinstance(grid[key], dict):
            raise SpecError(f"{where}: {key} = {quoted(grid[key])}", f"write {key} = {{ name = value }}")
        if key not in (*AXES, *_OPTIONS):
            raise SpecError(f"{where}: unknown key {key!r}", hint(key, (*AXES, *_OPTIONS)))
    for key in ("system", "workload"):
        if key not in grid:
            raise SpecError(f"{where}: {key} is missing", f'write {key} = "…"')
    return _listed(
        {key: list(_each(value, f"{where}: {key}.")) if key in _OPTIONS else value for key, value in grid.items()},
        f"{where}: ",
    )


def _points(choices: dict[str, list[object]], where: str, adapt: Adapt) -> Iterator[RunSpec]:
    for values in product(*choices.values()):
        fields = dict(zip(choices, values, strict=True))
        yield _spec({**{name: {} for name in _OPTIONS}, **fields}, where, adapt)


def _each(table: Json, where: str) -> Iterator[Json]:
    """Every combination of the values of a table, those that are lists being axes."""
    axes = _listed(table, where)
    check_runs(_combinations(axes), where=where)
    return (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))


def _listed(table: Json, where: str) -> dict[str, list[object]]:
    for name, values in table.items():
        if values == []:
            raise SpecError(f"{where}{name} is an empty list", "give at least one value")
    return {name: values if isinstance(values, list) else [values] for name, values in table.items()}


def _combinations(axes: Mapping[str, Sequence[object]]) -> int:
    return prod(map(len, axes.values()))


def _study(system: str, workload: str) -> str:
    """What a system is made for, with this workload."""
    chosen, offer = load_system(system), load_workload(workload).offer
    names = list(known("study", STUDIES))
    for name in names:
        study = load_study(name)
        if study.offer == offer and study.fits(chosen):
            return name
    return next((name for name in names if load_study(name).fits(chosen)), "limiting")


def _said_per_period(system: str, options: Json) -> Json:
    """The options of a limiter whose limit is said as ``limit = "20/1s"``, as its capacity and its rate."""
    known = {option.name for option in dataclasses.fields(load_system(system).config)}
    if "limit" not in options or "limit" in known or not {"capacity", "rate"} <= known:
        return options
    if twice := {"capacity", "rate"} & set(options):
        raise SpecError(f"system {system}: limit and {' and '.join(sorted(twice))}", "say a limit in one way")
    capacity, rate = per_period(str(options["limit"]))
    return {"capacity": capacity, "rate": rate, **{name: of for name, of in options.items() if name != "limit"}}


def _spec(values: Json, where: str, adapt: Adapt = as_written) -> RunSpec:
    """A spec that resolves as it will run: names and options are checked now, not when it runs."""
    from harness.run import check_all

    with _told(where):
        system, workload = str(values["system"]), str(values["workload"])
        options = _said_per_period(system, values["system_options"])
        fields = {"study": _study(system, workload), **values, "system_options": options}
        spec = msgspec.convert(fields, RunSpec)
        try:
            check_all([adapt(spec)])
        except SpecError as error:
            raise SpecError(error.what, _of_the_point(spec.factors()) or error.fix) from None
    return spec


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Whatever is wrong in here is told with ``where`` it is."""
    with reading(where, "see ratebed list"):
        try:
            yield
        except SpecError as error:
            raise SpecError(f"{where}: {error.what}", error.fix) from None
