"""Runs a control plane that places topics with real processes: ``studies.placement.virtual``, live.

A process a node, driven over TCP; beside the store a ZooKeeper, beside each coordinate agent a Serf agent, beside each
broker's node the broker itself.  Clients' processes carry their data as well.  Everybody is told beforehand what to do
and when; while the run lasts, the harness lets faults and handovers happen, and else waits.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.probes import Seen
from collectors.writer import read_logs
from core.clients import ClientLoad, Happening, Moved
from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.api import LiveBody
from studies.placement.accounts import read_accounts, read_ownership
from studies.placement.asked import PlacementJournal, PlacementRequest, Placing, wanted_report
from studies.placement.script import SERVICE, Deed, Script, TopicAt, write_script
from studies.placement.servers import Servers, profile_of
from systems.api import System
from systems.placement.cast import cast_of
from testbed.api import Testbed
from testbed.brokers import nsq
from testbed.faults import ClockSkew, Crash, Fault, Handover, Restart
from testbed.hosts.loop import Clock
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.planes import STAND_INS
from testbed.topologies.places import EdgeSite as Place
from testbed.topologies.places import sites
from testbed.trust.observed import Findings

LEAD_NS = SECOND_NS  # from the last word before the run to its time 0
SETTLE_NS = 3 * SECOND_NS  # after the last message: what is under way comes, or is cut off
WARM_UP_ROUND_S = 1.0  # ePulsar 5.5.1: a probe a second; real agents are given as many seconds
_POLL_NS = SECOND_NS // 4
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


def check_names(load: ClientLoad, config: Any) -> None:
    """SpecError for what the servers of a run do not take."""
    if not profile_of(config):
        raise SpecError(f"probe = {config.probe!r}: no profile of Serf probes so often", "use 1s or 5s")
    for name in (*load.homes, *(topic.name for topic in load.topics)):
        try:
            nsq.name_bytes(name)
        except ValueError as error:
            raise SpecError(str(error), "name topics and clients so that NSQ takes them") from None


def run_placement_live(site: Site, system: System, config: Any, load: ClientLoad, placing: Placing) -> PlacementJournal:
    """As ``run_placement`` of virtual time, on a site whose topology has the clients' hosts.

    LinkError where a path is not as the topology wants it; MachineError where a process ends on its own.
    """
    places, happenings = sites(site.topology), load.happenings(placing.duration_ns)
    tightest_ns = min(topic.bound_ns for topic in load.topics)
    findings = Findings(min(SCALE_MOST_NS, tightest_ns // _SCALE_SHARE), site.verify())
    options = replace(config, drain=True)
    with ExitStack() as stack:
        servers = Servers(site, options, site.memory)
        stack.callback(servers.close)
        joined_s = time.monotonic()
        fleet = NodeFleet(site, system, options, placing.seed)
        stack.callback(fleet.stop)
        fleet.start([fault for fault in placing.faults if isinstance(fault, Restart)])
        script = _script(site, servers, places, load, happenings, placing, options)
        path = site.folder / "placement.json"
        write_script(path, script)
        fleet.services[SERVICE] = [str(path)]
        fleet.connect()
        _sleep(joined_s + placing.warm_up_rounds * WARM_UP_ROUND_S - time.monotonic())
        with site.watched() as watch:
            run = _Run(site, servers, fleet, places, happenings, placing)
            run.play()
            fleet.statuses("finish")
            findings.broker_stats = {name: broker.stats() for name, broker in servers.brokers.items()}
            findings.site_counters = site.counters()
        return _journal(run, script, load, happenings, placing, findings, watch.seen())


def _script(
    site: Site,
    servers: Servers,
    places: Sequence[Place],
    load: ClientLoad,
    happenings: Iterable[Happening],
    placing: Placing,
    options: Any,
) -> Script:
    deeds = {client: [Deed(0, proxy=places[home].proxy)] for client, home in load.homes.items()}
    for happening in happenings:
        if isinstance(happening, Moved):
            deed = Deed(happening.at_ns, proxy=places[happening.site].proxy)
        else:
            report = wanted_report(happening, places)
            deed = Deed(happening.at_ns, "", happening.topic, happening.role, getattr(report, "wanted", True))
        deeds[happening.client].append(deed)
    folder = site.folder / "clients"
    folder.mkdir(exist_ok=True)
    return Script(
        placing.seed,
        placing.duration_ns,
        str(folder.resolve()),
        servers.token,
        {topic.name: TopicAt(topic.rate_rps, topic.size_bytes) for topic in load.topics},
        {client: tuple(its) for client, its in deeds.items()},
        {name: broker.at for name, broker in servers.brokers.items()},
        servers.store,
        servers.zookeeper.at,
        options.span("session"),
        {name: server.rpc_at for name, server in servers.serf.servers.items()},
    )


class _Run:
    """The instants of one run: handovers and faults."""

    def __init__(
        self,
        site: Site,
        servers: Servers,
        fleet: NodeFleet,
        places: Sequence[Place],
        happenings: Iterable[Happening],
        placing: Placing,
    ):
        self._site, self._servers, self.fleet, self._placing = site, servers, fleet, placing
        moves = [(its.at_ns, self._mover(its.client, places[its.site].name))
                 for its in happenings if isinstance(its, Moved)]  # fmt: skip
        faults = [(fault.at_ns, self._failer(fault)) for fault in placing.faults]
        self._to_come = deque(sorted([*moves, *faults], key=lambda row: row[0]))
        self.faults: list[tuple[int, Any]] = []
        self.handover_lateness_ns: list[tuple[int, str, int]] = []
        self.epoch_ns = 0
        self._clock: Clock

    def play(self) -> None:
        """From time 0 until what was sent has come."""
        self.epoch_ns = time.time_ns() + LEAD_NS
        self._clock = Clock(self.epoch_ns)
        self.fleet.go(self.epoch_ns, {})
        end_ns = self._placing.duration_ns + SETTLE_NS
        while (now_ns := self._clock.now_ns()) < end_ns:
            if self._to_come and self._to_come[0][0] <= now_ns:
                at_ns, happen = self._to_come.popleft()
                happen(at_ns)
                continue
            next_ns = min(end_ns, self._to_come[0][0]) if self._to_come else end_ns
            _sleep(min(_POLL_NS, next_ns - now_ns) / SECOND_NS)
            self.fleet.check()

    def _mover(self, client: str, point: str) -> Callable[[int], None]:
        def move(at_ns: int) -> None:
            self._site.apply(Handover(at_ns, client, point))
            self.handover_lateness_ns.append((at_ns, client, self._clock.now_ns() - at_ns))

        return move

    def _failer(self, fault: Fault) -> Callable[[int], None]:
        def fail(at_ns: int) -> None:
            match fault:
                case Crash(_, node):
                    self.faults.append((self._clock.now_ns(), fault))
                    self._servers.crash(node)
                    self.fleet.crash(node)
                    return
                case Restart(_, node):
                    self._servers.restart(node)
                    self.fleet.restart(fault)
                case _:
                    self._site.apply(fault)
            self.faults.append((self._clock.now_ns(), fault))

        return fail


def _journal(
    run: _Run,
    script: Script,
    load: ClientLoad,
    happenings: list[Happening],
    placing: Placing,
    findings: Findings,
    seen: Seen,
) -> PlacementJournal:
    accounts = read_accounts(script)
    fates = accounts.fates(load.topics)
    crashes = [(at_ns, fault.node) for at_ns, fault in run.faults if isinstance(fault, Crash)]
    ownership = read_ownership(script, [(at_ns, node) for at_ns, node in crashes if node in script.brokers])
    samples = [
        (at_ns, name, metric, value)
        for name in run.fleet.names
        for at_ns, metric, value in run.fleet.records(name).samples
    ]
    samples += [
        (at_ns, client, "handover_lateness_ns", float(late)) for at_ns, client, late in run.handover_lateness_ns
    ]
    samples = [row for row in [*samples, *ownership.samples] if row[0] <= placing.duration_ns] + accounts.samples()
    findings.played(run.epoch_ns, run.epoch_ns + placing.duration_ns)
    findings.late(accounts.lateness_ns())
    findings.account = accounts.account
    findings.faulty = bool(run.faults)
    findings.broker_killed = bool(crashes)  # or the store, without which brokers begin anew
    evidence = findings.evidence(seen, read_logs(Path(script.folder).parent / "logs"))
    samples.sort(key=lambda row: row[:3])
    return PlacementJournal(samples, ownership.spells, happenings, fates, run.faults, evidence=evidence)


def _sleep(span_s: float) -> None:
    """Also where nothing is left to sleep."""
    if span_s > 0:
        time.sleep(span_s)


def run(site: Site, asked: PlacementRequest) -> PlacementJournal:
    """See ``run_placement_live``."""
    return run_placement_live(site, asked.system, asked.config, asked.load, asked.placing)


def check(testbed: Testbed, asked: PlacementRequest) -> None:
    """SpecError for what real processes, or their servers, cannot do."""
    if not testbed.has_our_files:
        raise SpecError(f"testbed {testbed.name} runs no placements", "use --testbed mininet, local or virtual")
    if asked.system.key not in STAND_INS:
        fix = "use --testbed virtual, or give it a line in testbed/nodes/planes.py"
        raise SpecError(f"nobody knows the data plane of {asked.system.key} on testbed {testbed.name}", fix)
    check_wishes(asked.placing, testbed.has_links)
    check_names(asked.load, asked.config)


BODY = LiveBody(run, check)
