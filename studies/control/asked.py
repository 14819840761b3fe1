"""What controllers are asked for, on every testbed, and what their run shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.errors import SpecError
from core.limits import HISTOGRAMS, check_product
from core.records import Columns, Envelope, Int64, Sample
from core.units import duration_ns
from studies.distribution.asked import Deployed, DeploymentConfig
from studies.distribution.windows import TopicWindows
from systems.api import System
from systems.parts.options import span_ns
from testbed.trust.evidence import RunEvidence


@dataclass(frozen=True)
class Config(DeploymentConfig):
    """Options of the study."""

    duration: str = "120s"  # ours
    window: str = "5s"  # ours: the histogram's ``round`` counts windows of this length from 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if span_ns("study control", "duration", self.duration) < span_ns("study control", "window", self.window):
            raise SpecError(
                f"study control: duration {self.duration}, window {self.window}", "give at least one window"
            )

    def spans_ns(self, brokers: int) -> tuple[int, int]:
        """Duration and window, in ns; SpecError for more windows of so many brokers than histograms may be."""
        duration, window = duration_ns(self.duration), duration_ns(self.window)
        check_product("study", HISTOGRAMS, windows=duration // window, brokers=brokers)
        return duration, window


@dataclass(frozen=True, kw_only=True)
class Controlling(Deployed):
    """A topic whose publishers stay, in equal blocks of ids, while a controller moves its sub-buckets."""

    system: System
    config: Any  # of the system's class, which knows ``splits``
    duration_ns: int
    window_ns: int  # of the histograms

    def begin(self, deployment: TopicWindows) -> tuple[Envelope, object]:
        """Publishers and full sub-buckets where they begin; the envelope, and the config that knows its parts."""
        _, envelope, parts = deployment.start_in_blocks(self.duration_ns)
        return envelope, replace(self.config, splits={deployment.topic: parts})

    def starts_ns(self, begin_ns: int) -> range:
        """Where the windows begin."""
        return range(begin_ns, begin_ns + self.duration_ns - self.window_ns + 1, self.window_ns)


@dataclass(frozen=True)
class Controlled:
    """What a controller's run showed."""

    names: list[str]  # of the brokers
    envelope: Envelope
    windows: list[tuple[Int64, Int64]]  # of each window: histogram counts of latency and of access delay, by broker
    samples: list[Sample]
    commands: Sequence[tuple[int, str, object]]  # at_ns, node, command
    messages: Columns  # of ``messages``, where they are kept
    evidence: RunEvidence
