"""What a study is: what is done at a point of a grid, and what comes home."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import SpecError
from core.units import duration_ns
from studies.spec import RunSpec
from systems.api import System
from testbed import Backend
from testbed.brokers.model import slo_ns
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, Evidence

if TYPE_CHECKING:
    from studies.distribution.asked import Deployment


@dataclass(frozen=True)
class Point:
    """A resolved spec: every name looked up, every option checked."""

    spec: RunSpec
    system: System
    system_config: Any
    schedule: Any  # core.records.Schedule, or requests for a limiter
    workload_id: str
    topology: Topology
    backend: Backend


@dataclass(frozen=True)
class Journal:
    """What a study brings home: rows of the tables (column -> values) and the run's outcome."""

    tables: dict[str, dict[str, Any]]
    outcome: str
    bucket_rate_rps: float | None = None
    bucket_burst_count: float | None = None
    evidence: Evidence = NOTHING  # of the testbed: can the run be trusted? paths, logs


@dataclass(frozen=True)
class Study:
    """What is done at a point: ``configure`` checks that everything fits together, ``run`` does it."""

    configure: Callable[[Point], Any]
    run: Callable[[Point, Any], Journal]


@contextmanager
def deployed(point: Point, config: Any) -> "Iterator[Deployment]":
    """The point's topic on its testbed; an error takes the logs of the testbed's processes with it."""
    deployment: Deployment = point.backend.deploy(point.topology, point.schedule, point.spec, config)
    with closing(deployment):
        try:
            yield deployment
        except Exception as error:
            with suppress(Exception):
                error.logs = deployment.evidence().logs  # type: ignore[attr-defined]
            raise


def point_slo_ns(spec: RunSpec) -> int:
    """The SLO in nanoseconds."""
    return slo_ns(spec.slo, spec.calibration)


def round_ns(spec: RunSpec) -> int:
    """Length of one measurement round in nanoseconds."""
    return _span(spec.round, "round")


def _span(text: str, field: str) -> int:
    try:
        span_ns = duration_ns(text)
    except ValueError as error:
        raise SpecError(f"{field}: {error}") from None
    if span_ns <= 0:
        raise SpecError(f"{field} = {text!r}", "give a length above zero")
    return span_ns
