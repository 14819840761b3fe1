"""The study that profiles a broker's data plane: topics with fan-out at a fixed rate (ePulsar 5.4).

Nobody places anything: all topics are on the one broker from the start, so the system is idle.  The table
``latency_histogram`` has a value for each copy of a message, one a consumer; ``samples`` has what the broker took and
gave in the measured span (``studies.profile.asked.Profiled``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from collectors.histogram import BUCKET_COUNT, bucket_index
from core.clients import Joined
from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study, point_slo_ns
from studies.distribution.study import histogram_rows
from studies.profile.asked import Profiled, ProfileRequest, Profiling, check_profiling
from studies.spec import RunSpec
from systems.api import System
from workloads.api import Offer


@dataclass(frozen=True)
class Config:
    """Options of the study; all are ours."""

    duration: str = "6s"
    warm_up: str = "1s"  # of it: connections grow their windows, Go its heap
    core_share: float = 1.0  # of one core, what the broker may take: less, and it is full before its clients are

    def __post_init__(self) -> None:
        """SpecError for spans that cannot be read, or leave nothing to measure, and for shares that are none."""
        try:
            fits = 0 <= duration_ns(self.warm_up) < duration_ns(self.duration)
        except ValueError as error:
            raise SpecError(f"study profile: {error}") from None
        if not fits:
            what = f"study profile: warm_up = {self.warm_up!r} of duration = {self.duration!r}"
            raise SpecError(what, "leave something to measure")
        if not 0 < self.core_share <= 1:
            raise SpecError(f"study profile: core_share = {self.core_share}", "give a share above 0, up to 1")


def asked(point: Point, config: Config) -> ProfileRequest:
    """SpecError where workload and topology do not fit."""
    happenings = point.schedule.happenings(duration_ns(config.duration))
    if not all(isinstance(happening, Joined) and happening.at_ns == 0 for happening in happenings):
        raise SpecError(f"workload {point.spec.workload!r} has clients that come and go", "use static-topics")
    check_profiling(point.topology)
    duration, warm_up = duration_ns(config.duration), duration_ns(config.warm_up)
    profiling = Profiling(duration, warm_up, point.spec.seed, point_slo_ns(point.spec), config.core_share)
    return ProfileRequest(point.topology, point.schedule, profiling)


def journal(point: Point, asked: ProfileRequest, found: Profiled) -> Journal:
    """The tables of a run."""
    counts = np.bincount(bucket_index(found.latency_ns), minlength=BUCKET_COUNT)
    names = ("at_ns", "node", "metric", "value")
    tables: dict[str, dict[str, Any]] = {
        "latency_histogram": histogram_rows(0, {"end_to_end_latency": counts[np.newaxis]}),
        "samples": {name: [row[i] for row in found.samples] for i, name in enumerate(names)},
    }
    return Journal(tables, evidence=found.evidence)


def fits(system: System) -> bool:
    """No system runs: any may be named."""
    return True


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its length."""
    return duration_ns(str(spec.study_options.get("duration", Config.duration))) / SECOND_NS


STUDY = Study(
    "profile",
    "one broker's data plane under topics with fan-out",
    Config,
    Offer.CLIENTS,
    fits,
    asked,
    journal,
    expected_seconds,
    live="studies.profile.live:BODY",
)
