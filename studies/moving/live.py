"""Traffic that shifts, on real brokers: nodes divide the bucket, publishers move and keep their order.

As in virtual time (``testbed.virtual.moving``) a publisher keeps each message until the subscriber has confirmed it: a
broker's own OK says less, that it has the message in its memory.  A broker that is killed by a fault dies with its
node, and comes back with its last sub-bucket, empty; what of it was not confirmed is offered again, and counted.
"""

from contextlib import closing
from dataclasses import replace
from functools import partial

from core.errors import SpecError
from core.records import Block, Envelope, Int64
from core.units import SECOND_NS, duration_ns
from studies.distribution.live import LiveDeployment, check_brokers
from studies.distribution.window import Window
from studies.distribution.windows import SubBuckets
from studies.moving.asked import Config, Moving, MovingShown
from studies.moving.joined import MoveRecords, MovesJoined, joined
from studies.moving.shown import windows_of
from studies.sharing.beside import limiters_beside, nodes_beside
from systems.distribution.migrator import SYSTEM as MIGRATOR
from testbed.api import Testbed
from testbed.brokers.moving.plane import MoveScript
from testbed.brokers.moving.traffic import KeepingPublishers, ReceiptedSubscribers
from testbed.faults import Crash, Fault, Restart, check_faults, read_faults
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.play import LEAD_NS, Play

DRAIN_S = 120.0  # at most; as long as anything comes


class MovingDeployment(LiveDeployment):
    """A topic on the brokers of a site whose publishers keep what they send, and move while it is carried."""

    crews = (KeepingPublishers, ReceiptedSubscribers)
    publishers: KeepingPublishers
    subscribers: ReceiptedSubscribers

    def __init__(self, site: Site, asked: Moving):
        super().__init__(site, asked)
        self.asked = asked
        token = self.brokers_up.token
        self.subscribers.confirm(self.publishers.listen(token), token)
        self.told: MovesJoined
        self._room = 0  # rows that each broker is asked to keep

    def nodes(self, whole: Envelope, parts: dict[str, Envelope]) -> NodeFleet:
        """Of whoever divides the topic's bucket, ``whole``, and may move publishers: one beside each broker."""
        asked, names, interval_ns = self.asked, self.names, duration_ns(self.asked.rule.interval)
        self.parts = parts
        if asked.way.sharing.beside is not None:
            self.fleet = limiters_beside(self, asked.seed, asked.way, names, whole, interval_ns)
        else:
            config = asked.migrator_config(parts, self.topic, dict(zip(names, self.mcaps_rps, strict=True)))
            script = MoveScript(interval_ns, ingress={broker.name: broker.ingress for broker in self.brokers_up})
            self.fleet = nodes_beside(self, asked.seed, MIGRATOR, names, config, script)
        return self.fleet

    def _record(self, assigned: Int64) -> None:
        self._room = int(assigned.sum())  # anybody may come
        super()._record(assigned * 0 + self._room)

    def _apply(self, fault: Fault) -> None:
        match fault:
            case Crash(_, name):
                super()._apply(fault)
                self.fleet.crash(name)
            case Restart(_, name):
                self._bring_back(name)
                self.fleet.restart(fault)

    def _bring_back(self, name: str) -> None:
        """Start a broker that was killed.  Publishers come when it has the topic's bucket, and not before."""
        number, brokers = self.names.index(name), self.brokers_up
        address = brokers.named(name).ingress
        self.publishers.withhold([address], True)
        brokers.restart(name)
        brokers.acquire(number, self.topic)
        part = self._last_part(name)
        brokers.set_bucket(number, self.topic, replace(part, burst_count=1.0))  # full, and so with one token
        brokers.named(name).client.set_bucket(self.topic, part)
        brokers.record(number, self.topic, self._room)
        self.publishers.withhold([address], False)

    def _last_part(self, name: str) -> Envelope:
        """That its node has set, or the first one."""
        told = {metric: value for _, metric, value in self.fleet.records(name).samples}
        part = self.parts[name]
        return Envelope(told.get("bucket_rate_rps", part.rate_rps), told.get("bucket_burst_count", part.burst_count))

    def _drain(self, play: Play, expected: int) -> None:
        self._all_came(play, expected, DRAIN_S)

    def _collect(self, play: Play, block: Block, others: object, start_ns: int, buckets: SubBuckets | None) -> Window:
        sent = self.publishers.collect(self._first_tag)  # ends the load
        deliveries, brokers = self.subscribers.collect(), list(self.brokers_up)
        rows = [self.brokers_up.collect(number, self.topic) for number in range(len(brokers))]
        records = MoveRecords(
            sent,
            deliveries.parts,
            [passed for passed, _ in rows],
            [broker.ingress for broker in brokers],
            [broker.nsqd for broker in brokers],
            self._first_tag,
        )
        self.told = joined(block, play.epoch_ns - start_ns, self._assignment, records)
        self._last = window = self.told.window
        self.findings.account = window.account
        self.findings.late(self.told.lateness_ns)
        dropped_rows = deliveries.dropped_rows + sum(dropped for _, dropped in rows)
        self.findings.rows.append((0, "", "dropped_rows_count", float(dropped_rows)))
        return window


def run(site: Site, asked: Moving) -> MovingShown:
    """One window as long as the run, with the nodes at work, and until all has come."""
    with closing(MovingDeployment(site, asked)) as deployment:
        _, envelope, parts = deployment.start_in_blocks(asked.duration_ns)
        fleet = deployment.nodes(envelope, parts)
        try:
            fleet.start([fault for fault in deployment.faults if isinstance(fault, Restart)])
            fleet.connect()
            begun = deployment.publishers.counters()["moves"]
            go = partial(fleet.go, offsets_ns={})
            deployment.play(0, asked.duration_ns, deployment.faults, go, LEAD_NS)
            fleet.statuses("finish")
            everything = sorted(fleet.samples())
        finally:
            fleet.stop()
        counters = deployment.publishers.counters()
        ordered = sum(int(value) for _, _, metric, value in everything if metric == "migration_count")
        samples = [sample for sample in everything if sample[0] < asked.duration_ns]  # as long as the load lasted
        told = deployment.told
        windows = windows_of(asked, told.deliveries, told.transfers, len(deployment.names))
        messages = deployment.messages() if asked.keeps_messages else {}
        return MovingShown(
            envelope, windows, told.deliveries, told.transfers, max(0, ordered - (counters["moves"] - begun)), samples,
            messages, deployment.evidence(),
        )  # fmt: skip


def check(testbed: Testbed, asked: Moving) -> None:
    """SpecError for what real brokers cannot do where publishers move."""
    check_brokers(asked)
    if not testbed.has_our_files:
        raise SpecError(f"who moves publishers is not brought to the machines of {testbed.name}", "use mininet")
    if asked.rule.rtt != Config.rtt:
        raise SpecError(f"rtt = {asked.rule.rtt} on testbed {testbed.name}", "its links are the topology's")
    if asked.rule.initial_loads_rps:
        raise SpecError("initial_loads_rps where publishers move on real brokers", "leave it out")
    if duration_ns(asked.rule.interval) < SECOND_NS // 10:
        raise SpecError(
            f"interval {asked.rule.interval} on real brokers", "reports read a broker's rows: at least 100ms"
        )
    for fault in check_faults(read_faults(asked.rule.faults), asked.topology):
        if not isinstance(fault, Crash | Restart) or fault.node not in asked.names:
            raise SpecError(f"{fault} where publishers move", "crash a broker, and restart it")
