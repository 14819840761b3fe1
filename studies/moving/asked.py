"""What is asked of a topic whose traffic shifts, and what its run shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.records import Columns, Envelope, Int64, Sample
from studies.control.asked import Config as ControlConfig
from studies.distribution.asked import Deployed
from studies.sharing.rules import SHARINGS, Shared, one_way_ns
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
        one_way_ns("study moving", self.rtt)


@dataclass(frozen=True, kw_only=True)
class Moving(Deployed):
    """A topic whose publishers begin in equal blocks of ids; ``way``: who divides its bucket."""

    rule: Config
    way: Shared
    duration_ns: int
    window_ns: int

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
