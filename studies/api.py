"""What a study is: what is asked of a testbed at a point of a grid, and what comes home as tables.

A study is told once and has two bodies, one in virtual time and one on a site of real hosts; a body that is missing
means that the study does not run there.  ``study.py`` has the STUDY object, ``asked.py`` what is asked and answered,
``virtual.py`` and ``live.py`` the bodies.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from core.errors import SpecError
from core.units import duration_ns
from studies.spec import RunSpec
from systems.api import System
from testbed.api import Testbed
from testbed.brokers.model import slo_ns
from testbed.hosts.site import Site
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, RunEvidence
from workloads.api import Offer

SECONDS_PER_NODE = 0.8  # to start a process: for expected seconds


@dataclass(frozen=True)
class Point:
    """A resolved spec: every name looked up, every option checked."""

    spec: RunSpec
    system: System
    system_config: Any  # of the system's own class
    schedule: Any  # what the workload makes: see ``workloads.api.Offer``
    workload_id: str
    topology: Topology
    testbed: Testbed


@dataclass(frozen=True)
class Journal:
    """What a study brings home: rows of the tables and the run's outcome."""

    tables: dict[str, dict[str, Any]]
    outcome: str = "done"
    bucket_rate_rps: float | None = None
    bucket_burst_count: float | None = None
    evidence: RunEvidence = NOTHING  # of the testbed: can the run be trusted? paths, logs


class Asked(Protocol):
    """What every request says: the hosts and links that it needs, and the seed of what they draw."""

    @property
    def topology(self) -> Topology:
        """The topology that a site is made of."""
        ...

    @property
    def seed(self) -> int:
        """The run's."""
        ...


C = TypeVar("C")  # a study's options
A = TypeVar("A", bound=Asked)  # what it asks
R = TypeVar("R")  # what it gets back


def takes_all(*_: object) -> None:
    """The check of a body that can do whatever the study can ask."""


@dataclass(frozen=True)
class VirtualBody(Generic[A, R]):
    """How a study runs in virtual time.  ``check``: SpecError for what it cannot do."""

    run: Callable[[A], R]
    check: Callable[[A], None] = takes_all


@dataclass(frozen=True)
class LiveBody(Generic[A, R]):
    """How a study runs on a site.  ``check``: SpecError for what it, or this testbed, cannot do."""

    run: Callable[[Site, A], R]
    check: Callable[[Testbed, A], None] = takes_all


@dataclass(frozen=True)
class Study(Generic[C, A, R]):
    """One kind of study.

    ``fits``: is a system made for it?  ``asked``: the typed request of a point, SpecError where system, workload and
    topology do not fit together.  ``journal``: what came back, as tables.  ``expected_seconds(spec, real_time)``: of
    one core, in real time of the clock.  ``virtual``, ``live``: the bodies, or "module:OBJECT", imported on use.
    """

    key: str
    summary: str
    config: Callable[..., C]
    offer: Offer | None  # what its workloads offer; None: it looks at none
    fits: Callable[[System], bool]
    asked: Callable[[Point, C], A]
    journal: Callable[[Point, A, R], Journal]
    expected_seconds: Callable[[RunSpec, bool], float]
    virtual: VirtualBody[A, R] | str = field(default="")
    live: LiveBody[A, R] | str = field(default="")

    def virtual_body(self) -> VirtualBody[A, R]:
        """SpecError where the study does not run in virtual time."""
        body: VirtualBody[A, R] = self._body(self.virtual, "virtual", "--testbed mininet, or local")
        return body

    def live_body(self, testbed: str) -> LiveBody[A, R]:
        """SpecError where the study does not run on real hosts."""
        body: LiveBody[A, R] = self._body(self.live, testbed, "--testbed virtual")
        return body

    def _body(self, body: Any, testbed: str, instead: str) -> Any:
        if not body:
            raise SpecError(f"study {self.key} does not run on testbed {testbed}", f"use {instead}")
        if isinstance(body, str):
            module, _, name = body.partition(":")
            return getattr(import_module(module), name)
        return body

    def check(self, testbed: Testbed, asked: A) -> None:
        """SpecError where the testbed cannot do what is asked."""
        if testbed.real_time:
            self.live_body(testbed.name).check(testbed, asked)
        else:
            self.virtual_body().check(asked)

    def carry_out(self, testbed: Testbed, asked: A) -> R:
        """Run on the testbed: on a site that is made for it, or in virtual time."""
        if not testbed.real_time:
            return self.virtual_body().run(asked)
        body = self.live_body(testbed.name)
        with testbed.site(asked.topology, asked.seed) as site:
            return body.run(site, asked)


def point_slo_ns(spec: RunSpec) -> int:
    """The SLO in nanoseconds."""
    return slo_ns(spec.slo, spec.calibration)


def round_ns(spec: RunSpec) -> int:
    """Length of one measurement round in nanoseconds."""
    return length_ns(spec.round, "round")


def length_ns(text: str, name: str) -> int:
    """A span above zero in nanoseconds; SpecError names the field."""
    try:
        span_ns = duration_ns(text)
    except ValueError as error:
        raise SpecError(f"{name}: {error}") from None
    if span_ns <= 0:
        raise SpecError(f"{name} = {text!r}", "give a length above zero")
    return span_ns
