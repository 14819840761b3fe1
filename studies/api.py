"""What a study is: what is asked of a testbed at a point of a grid, and what comes home as tables.

A study is told once and has two bodies, one in virtual time and one on a site of real hosts; a body that is missing
means that the study does not run there.  ``study.py`` has the STUDY object, ``asked.py`` what is asked and answered,
``virtual.py`` and ``live.py`` the bodies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from core.errors import SpecError
from core.records import Columns
from core.units import SECOND_NS, duration_ns
from studies.spec import RunSpec
from systems.api import System
from systems.parts.options import span_ns
from testbed.api import SiteServers, Testbed
from testbed.brokers.model import slo_ns
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

    tables: dict[str, Columns]
    outcome: str = "done"
    bucket_rate_rps: float | None = None
    bucket_burst_count: float | None = None
    evidence: RunEvidence = NOTHING  # of the testbed: can the run be trusted? paths, logs


class Asked(Protocol):
    """What every request says: the hosts and links that a site is made of, and the seed of what they draw."""

    @property
    def topology(self) -> Topology:
        """Of a site."""

    @property
    def seed(self) -> int:
        """The run's."""


C = TypeVar("C")  # a study's options
A = TypeVar("A", bound=Asked)  # what it asks
R = TypeVar("R")  # what it gets back


@dataclass(frozen=True)
class Study(Generic[C, A, R]):
    """One kind of study.

    ``asked``: the typed request of a point, SpecError where system, workload and topology do not fit together.
    ``journal``: what came back, as tables.  ``expected_seconds(spec, real_time)``: of one core, in real time of the
    clock.  ``fits``: is a system made for it?

    ``virtual``, ``live``: the bodies.  A body is a module, or the name of one, with ``run(asked)``, live
    ``run(site, asked)``, and where it, or a testbed, cannot do all that can be asked, ``check(testbed, asked)``, a
    SpecError.  Live, ``servers(asked)`` are those that it wants on the site, and which other runs may have had.
    """

    key: str
    summary: str
    config: Callable[..., C]
    asked: Callable[[Point, C], A]
    journal: Callable[[Point, A, R], Journal]
    expected_seconds: Callable[[RunSpec, bool], float]
    fits: Callable[[System], bool] = lambda system: True  # no system runs: any may be named
    offer: Offer | None = None  # what its workloads offer; None: it looks at none
    virtual: object = None
    live: object = None

    def body(self, testbed: Testbed) -> Any:
        """SpecError where the study does not run there."""
        body = self.live if testbed.real_time else self.virtual
        if body is None:
            instead = "use --testbed virtual" if testbed.real_time else "use --testbed mininet, or local"
            raise SpecError(f"study {self.key} does not run on testbed {testbed.name}", instead)
        return import_module(body) if isinstance(body, str) else body

    def check(self, testbed: Testbed, asked: A) -> None:
        """SpecError where the testbed cannot do what is asked."""
        body = self.body(testbed)
        if hasattr(body, "check"):
            body.check(testbed, asked)

    def servers(self, testbed: Testbed, asked: A) -> SiteServers | None:
        """What the site of a live run has before it begins; None: bare hosts."""
        wanted: SiteServers | None = getattr(self.body(testbed), "servers", lambda asked: None)(asked)
        return wanted

    def carry_out(self, testbed: Testbed, asked: A) -> R:
        """Run on the testbed: on a site that is made for it, or in virtual time."""
        body = self.body(testbed)
        answer: R
        if testbed.real_time:
            with testbed.site(asked.topology, asked.seed, self.servers(testbed, asked)) as site:
                answer = body.run(site, asked)
        else:
            answer = body.run(asked)
        return answer


def point_slo_ns(spec: RunSpec) -> int:
    """The SLO in nanoseconds."""
    return slo_ns(spec.slo, spec.calibration)


def round_ns(spec: RunSpec) -> int:
    """Length of one measurement round in nanoseconds."""
    return span_ns("spec", "round", spec.round)


def check_least(study: str, config: object, **least: float) -> None:
    """SpecError for an option of a study that is less than it may be."""
    for name, smallest in least.items():
        if getattr(config, name) < smallest:
            raise SpecError(f"study {study}: {name} = {getattr(config, name)!r}", f"give at least {smallest}")


def expected_s(spec: RunSpec, config: object, span: str) -> float:
    """A span among the study's options, or its default in ``config``, in seconds."""
    return duration_ns(str(spec.study_options.get(span, getattr(config, span)))) / SECOND_NS
