"""Options that a user sets in figures' grids, ``--set system.band=0.5``: where they hold and where they cannot."""

from collections.abc import Collection, Sequence
from inspect import signature

import msgspec

from core.errors import SpecError
from core.records import Options
from core.registry import hint
from harness.experiment import RunSpec
from studies.inputs import factories_of

WHOLE_AXES = ("slo", "round")  # of these a figure's grid can have another value; what it compares is its own


def altered(key: str, specs: Sequence[RunSpec], settings: Options) -> tuple[list[RunSpec], dict[str, object]]:
    """The points of the figure ``key`` with those of ``settings`` that they have, and which these are.

    SpecError for what the grid itself varies: its points would be one and the same.
    """
    if not settings:
        return list(specs), {}
    held = {name: value for name, value in settings.items() if any(name in options_of(spec) for spec in specs)}
    for name in held:
        values = {msgspec.json.encode(options_of(spec).get(name)) for spec in specs if name in options_of(spec)}
        if len(values) > 1:
            raise SpecError(f"--set {name}: {key} itself compares values of it", "leave the figure out, or the option")
    return [_with(spec, held) for spec in specs], held


def check_held(settings: Options, held: Collection[str], specs: Sequence[RunSpec]) -> None:
    """SpecError for a setting that no point of any figure has."""
    for name in settings:
        if name not in held:
            known = {option for spec in specs for option in options_of(spec)}
            raise SpecError(f"--set {name}: these figures have no such option", hint(name, known))


def options_of(spec: RunSpec) -> Options:
    """Every option that the spec's system, workload, topology and study have, and its axes, with the spec's values.

    Where it leaves one at its default, None.
    """
    axes = {name: getattr(spec, name) for name in WHOLE_AXES}
    return axes | {
        f"{axis}.{name}": getattr(spec, f"{axis}_options").get(name)
        for axis, factory in factories_of(spec).items()
        for name in signature(factory).parameters
    }


def _with(spec: RunSpec, settings: Options) -> RunSpec:
    own = options_of(spec)
    for setting, value in settings.items():
        axis, dot, name = setting.partition(".")
        if setting in own:
            field = f"{axis}_options"
            change = {field: {**getattr(spec, field), name: value}} if dot else {axis: value}
            spec = msgspec.structs.replace(spec, **change)
    return spec
