"""Runs a limiter on a request workload with real processes: ``studies.limiting.virtual``, live.

A process a node, and one a host for the users of its nodes; restarted nodes wait from the beginning,
loaded and warm, for their instant.  While the load runs, nodes and users are told of nothing but faults.
"""

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.errors import MachineError, SpecError
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting.users import NEVER, write_requests
from studies.limiting.virtual import SETTLE_NS, RequestJournal, check_places, clock_offsets_ns
from systems.api import System, Transport, Verdict
from testbed.faults import ClockSkew, Crash, Fault, Restart, check_faults
from testbed.hosts.agent import Agent
from testbed.hosts.loop import Clock
from testbed.hosts.site import Program, Site
from testbed.nodes.fleet import LOAD_S, NodeFleet
from testbed.nodes.journal import Journal
from testbed.topologies.topology import Topology
from testbed.trust.replicas import replica_rows

LEAD_NS = SECOND_NS // 2  # from the last word before the load to the epoch
_POLL_NS = 250 * MILLISECOND_NS
_POLL_S = _POLL_NS / SECOND_NS
_STILL_NS = 250 * MILLISECOND_NS  # beyond the longest way there and back: nothing came, so nothing is under way
_PRIORITY = 1  # users mostly sleep, and must not wait for the nodes that they load
_COMMAND = (sys.executable, "-m", "studies.limiting.users")


@dataclass(frozen=True)
class LiveRequestJournal(RequestJournal):
    """A request run with real processes.

    ``users``: request id -> instants sent and received (None: it was not).  ``states``: the snapshots of
    the nodes at the end.  ``epoch_ns``: the run's time 0 on the real-time clock.
    """

    users: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    epoch_ns: int = 0

    def lateness_ns(self) -> list[int]:
        """How late each request was sent."""
        offered = self.journal.offered
        return [sent - offered[number][1].at_ns for number, (sent, _) in self.users.items() if sent is not None]

    def requests(self) -> dict[str, list[Any]]:
        """Columns of ``requests``."""
        rows = super().requests()
        pairs = [self.users.get(request_id, (None, None)) for request_id in rows["request_id"]]
        rows["sent_at_ns"] = [sent for sent, _ in pairs]
        rows["received_at_ns"] = [received for _, received in pairs]
        return rows


class _Users:
    """The processes that stand for the users, one on each host that has requests."""

    def __init__(self, site: Site, fleet: NodeFleet):
        self._site, self._fleet, self._folder = site, fleet, fleet.folder
        self._agents: dict[str, Agent] = {}

    def start(self, requests: Mapping[str, Sequence[Request]]) -> None:
        """Start the processes, give them their requests, and connect them to their nodes."""
        by_host: dict[str, dict[str, list[Any]]] = {}
        for node, offered in requests.items():
            if offered:
                path = self._folder / f"{node}.requests"
                write_requests(path, offered)
                host = self._site.topology.host_of(node)
                at = [*self._fleet.address_of(node), self._site.put(host, path)]
                by_host.setdefault(host, {})[node] = at
        for host in by_host:
            self._agents[host] = self._site.start(host, Program(f"users-{host}", _COMMAND, fifo_priority=_PRIORITY))
        for host, agent in self._agents.items():
            agent.ready(LOAD_S)
            agent.ask("configure", LOAD_S, token=self._fleet.token, nodes=by_host[host])

    def go(self, epoch_ns: int) -> None:
        """Let the load begin."""
        for host, agent in self._agents.items():
            agent.ask("go", epoch_ns=epoch_ns + self._site.clock_offset_ns(host))

    def check(self) -> None:
        """MachineError where a process has ended."""
        for agent in self._agents.values():
            if not agent.alive:
                raise MachineError(f"{agent.name} has ended (code {agent.exit_code})", f"see {agent.log}")

    def to_come_count(self) -> int:
        """Requests that are not sent yet."""
        return sum(agent.ask("status")["to_come_count"] for agent in self._agents.values())

    def collect(self) -> list[list[int]]:
        """The rows that ``RequestHost.collect`` writes."""
        rows: list[list[int]] = []
        for host, agent in self._agents.items():
            path = self._folder / f"{host}.users.npz"
            agent.ask("collect", LOAD_S, path=self._site.place(host, path))
            self._site.fetch(host, path)
            with np.load(path) as found:
                rows += found["rows"].tolist()
        return rows

    def stop(self) -> None:
        """End the processes."""
        for agent in self._agents.values():
            self._site.forget(agent.name)


class _Run:
    """The instants of one run: faults, the end of the load, the drain."""

    def __init__(self, site: Site, fleet: NodeFleet, users: _Users, faults: Sequence[Fault]):
        self.journal = Journal()
        self._site, self._fleet, self._users = site, fleet, users
        self._to_come = deque(faults)
        self._clock: Clock
        self._epoch_ns = 0

    def begin(self, offsets_ns: Mapping[str, int]) -> None:
        """Agree on the epoch with everybody."""
        self._epoch_ns = time.time_ns() + LEAD_NS
        self._clock = Clock(self._epoch_ns)
        self._fleet.go(self._epoch_ns, offsets_ns)
        self._users.go(self._epoch_ns)

    def now_ns(self) -> int:
        """The run's time."""
        return self._clock.now_ns()

    def wait_until(self, at_ns: int) -> None:
        """Sleep, let faults happen, and look whether everybody lives; ends at the instant, or raises."""
        while (now_ns := self._clock.now_ns()) < at_ns:
            if self._to_come and self._to_come[0].at_ns <= now_ns:
                self._apply(self._to_come.popleft())
                continue
            next_ns = min(at_ns, self._to_come[0].at_ns) if self._to_come else at_ns
            time.sleep(min(_POLL_S, (next_ns - now_ns) / SECOND_NS))
            self._fleet.check()
            self._users.check()

    def drain(self, load_end_ns: int, drain_ns: int) -> None:
        """Wait until nothing is left to send and nothing is under way, as the virtual run does."""
        still_ns = _STILL_NS + 4 * _longest_delay_ns(self._site.topology)
        before, since_ns = None, 0
        while True:
            now_ns, found = self._clock.now_ns(), list(self._fleet.statuses().values())
            counts = [(of["sent_to"], of["received_from"]) for of in found]
            if counts != before:
                before, since_ns = counts, now_ns
            knows = all(of["idle"] is not None for of in found)
            quiet = now_ns - since_ns >= still_ns and not any(of["unsent_bytes"] for of in found)
            over = not self._to_come and self._users.to_come_count() == 0
            if over and quiet and all(of["idle"] for of in found):
                latest_ns = max((of["last_traffic_ns"] for of in found), default=0)
                self.journal.samples.append((now_ns, "", "convergence_ns", float(latest_ns)))
                return
            end_ns = load_end_ns + (drain_ns if knows else min(drain_ns, SETTLE_NS))
            if now_ns >= end_ns:
                return
            self.wait_until(min(end_ns, now_ns + _POLL_NS))

    def take_home(self, requests: Mapping[str, Sequence[Request]]) -> LiveRequestJournal:
        """What nodes and users have written down."""
        states, journal = self._fleet.states(), self.journal
        statuses = self._fleet.statuses("finish")
        now_ns = self._clock.now_ns()
        for name in self._fleet.names:
            records = self._fleet.records(name)
            journal.samples += [(at_ns, name, metric, value) for at_ns, metric, value in records.samples]
            journal.commands += [(at_ns, name, command) for at_ns, command in records.commands]
            journal.verdicts.update({number: (at_ns, name, verdict) for at_ns, number, verdict in records.verdicts})
        if self._fleet.transport is Transport.DATAGRAM:
            once = [name for name in statuses if self._fleet.lives_count(name) == 1]
            journal.samples += _lost_on_the_way({name: statuses[name] for name in once}, now_ns)
        journal.samples.sort(key=lambda row: row[:3])
        offered = [(request.at_ns, node, request) for node, of in requests.items() for request in of]
        for _, node, request in sorted(offered, key=lambda row: row[0]):
            journal.offered[request.id] = node, request
        users = {}
        for number, sent_ns, decided_ns, received_ns, admitted in self._users.collect():
            users[number] = _instant(sent_ns), _instant(received_ns)
            if received_ns != NEVER:
                verdict = Verdict.ADMIT if admitted else Verdict.REJECT
                journal.verdicts[number] = decided_ns, journal.offered[number][0], verdict
        return LiveRequestJournal(journal, users, states, self._epoch_ns)

    def _apply(self, fault: Fault) -> None:
        match fault:
            case Crash(_, node):
                self._fleet.crash(node)
            case Restart():
                self._fleet.restart(fault)
            case ClockSkew(_, node, offset_ns):
                self._fleet.skew(node, offset_ns)
            case _:
                self._site.apply(fault)
        self.journal.faults.append((self._clock.now_ns(), fault))


def run_requests_live(
    site: Site,
    system: System,
    config: Any,
    topology: Topology,
    requests: Mapping[str, Sequence[Request]],
    duration_ns: int,
    seed: int,
    faults: Iterable[Fault] = (),
    drain_ns: int = 0,
    clock_skew_ns: int = 0,
    compare_replicas: bool = False,
) -> LiveRequestJournal:
    """As ``studies.limiting.virtual.run_requests``, with the processes and links of ``site``.

    The same requests, seeds of nodes, clock offsets and faults; instants are those at which things
    really happened.  A request at a node that is down is lost.  SystemFault where a node breaks a rule,
    MachineError where a process ends on its own.
    """
    check_places(requests, topology)
    offered = {node: [request for request in of if request.at_ns <= duration_ns] for node, of in requests.items()}
    _check_requests(offered)
    planned = check_faults(faults, topology)
    with ExitStack() as stack:
        fleet = NodeFleet(site, system, config, seed)
        stack.callback(fleet.stop)
        fleet.start([fault for fault in planned if isinstance(fault, Restart)])
        fleet.connect()
        users = _Users(site, fleet)
        stack.callback(users.stop)
        with fleet.blamed():
            users.start(offered)
        run = _Run(site, fleet, users, planned)
        run.begin(clock_offsets_ns(seed, fleet.names, clock_skew_ns))
        run.wait_until(duration_ns)
        last_ns = max((of[-1].at_ns for of in offered.values() if of), default=0)
        run.journal.samples.append((duration_ns, "", "load_end_ns", float(last_ns)))
        run.drain(duration_ns, drain_ns)
        found = run.take_home(offered)
        if compare_replicas:
            found.journal.samples.extend(replica_rows(system, config, found.states, run.now_ns()))
        return found


def _check_requests(requests: Mapping[str, Sequence[Request]]) -> None:
    """SpecError for what the virtual run refuses as well: requests out of order, or offered twice."""
    known: set[int] = set()
    for node, offered in requests.items():
        latest_ns = 0
        for request in offered:
            if request.at_ns < latest_ns:
                raise SpecError(f"request {request.id} at {node} is out of order", "offer requests in order of time")
            if request.id in known:
                raise SpecError(f"request {request.id} is offered twice", "ids are unique over all nodes")
            latest_ns = request.at_ns
            known.add(request.id)


def _longest_delay_ns(topology: Topology) -> int:
    """One way, with the worst jitter."""
    names = topology.node_names()
    paths = [topology.path(source, target) for source in names for target in names]
    return max(path.one_way_delay_ns + path.jitter_ns for path in paths)


def _lost_on_the_way(found: Mapping[str, Mapping[str, Any]], now_ns: int) -> list[tuple[int, str, str, float]]:
    """Datagrams that one node sent and another did not get, for pairs that have lived through the run."""
    rows = []
    for source, status in found.items():
        lost = sum(
            count - found[target]["received_from"].get(source, 0)
            for target, count in status["sent_to"].items()
            if target in found
        )
        if lost > 0:
            rows.append((now_ns, source, "lost_count", float(lost)))
    return rows


def _instant(at_ns: int) -> int | None:
    return None if at_ns == NEVER else at_ns
