"""A topic on modelled brokers, on the publishers' LAN."""

import numpy as np

from core.records import Envelope, Int32
from studies.distribution.asked import Deployed
from studies.distribution.windows import SubBuckets, TopicWindows
from testbed.brokers.counts import Counts
from testbed.brokers.model import BrokerModel
from testbed.trust.evidence import NOTHING, Evidence
from testbed.virtual.fleet import Fleet


class Deployment(TopicWindows):
    """A topic, its brokers and the clock of its schedule."""

    def __init__(self, asked: Deployed, model: BrokerModel, journal_rows: int):
        others = asked.other_topics()
        super().__init__(asked, others, model.mcap_rps)
        self.model, self.journal_rows = model, journal_rows
        rule = asked.rule
        source = self._window if rule.envelope == "conformant" else asked.schedule
        self.fleet = Fleet(
            model, self.topic, source, others, journal_rows, rule.non_conformant == "drop", rule.release_quantum
        )

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""
        self.fleet.restart(start_ns)
        self.fleet.move(assignment)
        parts = self.split(envelope, assignment)
        for broker, part in enumerate(parts):
            if part is not None:
                self.fleet.set_bucket(broker, part, full=True)
        return parts

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``."""
        assert self.fleet.now_ns == start_ns
        self.fleet.record(from_ns, until_ns)
        self.fleet.advance(end_ns)
        state = self.fleet.state
        return Counts(state.latency, state.access_delay, state.dropped_count)

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of ``messages`` for the last window, where the run asked for them; otherwise none."""
        return self.fleet.messages() if self.journal_rows else {}

    def evidence(self) -> Evidence:
        """Virtual time keeps its schedule exactly."""
        return NOTHING
