"""What the clients of topics do: who publishes and who subscribes, where from, and when that changes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np

from core.errors import SpecError
from core.limits import HAPPENINGS
from core.records import Int64
from core.units import SECOND_NS


class Role(StrEnum):
    """What a client is to a topic."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


@dataclass(frozen=True)
class TopicLoad:
    """A topic and what each of its producers sends on it, evenly spaced."""

    name: str
    rate_rps: float  # of one producer
    size_bytes: int
    bound_ns: int  # on end-to-end latency (ePulsar, Table 1: L_th)


def instants(start_ns: int, end_ns: int, rate_rps: float, phase: float) -> Int64:
    """When a producer sends, while it is on a topic: evenly spaced, from ``phase`` of a distance on."""
    count = int(np.ceil(max(0, end_ns - start_ns) * rate_rps / SECOND_NS - phase))
    at_ns: Int64 = start_ns + np.floor((np.arange(max(0, count)) + phase) * SECOND_NS / rate_rps).astype(np.int64)
    return at_ns


@dataclass(frozen=True)
class Moved:
    """A handover: from now on the client is at another site."""

    at_ns: int
    client: str
    site: int  # 0 is the topology's first


@dataclass(frozen=True)
class Joined:
    """The client begins to publish on the topic, or to subscribe to it."""

    at_ns: int
    client: str
    topic: str
    role: Role


@dataclass(frozen=True)
class Left:
    """The client stops publishing on the topic, or subscribing to it."""

    at_ns: int
    client: str
    topic: str
    role: Role


Happening = Moved | Joined | Left


class ClientLoad(Protocol):
    """A workload of the placement family; it knows nothing of the system that places the topics.

    ``homes``: client -> the site where it begins, a number below ``site_count``.
    """

    homes: dict[str, int]
    topics: tuple[TopicLoad, ...]
    site_count: int

    def happenings(self, until_ns: int) -> list[Happening]:
        """All that happens up to and including ``until_ns``, in order; at 0 join those who are there from the start.

        Asking twice gives the same; a longer ask has the shorter one's answer at its beginning.
        """
        ...


@runtime_checkable
class ChangingLoad(Protocol):
    """One whose clients come, go or move: ``change_rps`` happenings a second are expected, or fewer."""

    @property
    def change_rps(self) -> float:
        """See the class."""
        ...


def check_changes(load: ClientLoad, until_ns: int) -> None:
    """SpecError where a load has more happenings up to an instant than a run can hold."""
    count = load.change_rps * until_ns / SECOND_NS if isinstance(load, ChangingLoad) else 0.0
    if count > HAPPENINGS:
        what = f"clients come, go and move some {count:,.0f} times"
        raise SpecError(what, f"give at most {HAPPENINGS:,}: longer stays, fewer clients, or a shorter run")
