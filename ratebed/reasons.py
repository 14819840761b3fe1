"""Why two runs of a pair are not one and the same: options, input files, code, environment."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import Parameter, signature

import msgspec

from core.errors import SpecError
from core.records import Json, Row
from harness.code_version import ROOT, files_of
from harness.experiment import RunSpec
from ratebed.pairing import RunPair, Side, flat
from studies.inputs import factories_of

UNKNOWN = "unknown files"
_HOST = ("host", "platform")


@dataclass
class Reason:
    """One thing that is otherwise in some pairs."""

    kind: str  # option, input, code, environment
    what: str  # the option, file or package
    one: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    systems: set[str] = field(default_factory=set)
    pair_count: int = 0

    def row(self) -> Row:
        """For ``--json``."""
        texts = {name: sorted(getattr(self, name)) for name in ("one", "other", "systems")}
        return {"kind": self.kind, "what": self.what, "pair_count": self.pair_count, **texts}


def reasons(one: Side, other: Side, pairs: Sequence[RunPair]) -> list[Reason]:
    """Everything in which the runs of pairs differ, options first."""
    reason_of: dict[tuple[str, str], Reason] = {}
    for pair in pairs:
        first, second = one.manifests[pair.one], other.manifests[pair.other]
        for kind, what, before, after in _apart(one, other, first, second):
            reason = reason_of.setdefault((kind, what), Reason(kind, what))
            reason.one.add(before)
            reason.other.add(after)
            reason.systems |= {first["spec"]["system"], second["spec"]["system"]}
            reason.pair_count += 1
    order = ("option", "input", "code", "environment")
    return sorted(reason_of.values(), key=lambda reason: (order.index(reason.kind), reason.what))


def _apart(one: Side, other: Side, first: Json, second: Json) -> Iterable[tuple[str, str, str, str]]:
    """Kind, thing, and what it is on either side."""
    before, after = flat(first["spec"]), flat(second["spec"])
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield "option", name, _value(first, name, before), _value(second, name, after)
    read = sorted(first["inputs"].values()), sorted(second["inputs"].values())
    if read[0] != read[1]:
        names = sorted({*first["inputs"], *second["inputs"]})
        for name in names:
            digests = first["inputs"].get(name, ""), second["inputs"].get(name, "")
            if digests[0] != digests[1]:
                yield "input", name, digests[0][:12] or "not read", digests[1][:12] or "not read"
    if first["code_hash"] != second["code_hash"]:
        for file, was, now in _changed_files(one, other, first, second):
            yield "code", file, was, now
    versions = [{**each["versions"], **each.get("environment", {})} for each in (first, second)]
    for name in sorted({*versions[0], *versions[1]}):
        if versions[0].get(name) != versions[1].get(name):
            yield "environment", name, str(versions[0].get(name, "none")), str(versions[1].get(name, "none"))
    for name in _HOST:
        if first[name] != second[name]:
            yield "environment", name, str(first[name]), str(second[name])


def _value(manifest: Json, name: str, options: Json) -> str:
    """An option as it was, a default said as such."""
    if name in options:
        return _text(options[name])
    axis, _, key = name.partition(".")
    try:
        default = signature(factories_of(msgspec.convert(manifest["spec"], RunSpec))[axis]).parameters[key].default
    except (SpecError, KeyError, msgspec.ValidationError):  # of a system that is not here any more, say
        return "default"
    return "default" if default is Parameter.empty else f"{_text(default)} (default)"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _changed_files(one: Side, other: Side, first: Json, second: Json) -> Iterable[tuple[str, str, str]]:
    """The files by which the code of two runs differs, as noted then; else as git has it of their commits."""
    before, after = one.listings[first["code_hash"]], other.listings[second["code_hash"]]
    if before is not None and after is not None:
        for file in sorted({*before, *after}):
            if before.get(file) != after.get(file):
                yield file, before.get(file, "")[:12] or "not there", after.get(file, "")[:12] or "not there"
        return
    spec = msgspec.json.encode(second["spec"])
    files = _between(first["commit"], second["commit"], spec)
    for file in files or [UNKNOWN]:
        yield file, first["commit"], second["commit"]


@cache
def _between(one: str, other: str, spec: bytes) -> list[str]:
    """The files of a run's code that differ between two commits of this checkout; none: that cannot be told."""
    if {"+", "unknown"} & {one[-1:], other[-1:], one, other} or one == other:
        return []
    command = ["git", "diff", "--name-only", one, other]
    try:
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
        own = {path.as_posix() for path in files_of(msgspec.json.decode(spec, type=RunSpec))}
    except (OSError, subprocess.SubprocessError, SpecError, msgspec.ValidationError):
        return []
    return sorted(own & set(told.splitlines()))
