"""A study in one file: every node is asked by one user for many requests at once, and how many are admitted is seen.

It says what is asked of a testbed and what becomes of the answer; how requests are put to a limiter's nodes, in virtual
time and on real hosts, it takes from the study ``limiting``.

    ratebed run --system crdt-counter --workload requests --topology wan --set study=docs/examples/burst.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.errors import SpecError
from core.records import Request
from core.units import SECOND_NS
from studies.api import Journal, Point, Study
from studies.limiting.asked import Limiting, RequestJournal
from studies.spec import RunSpec
from systems.api import Arrival, System

AT_NS = SECOND_NS  # of the burst: before it, nodes have settled
LENGTH_NS = 2 * SECOND_NS
USER = "impatient"


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    requests: int = 100  # at each node

    def __post_init__(self) -> None:
        """SpecError for a burst of nothing."""
        if self.requests < 1:
            raise SpecError(f"study burst: requests = {self.requests}", "give 1 or more")


@dataclass(frozen=True)
class Burst:
    """The requests: see ``studies.limiting.asked.RequestSchedule``."""

    count: int  # at each node

    def requests(self, nodes: Sequence[str], duration_ns: int) -> Mapping[str, Sequence[Request]]:
        """All at one instant, numbered over all nodes."""
        return {
            node: [Request(first + number, USER, AT_NS) for number in range(self.count)]
            for node, first in zip(nodes, range(0, len(nodes) * self.count, self.count), strict=True)
        }


def asked(point: Point, config: Config) -> Limiting:
    """What is asked of the testbed."""
    burst = Burst(config.requests)
    return Limiting(
        point.system, point.system_config, point.topology, burst, LENGTH_NS, point.spec.seed, drain_ns=10 * SECOND_NS
    )


def journal(point: Point, asked: Limiting, answered: RequestJournal) -> Journal:
    """A row a request, and the nodes' samples."""
    return Journal({"requests": answered.requests(), "samples": answered.samples()}, evidence=answered.evidence)


def fits(system: System) -> bool:
    """Whether requests can arrive at its nodes."""
    return system.nodes is not None and Arrival in system.inputs


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Of one core; in real time of the clock."""
    return LENGTH_NS / SECOND_NS if real_time else 0.1


STUDY = Study(
    "burst",
    "one user's burst at every node at the same instant",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    virtual="studies.limiting.virtual",
    live="studies.limiting.live",
)
