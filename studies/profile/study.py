"""The study that profiles a broker's data plane: topics with fan-out at a fixed rate (ePulsar 5.4).

Nobody places anything: all topics are on the one broker from the start, so the system is idle.  The table
``latency_histogram`` has a value for each copy of a message, one a consumer; ``samples`` has what the broker took and
gave in the measured span (``Profiled``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.clients import ClientLoad, Joined
from core.errors import SpecError
from core.records import Int64, Sample
from core.units import duration_ns as length_ns
from studies.api import Journal, Point, Study, expected_s, point_slo_ns
from studies.spec import RunSpec
from studies.tables import histogram_of, sample_rows
from systems.parts.options import span_ns
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, RunEvidence
from workloads.api import Offer

ROLES = ("publisher", "subscriber")


@dataclass(frozen=True)
class ProfileRequest:
    """Offer ``load``, clients that stay, to the only broker of ``topology``, for ``duration_ns``.

    What is measured begins after ``warm_up_ns`` of it.
    """

    topology: Topology
    load: ClientLoad
    duration_ns: int
    warm_up_ns: int
    seed: int
    scale_ns: int  # the smallest latency that matters: what the generator's lateness is judged against
    core_share: float = 1.0  # of one core, what the broker may take


@dataclass(frozen=True)
class Profiled:
    """``latency_ns``: of each copy of a message (one a consumer) that was sent in the measured span and came.

    From the intended instant to the consumer.  ``samples``, at the span's end, of the node that is the broker:
    ``span_ns``, its length; ``span_in_count`` and ``span_in_bytes``, what it acknowledged then; ``span_out_count`` and
    ``span_out_bytes``, what consumers got then (bodies alone); ``span_offered_count``, copies that were due then;
    ``span_lost_count``, those of them that never came; ``span_cpu_ns``, processor time; and of the node ``clients``
    their ``span_cpu_ns``.
    """

    latency_ns: Int64
    samples: Sequence[Sample]
    evidence: RunEvidence = NOTHING


def broker_of(topology: Topology) -> str:
    """The name of the topology's only broker; SpecError where it has none, several, or no hosts for clients."""
    names = topology.node_names("broker")
    if len(names) != 1:
        raise SpecError(f"topology {topology.name!r} has {len(names)} brokers", "profile one: brokers=1")
    for role in ROLES:
        if not topology.node_names(role):
            raise SpecError(f"topology {topology.name!r} has no host with the role {role}", "use srtm-lan")
    return names[0]


@dataclass(frozen=True)
class Config:
    """Options of the study; all are ours."""

    duration: str = "6s"
    warm_up: str = "1s"  # of it: connections grow their windows, Go its heap
    core_share: float = 1.0  # of one core, what the broker may take: less, and it is full before its clients are

    def __post_init__(self) -> None:
        """SpecError for spans that cannot be read, or leave nothing to measure, and for shares that are none."""
        warm_up_ns = span_ns("study profile", "warm_up", self.warm_up, "0")
        if warm_up_ns >= span_ns("study profile", "duration", self.duration):
            what = f"study profile: warm_up = {self.warm_up!r} of duration = {self.duration!r}"
            raise SpecError(what, "leave something to measure")
        if not 0 < self.core_share <= 1:
            raise SpecError(f"study profile: core_share = {self.core_share}", "give a share above 0, up to 1")


def asked(point: Point, config: Config) -> ProfileRequest:
    """SpecError where workload and topology do not fit."""
    duration_ns, warm_up_ns = length_ns(config.duration), length_ns(config.warm_up)
    happenings = point.schedule.happenings(duration_ns)
    if not all(isinstance(happening, Joined) and happening.at_ns == 0 for happening in happenings):
        raise SpecError(f"workload {point.spec.workload!r} has clients that come and go", "use static-topics")
    broker_of(point.topology)
    spec = point.spec
    return ProfileRequest(
        point.topology, point.schedule, duration_ns, warm_up_ns, spec.seed, point_slo_ns(spec), config.core_share
    )


def journal(point: Point, asked: ProfileRequest, shown: Profiled) -> Journal:
    """The tables of a run."""
    tables = {
        "latency_histogram": histogram_of("end_to_end_latency", shown.latency_ns),
        "samples": sample_rows(shown.samples),
    }
    return Journal(tables, evidence=shown.evidence)


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its length."""
    return expected_s(spec, Config, "duration")


STUDY = Study(
    "profile",
    "one broker's data plane under topics with fan-out",
    Config,
    asked,
    journal,
    expected_seconds,
    offer=Offer.CLIENTS,
    live="studies.profile.live",
)
