"""Requests that a test states, offered to a limiter: in virtual time, or on a site."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.records import Request
from studies.limiting import live, virtual
from studies.limiting.asked import Limiting, RequestJournal
from systems.api import System
from testbed.faults import Fault, check_faults
from testbed.hosts.site import Site
from testbed.topologies.topology import Topology


@dataclass(frozen=True)
class Given:
    """A schedule of stated requests."""

    load: Mapping[str, Sequence[Request]]

    def requests(self, nodes: Sequence[str], duration_ns: int) -> Mapping[str, Sequence[Request]]:
        """All of them, whatever the nodes."""
        return self.load


def asked(
    system: System,
    config: Any,
    topology: Topology,
    requests: Mapping[str, Sequence[Request]],
    duration_ns: int,
    seed: int,
    faults: Iterable[Fault] = (),
    drain_ns: int = 0,
    **more: Any,
) -> Limiting:
    """One run."""
    checked = tuple(check_faults(faults, topology))
    return Limiting(system, config, topology, Given(requests), duration_ns, seed, checked, drain_ns, **more)


def decisions(shown: RequestJournal) -> Counter[tuple[str, str]]:
    """How many requests had which verdict, or "lost", at which node."""
    requests = shown.requests()
    return Counter(zip(requests["node"], requests["decision"], strict=True))


def run_requests(*given: Any, **more: Any) -> RequestJournal:
    """In virtual time."""
    return virtual.run(asked(*given, **more))


def run_requests_live(site: Site, *given: Any, **more: Any) -> RequestJournal:
    """On a site."""
    return live.played(site, asked(*given, **more))
