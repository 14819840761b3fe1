"""Runs a control plane that places topics with real processes: ``studies.placement.virtual``, live.

A process a node, driven over TCP; beside the store a ZooKeeper, beside each coordinate agent a Serf agent, beside each
broker's node the broker itself.  Clients' processes carry their data as well.  Everybody is told beforehand what to do
and when; while the run lasts, the harness lets faults and handovers happen, and else waits.
"""

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from core.errors import SpecError
from core.records import Sample
from core.units import MILLISECOND_NS, SECOND_NS
from studies.placement.accounts import Event, accounts, ownership, read_events, read_records
from studies.placement.asked import PlacementJournal, PlacementRequest
from studies.placement.script import BrokerAt, Deed, Script, TopicAt, deeds_of, write_script
from studies.placement.servers import Servers, profile_of
from systems.placement.cast import cast_of
from testbed.api import Testbed
from testbed.brokers import nsq
from testbed.faults import ClockSkew, Crash, Fault, Handover, Restart, ServerCrash
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.play import Observer, Play
from testbed.servers.found import check_servers
from testbed.trust.observed import HANDOVER_LATENESS, Findings

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
            timeline = _Run(site, servers, fleet, asked)
            timeline.carry_out()
            observer.findings.lost_agents = servers.lost()
            fleet.statuses("finish")
            observer.findings.broker_stats = {
                broker.name: servers.brokers.stats(number) for number, broker in enumerate(servers.brokers)
            }
            journal = timeline.journal(script, observer.findings)
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


class _Run:
    def __init__(self, site: Site, servers: Servers, fleet: NodeFleet, asked: PlacementRequest):
        self._site, self._servers, self._fleet, self._asked = site, servers, fleet, asked
        self._faults: list[tuple[int, Fault]] = []
        self._samples: list[Sample] = []
        self._play = Play(fleet.check)

    def carry_out(self) -> None:
        """From time 0 until what was sent has come."""
        for move in self._asked.handovers():
            self._play.plan(move.at_ns, partial(self._move, move))
        for fault in self._asked.faults:
            self._play.plan(fault.at_ns, partial(self._fail, fault))
        self._site.epoch_ns = self._play.begin(LEAD_NS)
        self._fleet.go(self._site.epoch_ns, {})
        self._play.until(self._asked.duration_ns + SETTLE_NS)

    def _move(self, move: Handover) -> None:
        self._site.apply(move)
        late_ns = self._play.now_ns() - move.at_ns
        self._samples.append((move.at_ns, move.host, HANDOVER_LATENESS, float(late_ns)))

    def _fail(self, fault: Fault) -> None:
        if isinstance(fault, Crash):
            self._faults.append((self._play.now_ns(), fault))
            self._servers.crash(fault.node)
            self._fleet.crash(fault.node)
            return
        if isinstance(fault, Restart):
            self._servers.restart(fault.node)
            self._fleet.restart(fault)
        else:
            self._site.apply(fault)
        self._faults.append((self._play.now_ns(), fault))

    def journal(self, script: Script, findings: Findings) -> PlacementJournal:
        """What everybody wrote down, brought home."""
        until_ns, folder = self._asked.duration_ns, self._site.folder / "clients"
        told = accounts(script, read_records(self._site, folder, script.clients), self._asked.load.topics)
        crashes = [Event(at_ns, fault.node, "crash") for at_ns, fault in self._faults if isinstance(fault, Crash)]
        events = read_events(self._site, folder, script.brokers)
        spells, samples = ownership(
            [*events, *(crash for crash in crashes if crash.broker in script.brokers)], until_ns
        )
        samples += self._samples
        for name in self._fleet.names:
            samples += [(at_ns, name, metric, value) for at_ns, metric, value in self._fleet.records(name).samples]
        samples = [row for row in samples if row[0] <= until_ns] + told.samples
        samples.sort(key=lambda row: row[:3])
        findings.played(self._play.epoch_ns, self._play.epoch_ns + until_ns)
        findings.late(told.lateness_ns)
        findings.account = told.account
        findings.disturbed(self._play.epoch_ns, self._faults)
        holders = {*script.brokers, script.store}  # without the store brokers begin anew
        findings.broker_killed = any(crash.broker in holders for crash in crashes)
        findings.handover_lateness_ns = [late for _, _, metric, late in self._samples if metric == HANDOVER_LATENESS]
        return PlacementJournal(samples, spells, told.fates, self._faults)


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
    if not profile_of(asked.config):
        raise SpecError(f"probe = {asked.config.probe!r}: no profile of Serf probes so often", "use 1s or 5s")
    for name in (*asked.load.homes, *(topic.name for topic in asked.load.topics)):
        try:
            nsq.name_bytes(name)
        except ValueError as error:
            raise SpecError(str(error), "name topics and clients so that NSQ takes them") from None
