"""A site: a topology made real.  What the live studies need of a testbed, and nothing else."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from core.errors import HarnessError
from testbed.faults import Fault
from testbed.hosts.agent import Agent
from testbed.hosts.state import RunState
from testbed.hosts.watch import SiteWatch
from testbed.topologies.topology import Topology


@dataclass(frozen=True)
class Program:
    """What an agent is: its name, unique on a site, and its command line.

    ``cores``: those it is pinned to; ``fifo_priority``: of SCHED_FIFO, 0 = the usual scheduler (both are best effort: a
    machine that refuses is noted in the log).  Where ``sys.executable`` or the broker's program begins the command, it
    is the host's own that is meant.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: Sequence[int] = ()
    fifo_priority: int = 0


@dataclass(frozen=True)
class PathMeasure:
    """One direction of a path between two hosts, as the topology wants it and as it was found before the load."""

    source: str
    target: str
    requested_delay_ns: int
    measured_delay_ns: int  # median, one way: hosts share a clock
    requested_loss_probability: float
    lost_count: int
    probe_count: int
    requested_jitter_ns: int = 0
    measured_p05_ns: int = 0
    measured_p95_ns: int = 0
    problem: str = ""  # why the run cannot go on; empty = inside the tolerance


class Site(Protocol):
    """Hosts on which agents run, and the links between them.

    ``close`` removes exactly what the site started, in reverse order; a site is a context manager.
    """

    topology: Topology
    state: RunState  # what ``ratebed clean`` must remove where the harness was killed
    notes: list[str]  # what of the topology, or of the wishes, the hosts do not give
    folder: Path  # of this run: logs/<agent>.log and what agents write

    @property
    def memory(self) -> Path:
        """A folder of the run's in memory, where there is such a place, which the hosts on this machine see as well."""
        ...

    def address(self, host: str) -> str:
        """The IPv4 address of a host (or of a node's host) on the network between the hosts."""
        ...

    def start(self, host: str, program: Program) -> Agent:
        """Start a process on a host; its standard error goes to ``folder/logs/<name>.log``."""
        ...

    def forget(self, name: str) -> int:
        """Stop an agent, if it has not ended, so that another may take its name; returns its exit code."""
        ...

    def connect(self, host: str, port: int, timeout_s: float = 5.0) -> socket.socket:
        """A TCP connection to the host's own loopback, its management address."""
        ...

    def place(self, host: str, path: Path) -> str:
        """What a host calls a path of the run's folder; the folder that it is in is there afterwards."""
        ...

    def put(self, host: str, path: Path) -> str:
        """Bring a file of the run's folder to a host; returns what the host calls it."""
        ...

    def fetch(self, host: str, path: Path) -> None:
        """Bring home what an agent on a host has written to ``place(host, path)``."""
        ...

    def clock_offset_ns(self, host: str) -> int:
        """By how much a host's CLOCK_REALTIME is ahead of ours; all instants of a run are by ours."""
        ...

    def watched(self) -> SiteWatch:
        """Samples of agents, hosts and machines, from when the watch is entered."""
        ...

    def explained(self, error: HarnessError) -> HarnessError:
        """The error itself, or one that says why: its host was killed, or does not answer any more."""
        ...

    def verify(self) -> list[PathMeasure]:
        """Measure every path between machines against the topology; LinkError names those out of tolerance."""
        ...

    def apply(self, fault: Fault) -> None:
        """Change the links as a fault says (Partition, Handover, LinkLoss, …); crashes are not the site's business.

        A site without links has nothing to hand over, and refuses the other faults: SpecError.
        """
        ...

    def counters(self) -> list[tuple[str, str, float]]:
        """Counters of links, delays and interfaces now: (host, metric, value)."""
        ...

    def close(self) -> None:
        """Stop all agents and take everything down."""
        ...


@contextmanager
def explained(site: Site) -> Iterator[None]:
    """An error in here says what the site knows of its cause."""
    try:
        yield
    except HarnessError as error:
        told = site.explained(error)
        if told is error:
            raise
        raise told from error
