"""What is asked of brokers of Apache Pulsar that share a quota of messages a second, and what comes home."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from core.errors import SpecError
from core.records import Columns, Envelope, Int32, Int64, Sample, Schedule
from core.units import SECOND_NS, duration_ns
from studies.api import check_least
from systems.distribution import tb_adaptor
from systems.distribution.tb_adaptor import ADAPTOR
from systems.parts.options import choice, span_ns
from systems.placement.cast import cast_of
from testbed.topologies.topology import Host, Link, Topology
from testbed.trust.evidence import RunEvidence

NAME = "quota"
GROUP, SPLIT, ADAPTED = "resource-group", "split", "adaptor"
SHARINGS = (GROUP, SPLIT, ADAPTED)


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    sharing: str = GROUP  # Pulsar's own (PIP-82); "split": even parts, for good; "adaptor": by SRTM's TB Adaptor
    quota_rps: int = 300  # of all brokers together; small, so that two cores carry brokers and clients
    interval: str = "1s"  # between two words of whoever shares: V-D; Pulsar comes with 60 s
    duration: str = "40s"

    def __post_init__(self) -> None:
        choice(f"study {NAME}", "sharing", self.sharing, SHARINGS)
        check_least(NAME, self, quota_rps=10)
        span_ns(f"study {NAME}", "duration", self.duration)
        if span_ns(f"study {NAME}", "interval", self.interval) % SECOND_NS:
            raise SpecError(f"study {NAME}: interval = {self.interval}", "give whole seconds, as Pulsar takes them")

    @property
    def interval_s(self) -> int:
        """As Pulsar takes it."""
        return duration_ns(self.interval) // SECOND_NS


@dataclass(frozen=True)
class QuotaRequest:
    """Publishers at brokers: the first half of their ids at the first, the second half evenly at the others.

    A topic a broker; none of them moves.  Pulsar's store and bookie, and TB Adaptor, are beside the first broker.
    """

    without_adaptor: Topology
    schedule: Schedule
    seed: int
    rule: Config
    config: tb_adaptor.Config

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise SpecError(f"topology {self.without_adaptor.name}: a single broker", "give two at least: they share")
        if self.rule.quota_rps < len(self.names):
            raise SpecError(f"a quota of {self.rule.quota_rps} for {len(self.names)} brokers", "give each 1 at least")

    @property
    def names(self) -> list[str]:
        """The nodes beside the brokers: those called so, where a topology has any, else all."""
        everybody = self.without_adaptor.node_names()
        return list(cast_of(everybody).brokers) or everybody

    @cached_property
    def topology(self) -> Topology:
        """With a host for the adaptor."""
        control, first = Host("control", role="control", nodes=(ADAPTOR,)), self.without_adaptor.host_of(self.names[0])
        hosts, links = (*self.without_adaptor.hosts, control), (*self.without_adaptor.links, Link(control.name, first))
        return replace(self.without_adaptor, hosts=hosts, links=links)

    @property
    def duration_ns(self) -> int:
        """Length of the load."""
        return duration_ns(self.rule.duration)

    @property
    def part_rps(self) -> int:
        """An even part of the quota, in whole messages a second."""
        return self.rule.quota_rps // len(self.names)

    def broker_of(self, publisher: Int32) -> Int64:
        """The number of each publisher's broker."""
        first = self.schedule.population.count // 2
        others, count = publisher - first, self.schedule.population.count - first
        return np.where(publisher < first, 0, 1 + others * (len(self.names) - 1) // count).astype(np.int64)

    def adaptor(self, topic: str) -> tb_adaptor.Config:
        """TB Adaptor's options for a topic of even parts; a bucket of Pulsar's holds a second."""
        even = Envelope(float(self.part_rps), float(self.part_rps))
        return replace(self.config, period=self.rule.interval, splits={topic: dict.fromkeys(self.names, even)})


@dataclass(frozen=True)
class QuotaShown:
    """What a run showed: a row a message, as in table ``messages``, and what TB Adaptor's nodes said."""

    messages: Columns
    samples: Sequence[Sample]
    evidence: RunEvidence
