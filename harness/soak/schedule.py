"""A schedule: all that decides one trial, as plain values.  One seed makes one; JSON keeps one.

Times are nanoseconds of the run.  ``troubles`` are faults that belong together, a crash and its restart say, as rows of
``testbed.faults.read_faults``, so that a part of a schedule is a schedule.
"""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import msgspec

from core.clients import Role
from core.errors import SpecError
from core.reading import reading
from core.records import COST_MAXIMUM, Json, Request
from core.registry import hint
from core.units import SECOND_NS, duration_text
from core.writing import replace_file
from systems.api import TopicReport
from systems.limiting.throttling_users import Demand
from systems.placement.messages import AtSite, Wanted
from testbed.faults import KINDS, Fault, read_faults

NODES = 500  # at most: each pair may have a link
_LONGEST_NS = 3_600 * SECOND_NS
_SPANS = {"at_ns": "at", "offset_ns": "offset", "hold_ns": "hold"}
_NAMES = {factory: name for name, factory in KINDS.items()}


class SoakRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request."""

    at_ns: int
    node: str
    user: str
    cost: Annotated[int, msgspec.Meta(ge=1, le=COST_MAXIMUM)] = 1


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node is told from outside: traffic of a topic, the demand of a cycle, what a client wants, where it is."""

    at_ns: int
    node: str
    topic: str = ""
    rate_rps: float = 0.0
    backlog_count: float = 0.0
    cycle: int | None = None  # a demand, of ``rate_rps`` requests
    role: str = ""  # a client's, in ``topic``
    wanted: bool = True
    proxy: str = ""  # a client is where this is

    def measurement(self) -> object:
        """As the node hears it; SpecError for a role that nobody has."""
        if self.proxy:
            return AtSite(self.proxy)
        if self.role:
            roles = [role.value for role in Role]
            if self.role not in roles:
                raise SpecError(f"{self.node} is told of a role {self.role!r}", hint(self.role, roles))
            return Wanted(self.topic, Role(self.role), self.wanted)
        if self.cycle is not None:
            return Demand(self.cycle, self.rate_rps)
        return TopicReport(self.topic, self.rate_rps, self.backlog_count, self.backlog_count)


class SoakSchedule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One trial.  ``homes``: node -> the switch where it begins; without any, the nodes are a full mesh."""

    seed: int
    system: str
    options: Json  # of the system
    nodes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=NODES)]
    load_end_ns: int  # the last request or report is not later; a fault may be
    delay_ns: int = 0  # of each link
    jitter_ns: int = 0
    homes: Annotated[dict[str, str], msgspec.Meta(max_length=NODES)] = {}
    clocks_ahead_ns: dict[str, int] = {}
    requests: tuple[SoakRequest, ...] = ()
    told: tuple[Told, ...] = ()
    troubles: tuple[tuple[Json, ...], ...] = ()

    def faults(self) -> tuple[Fault, ...]:
        """All of them, in order of time."""
        rows = [row for trouble in self.troubles for row in trouble]
        return tuple(sorted(read_faults(rows), key=lambda fault: fault.at_ns))

    def load(self) -> dict[str, list[Request]]:
        """Node -> its requests, in order of time."""
        asked: dict[str, list[Request]] = {}
        for number, one in enumerate(sorted(self.requests, key=lambda one: one.at_ns)):
            asked.setdefault(one.node, []).append(Request(number, one.user, one.at_ns, one.cost))
        return asked

    def load_ns(self) -> list[int]:
        """When anything comes from outside."""
        return [*(one.at_ns for one in self.requests), *(one.at_ns for one in self.told)]

    def instants_ns(self) -> list[int]:
        """When anything comes from outside, or goes wrong; 0 where nothing does."""
        return [*self.load_ns(), *(fault.at_ns for fault in self.faults())] or [0]

    @property
    def size(self) -> int:
        """How much there is to read: faults, requests, reports, nodes."""
        return sum(map(len, self.troubles)) + len(self.requests) + len(self.told) + len(self.nodes)


def fault_row(fault: Fault) -> Json:
    """A fault as ``read_faults`` reads it."""
    row: Json = {"kind": _NAMES[type(fault)]}
    for field in fields(fault):
        value = getattr(fault, field.name)
        if field.name in _SPANS:
            row[_SPANS[field.name]] = ("-" if value < 0 else "") + duration_text(abs(value))
        elif value != "":
            row[field.name] = list(value) if isinstance(value, tuple) else value
    return row


def write_schedule(path: Path, schedule: SoakSchedule) -> None:
    """As JSON, to be read and edited."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(schedule), indent=1) + b"\n")


def read_schedule(path: Path) -> SoakSchedule:
    """What ``write_schedule`` wrote; SpecError names the file and what is wrong in it."""
    with reading(str(path), "name a file that ratebed soak wrote"):
        schedule = msgspec.json.decode(path.read_bytes(), type=SoakSchedule)
    instants_ns = schedule.instants_ns()
    late = max(schedule.load_ns(), default=0) > schedule.load_end_ns
    if late or max(schedule.load_end_ns, *instants_ns) > _LONGEST_NS:
        raise SpecError(
            f"{path}: load_end_ns = {schedule.load_end_ns}", "give an end within an hour, and nothing later"
        )
    if min(instants_ns) < 0:
        raise SpecError(f"{path}: an instant of {min(instants_ns)} ns", "give instants from 0 on")
    return schedule
