"""The virtual testbed: discrete events for control, batch kernels for messages; needs nothing.

``fleet`` is the data plane, ``broker_kernel`` the broker model's code, ``scheduler`` and ``network`` drive protocol
nodes, ``plane`` joins the two.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import SpecError
from testbed.api import SiteServers, TestbedOptions
from testbed.findings import Finding
from testbed.topologies.topology import Topology

if TYPE_CHECKING:
    from testbed.hosts.site import Site


@dataclass
class VirtualTime:
    """Objects instead of hosts, a model instead of links; see ``testbed.api.Testbed``."""

    name: str = "virtual"
    real_time: bool = False
    privileges: str = "none"
    has_links: bool = True
    has_our_files: bool = True

    def probe(self) -> Sequence[Finding]:
        """Virtual time needs nothing but Python."""
        return [Finding("virtual time", True, "needs nothing")]

    def with_options(self, options: TestbedOptions, topology: Topology) -> "VirtualTime":
        """There are none."""
        if options:
            raise SpecError(f"testbed virtual has no options, got {', '.join(options)}", "leave them out")
        return self

    def input_files(self, options: TestbedOptions) -> tuple[str, ...]:
        """None."""
        return ()

    def site(self, topology: Topology, seed: int, servers: SiteServers | None = None) -> "AbstractContextManager[Site]":
        """There is none: who asks has not looked at ``real_time``."""
        raise AssertionError("virtual time has no site")


VIRTUAL = VirtualTime()
