"""The study that profiles a broker's data plane: topics with fan-out at a fixed rate (ePulsar 5.4).

Nobody places anything: all topics are on the one broker from the start, so the system is idle.  The table
``latency_histogram`` has a value for each copy of a message, one a consumer; ``samples`` has what the broker took and
gave in the measured span (``Profiled``).
"""

from dataclasses import dataclass

from core.clients import Joined, check_changes
from core.errors import SpecError
from core.units import duration_ns as length_ns
from studies.api import Journal, Point, Study, expected_s, point_slo_ns
from studies.profile.asked import Profiled, ProfileRequest, broker_of
from studies.spec import RunSpec
from studies.tables import histogram_of, sample_rows
from systems.parts.options import span_ns
from workloads.api import Offer


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
    check_changes(point.schedule, duration_ns)
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
