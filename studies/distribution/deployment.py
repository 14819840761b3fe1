"""A topic on modelled brokers, on the publishers' LAN or at the end of long paths.

The broker kernel knows one network delay.  What comes from afar is handed to it at the instant that makes it arrive
when its path lets it, in the order of arrival; what the paths add at either end is added to the latency afterwards,
from the journal.
"""

from dataclasses import dataclass

import numpy as np

from core.errors import SpecError
from core.records import Block, Envelope, Int32, Int64, Population
from studies.distribution.asked import Deployed
from studies.distribution.windows import SubBuckets, TopicWindows
from testbed.brokers.counts import Counts, histogram
from testbed.brokers.model import BrokerModel
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, RunEvidence
from testbed.virtual.fleet import Fleet

LAN_NS = 20_000  # two links of srtm-lan: what the calibrations' ``network_ns`` has in it already
ROWS_MAXIMUM = 20_000_000  # of a window's journal: 1.1 GB


class Deployment(TopicWindows):
    """A topic, its brokers and the clock of its schedule.

    On the window that judges, the latency of the topics that were there before is counted, too: with this topic beside
    them, and without it.
    """

    counts_residents = True

    def __init__(self, asked: Deployed, model: BrokerModel, journal_rows: int):
        others = asked.other_topics()
        super().__init__(asked, others, model.mcap_rps)
        self.model, self.journal_rows = model, journal_rows
        rule = asked.rule
        self.fleet = Fleet(
            model, self.topic, self._source, others, journal_rows, rule.non_conformant == "drop", rule.release_quantum,
            rule.broker_cores,
        )  # fmt: skip

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""
        self.fleet.restart(start_ns, self._is_judged(start_ns))
        self.fleet.move(assignment)
        parts = self.split(envelope, assignment)
        for broker, part in enumerate(parts):
            if part is not None:
                self.fleet.set_bucket(broker, part, full=True)
        return parts

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``."""
        assert self.fleet.now_ns == start_ns
        before = self._alone(start_ns, end_ns, from_ns, until_ns) if self._is_judged(start_ns) else {}
        self.fleet.record(from_ns, until_ns)
        self.fleet.advance(end_ns)
        self.fleet.finish()
        state = self.fleet.state
        more = {**before, "resident_latency": state.resident_latency} if before else {}
        return Counts(state.latency, state.access_delay, state.dropped_count, more=more)

    def _is_judged(self, start_ns: int) -> bool:
        """Whether a window judges, and topics were there before."""
        return self.counts_residents and start_ns >= self.judge_at_ns and any(self.loads_rps)

    def _alone(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> dict[str, Int64]:
        """Histograms of the other topics' latency as if this one had not come."""
        nothing = EmptySchedule(self.schedule.population)
        fleet = Fleet(self.model, self.topic, nothing, self.fleet.others, cores=self.fleet.cores)
        fleet.restart(start_ns, residents=True)
        fleet.record(from_ns, until_ns)
        fleet.advance(end_ns)
        fleet.finish()
        return {"resident_latency_before": fleet.state.resident_latency}

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of ``messages`` for the last window, where the run asked for them; otherwise none."""
        return self.fleet.messages() if self.journal_rows else {}

    def evidence(self) -> RunEvidence:
        """Virtual time keeps its schedule exactly."""
        return NOTHING


class EmptySchedule:
    """Publishers that send nothing."""

    def __init__(self, population: Population):
        self.population = population

    def block(self, start_ns: int, end_ns: int) -> Block:
        """See ``core.records.Schedule``."""
        return Block(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


@dataclass(frozen=True)
class Far:
    """One-way delays beyond a LAN's, int64 ns.

    Publisher i lives on publisher host i modulo their number, and broker j has its subscriber on host j modulo
    theirs: as ``testbed.brokers.traffic`` places them.
    """

    inbound_ns: Int64  # (publishers, brokers)
    outbound_ns: Int64  # (brokers,)
    uncertain: bool  # some path has jitter or loses packets


def far_of(topology: Topology, publishers: int) -> Far | None:
    """What the paths add; None where nothing is longer than a LAN, or the topology does not say who is where."""
    brokers, sources, sinks = (topology.node_names(role) for role in ("broker", "publisher", "subscriber"))
    if not (brokers and sources and sinks):
        return None
    inbound = [[topology.path(source, broker) for broker in brokers] for source in sources]
    outbound = [topology.path(broker, sinks[number % len(sinks)]) for number, broker in enumerate(brokers)]
    paths = [path for row in [*inbound, outbound] for path in row]
    if all(path.one_way_delay_ns <= LAN_NS for path in paths):
        return None
    beyond = [[max(0, path.one_way_delay_ns - LAN_NS) for path in row] for row in [*inbound, outbound]]
    table = np.array(beyond[:-1], np.int64)
    uncertain = any(path.jitter_ns or path.loss_probability for path in paths)
    return Far(table[np.arange(publishers) % len(sources)], np.array(beyond[-1], np.int64), uncertain)


class Shifted:
    """A window's emissions by the instants at which brokers on the publishers' LAN would have to be sent them.

    ``number``, ``delay_ns``: of each message in that order, its number in the window's, and what its path adds.
    """

    def __init__(self, population: Population, block: Block, delay_ns: Int64):
        """``delay_ns``: of each emission."""
        later = block.at_ns + delay_ns
        order = np.argsort(later, kind="stable")
        self.population, self.message_count = population, block.message_count
        self.whole = Block(later[order], block.publisher[order], block.count[order], block.size_bytes)
        self.number = np.argsort(np.repeat(later, block.count), kind="stable")
        self.delay_ns = np.repeat(delay_ns, block.count)[self.number]

    def block(self, start_ns: int, end_ns: int) -> Block:
        """See ``core.records.Schedule``."""
        whole = self.whole
        chosen = slice(*np.searchsorted(whole.at_ns, (start_ns, end_ns)))
        return Block(whole.at_ns[chosen], whole.publisher[chosen], whole.count[chosen], whole.size_bytes)


class FarDeployment(Deployment):
    """See ``Deployment``; only this topic is counted.  ``keep``: whether the last window's messages are wanted."""

    counts_residents = False

    def __init__(self, asked: Deployed, model: BrokerModel, far: Far):
        super().__init__(asked, model, 0)
        self.far, self.keep = far, asked.keeps_messages
        self._assignment = np.full(asked.schedule.population.count, -1, np.int32)
        self._columns: dict[str, np.ndarray] = {}

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""
        self._assignment = assignment
        return super().start(start_ns, assignment, envelope)

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``.  The brokers work on until the last message has come from afar."""
        block = self._source.block(start_ns, end_ns)
        broker = self._assignment[block.publisher]
        delay_ns = np.where(broker >= 0, self.far.inbound_ns[block.publisher, broker], 0)
        shifted = Shifted(self.schedule.population, block, delay_ns)
        if shifted.message_count > ROWS_MAXIMUM:
            raise SpecError(f"a round of {shifted.message_count:,} messages", "give fewer: all are kept for a while")
        self.fleet.schedule = shifted
        self.fleet.keep(shifted.message_count)
        self.fleet.record(0, 0)
        self.fleet.advance(end_ns + int(delay_ns.max(initial=0)) + 1)
        self.fleet.finish()
        table = self._far_messages(shifted)
        span = (table["intended_at_ns"] >= from_ns) & (table["intended_at_ns"] < until_ns)
        latency_ns = (table["received_at_ns"] - table["intended_at_ns"])[span]
        waited_ns = (table["released_at_ns"] - table["arrived_at_ns"])[span]
        brokers, count = table["broker"][span], len(self.names)
        self._columns = table if self.keep else {}
        nothing = np.zeros(count, np.int64)
        return Counts(histogram(latency_ns, brokers, count), histogram(waited_ns, brokers, count), nothing)

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of ``messages`` for the last window, where the run asked for them; otherwise none."""
        return self._columns

    def _far_messages(self, shifted: Shifted) -> dict[str, np.ndarray]:
        table = self.fleet.messages()
        here = table["message"]  # a number in the order of arrival
        intended_ns = table["intended_at_ns"] - shifted.delay_ns[here]
        table |= {"message": shifted.number[here], "intended_at_ns": intended_ns, "sent_at_ns": intended_ns}
        table["received_at_ns"] = table["received_at_ns"] + self.far.outbound_ns[table["broker"]]
        order = np.argsort(table["message"], kind="stable")
        return {name: column[order] for name, column in table.items()}
