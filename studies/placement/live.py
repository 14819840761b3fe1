"""Runs a control plane that places topics with real processes: ``studies.placement.virtual``, live.

A process a node, driven over TCP; beside the store a ZooKeeper, beside each coordinate agent a Serf agent, beside each
broker's node the broker itself.  Clients' processes carry their data as well.  Everybody is told beforehand what to do
and when; while the run lasts, the harness lets faults and handovers happen, and else waits.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from core.clients import ClientLoad, Happening, Joined, Moved
from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.api import LiveBody
from studies.placement.accounts import Event, accounts, ownership, read_events, read_records
from studies.placement.asked import PlacementJournal, PlacementRequest, Placing
from studies.placement.script import BrokerAt, Deed, Script, TopicAt, write_script
from studies.placement.servers import Servers, profile_of
from systems.placement.cast import cast_of
from systems.placement.options import Options
from testbed.api import Testbed
from testbed.brokers import nsq
from testbed.faults import ClockSkew, Crash, Fault, Handover, Restart
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.play import Observer, Play
from testbed.servers.server import check_servers
from testbed.topologies.places import EdgeSite as Place
from testbed.topologies.places import sites
from testbed.trust.observed import Findings

LEAD_NS = SECOND_NS  # from the last word before the run to its time 0
SETTLE_NS = 3 * SECOND_NS  # after the last message: what is under way comes, or is cut off
WARM_UP_ROUND_S = 1.0  # ePulsar 5.5.1: a probe a second; real agents are given as many seconds
_SCALE_SHARE = 10  # ours: a latency matters that is a tenth of the tightest bound, or
SCALE_MOST_NS = 10 * MILLISECOND_NS  # this much: control planes take round trips of tens of milliseconds


def check_wishes(placing: Placing, has_links: bool) -> None:
    """SpecError for what of a run real processes cannot do."""
    if placing.record:
        raise SpecError("live runs keep no messages of the control plane", "leave record out, or use --testbed virtual")
    if placing.bookies:
        raise SpecError("live brokers have no bookies", "use --testbed virtual, or bookies = 0")
    for fault in placing.faults:
        if isinstance(fault, ClockSkew):
            raise SpecError(f"{fault}: clocks of live placement runs are the machine's", "use --testbed virtual")
        if isinstance(fault, Crash | Restart):
            if cast_of([fault.node]).clients:
                raise SpecError(f"{fault}: clients are not crashed live", "crash a broker, the store or an agent")
        elif not has_links:
            raise SpecError(f"{fault}: there are no links to change", "use --testbed mininet, or virtual")


def check_names(load: ClientLoad, config: Options) -> None:
    """SpecError for what the servers of a run do not take."""
    if not profile_of(config):
        raise SpecError(f"probe = {config.probe!r}: no profile of Serf probes so often", "use 1s or 5s")
    for name in (*load.homes, *(topic.name for topic in load.topics)):
        try:
            nsq.name_bytes(name)
        except ValueError as error:
            raise SpecError(str(error), "name topics and clients so that NSQ takes them") from None


def run(site: Site, asked: PlacementRequest) -> PlacementJournal:
    """As in virtual time, on a site whose topology has the clients' hosts.

    LinkError where a path is not as the topology wants it; MachineError where a process ends on its own.
    """
    load, placing = asked.load, asked.placing
    tightest_ns = min(topic.bound_ns for topic in load.topics)
    observer = Observer(site, min(SCALE_MOST_NS, tightest_ns // _SCALE_SHARE))
    options = replace(asked.config, drain=True)
    with ExitStack() as stack:
        servers = Servers(site, options)
        stack.callback(servers.close)
        joined_s = time.monotonic()
        fleet = NodeFleet(site, asked.system, options, placing.seed)
        stack.callback(fleet.stop)
        fleet.start([fault for fault in placing.faults if isinstance(fault, Restart)])
        places = sites(site.topology)
        script = _script(servers, places, load, placing, options)
        fleet.script = site.folder / "clients" / "script.json"
        write_script(fleet.script, script)
        fleet.connect()
        time.sleep(max(0.0, joined_s + placing.warm_up_rounds * WARM_UP_ROUND_S - time.monotonic()))
        with observer.watch:
            timeline = _Run(site, servers, fleet, placing)
            timeline.carry_out(places, load.happenings(placing.duration_ns))
            fleet.statuses("finish")
            observer.findings.broker_stats = {
                broker.name: servers.brokers.stats(number) for number, broker in enumerate(servers.brokers)
            }
            journal = _journal(timeline, script, load, placing, observer.findings)
        return replace(journal, evidence=observer.evidence())


def _script(servers: Servers, places: Sequence[Place], load: ClientLoad, placing: Placing, options: Options) -> Script:
    deeds = {client: [Deed(0, proxy=places[home].proxy)] for client, home in load.homes.items()}
    for happening in load.happenings(placing.duration_ns):
        if isinstance(happening, Moved):
            deed = Deed(happening.at_ns, proxy=places[happening.site].proxy)
        else:
            deed = Deed(happening.at_ns, "", happening.topic, happening.role, isinstance(happening, Joined))
        deeds[happening.client].append(deed)
    return Script(
        placing.seed,
        placing.duration_ns,
        servers.brokers.token,
        {topic.name: TopicAt(topic.rate_rps, topic.size_bytes) for topic in load.topics},
        {client: tuple(theirs) for client, theirs in deeds.items()},
        {broker.name: BrokerAt(broker.ingress, broker.nsqd, broker.control_port) for broker in servers.brokers},
        servers.store,
        servers.zookeeper.at,
        options.span("session"),
        {name: server.rpc_at for name, server in servers.serf.servers.items()},
    )


class _Run:
    """One run: its play, and what has happened."""

    def __init__(self, site: Site, servers: Servers, fleet: NodeFleet, placing: Placing):
        self.site, self._servers, self.fleet, self._placing = site, servers, fleet, placing
        self.folder = site.folder / "clients"  # of what clients and brokers write
        self.faults: list[tuple[int, Fault]] = []
        self.handover_lateness_ns: list[tuple[int, str, int]] = []
        self.play = Play(fleet.check)

    def carry_out(self, places: Sequence[Place], happenings: Iterable[Happening]) -> None:
        """From time 0 until what was sent has come."""
        for happening in happenings:
            if isinstance(happening, Moved):
                move = Handover(happening.at_ns, happening.client, places[happening.site].name)
                self.play.plan(happening.at_ns, partial(self._move, move))
        for fault in self._placing.faults:
            self.play.plan(fault.at_ns, partial(self._fail, fault))
        self.fleet.go(self.play.begin(LEAD_NS), {})
        self.play.until(self._placing.duration_ns + SETTLE_NS)

    def _move(self, move: Handover) -> None:
        self.site.apply(move)
        self.handover_lateness_ns.append((move.at_ns, move.host, self.play.now_ns() - move.at_ns))

    def _fail(self, fault: Fault) -> None:
        match fault:
            case Crash(_, node):
                self.faults.append((self.play.now_ns(), fault))
                self._servers.crash(node)
                self.fleet.crash(node)
                return
            case Restart(_, node):
                self._servers.restart(node)
                self.fleet.restart(fault)
            case _:
                self.site.apply(fault)
        self.faults.append((self.play.now_ns(), fault))


def _journal(run: _Run, script: Script, load: ClientLoad, placing: Placing, findings: Findings) -> PlacementJournal:
    """What everybody wrote down, brought home."""
    told = accounts(script, read_records(run.site, run.folder, script.clients), load.topics)
    crashes = [Event(at_ns, fault.node, "crash") for at_ns, fault in run.faults if isinstance(fault, Crash)]
    events = read_events(run.site, run.folder, script.brokers)
    owned = ownership([*events, *(crash for crash in crashes if crash.broker in script.brokers)], script.until_ns)
    samples = [
        (at_ns, name, metric, value)
        for name in run.fleet.names
        for at_ns, metric, value in run.fleet.records(name).samples
    ]
    samples += [
        (at_ns, client, "handover_lateness_ns", float(late)) for at_ns, client, late in run.handover_lateness_ns
    ]
    samples = [row for row in [*samples, *owned.samples] if row[0] <= placing.duration_ns] + told.samples
    samples.sort(key=lambda row: row[:3])
    findings.played(run.play.epoch_ns, run.play.epoch_ns + placing.duration_ns)
    findings.late(told.lateness_ns)
    findings.account = told.account
    findings.faulty = bool(run.faults)
    findings.broker_killed = bool(crashes)  # or the store, without which brokers begin anew
    return PlacementJournal(samples, owned.spells, load.happenings(placing.duration_ns), told.fates, run.faults)


def check(testbed: Testbed, asked: PlacementRequest) -> None:
    """SpecError for what real processes, or their servers, cannot do."""
    check_servers(asked.system, testbed.name, is_real=True, commands=True)
    check_wishes(asked.placing, testbed.has_links)
    check_names(asked.load, asked.config)


BODY = LiveBody(run, check)
