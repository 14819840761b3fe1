"""What a workload is: a config of plain values and a function that makes its schedule."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from core.digests import digest_of_file
from core.errors import SpecError
from core.reading import reading
from core.records import Options
from core.registry import INPUT_FILE as INPUT_FILE
from core.registry import configure
from core.units import duration_ns

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Offer(StrEnum):
    """What a schedule is made of, and by which method it tells."""

    MESSAGES = "messages"  # ``core.records.Schedule.block``
    REQUESTS = "requests"  # ``requests(nodes, duration_ns)``: node -> requests in order of time
    DEMANDS = "demands"  # ``demands(servers, cycles)``: what each server is asked for in each cycle
    CLIENTS = "clients of topics"  # ``core.clients.ClientLoad.happenings``


@runtime_checkable
class WrappingSchedule(Protocol):
    """A schedule that plays a recording again and again."""

    def wraps(self, start_ns: int, end_ns: int) -> int:
        """How many times within [start, end) a copy of the recording starts over."""
        ...


@runtime_checkable
class LoggedSchedule(Protocol):
    """A schedule made of a log; ``skipped``: lines that were left out, by reason."""

    skipped: dict[str, int]


class Size(NamedTuple):
    """How much a workload of requests is: what estimates of a run's time rest on."""

    request_count: float
    span_ns: int


@dataclass(frozen=True)
class Workload:
    """One kind of load.

    ``config`` is a frozen dataclass of plain JSON values that checks itself when made (SpecError);
    ``make(config, seed)`` gives the schedule.
    """

    key: str
    summary: str
    config: type
    make: Callable[[Any, int], Any]  # what it makes has the method that ``offer`` names
    offer: Offer = Offer.MESSAGES
    size: Callable[[Any], "Size"] | None = None  # of a config, where that is quick to say

    def configure(self, options: Options) -> Any:
        """The config of these options; SpecError names the option that is unknown, missing or wrong."""
        return configure(f"workload {self.key}", self.config, options)

    def id(self, config: "DataclassInstance", seed: int) -> str:
        """``workload_id`` of this workload."""
        return workload_id(self.key, config, seed)


def input_files(config: "DataclassInstance") -> dict[str, str]:
    """Field and path of the files that a config names (fields with ``INPUT_FILE`` as metadata that are not empty)."""
    fields = [field.name for field in dataclasses.fields(config) if INPUT_FILE.items() <= field.metadata.items()]
    return {name: getattr(config, name) for name in fields if getattr(config, name)}


def workload_id(key: str, config: "DataclassInstance", seed: int) -> str:
    """16 hex digits, equal for runs that are offered the very same messages, so that they can be paired.

    Hashes the key, the config and the seed; the path of an input file is replaced by the hash of its
    content, so that a copied file pairs and an edited one does not.  Raises SpecError for a file that
    cannot be read.
    """
    values = dataclasses.asdict(config)
    for name, path in input_files(config).items():
        with reading(str(path), f"give {name} a readable file"):
            values[name] = digest_of_file(path)
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
