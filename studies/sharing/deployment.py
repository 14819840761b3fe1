"""A topic on modelled brokers that share its bucket: as one, by commands, or by verdicts that messages wait for.

First the instants at which messages are released, then the brokers' work (``testbed.virtual.released_kernel``): what
a broker does before does not depend on tokens, for conformance is decided as of arrival.  Commands act on the kernels
of a ``Fleet``, as TB Adaptor's always do, which measure what it goes by.

Whoever shares begins anew with every round, as buckets do: full.  As many tokens and as much of the rate are shared as
the publishers that are placed have a part in the topic's traffic; so ``split`` has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import SpecError
from core.records import Envelope, Int32, Int64, Sample
from core.units import NEVER_NS, SECOND_NS, duration_ns
from studies.distribution.deployment import Deployment
from studies.distribution.windows import SubBuckets
from studies.sharing.asked import SharingSearch
from studies.sharing.rules import ADAPTOR, IDEAL, SPLIT, STORE, Shared, one_way_ns
from systems.api import SetBucket
from systems.limiting.granted import part_of
from systems.parts import token_bucket
from systems.parts.portion import MILLION
from testbed.brokers.counts import Counts, histogram
from testbed.brokers.model import BrokerModel
from testbed.topologies.topology import Topology, mesh
from testbed.virtual import released_kernel
from testbed.virtual.fleet import Fleet, FleetPlane, FleetState
from testbed.virtual.gates import GatedLoop, GrantedLoop, NodeGroup
from testbed.virtual.scheduler import event_loop

PATIENCE_NS = 60 * SECOND_NS  # a message that is not released so long after its round never is
RETRY_TOKENS = 1.0  # pause of a broker that was rejected: what so many tokens take to form (ours)
MESSAGES_MAXIMUM = 5_000_000  # of a round: each waits for a verdict, an event of Python's


@dataclass(frozen=True)
class Offered:
    """The messages of a window that brokers get.

    Of emissions, in order: ``at_ns``, ``publisher``, ``broker``, ``count``; of messages: ``sent_ns``, ``where`` (their
    broker), ``number`` (in the window).
    """

    at_ns: Int64
    publisher: Int32
    broker: Int32
    count: Int32
    sent_ns: Int64
    where: Int32
    number: Int64


class SharedDeployment(Deployment):
    """See ``Deployment``; only this topic is counted.  ``samples``: of the last window, by nodes of whoever shares."""

    counts_residents = False

    def __init__(self, asked: SharingSearch, model: BrokerModel):
        super().__init__(asked, model, 0)
        self.sharing: SharingSearch = asked
        self.way: Shared | None = asked.rule.shared
        self.samples: list[Sample] = []
        self._assignment: Int32 = np.full(asked.schedule.population.count, -1, np.int32)
        self._splits = False  # this window's bucket is split
        self._parts: SubBuckets = ()
        self._whole = Envelope(1.0, 1.0)
        self._columns: dict[str, np.ndarray] = {}

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Idle brokers and a full bucket; sub-buckets only where they are set by commands, or searches measure them."""
        self._assignment = assignment
        self._splits = self.sharing.rule.placed_on == SPLIT and start_ns < self.judge_at_ns
        self._whole = self.placed_part(envelope, assignment)
        if self._splits or self.sharing.rule.sharing == ADAPTOR:
            self._parts = super().start(start_ns, assignment, envelope)
            return self._parts
        return (None,) * len(self.names)

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``."""
        if self._splits:
            return super().carry(start_ns, end_ns, from_ns, until_ns)
        load = self._load(start_ns, end_ns)
        arrived_ns = load.at_ns + self.model.network_ns
        if self.sharing.rule.sharing == ADAPTOR:
            released_ns = self._commanded(load, arrived_ns, start_ns, end_ns)
        elif self.sharing.rule.sharing == IDEAL:
            arrived = np.repeat(arrived_ns, load.count)
            released_ns = released_kernel.one_bucket(arrived, start_ns, *token_bucket.units(self._whole))
        else:
            released_ns = self._shared(load, arrived_ns, start_ns, end_ns)
        return self._counted(load, released_ns, start_ns, end_ns, (from_ns, until_ns))

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of ``messages`` for the last window, where the run asked for them; otherwise none."""
        return self._columns

    # --- who may go when ---------------------------------------------------------------------------

    def _load(self, start_ns: int, end_ns: int) -> Offered:
        block = self._source.block(start_ns, end_ns)
        if block.message_count > MESSAGES_MAXIMUM:
            raise SpecError(f"a round of {block.message_count:,} messages", f"at most {MESSAGES_MAXIMUM:,} are decided")
        broker = self._assignment[block.publisher]
        kept = broker >= 0
        first = np.cumsum(block.count) - block.count
        at_ns, broker, count = block.at_ns[kept], broker[kept], block.count[kept]
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        number = np.repeat(first[kept], count) + within
        sent_ns, where = np.repeat(at_ns, count), np.repeat(broker, count)
        return Offered(at_ns, block.publisher[kept], broker, count, sent_ns, where, number)

    def _shared(self, load: Offered, arrived_ns: Int64, start_ns: int, end_ns: int) -> Int64:
        """By the nodes beside those brokers that carry any."""
        way, seed = self.way, self.sharing.seed
        assert way is not None
        used = np.unique(load.broker)
        brokers = [self.names[broker] for broker in used]
        names = [*brokers, STORE] if way.sharing.store else brokers
        deployed = NodeGroup(way.system, way.config(self._whole), self._ground(names), names, seed, start_ns)
        where = np.searchsorted(used, load.broker).astype(np.int32)
        if way.sharing.part is not None:
            return self._granted(load, arrived_ns, where, deployed, end_ns)
        retry = self.sharing.rule.retry
        retry_ns = duration_ns(retry) if retry else int(RETRY_TOKENS * SECOND_NS / self._whole.rate_rps)
        loop = GatedLoop(deployed, brokers, self.topic, retry_ns)
        loop.arrive(arrived_ns, where, load.count)
        loop.run(end_ns)
        loop.drain(end_ns + PATIENCE_NS)
        self.samples = loop.journal.samples
        return loop.released_ns

    def _granted(self, load: Offered, arrived_ns: Int64, where: Int32, deployed: NodeGroup, end_ns: int) -> Int64:
        """Messages wait in sub-buckets, which are what nodes have of the whole: even parts at first."""
        assert self.way is not None and self.way.sharing.part is not None
        loop = GrantedLoop(deployed, self.topic, self.way.sharing.part)
        loop.arrive(arrived_ns, where, load.count)
        loop.run(end_ns)
        self.samples = loop.journal.samples
        return released_by(loop.parts, arrived_ns, where, load.count, self._whole, deployed.start_ns)

    def _ground(self, names: list[str]) -> Topology:
        return mesh("sharing", names, one_way_ns("study sharing", self.sharing.rule.rtt))

    def _commanded(self, load: Offered, arrived_ns: Int64, start_ns: int, end_ns: int) -> Int64:
        """Sub-buckets are moved while the kernels carry the window, and say what the adaptor asks for.

        Who waits goes by what the bucket becomes, as with whoever shares otherwise, and as on brokers; the kernels
        reckon waits when messages come, by the bucket as it is then.  How many tokens are owed is the same for both.
        """
        way, rule = self.way, self.sharing.rule
        assert way is not None and way.system.nodes is not None
        parts = {name: part for name, part in zip(self.names, self._parts, strict=True) if part is not None}
        config = way.configured(splits={self.topic: parts})
        everyone = list(way.system.nodes(self.names, config, self.sharing.seed))
        ground, plane = self._ground(everyone), _RecordingPlane(self.fleet, self.names, self._parts, start_ns)
        loop = event_loop(way.system, config, ground, self.names, self.sharing.seed, plane, start_ns=start_ns)
        loop.report_every(duration_ns(rule.interval))
        loop.run(end_ns - 1)
        self.samples = loop.journal.samples
        return released_from(plane.changes, arrived_ns, load.broker, load.count)

    # --- what becomes of them ------------------------------------------------------------------------

    def _counted(self, load: Offered, released_ns: Int64, start_ns: int, end_ns: int, span: tuple[int, int]) -> Counts:
        """Through the brokers; what was never released is lost, and what was released too early is a debt."""
        brokers = len(self.names)
        received_ns = released_kernel.received_at(
            (load.at_ns, load.broker, load.count), released_ns, self._others(start_ns, end_ns), self.model.costs(),
            FleetState(self.fleet.cores).free_at_ns,
        )  # fmt: skip
        judged = (load.sent_ns >= span[0]) & (load.sent_ns < span[1])
        came = judged & (released_ns != NEVER_NS)
        waited_ns = released_ns - load.sent_ns - self.model.network_ns
        lost = np.bincount(load.where[judged & ~came], minlength=brokers).astype(np.int64)
        debts_ns = debts_of(released_ns, self._whole, start_ns)
        if self.sharing.keeps_messages:
            self._columns = self._rows(load, released_ns, received_ns)
        return Counts(
            histogram((received_ns - load.sent_ns)[came], load.where[came], brokers),
            histogram(waited_ns[came], load.where[came], brokers),
            np.zeros(brokers, np.int64),
            lost,
            {"token_debt": histogram(debts_ns[came], load.where[came], brokers)},
        )

    def _others(self, start_ns: int, end_ns: int) -> tuple[Int64, Int32, Int64, Int64]:
        """The topics that brokers carry already: their emissions, one span a broker."""
        blocks = [None if other is None else other.block(start_ns, end_ns) for other in self.fleet.others]
        at_ns = [np.zeros(0, np.int64) if block is None else block.at_ns for block in blocks]
        count = [np.zeros(0, np.int32) if block is None else block.count for block in blocks]
        ends = np.cumsum([len(part) for part in at_ns])
        return np.concatenate(at_ns), np.concatenate(count), ends - [len(part) for part in at_ns], ends

    def _rows(self, load: Offered, released_ns: Int64, received_ns: Int64) -> dict[str, np.ndarray]:
        gone = released_ns != NEVER_NS
        return {
            "message": load.number[gone],
            "publisher": np.repeat(load.publisher, load.count)[gone],
            "broker": load.where[gone],
            "topic": np.full(int(gone.sum()), self.topic, object),
            "intended_at_ns": load.sent_ns[gone],
            "sent_at_ns": load.sent_ns[gone],
            "arrived_at_ns": load.sent_ns[gone] + self.model.network_ns,
            "released_at_ns": released_ns[gone],
            "received_at_ns": received_ns[gone],
        }


def debts_of(released_ns: Int64, whole: Envelope, start_ns: int) -> Int64:
    """How much later than it was released one bucket (r, b), full at the start, would have had each message's token."""
    order = np.argsort(released_ns, kind="stable")
    gone = order[released_ns[order] != NEVER_NS]
    debts_ns = np.zeros(len(released_ns), np.int64)
    paid_ns = released_kernel.one_bucket(released_ns[gone], start_ns, *token_bucket.units(whole))
    debts_ns[gone] = paid_ns - released_ns[gone]
    return debts_ns


def released_by(
    parts: Mapping[str, list[tuple[int, int]]],
    arrived_ns: Int64,
    where: Int32,
    count: Int32,
    whole: Envelope,
    start_ns: int,
) -> Int64:
    """When messages that wait in sub-buckets go: of emissions at the nodes of ``parts``, see ``GrantedLoop.parts``.

    Even parts until nodes say otherwise.  A sub-bucket holds a token at least, and never stands still.
    """
    nodes = len(parts)
    changes = [
        [(at_ns, *token_bucket.units(part_of(part, whole, nodes))) for at_ns, part in [(start_ns, MILLION), *told]]
        for told in parts.values()
    ]
    return released_from(changes, arrived_ns, where, count)


def released_from(
    changes: Sequence[Sequence[tuple[int, int, int]]], arrived_ns: Int64, where: Int32, count: Int32
) -> Int64:
    """The same, from what each sub-bucket is: (instant, rate, capacity), see ``released_kernel.sub_bucket``."""
    arrived_ns, places = np.repeat(arrived_ns, count), np.repeat(where, count)
    released_ns = np.full(len(arrived_ns), NEVER_NS)
    for place in np.unique(places):
        mine = places == place
        released_ns[mine] = released_kernel.sub_bucket(arrived_ns[mine], np.array(changes[place], np.int64))
    return released_ns


class _RecordingPlane(FleetPlane):
    """The same, and ``changes``: of each broker's sub-bucket (instant, rate, capacity), from the start on."""

    def __init__(self, fleet: Fleet, names: Sequence[str], parts: SubBuckets, start_ns: int):
        super().__init__(fleet, names)
        self.changes: list[list[tuple[int, int, int]]] = [
            [] if part is None else [(start_ns, *token_bucket.units(part))] for part in parts
        ]

    def actuate(self, node: str, command: object, now_ns: int) -> None:
        """See ``FleetPlane``."""
        super().actuate(node, command, now_ns)
        assert isinstance(command, SetBucket)
        units = token_bucket.units(Envelope(command.rate_rps, command.burst_count))
        self.changes[self.names.index(node)].append((now_ns, *units))
