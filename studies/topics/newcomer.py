"""A topic that comes to brokers with others: the windows in which a distributor searches a place for it."""

from collections.abc import Sequence

import numpy as np

from core.records import Columns, Envelope, Int32
from core.units import NEVER_NS, duration_ns
from studies.distribution.asked import Round, Searching
from studies.distribution.windows import SubBuckets, TopicWindows
from studies.topics.asked import STORE, Config
from testbed.brokers.counts import Counts
from testbed.trust.evidence import NOTHING, RunEvidence
from testbed.virtual.cluster import Placed, TopicCluster


class Newcomer(TopicWindows):
    """Rounds are the cluster's time: residents go on, leave, and share the brokers with what is tried."""

    rule: Config

    def __init__(
        self, asked: Searching, cluster: TopicCluster, number: int, loads_rps: Sequence[float], mcap_rps: float
    ):
        """``loads_rps``: of the topics that each broker has."""
        super().__init__(asked, [None] * len(loads_rps), mcap_rps)
        self.cluster, self.number, self.loads_rps = cluster, number, list(loads_rps)
        self.now_ns, self.judge_at_ns = cluster.now_ns, NEVER_NS

    def fresh_round(self, assignment: Int32, duration_ns: int) -> Round:
        """Leave the topic where the search has it; nothing is measured: that is its residence."""
        return self._round(self.now_ns, assignment, 0)

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Full buckets on the brokers as they are by then; a split that cannot be leaves the topic off them."""
        self.cluster.advance(start_ns)
        self.cluster.remove(self.number)
        placed = Placed(self.schedule, assignment, NEVER_NS)
        if self.rule.sharing == STORE and len(np.unique(assignment[assignment >= 0])) > 1:
            whole = self.placed_part(envelope, assignment)
            self.cluster.place(self.number, placed, [whole], duration_ns(self.rule.rtt))
            return (None,) * len(self.names)
        parts = self.split(envelope, assignment)
        self.cluster.place(self.number, placed, parts)
        return parts

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``."""
        return self.cluster.measure(self.number, end_ns, from_ns, until_ns)

    def messages(self) -> Columns:
        """None are kept."""
        return {}

    def evidence(self) -> RunEvidence:
        """Virtual time keeps its schedule exactly."""
        return NOTHING
