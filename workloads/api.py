"""What a workload is: a config of plain values and a function that makes its schedule."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.errors import SpecError
from core.records import Schedule
from core.units import duration_ns


@dataclass(frozen=True)
class Workload:
    """One kind of load.

    ``config`` is a frozen dataclass of plain JSON values that checks itself when made (SpecError);
    ``make(config, seed)`` gives the schedule.  ``file_fields`` names the config fields that hold the
    path of an input file: what counts there is the content.
    """

    key: str
    summary: str
    config: type
    make: Callable[[Any, int], Schedule]
    file_fields: tuple[str, ...] = ()

    def configure(self, options: Mapping[str, Any]) -> Any:
        """The config of these options; SpecError names the option that is unknown, missing or of a wrong type."""
        fields = {field.name: field for field in dataclasses.fields(self.config)}
        for name in options:
            if name not in fields:
                raise SpecError(f"workload {self.key}: unknown option {name!r}", f"choose of {', '.join(fields)}")
        for name, field in fields.items():
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if required and name not in options:
                raise SpecError(f"workload {self.key}: option {name!r} is missing", f"give {name}=…")
        try:
            return msgspec.convert(dict(options), self.config, strict=False)
        except msgspec.ValidationError as error:
            raise SpecError(f"workload {self.key}: {error}", "give the option a value of that type") from error

    def schedule(self, options: Mapping[str, Any], seed: int) -> Schedule:
        """The schedule of these options and this seed."""
        return self.make(self.configure(options), seed)

    def id(self, config: Any, seed: int) -> str:
        """``workload_id`` of this workload."""
        return workload_id(self.key, config, seed, self.file_fields)


def workload_id(key: str, config: Any, seed: int, file_fields: tuple[str, ...] = ()) -> str:
    """16 hex digits, equal for runs that are offered the very same messages, so that they can be paired.

    Hashes the key, the config and the seed; a field in ``file_fields`` is replaced by the hash of
    its file's content, so that a copied file pairs and an edited one does not.  Raises SpecError for
    a file that cannot be read.
    """
    values = dataclasses.asdict(config)
    for name in file_fields:
        try:
            values[name] = hashlib.sha256(Path(values[name]).read_bytes()).hexdigest()
        except OSError as error:
            raise SpecError(f"{values[name]}: {error.strerror}", f"give {name} a readable file") from error
    text = json.dumps([key, values, seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require(holds: bool, field: str, value: object, rule: str) -> None:
    """SpecError naming ``field`` and its ``value`` unless the rule holds."""
    if not holds:
        raise SpecError(f"workload option {field}={value!r}", rule)


def span_of(field: str, text: str) -> int:
    """Nanoseconds of a config field that holds a span such as ``"16ms"``; SpecError naming the field."""
    try:
        return duration_ns(text)
    except ValueError as error:
        raise SpecError(f"workload option {field}={text!r}", str(error)) from error
