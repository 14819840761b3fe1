"""A shared bucket on real brokers: who shares sets their sub-buckets, by commands or by grants.

Searches measure split buckets; in the round that is judged the nodes of whoever shares stand beside the brokers, as in
study ``control``.
"""

from contextlib import closing

import numpy as np

from core.errors import SpecError
from core.records import Envelope, Int32, Sample
from core.units import SECOND_NS, duration_ns
from studies.distribution.live import LiveDeployment
from studies.distribution.live import check as check_topic
from studies.distribution.search import searched
from studies.distribution.windows import SubBuckets
from studies.sharing.asked import Config, SharedSearch, SharingSearch
from studies.sharing.beside import limiters_beside, nodes_beside
from studies.sharing.rules import ADAPTOR, IDEAL, SPLIT
from systems.limiting.granted import part_of
from systems.parts.portion import MILLION
from testbed.api import Testbed
from testbed.brokers.counts import Counts
from testbed.brokers.plane import ReportScript
from testbed.hosts.site import Site, explained
from testbed.nodes.fleet import NodeFleet
from testbed.play import LEAD_NS


class SharingDeployment(LiveDeployment):
    """See ``LiveDeployment``.  ``samples``: of the judged round, by nodes of whoever shares."""

    def __init__(self, site: Site, asked: SharingSearch):
        super().__init__(site, asked)
        self.asked = asked
        self.samples: list[Sample] = []
        self._is_shared = False  # this window's bucket is, and is not split once and for all
        self._whole = Envelope(1.0, 1.0)

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """See ``LiveDeployment``; limiters begin with even parts."""
        self._is_shared = self.asked.rule.shared is not None and start_ns >= self.judge_at_ns
        self._whole = envelope
        return super().start(start_ns, assignment, envelope)

    def split(self, envelope: Envelope, assignment: Int32) -> SubBuckets:
        """See ``TopicWindows``."""
        way = self.asked.rule.shared
        if not self._is_shared or way is None or way.sharing.part is None:
            return super().split(envelope, assignment)
        used = set(np.unique(assignment[assignment >= 0]).tolist())
        even = part_of(MILLION, envelope, len(used))
        return tuple(even if broker in used else None for broker in range(len(self.names)))

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``LiveDeployment``."""
        if not self._is_shared:
            return super().carry(start_ns, end_ns, from_ns, until_ns)
        with explained(self.site):
            fleet = self._nodes()
            try:
                fleet.start()
                fleet.connect()
                window = self.play(start_ns, end_ns, self.faults, lambda begin_ns: fleet.go(begin_ns, {}), LEAD_NS)
                fleet.statuses("finish")
                told = fleet.samples()
            finally:
                fleet.stop()
        rows = ((start_ns + at_ns, name, metric, value) for at_ns, name, metric, value in told)
        self.samples = sorted(row for row in rows if row[0] < end_ns)
        return window.counts(from_ns, until_ns, len(self.names))

    def _nodes(self) -> NodeFleet:
        """Those of whoever shares: beside all brokers, or beside those that carry any."""
        rule, seed = self.asked.rule, self.asked.seed
        way, interval_ns = rule.shared, duration_ns(rule.interval)
        assert way is not None
        parts = {name: part for name, part in zip(self.names, self._parts, strict=True) if part is not None}
        if way.sharing.beside is not None:
            return limiters_beside(self, seed, way, list(parts), self._whole, interval_ns)
        config = way.configured(splits={self.topic: parts})
        return nodes_beside(self, seed, way.system, self.names, config, ReportScript(interval_ns))


def run(site: Site, asked: SharingSearch) -> SharedSearch:
    """Search with real rounds, and judge the answer with the bucket shared."""
    with closing(SharingDeployment(site, asked)) as deployment:
        return SharedSearch(searched(asked, deployment), deployment.samples)


def check(testbed: Testbed, asked: SharingSearch) -> None:
    """SpecError for what real brokers cannot do, and for ways of sharing that they do not know."""
    check_topic(testbed, asked)
    rule = asked.rule
    if rule.sharing == IDEAL:
        raise SpecError(
            f"sharing ideal on testbed {testbed.name}: no two brokers see one bucket at once", "use virtual"
        )
    way = rule.shared
    if way is not None and way.sharing.beside is None and rule.sharing != ADAPTOR:
        what = (
            f"sharing {rule.sharing} on testbed {testbed.name}: real brokers ask nobody before they release a message"
        )
        raise SpecError(what, f"use {SPLIT}, {ADAPTOR}, leases or throttler, or --testbed virtual")
    if way is not None and way.sharing.beside is not None and not testbed.has_our_files:
        raise SpecError(f"{rule.sharing} are not brought to the machines of {testbed.name}", "use mininet")
    for option in ("rtt", "retry", "placed_on"):
        if getattr(rule, option) != getattr(Config, option):
            raise SpecError(f"{option} = {getattr(rule, option)} on testbed {testbed.name}", "leave it out")
    if way is not None and duration_ns(rule.interval) < SECOND_NS // 100:
        raise SpecError(
            f"interval {rule.interval} on testbed {testbed.name}", "reports cost brokers time: at least 10ms"
        )
