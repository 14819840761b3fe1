"""What is asked of a topic whose traffic shifts, and what its run shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import SpecError
from core.records import Columns, Envelope, Int32, Int64, Sample
from core.units import duration_ns
from studies.control.asked import Config as ControlConfig
from studies.distribution.asked import Deployed
from studies.distribution.windows import TopicWindows
from studies.sharing.rules import SHARINGS, Shared
from systems.distribution import migrator
from systems.parts.options import span_ns
from testbed.trust.evidence import NOTHING, RunEvidence

if TYPE_CHECKING:
    from testbed.trust.moved import MovedMessages, PublisherMove

# Systems that divide a bucket, and what they are called as ways of sharing it.
DIVIDES = {way.system: name for name, way in SHARINGS.items() if way and (way.part or way.system == "tb-adaptor")}


@dataclass(frozen=True)
class Config(ControlConfig):
    """Options of the study."""

    duration: str = "60s"  # ours
    window: str = "1s"  # ours: the histogram's ``round`` counts windows of this length from 1
    interval: str = "1s"  # between two words of whoever controls; V-D: "each second", and a window of ten
    rtt: str = "1ms"  # between brokers, and from each to the controller; publishers are on the brokers' LAN
    migrates: bool = False  # publishers are moved away from overloaded brokers (systems/distribution/migrator.py)
    high: float = 0.95  # see ``migrator.Config``
    churn: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        span_ns("study moving", "interval", self.interval)
        span_ns("study moving", "rtt", self.rtt, "0s")
        if duration_ns(self.rtt) % 2:
            raise SpecError(f"study moving: rtt = {self.rtt}", "give an even number of nanoseconds: it is halved")


@dataclass(frozen=True, kw_only=True)
class Moving(Deployed):
    """A topic whose publishers begin in equal blocks of ids; ``way``: who divides its bucket."""

    rule: Config
    way: Shared
    duration_ns: int
    window_ns: int

    def begin(self, deployment: TopicWindows) -> tuple[Int32, Envelope, dict[str, Envelope]]:
        """Publishers and full sub-buckets where they begin; also returns the envelope, and the parts by broker."""
        names, count = deployment.names, self.schedule.population.count
        assignment: Int32 = (np.arange(count) * len(names) // count).astype(np.int32)
        envelope = deployment.envelope_for(0, self.duration_ns)
        parts = zip(names, deployment.start(0, assignment, envelope), strict=True)
        return assignment, envelope, {name: part for name, part in parts if part is not None}

    def migrator_config(self, splits: dict[str, Envelope], topic: str, capacities_rps: dict[str, float]) -> Any:
        """TB Adaptor's options, and who moves publishers when."""
        rule, told = self.rule, vars(self.way.configured(splits={topic: splits}))
        return migrator.Config(
            **told, migrates=rule.migrates, high=rule.high, churn=rule.churn, capacities_rps=capacities_rps
        )


@dataclass(frozen=True)
class MovingShown:
    """What a run showed.  Histogram counts by metric, a dict a window, each (brokers, BUCKET_COUNT)."""

    envelope: Envelope
    windows: Sequence[dict[str, Int64]]
    deliveries: "MovedMessages"
    transfers: "Sequence[PublisherMove]"
    refused_count: int
    samples: list[Sample]
    messages: Columns  # of ``messages``, where they are kept
    evidence: RunEvidence = NOTHING
