"""Hosts as Mininet's network namespaces, with the delays, losses and rates of their topology."""

import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from collectors.procfs import read
from core.errors import MachineError, SpecError
from core.records import Json, Options
from core.registry import hint
from testbed.faults import Fault, Handover
from testbed.findings import Finding
from testbed.hosts.agent import Agent
from testbed.hosts.capabilities import find_capability, probe_beside, probe_capabilities, require, tool
from testbed.hosts.mininet.namespaces import network_of, run_in
from testbed.hosts.mininet.network import NEEDED, MininetNetwork, is_tree
from testbed.hosts.mininet.rules import load_rules, rules_text
from testbed.hosts.mininet.shaping import host_lines, is_limited, unmet_rates
from testbed.hosts.site import PathMeasure, Program, Site, python_agent
from testbed.hosts.state import start_time
from testbed.links import LinkStates, PathState
from testbed.topologies.topology import Topology
from testbed.trust.link_check import check_links, raise_problems

Ends = tuple[str, str]  # of a path: source, target

NETEM, USER_SPACE = "netem", "user-space"
DELAYER = "delayer"
FIFO_PRIORITY = 10
STATS_TIMEOUT_S = 10.0
INTERFACE_METRICS = (  # in the order of /proc/net/dev; sent_bytes alone are those of messages
    *("interface_received_bytes", "received_packet_count", "receive_error_count", "receive_drop_count"),
    *("interface_sent_bytes", "sent_packet_count", "send_error_count", "send_drop_count"),
)
LEAST_DELAY_NS = 50_000  # ours: a path through the bridge takes about as long anyway


def probe() -> list[Finding]:
    """What this testbed needs of the machine: netem or packet queues will do; the rest steadies measurements."""
    delays = ("netem",) if find_capability("netem") else ("iptables", "nfqueue")
    return [*probe_capabilities(*NEEDED, *delays), *probe_beside()]


def check_options(options: Options, topology: Topology) -> None:
    """``delays``, and nothing else; SpecError otherwise."""
    for name, value in options.items():
        if name != "delays":
            raise SpecError(f"testbed mininet has no option {name!r}", hint(name, ("delays",)))
        check_mechanism(value)


def check_mechanism(delays: str) -> str:
    """SpecError where nobody delays packets that way."""
    if delays not in ("", NETEM, USER_SPACE):
        raise SpecError(f"delays {delays!r}", f"take {NETEM!r} or {USER_SPACE!r}")
    return delays


class MininetSite(Site):
    """A topology in network namespaces.  MachineError where the machine lacks something; a context manager.

    ``delays``: who delays, loses and doubles packets: ``netem`` or ``user-space``; empty: netem if the kernel has it.
    """

    def _set_up(self) -> None:
        topology = self.topology
        self.network: MininetNetwork | None = None
        usual = NETEM if find_capability("netem") else USER_SPACE
        self.delays = check_mechanism(self.options.get("delays") or usual)
        require(*(("netem",) if self.delays == NETEM else ("iptables", "nfqueue")))
        self.delayer: Agent | None = None
        self.links_took_ns = 0  # to set up delays, losses and rates, on a network that is up
        self._links = LinkStates(topology)
        self._settings: dict[Ends, PathState] = {}
        self._queued: set[Ends] = set()
        self._changing = threading.RLock()  # faults and counters may come from different threads
        self._shaped: dict[str, list[str]] = {}  # lines of tc, by host
        self._queue = {host.name: number for number, host in enumerate(topology.machines, 1)}
        self.notes += unmet_rates(topology, is_tree(topology))
        self._build()

    # --- hosts -------------------------------------------------------------------------------------------

    def address(self, host: str) -> str:
        """See ``testbed.hosts.site.Site.address``."""
        return self._up.address(self.topology.host_of(host))

    def _prefix(self, host: str, is_limited: bool = True) -> Sequence[str]:
        """Into the host's namespaces; before the network is up: nowhere."""
        if self.network is None:
            return ()
        return (tool("mnexec") or "mnexec", "-a", str(self.network.pid(host)))

    def connect(self, host: str, port: int, timeout_s: float = 5.0) -> socket.socket:
        """See ``testbed.hosts.site.Site.connect``."""
        with network_of(self._up.pid(self.topology.host_of(host))):
            return super().connect(host, port, timeout_s)

    def close(self) -> None:
        """Stop the agents, the delayer last, then the network."""
        try:
            super().close()
        finally:
            self.network = self.delayer = None

    # --- links -------------------------------------------------------------------------------------------

    def verify(self) -> list[PathMeasure]:
        """See ``testbed.hosts.site.Site.verify``.  The delayer counts anew from here on: the load's own lateness."""
        measures = check_links(self)
        raise_problems(measures)
        if self.delayer is not None:
            with self._changing:
                self.delayer.ask("stats", reset=True)
        return measures

    def apply(self, fault: Fault) -> None:
        """See ``testbed.hosts.site.Site.apply``.  A host that moves keeps its address.

        Seamless where links have no rates: delays and losses are of paths.  Where they have, the link itself moves,
        and carries nothing for up to a second.
        """
        with self._changing:
            before = self._links.point_of(fault.host) if isinstance(fault, Handover) else ""
            self._links.apply(fault)
            if isinstance(fault, Handover) and before != fault.point and self._links_limit:
                self._up.move(fault.host, before, fault.point)
            self._update()

    def set_delay(self, a: str, b: str, delay_ns: int) -> None:
        """The link between two hosts (``*`` and ``*``: every link) has another delay from now on."""
        with self._changing:
            self._links.set_delay(a, b, delay_ns)
            self._update()

    def counters(self) -> list[tuple[str, str, float]]:
        """Of interfaces and packet queues by host, and of the delayer: how late it let packets go, what it dropped.

        The delayer's are since ``verify``; of one that has ended, or does not answer, ``alive_count`` 0 is all.
        """
        rows: list[tuple[str, str, float]] = []
        for host in self.topology.machines:
            counted = _kernel_counters(self._up.pid(host.name), self._up.device(host.name))
            rows += [(host.name, metric, value) for metric, value in counted]
        if self.delayer is not None:
            stats: Json = {"alive_count": 0}
            with self._changing, suppress(MachineError):
                stats = {"alive_count": 1, **self.delayer.ask("stats", STATS_TIMEOUT_S)}
            self.delays_late = stats.pop("lateness", ())
            rows += [(DELAYER, name, float(value)) for name, value in stats.items() if name != "ok"]
        return rows

    # --- inside ------------------------------------------------------------------------------------------

    @property
    def _up(self) -> MininetNetwork:
        if self.network is None:
            raise MachineError("the network is down")
        return self.network

    def _build(self) -> None:
        """The delayer starts outside of the network, and beside it: starting takes both a while."""
        if self.delays == USER_SPACE:
            first = self.topology.machines[0].name
            command = python_agent("testbed.hosts.mininet.delayer")
            self.delayer = self.start(first, Program(DELAYER, command, fifo_priority=FIFO_PRIORITY))
        self.network = MininetNetwork(self.topology, self.state.environment, self._holders())
        try:
            for node in self.network.nodes.values():
                number = self.state.making("process", name=f"mininet:{node.name}")
                self.state.made(number, pid=node.pid, started=start_time(node.pid))
                self._undo.callback(self.state.gone, number)
        finally:
            self._undo.callback(self.network.close)  # before the records say that it is gone
        if self.delayer is not None:
            self.delayer.ready()
        began_ns = time.monotonic_ns()
        if self.delayer is not None:
            pids = {host.name: self.network.pid(host.name) for host in self.topology.machines}
            self.delayer.ask("attach", hosts=pids, seed=self.seed)
        self._update()
        self.links_took_ns = time.monotonic_ns() - began_ns

    def _holders(self) -> Mapping[str, int]:
        """Machines whose namespaces are made elsewhere, and a process in each."""
        return {}

    def _update(self) -> None:
        wanted = self._links.states()
        changed = {ends: path for ends, path in wanted.items() if self._settings.get(ends) != path}
        self.topology = self._links.topology
        self._shape(wanted)
        if self.delays == USER_SPACE:
            self._delay(wanted, changed)
        self._settings = wanted

    @property
    def _links_limit(self) -> bool:
        """Whether links hold their rates themselves; otherwise those are of paths."""
        return self._up.is_tree and any(is_limited(link.rate_bps) for link in self.topology.links)

    def _shape(self, wanted: Mapping[Ends, PathState]) -> None:
        """Links that limit do so at both ends; what is of paths, rates or all of netem, is at their sources' ends."""
        network, of_links = self._up, self._links_limit
        ends: list[tuple[str, str, int | None]] = [(name, network.device(name), None) for name in self._queue]
        if of_links:
            ends = [
                (end, device, link.rate_bps)
                for link in self.topology.links
                for end, device in zip((link.a, link.b), network.ports(link.a, link.b), strict=True)
            ]
        lines = {end: list[str]() for end, _, _ in ends}
        for end, device, rate_bps in ends:
            paths = {network.address(b): path for (a, b), path in wanted.items() if a == end}
            if of_links:
                paths = {address: replace(path, rates_bps=()) for address, path in paths.items()}
            has_classes = not of_links and bool(self._shaped.get(end))
            netem = self.delays == NETEM and bool(paths)
            lines[end] += host_lines(device, paths, rate_bps, netem=netem, has_classes=has_classes)
        for end, wanted_lines in lines.items():
            known = self._shaped.get(end, ())
            if text := "".join(f"{line}\n" for line in wanted_lines if line not in known):
                run_in(network.pid(end), "tc", "-batch", "-", text=text)
        self._shaped = lines

    def _delay(self, wanted: Mapping[Ends, PathState], changed: Mapping[Ends, PathState]) -> None:
        """The delayer first, then the rules that lead packets to it.  A cut path without a queue drops by a rule."""
        assert self.delayer is not None
        network = self._up
        fresh = {ends for ends, path in changed.items() if _needs_queue(path)} - self._queued
        self._queued |= fresh
        told = [
            (target, self._queue[source], asdict(path))
            for (source, target), path in changed.items()
            if (source, target) in self._queued
        ]
        if told:
            self.delayer.ask("set", paths=told)
        cut = {ends for ends, path in wanted.items() if path.is_cut} - self._queued
        was_cut = {ends for ends, path in self._settings.items() if path.is_cut} - self._queued
        texts = {}
        for target in {ends[1] for ends in fresh | (cut ^ was_cut)}:
            queued = [(network.address(a), self._queue[a]) for a, b in sorted(self._queued) if b == target]
            dropped = [network.address(a) for a, b in sorted(cut) if b == target]
            texts[network.pid(target)] = rules_text(network.device(target), queued, dropped)
        load_rules(texts)


def _needs_queue(path: PathState) -> bool:
    """Whether packets of a path must be touched at all: the way through the bridge is a short delay by itself."""
    return bool(path.delay_ns >= LEAST_DELAY_NS or path.loss_probability or path.duplications or path.reorderings)


def _kernel_counters(pid: int, device: str) -> Iterator[tuple[str, float]]:
    """Of a host's interface, and of its queues to the delayer: a packet is dropped where one is full, or fails."""
    for line in read(f"/proc/{pid}/net/dev").splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == device:
            values = [float(word) for word in rest.split()]
            yield from zip(INTERFACE_METRICS, values[:4] + values[8:12], strict=True)
    queues = [line.split() for line in read(f"/proc/{pid}/net/netfilter/nfnetlink_queue").splitlines()]
    if queues:
        yield "queue_waiting_count", float(sum(int(row[2]) for row in queues))
        yield "queue_drop_count", float(sum(int(row[5]) + int(row[6]) for row in queues))
