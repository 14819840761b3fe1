"""Runs a limiter on a request workload with real processes: ``studies.limiting.virtual``, live.

A process a node, and one a host for the users of its nodes; restarted nodes wait from the beginning,
loaded and warm, for their instant.  While the load runs, nodes and users are told of nothing but faults.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise

from core.errors import MachineError, SpecError
from core.records import Json, Request
from core.units import MILLISECOND_NS
from studies.limiting.accounts import lost_on_the_way, records_of
from studies.limiting.asked import SETTLE_NS, Limiting, RequestJournal, clock_offsets_ns
from studies.limiting.users import write_requests
from systems import SYSTEMS
from systems.api import Transport
from systems.loader import name_of
from testbed.api import Testbed
from testbed.brokers.traffic import STATUS_S, Crew
from testbed.faults import ClockSkew, Crash, Fault, Restart, ServerCrash
from testbed.hosts.site import Program, Site
from testbed.links import held_ns, longest_delay_ns
from testbed.nodes.fleet import LOAD_S, NodeFleet
from testbed.nodes.journal import NodeJournal
from testbed.play import Observer, Play, Progress
from testbed.servers.found import check_servers, server_versions
from testbed.trust.fidelity import SCALE_NS
from testbed.trust.replicas import replica_rows

_STILL_NS = 250 * MILLISECOND_NS  # beyond the longest way there and back: nothing came, so nothing is under way
_BEFORE_NS = 100 * MILLISECOND_NS  # reading counters takes the processor for some milliseconds, which the load wants
_PRIORITY = 1  # users mostly sleep, and must not wait for the nodes that they load
_COMMAND = (sys.executable, "-m", "studies.limiting.users")


class _Users(Crew):
    """The processes that stand for the users, one on each host that has requests."""

    def __init__(self, site: Site, fleet: NodeFleet, requests: Mapping[str, Sequence[Request]]):
        by_host: dict[str, dict[str, tuple[str, int, str]]] = {}
        for node, offered in requests.items():
            if offered:
                path = fleet.folder / f"{node}.requests"
                write_requests(path, offered)
                host = site.topology.host_of(node)
                by_host.setdefault(host, {})[node] = *fleet.address_of(node), site.put(host, path)
        programs = {host: Program(f"users-{host}", _COMMAND, fifo_priority=_PRIORITY) for host in by_host}
        super().__init__(site, {host: site.start(host, program) for host, program in programs.items()})
        self._told: dict[str, Json] = {host: {"token": fleet.token, "nodes": by_host[host]} for host in by_host}

    def connect(self) -> None:
        """Connect the users to their nodes; MachineError where one cannot be reached."""
        self.ask_all("configure", LOAD_S, self._told.__getitem__)

    def go(self, epoch_ns: int) -> None:
        """Let the load begin."""
        self.ask_all("go", STATUS_S, lambda host: {"epoch_ns": epoch_ns + self.site.clock_offset_ns(host)})

    def check(self) -> None:
        """MachineError where a process has ended, or does not answer."""
        for host, agent in self.agents.items():
            if host in self.lost or not agent.alive:
                raise MachineError(f"{agent.name} has ended, or is stuck (code {agent.exit_code})", f"see {agent.log}")

    def to_come_count(self) -> int:
        """Requests that are not sent yet."""
        answers = self.ask_all("status", STATUS_S, lambda host: {})
        return sum(answer["to_come_count"] for answer in answers.values())

    def collect(self) -> list[list[int]]:
        """The rows that ``RequestHost.collect`` writes."""
        _, tables = self.collect_all("users")
        self.check()
        return [row for columns in tables.values() for row in columns["rows"].tolist()]


class _Run:
    """``mark``: reads the counters of processes and networks, and returns when, on the real-time clock."""

    def __init__(self, site: Site, fleet: NodeFleet, users: _Users, asked: Limiting, mark: Callable[[], int]):
        self.journal = NodeJournal()
        self._site, self._fleet, self._users, self._asked, self._mark = site, fleet, users, asked, mark

        def look() -> None:
            fleet.check()
            users.check()

        self._play = Play(look)
        self._play.plan(-_BEFORE_NS, partial(self._count, "counted_from_ns"))
        for fault in asked.faults:
            self._play.plan(fault.at_ns, partial(self._apply, fault))
        longest_ns = longest_delay_ns(site.topology)
        self._still_ns = _STILL_NS + 4 * (longest_ns + held_ns(site.topology, asked.faults, asked.duration_ns))
        answered_ns = asked.duration_ns + 2 * longest_ns
        self._play.plan(answered_ns, partial(self._count, "counted_until_ns"))

    def carry_out(self, last_request_ns: int) -> None:
        """From the epoch until all is still, or the drain is over."""
        asked = self._asked
        epoch_ns = self._site.epoch_ns = self._play.begin(align_ns=asked.align_ns)
        self._fleet.go(epoch_ns, clock_offsets_ns(asked.seed, self._fleet.names, asked.clock_skew_ns))
        self._users.go(epoch_ns)
        self._play.until(asked.duration_ns)
        self.journal.samples.append((asked.duration_ns, "", "load_end_ns", float(last_request_ns)))
        statuses: list[Json] = []

        def progress() -> Progress:
            statuses[:] = self._fleet.statuses().values()
            over = self._play.is_over and self._users.to_come_count() == 0
            return drain_progress(statuses, over, self._still_ns)

        def end_ns() -> int:
            knows = all(status["idle"] is not None for status in statuses)
            return asked.duration_ns + (asked.drain_ns if knows else min(asked.drain_ns, SETTLE_NS))

        if self._play.drain(progress, end_ns):
            latest_ns = max((status["last_traffic_ns"] for status in statuses), default=0)
            self.journal.samples.append((self._play.now_ns(), "", "convergence_ns", float(latest_ns)))
        if all(metric != "counted_until_ns" for _, _, metric, _ in self.journal.samples):  # the drain was shorter
            self._count("counted_until_ns")

    def take_home(self, requests: Mapping[str, Sequence[Request]]) -> RequestJournal:
        """What nodes and users have written down."""
        asked, fleet = self._asked, self._fleet
        lost_servers, states = fleet.lost_servers(), fleet.states()
        if fleet.transport is Transport.DATAGRAM:
            self._let_arrive()
        statuses = fleet.statuses("finish")
        now_ns = self._play.now_ns()
        nodes = {name: fleet.records(name) for name in fleet.names}
        if fleet.transport is Transport.DATAGRAM:
            once = {name: status for name, status in statuses.items() if fleet.lives_count(name) == 1}
            self.journal.samples += lost_on_the_way(once, now_ns)
        timeout_ns = asked.system.timeout_ns(asked.config) if asked.system.timeout_ns else 0
        shown = records_of(requests, nodes, self._users.collect(), self.journal, timeout_ns, asked.topology.links)
        if asked.compare_replicas:
            shown.journal.samples += replica_rows(asked.system, asked.config, states, now_ns)
        return replace(shown, states=states, epoch_ns=self._play.epoch_ns, lost_servers=lost_servers)

    def _let_arrive(self) -> None:
        """Nodes send no more, and what is under way arrives.

        Each is counted at an instant of its own: what was sent from one to the next would seem to be lost.
        """
        self._play.forget()
        end_ns = self._play.now_ns() + SETTLE_NS
        self._fleet.statuses("rest")

        def progress() -> Progress:
            counts = [status["received_from"] for status in self._fleet.statuses().values()]
            return Progress(counts, at_rest=True, rest_ns=self._still_ns)

        self._play.drain(progress, lambda: end_ns)

    def _count(self, metric: str) -> None:
        at_ns = self._mark() - self._play.epoch_ns
        self.journal.samples.append((at_ns, "", metric, float(at_ns)))

    def _apply(self, fault: Fault) -> None:
        match fault:
            case Crash(_, node):
                self._fleet.crash(node)
            case ServerCrash(_, node):
                self._fleet.crash_servers(node)
            case Restart():
                self._fleet.restart(fault)
            case ClockSkew(_, node, offset_ns):
                self._fleet.skew(node, offset_ns)
            case _:
                self._site.apply(fault)
        self.journal.faults.append((self._play.now_ns(), fault))


def run(site: Site, asked: Limiting) -> RequestJournal:
    """As in virtual time, with the processes and links of ``site``, and judged.

    The same requests, seeds of nodes, clock offsets and faults; instants are those at which things
    really happened.  A request at a node that is down is lost.  SystemFault where a node breaks a rule,
    MachineError where a process ends on its own.
    """
    observer = Observer(site, SCALE_NS)
    with observer.watch:
        journal = played(site, asked, observer.watch.mark)
    observer.findings.played(journal.epoch_ns, journal.epoch_ns + asked.duration_ns)
    observer.findings.late(journal.lateness_ns())
    observer.findings.disturbed(journal.epoch_ns, journal.journal.faults)
    observer.findings.answers, observer.findings.lost_agents = journal.answers, journal.lost_servers
    versions = server_versions(asked.system)
    return replace(journal, evidence=replace(observer.evidence(), versions=versions))


def played(site: Site, asked: Limiting, mark: Callable[[], int] = time.time_ns) -> RequestJournal:
    """The run itself: nodes and users up, the load with its faults, the drain, the records.

    ``mark`` is called just before the load and just after it: ``collectors.probes.Probes.mark``.
    """
    requests = {
        node: [request for request in load if request.at_ns <= asked.duration_ns]
        for node, load in asked.requests().items()
    }
    _check_requests(requests)
    others = {name for name, _ in site.processes}  # the testbed's own
    with ExitStack() as stack:
        fleet = NodeFleet(site, asked.system, asked.config, asked.seed)
        stack.callback(fleet.stop)
        for fault in asked.faults:
            if isinstance(fault, ServerCrash):
                fleet.check_server_crash(fault)
        fleet.start([fault for fault in asked.faults if isinstance(fault, Restart)])
        fleet.connect()
        servers = {name for name, _ in site.processes} - others - set(fleet.processes)
        users = _Users(site, fleet, requests)
        stack.callback(users.stop)
        with fleet.blamed():
            users.connect()
        timeline = _Run(site, fleet, users, asked, mark)
        timeline.journal.samples += [(0, name, "node_process_count", 1.0) for name in sorted(fleet.processes)]
        timeline.journal.samples += [(0, name, "server_process_count", 1.0) for name in sorted(servers)]
        timeline.carry_out(max((load[-1].at_ns for load in requests.values() if load), default=0))
        return timeline.take_home(requests)


def check(testbed: Testbed, asked: Limiting) -> None:
    """SpecError for faults that cannot happen there, and for a system that cannot be brought there."""
    if not testbed.has_our_files and name_of(asked.system) not in SYSTEMS:
        fix = "bring it into systems/, or use another testbed"
        raise SpecError(f"{name_of(asked.system)} is not brought to the machines of {testbed.name}", fix)
    check_servers(asked.system, testbed.name)
    of_servers = [fault for fault in asked.faults if isinstance(fault, ServerCrash)]
    if of_servers and not asked.system.servers:
        raise SpecError(f"{of_servers[0]}: system {asked.system.key} asks no server", "crash the node")
    links = [fault for fault in asked.faults if not isinstance(fault, Crash | ServerCrash | Restart | ClockSkew)]
    if links and not testbed.has_links:
        raise SpecError(f"{links[0]}: {testbed.name} has no links to change", "use --testbed mininet, or virtual")


def _check_requests(requests: Mapping[str, Sequence[Request]]) -> None:
    """SpecError for what the virtual run refuses as well: requests out of order, or offered twice."""
    for node, offered in requests.items():
        for before, request in pairwise(offered):
            if request.at_ns < before.at_ns:
                raise SpecError(f"request {request.id} at {node} is out of order", "offer requests in order of time")
    counts = Counter(request.id for offered in requests.values() for request in offered)
    for number, count in counts.items():
        if count > 1:
            raise SpecError(f"request {number} is offered twice", "ids are unique over all nodes")


def drain_progress(statuses: Sequence[Json], over: bool, still_ns: int) -> Progress:
    """How far the drain is, by what nodes say of themselves; ``over``: no request and no fault is to come."""
    counts = [(status["sent_to"], status["received_from"]) for status in statuses]
    unsent = any(status["unsent_bytes"] for status in statuses)
    return Progress(counts, over and not unsent and all(status["idle"] for status in statuses), still_ns)
