"""What a testbed is: a place where runs happen.  It knows no study by name.

A study asks a place for hosts and links (``site``), or finds that there are none and models them (virtual time).
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from testbed.findings import Finding
from testbed.topologies.topology import Topology

if TYPE_CHECKING:
    from testbed.hosts.site import Site

TestbedOptions = Mapping[str, object]  # a run's ``testbed_options``: plain values


class SiteServers(Protocol):
    """Servers that take long to start.  Equal ones are as good as each other, for one run after another."""

    def on(self, site: "Site") -> AbstractContextManager[object]:
        """Started on a site, and ended."""


class Testbed(Protocol):
    """A place.

    ``real_time``: it has a site, a second of a run takes a second, and runs have the machine to themselves; else time
    is virtual.  ``privileges``: what the user must have.  ``has_links``: between its hosts are links that can be
    changed: delays, faults, handovers.  ``has_our_files``: a file of this machine can be read on its hosts.
    """

    name: str
    real_time: bool
    privileges: str
    has_links: bool
    has_our_files: bool

    def probe(self) -> Sequence[Finding]:
        """What this machine has of what the testbed needs."""

    def with_options(self, options: TestbedOptions, topology: Topology) -> "Testbed":
        """The testbed as a run's options want it (limits, an inventory); SpecError where that cannot be."""

    def input_files(self, options: TestbedOptions) -> tuple[str, ...]:
        """The files that a run's options name: what is in them belongs to its identity."""

    def site(self, topology: Topology, seed: int, servers: SiteServers | None = None) -> "AbstractContextManager[Site]":
        """Hosts and links as ``topology`` says, taken down at the end; ``seed``: of what the links draw.

        ``servers`` are up on it, and are its ``servers``; whoever has them has a site that may have carried other runs.
        An error on the way out has ``logs``, what the processes printed.  Never asked of virtual time.
        """
