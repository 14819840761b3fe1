"""What controllers are asked for, on every testbed, and what their run shows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.errors import SpecError
from core.records import Envelope, Int32, Int64
from core.units import duration_ns
from studies.distribution.asked import Deployed, DeploymentConfig
from studies.distribution.windows import TopicWindows
from systems.api import System
from testbed.topologies.topology import Topology
from testbed.trust.evidence import RunEvidence


@dataclass(frozen=True)
class Config(DeploymentConfig):
    """Options of the study."""

    duration: str = "120s"  # ours
    window: str = "5s"  # ours: the histogram's ``round`` counts windows of this length from 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if duration_ns(self.window) <= 0 or duration_ns(self.duration) < duration_ns(self.window):
            raise SpecError(
                f"study control: duration {self.duration}, window {self.window}", "give at least one window"
            )


@dataclass(frozen=True)
class Controlling:
    """A topic whose publishers stay, in equal blocks of ids, while a controller moves its sub-buckets."""

    system: System
    config: Any  # of the system's class
    deployed: Deployed
    duration_ns: int
    window_ns: int  # of the histograms

    @property
    def topology(self) -> Topology:
        """See ``studies.api.Asked``."""
        return self.deployed.topology

    @property
    def seed(self) -> int:
        """See ``studies.api.Asked``."""
        return self.deployed.seed

    def begin(self, deployment: TopicWindows) -> tuple[Envelope, Any]:
        """Publishers and full sub-buckets where they begin; the envelope, and the config that knows its parts."""
        names, count = deployment.names, self.deployed.schedule.population.count
        assignment: Int32 = (np.arange(count) * len(names) // count).astype(np.int32)
        envelope = deployment.envelope_for(0, self.duration_ns)
        parts = deployment.start(0, assignment, envelope)
        return envelope, replace(self.config, splits={deployment.topic: dict(zip(names, parts, strict=True))})

    def starts_ns(self, begin_ns: int) -> range:
        """Where the windows begin."""
        return range(begin_ns, begin_ns + self.duration_ns - self.window_ns + 1, self.window_ns)


@dataclass(frozen=True)
class Controlled:
    """What a controller's run showed."""

    names: list[str]  # of the brokers
    envelope: Envelope
    windows: list[tuple[Int64, Int64]]  # of each window: histogram counts of latency and of access delay, by broker
    samples: list[tuple[int, str, str, float]]  # (at_ns, node, metric, value)
    commands: list[tuple[int, str, Any]]  # (at_ns, node, command)
    messages: Mapping[str, Any]  # columns of ``messages``, where they are kept
    evidence: RunEvidence
