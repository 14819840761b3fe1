"""One topic deployed on real brokers: each round is carried by real publishers, brokers and subscribers.

A round: publishers move to where the assignment wants them (their broker sends them, by MIGRATE), sub-buckets are set
full, the window's very block of the virtual run is replayed, open loop, and whatever is under way drains.  Then the
records of senders, brokers and subscribers are joined by message number: latency counts from the intended instant,
access delay from the broker's arrival stamp.  Publishers that are assigned to nobody are silent.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np

from core.errors import MachineError, SpecError
from core.records import Block, Columns, Envelope, Int32, Int64
from core.units import SECOND_NS
from studies.distribution.asked import Deployed, Searched, Searching, check_deployed
from studies.distribution.search import searched
from studies.distribution.window import Window, put_together
from studies.distribution.windows import SubBuckets, TopicWindows
from systems.api import UNASSIGNED
from testbed.api import Testbed
from testbed.brokers.counts import Counts
from testbed.brokers.launcher import Brokers
from testbed.brokers.model import load_calibration
from testbed.brokers.traffic import Publishers, Subscribers
from testbed.faults import ClockSkew, Crash, Fault, Heal, Partition, Restart, ServerCrash, check_faults, read_faults
from testbed.hosts.site import Site, explained
from testbed.links import held_ns
from testbed.play import LEAD_NS, Observer, Play, Progress
from testbed.trust.evidence import RunEvidence

ROLES = ("broker", "publisher", "subscriber")
LEAD_OF_MESSAGE_NS = 40_000  # for each message of the loads, from their handing over to the first instant
EVERYTHING = 2**62  # more than will come
STILL_S, TRYING_S = 2.0, 5.0  # nothing came for so long: nothing will
DRAIN_S = 30.0  # at most
_TICK_S = 0.1
_OTHERS_ID = 1_000_000  # the first publisher of another topic, of broker 0


class LiveDeployment(TopicWindows):
    """A topic on the brokers of a site; see ``TopicWindows``.  ``others``: what brokers carry already."""

    crews: tuple[type[Publishers], type[Subscribers]] = (Publishers, Subscribers)

    def __init__(self, site: Site, asked: Deployed):
        self.others = asked.other_topics()
        super().__init__(asked, self.others, load_calibration(asked.calibration).mcap_rps)
        self.site, rule = site, asked.rule
        self.observer = Observer(site, asked.slo_ns)
        self.findings = self.observer.findings
        self.faults = sorted(read_faults(rule.faults), key=lambda fault: fault.at_ns)
        self._held_s = 2 * held_ns(site.topology, self.faults) / SECOND_NS  # to a broker, and from there
        self._assignment = np.full(self.schedule.population.count, UNASSIGNED, np.int32)
        self._parts: SubBuckets = (None,) * len(self.names)
        self._last: Window | None = None
        self._lost_before: list[str] = []  # whom a fault was to crash, and who had ended by then
        self._crashed, self._down = set[str](), set[str]()  # by faults of the spec that came to pass: ever, and now
        self._cut_at_s: float | None = None  # since when hosts have been cut off
        self._first_tag = 0  # of the window's loads: the topic's, and then one a broker for what it carries already
        span_s = max(asked.round_ns, asked.longest_ns) / SECOND_NS
        rows = int((self.schedule.population.total_rps + sum(self.loads_rps)) * span_s * 2) + 50_000
        self.brokers_up = Brokers(site, self.names, rule.stamps, rule.gc, rows=rows)
        publishers, subscribers = self.crews
        self.publishers = publishers(site, site.topology.node_names("publisher"))
        self.subscribers = subscribers(site, site.topology.node_names("subscriber"), rows)
        self._introduce()
        self.observer.watch.start()

    # --- rounds ------------------------------------------------------------------------------------------

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> SubBuckets:
        """Full sub-buckets in proportion to the assigned load, and the publishers where they belong."""
        parts = self.split(envelope, assignment)
        with explained(self.site):
            self._place(assignment, start_ns)
            for broker, part in enumerate(parts):
                self.brokers_up.set_bucket(broker, self.topic, part)
        self._parts = parts
        return parts

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``.  MachineError where a process was lost during a search."""
        judged = start_ns >= self.judge_at_ns
        with explained(self.site):
            window = self.play(start_ns, end_ns, self.faults if judged else ())
            lost = self._lost()
            if lost and not judged:
                raise MachineError(f"ended during the search: {', '.join(lost)}", "see the logs")
        return window.counts(from_ns, until_ns, len(self.names))

    # --- what is taken home --------------------------------------------------------------------------------

    def messages(self) -> Columns:
        """Columns of ``messages`` for the last window."""
        return self._last.columns(self.topic) if self._last else {}

    def evidence(self) -> RunEvidence:
        """Paths, accounts, counters, logs, and whether the run can be trusted."""
        self.observer.watch.stop()
        self.findings.lost_agents = [*self._lost_before, *(name for name in self._lost() if name not in self._down)]
        self.findings.broker_killed = bool(self._crashed & set(self.names))
        for number, name in enumerate(self.names):
            self.findings.broker_stats[name] = self.brokers_up.stats(number)
        return self.observer.evidence()

    def close(self) -> None:
        """End the brokers; the other processes end with the site."""
        self.observer.watch.stop()
        self.brokers_up.close()

    # --- inside ----------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        """Topics on the brokers, subscriptions, the publishers of the topics that brokers carry already."""
        for number in range(len(self.names)):
            self.brokers_up.acquire(number, self.topic)
        token = self.brokers_up.token
        everywhere = {number: broker.nsqd for number, broker in enumerate(self.brokers_up)}
        self.subscribers.subscribe(self.topic, everywhere, token)
        for number, other in enumerate(self.others):
            if other is not None:
                self.brokers_up.acquire(number, _other_topic(number))
                self.subscribers.subscribe(_other_topic(number), {number: self.brokers_up.all[number].nsqd}, token)
                first = _OTHERS_ID * (number + 1)
                target = self.brokers_up.all[number].ingress
                self._connect({first + its: target for its in range(other.population.count)})
        # A new topic's publishers come to the first broker, and are sent on from there.
        self._connect(dict.fromkeys(range(self.schedule.population.count), self.brokers_up.all[0].ingress))
        self._assignment[:] = 0

    def _place(self, assignment: Int32, at_ns: int) -> None:
        """Move publishers: from broker to broker by the broker's word, others by ours; wait until all are there."""
        before = self._assignment
        for source in range(len(self.names)):
            for target in range(len(self.names)):
                going = np.flatnonzero((before == source) & (assignment == target))
                if source != target and len(going):
                    told = self.brokers_up.move(source, self.topic, going.tolist(), target)
                    self.findings.moved(at_ns, len(going), told)
        changed = np.flatnonzero(before != assignment).tolist()
        ingress: list[str | None] = [*(broker.ingress for broker in self.brokers_up), None]
        if changed:
            time.sleep(_TICK_S)  # the brokers' frames first
            self._connect({publisher: ingress[assignment[publisher]] for publisher in changed})
        self._assignment = assignment.copy()

    def _connect(self, targets: dict[int, str | None]) -> None:
        failed = self.publishers.connect(targets, self.brokers_up.token)
        if failed and not self._lost():
            raise MachineError(f"{len(failed)} publishers cannot reach their broker", "see the logs")

    def play(
        self,
        start_ns: int,
        end_ns: int,
        faults: Sequence[Fault] = (),
        control: Callable[[int], None] | None = None,
        control_lead_ns: int = 0,
    ) -> Window:
        """Replay a window, wait for what is under way, and put the records together.

        ``control``: told the CLOCK_REALTIME of its begin, so long ahead; who changes sub-buckets from then on.
        """
        block = self._source.block(start_ns, end_ns)
        others = {
            number: _shifted(other.block(start_ns, end_ns), number)
            for number, other in enumerate(self.others)
            if other is not None
        }
        self.subscribers.collect()  # forget what came before
        counts = np.bincount(self._assignment[block.publisher] + 1, block.count, len(self.names) + 1)
        self._record(counts[1:])
        self._first_tag += len(self.names) + 1
        loads = [
            (self.topic, self._first_tag, block),
            *((_other_topic(number), self._first_tag + number + 1, other) for number, other in others.items()),
        ]
        for _, tag, load in loads:
            self.publishers.bring(load, tag)
        lead_ns = LEAD_NS + LEAD_OF_MESSAGE_NS * sum(load.message_count for *_, load in loads)
        play, span_ns = Play(), end_ns - start_ns
        happened: list[tuple[int, Fault]] = []

        def happen(fault: Fault) -> None:
            self._apply(fault)
            happened.append((play.now_ns(), fault))

        for fault in faults:
            if fault.at_ns < span_ns:  # a later one never happens
                play.plan(fault.at_ns, partial(happen, fault))
        begin_ns = self.site.epoch_ns = play.begin(lead_ns + control_lead_ns)
        if control:
            control(begin_ns)
        for topic, tag, _ in loads:
            self.publishers.load(begin_ns - start_ns, topic, tag)
        play.until(span_ns)
        self._drain(play, int(counts[1:].sum()) + sum(other.message_count for other in others.values()))
        self.findings.played(begin_ns, begin_ns + span_ns)
        window = self._collect(play, block, others, start_ns, None if control else self._parts)
        self.findings.disturbed(begin_ns, happened)
        for _, fault in happened:
            if isinstance(fault, Crash):
                self._crashed.add(fault.node)
                self._down.add(fault.node)
            elif isinstance(fault, Restart):
                self._down.discard(fault.node)
        return window

    def _record(self, assigned: Int64) -> None:
        """Have brokers keep rows; ``assigned``: of each, the messages of its publishers."""
        for number, count in enumerate(assigned):
            self.brokers_up.record(number, self.topic, int(count))

    def _apply(self, fault: Fault) -> None:
        if not isinstance(fault, Crash):
            self.site.apply(fault)
            if isinstance(fault, Partition) and self._cut_at_s is None:
                self._cut_at_s = time.monotonic()
            elif fault == Heal(fault.at_ns):
                self._cut_at_s = None
            return
        crew = self.publishers if fault.node in self.publishers.agents else self.subscribers
        is_broker = fault.node in self.names
        agent = self.brokers_up.named(fault.node).agent if is_broker else crew.agents[fault.node]
        if not agent.alive:
            self._lost_before.append(fault.node)
        if is_broker:
            self.brokers_up.kill(fault.node)
        else:
            crew.stop_one(fault.node)

    def _drain(self, play: Play, expected: int) -> None:
        """Until all that was offered has come, or nothing comes any more."""
        if not self._all_came(play, expected, DRAIN_S):
            for number in range(len(self.names)):  # what still waits for tokens must not meet the next window
                self.brokers_up.set_bucket(number, self.topic, None)
            self._all_came(play, expected, STILL_S)

    def _all_came(self, play: Play, expected: int, most_s: float, still_s: float = STILL_S) -> bool:
        """Wait for so many deliveries, as long as there are some; for publishers that still try, a little longer."""
        end_ns = play.now_ns() + int(most_s * SECOND_NS)

        def progress() -> Progress:
            came, done = self.subscribers.delivery_count(), self.publishers.done()
            patience_s = (still_s if done else TRYING_S) + self._held_s
            return Progress(came, came >= expected and done, patience_ns=int(patience_s * SECOND_NS))

        return play.drain(progress, lambda: end_ns)

    def _collect(
        self, play: Play, block: Block, others: Mapping[int, Block], start_ns: int, buckets: SubBuckets | None
    ) -> Window:
        """The records of the topic, and of those that brokers carried already: put together, and accounted for."""
        sent = self.publishers.collect(self._first_tag)  # ends the load
        if self._cut_at_s is not None:  # what a broker acknowledged is only late: TCP tries again after a while
            cut_s, self._cut_at_s = time.monotonic() - self._cut_at_s, None
            self.site.apply(Heal(0))
            self._all_came(play, EVERYTHING, DRAIN_S, still_s=cut_s + STILL_S)
        epoch_ns = play.epoch_ns - start_ns
        deliveries = self.subscribers.collect()
        rows = [self.brokers_up.collect(number, self.topic) for number in range(len(self.names))]
        received, passed = deliveries.of(self.topic, self._first_tag), [passed for passed, _ in rows]
        self._last = put_together(block, start_ns, epoch_ns, self._assignment, sent, passed, received, buckets)
        windows = [self._last]
        for number, other in others.items():
            tag = self._first_tag + number + 1
            sent, received = self.publishers.collect(tag), deliveries.of(_other_topic(number), tag)
            here = replace(other, publisher=np.zeros(len(other.at_ns), np.int32))
            all_there = np.full(1, number, np.int32)
            windows.append(put_together(here, start_ns, epoch_ns, all_there, sent, [], received, []))
        account = reduce(add, (window.account for window in windows))
        assert account.accounted_count == account.offered_count, "every message has one fate"
        dropped_rows = deliveries.dropped_rows + sum(dropped for _, dropped in rows)
        beside = {"dropped_rows": dropped_rows, "out_of_order": deliveries.out_of_order_count}
        self.findings.accounted(start_ns, account, beside)
        for window in windows:
            self.findings.late(window.lateness_ns())
        return self._last

    def _lost(self) -> list[str]:
        return [*self.brokers_up.lost, *self.publishers.lost, *self.subscribers.lost]


def _other_topic(number: int) -> str:
    return f"other{number}"


def _shifted(block: Block, number: int) -> Block:
    """The same, with numbers that are no publishers' of our topic."""
    return replace(block, publisher=block.publisher + np.int32(_OTHERS_ID * (number + 1)))


def run(site: Site, asked: Searching) -> Searched:
    """Search with real rounds, and judge the answer; LinkError where a path is not what the topology wants."""
    with closing(LiveDeployment(site, asked)) as deployment:
        return searched(asked, deployment)


def check(testbed: Testbed, asked: Deployed) -> None:
    """SpecError for what only a model can do, hosts that are missing, faults that cannot happen to a topic."""
    check_brokers(asked)
    topology = asked.topology
    places = {name for role in ROLES for name in topology.node_names(role)}
    for fault in check_faults(read_faults(asked.rule.faults), topology):
        unknown = isinstance(fault, Crash) and fault.node not in places
        if unknown or isinstance(fault, Restart | ClockSkew | ServerCrash):
            raise SpecError(f"{fault} cannot happen to a topic", "crash a broker, or a host of publishers")
        if not isinstance(fault, Crash) and not testbed.has_links:
            raise SpecError(f"{fault}: {testbed.name} has no links to change", "use --testbed mininet")


def check_brokers(asked: Deployed) -> None:
    """SpecError for what only a model can do, and hosts that are missing."""
    check_deployed(asked)
    topology, rule = asked.topology, asked.rule
    for role in ROLES:
        if not topology.node_names(role):
            raise SpecError(f"topology {topology.name!r} has no host with the role {role}", "use srtm-lan")
    modelled = {"non_conformant": "delay", "release_quantum": False, "mcap_batch": 0, "broker_cores": ()}
    for option, only in modelled.items():
        if (value := getattr(rule, option)) != only:
            raise SpecError(
                f"live brokers know no {option} = {value!r}", f"leave it {only!r}, or use --testbed virtual"
            )
