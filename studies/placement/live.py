"""Runs a control plane that places topics with real processes: ``studies.placement.virtual``, live.

A process a node, driven over TCP; beside the store a ZooKeeper, beside each coordinate agent a Serf agent, beside each
broker's node the broker itself.  Clients' processes carry their data as well.  Everybody is told beforehand what to do
and when; while the run lasts, the harness lets faults and handovers happen, and else waits.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf

from core.errors import MachineError, SpecError
from core.records import Int64, Sample
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.accounts import Event, accounts, ownership, read_events, read_records
from studies.placement.asked import PlacementJournal, PlacementRequest
from studies.placement.script import BrokerAt, Deed, Script, TopicAt, deeds_of, write_script
from studies.placement.servers import Servers
from systems.placement.cast import cast_of
from testbed.api import Testbed
from testbed.brokers import nsq
from testbed.faults import ClockSkew, Crash, Fault, Handover, Restart, ServerCrash
from testbed.hosts.agent import AgentGone
from testbed.hosts.site import Site
from testbed.links import held_ns
from testbed.nodes.fleet import NodeFleet
from testbed.play import Observer, Play, hand_over
from testbed.servers.found import check_servers
from testbed.servers.serf import profile_of
from testbed.trust.accounts import DeliveryAccount
from testbed.trust.observed import Findings

LEAD_NS = SECOND_NS  # from the last word before the run to its time 0
SETTLE_NS = 3 * SECOND_NS  # after the last message: what is under way comes, or is cut off
WARM_UP_ROUND_S = 1.0  # ePulsar 5.5.1: a probe a second; real agents are given as many seconds
_SCALE_SHARE = 10  # ours: a latency matters that is a tenth of the tightest bound, or
SCALE_MOST_NS = 10 * MILLISECOND_NS  # this much: control planes take round trips of tens of milliseconds


def run(site: Site, asked: PlacementRequest) -> PlacementJournal:
    """As in virtual time, on a site whose topology has the clients' hosts.

    LinkError where a path is not as the topology wants it; MachineError where a process ends on its own.
    """
    tightest_ns = min(topic.bound_ns for topic in asked.load.topics)
    observer = Observer(site, min(SCALE_MOST_NS, tightest_ns // _SCALE_SHARE))
    options = replace(asked.config, drain=True)
    with ExitStack() as stack:
        servers = Servers(site, options)
        stack.callback(servers.close)
        joined_s = time.monotonic()
        fleet = NodeFleet(site, asked.system, options, asked.seed)
        stack.callback(fleet.stop)
        fleet.start([fault for fault in asked.faults if isinstance(fault, Restart)])
        script = _script(servers, asked)
        fleet.script = site.folder / "clients" / "script.json"
        write_script(fleet.script, script)
        fleet.connect()
        time.sleep(max(0.0, joined_s + asked.rule.warm_up_rounds * WARM_UP_ROUND_S - time.monotonic()))
        with observer.watch:
            trouble = Trouble(site, fleet, asked.handovers(), asked.faults, servers.crash, servers.restart)
            _play(site, fleet, trouble.play, asked)
            trouble.arrive()
            observer.findings.lost_agents = (*servers.lost(), *trouble.never_up)
            observer.findings.notes = trouble.notes
            fleet.statuses("finish")
            observer.findings.broker_stats = {
                broker.name: servers.brokers.stats(number) for number, broker in enumerate(servers.brokers)
            }
            journal = _journal(site, asked, fleet, script, trouble, observer.findings)
        return replace(journal, evidence=observer.evidence())


def _script(servers: Servers, asked: PlacementRequest) -> Script:
    deeds: dict[str, list[Deed]] = {client: [] for client in asked.load.homes}
    for client, deed in deeds_of(asked):
        deeds[client].append(deed)
    return Script(
        asked.seed,
        asked.duration_ns,
        servers.brokers.token,
        {topic.name: TopicAt(topic.rate_rps, topic.size_bytes) for topic in asked.load.topics},
        deeds,
        {broker.name: BrokerAt(broker.ingress, broker.nsqd, broker.control_port) for broker in servers.brokers},
        servers.store,
        servers.zookeeper.at,
        asked.config.span("session"),
        {name: server.reached_at() for name, server in servers.serf.servers.items()},
        asked.machine,
    )


class Trouble:
    """What goes wrong in a run, and who moves, when it is due; ``faults``: what has gone wrong until now.

    Of a crash ``faults`` has when node and server were down.  Of a restart it has when the node had come up, if it did:
    nobody waits for it before it is crashed again, or the run ends.  ``never_up``: nodes that could not; ``notes``:
    why, and of those that were crashed too early.
    ``crash``, ``restart``: what becomes of the server beside a node, before the node's own process.
    """

    def __init__(
        self,
        site: Site,
        fleet: NodeFleet,
        handovers: Sequence[Handover],
        faults: Sequence[Fault],
        crash: Callable[[str], None],
        restart: Callable[[str], None] = lambda node: None,
    ):
        self._site, self._fleet, self._crash, self._restart = site, fleet, crash, restart
        self.faults: list[tuple[int, Fault]] = []
        self.samples: list[Sample] = []  # how late clients were moved
        self.never_up: list[str] = []
        self.notes: list[str] = []
        self._restarts: dict[str, Restart] = {}  # the latest of each node
        self.play = Play(fleet.check)
        for move in handovers:
            self.play.plan(move.at_ns, partial(self._move, move))
        for fault in faults:
            self.play.plan(fault.at_ns, partial(self._fail, fault))

    def _move(self, move: Handover) -> None:
        self.samples.append(hand_over(self._site, self.play, move))

    def _fail(self, fault: Fault) -> None:
        match fault:
            case Crash(node=node):
                begin_ns = self.play.now_ns()
                self._crash(node)
                self._fleet.crash(node)
                down_ns = self.play.now_ns()  # until now it may have done something
                if process := self._fleet.coming.get(node):
                    self._arrive(node, process, begin_ns)
                self.faults.append((down_ns, fault))
            case Restart(node=node):
                self._restart(node)
                self._fleet.restart(fault, waits=False)
                self._restarts[node] = fault
            case _:
                self._site.apply(fault)
                self.faults.append((self.play.now_ns(), fault))

    def arrive(self) -> None:
        """Wait until all nodes that were restarted are up, or known not to be."""
        for node, process in self._fleet.coming.items():
            self._arrive(node, process)
        self.faults.sort(key=lambda pair: pair[0])

    def _arrive(self, node: str, process: str, crashed_ns: float = inf) -> None:
        """``crashed_ns``: when it was crashed again; it may have begun while that was carried out."""
        try:
            self.faults.append((int(min(self._fleet.begun_ns(node), crashed_ns)), self._restarts[node]))
        except MachineError as error:
            if not isinstance(error, AgentGone):
                self.never_up.append(process)
            self.notes.append(f"{node} was restarted, and did not come up: {error.what}")

    def tell(self, findings: Findings, until_ns: int, lateness_ns: Int64, account: DeliveryAccount) -> None:
        """So long the run was; so late its messages were sent, and this became of them."""
        begin_ns = self.play.epoch_ns
        findings.played(begin_ns, begin_ns + until_ns)
        findings.late(lateness_ns)
        findings.account = account
        findings.disturbed(begin_ns, self.faults)
        findings.handover_lateness_ns = [late_ns for _, _, _, late_ns in self.samples]


def _play(site: Site, fleet: NodeFleet, play: Play, asked: PlacementRequest) -> None:
    """From time 0 until what was sent has come, to a broker and from there."""
    site.epoch_ns = play.begin(LEAD_NS)
    fleet.go(site.epoch_ns, {})
    until_ns = asked.duration_ns
    play.until(until_ns + SETTLE_NS + 2 * held_ns(site.topology, asked.faults, until_ns))


def _journal(
    site: Site, asked: PlacementRequest, fleet: NodeFleet, script: Script, trouble: Trouble, findings: Findings
) -> PlacementJournal:
    """What everybody wrote down, brought home."""
    until_ns, folder = asked.duration_ns, site.folder / "clients"
    told = accounts(script, read_records(site, folder, script.clients), asked.load.topics)
    deaths = [
        Event(at_ns, fault.node, "crash" if isinstance(fault, Crash) else "restart")
        for at_ns, fault in trouble.faults
        if isinstance(fault, Crash | Restart)
    ]
    events = read_events(site, folder, script.brokers)
    spells, samples = ownership([*events, *(death for death in deaths if death.broker in script.brokers)], until_ns)
    samples = [row for row in [*samples, *trouble.samples, *fleet.samples()] if row[0] <= until_ns] + told.samples
    samples.sort(key=lambda row: row[:3])
    trouble.tell(findings, until_ns, told.lateness_ns, told.account)
    holders = {*script.brokers, script.store}  # without the store brokers begin anew
    findings.broker_killed = any(death.broker in holders for death in deaths)
    return PlacementJournal(samples, spells, told.fates, trouble.faults)


def check(testbed: Testbed, asked: PlacementRequest) -> None:
    """SpecError for what real processes, or their servers, cannot do."""
    check_servers(asked.system, testbed.name, commands=True)
    if asked.rule.record:
        raise SpecError("live runs keep no messages of the control plane", "leave record out, or use --testbed virtual")
    if asked.rule.bookies:
        raise SpecError("live brokers have no bookies", "use --testbed virtual, or bookies = 0")
    for fault in asked.faults:
        if isinstance(fault, ClockSkew):
            raise SpecError(f"{fault}: clocks of live placement runs are the machine's", "use --testbed virtual")
        if isinstance(fault, ServerCrash):
            raise SpecError(f"{fault}: the servers of a node go with it here", "crash the node")
        if isinstance(fault, Crash | Restart):
            if cast_of([fault.node]).clients:
                raise SpecError(f"{fault}: clients are not crashed live", "crash a broker, the store or an agent")
        elif not testbed.has_links:
            raise SpecError(f"{fault}: there are no links to change", "use --testbed mininet, or virtual")
    profile_of(asked.config.span("probe"))
    for name in (*asked.load.homes, *(topic.name for topic in asked.load.topics)):
        try:
            nsq.name_bytes(name)
        except ValueError as error:
            raise SpecError(str(error), "name topics and clients so that NSQ takes them") from None
