"""Where systems run.  Registry: ``TESTBEDS``, name -> "module:OBJECT", imported on use.

No code outside this folder asks which testbed it is on: all give the same ``Backend``.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from core.registry import lookup
from testbed.trust.evidence import Evidence

TESTBEDS = {
    "virtual": "testbed.virtual:BACKEND",
    "local": "testbed.hosts.backend:LOCAL",
    "mininet": "testbed.hosts.backend:MININET",
    "docker": "testbed.hosts.backend:DOCKER",
    "ssh": "testbed.hosts.backend:SSH",
}


class Backend(Protocol):
    """A testbed.

    ``real_time``: a second of a run takes a second, and runs have the machine to themselves;
    ``privileges``: what the user must have.
    """

    real_time: bool
    privileges: str

    def probe(self) -> list[tuple[str, bool, str]]:
        """What this machine has of what the testbed needs: (what, found, detail or fix)."""
        ...

    def with_options(self, options: Mapping[str, Any], topology: Any) -> "Backend":
        """The testbed as a run's options want it (limits, an inventory); SpecError where that cannot be."""
        ...

    def check(self, topology: Any, schedule: Any, spec: Any, config: Any) -> None:
        """SpecError where ``deploy`` could not work: no brokers, a wrong number of loads, no such calibration."""
        ...

    def deploy(self, topology: Any, schedule: Any, spec: Any, config: Any) -> Any:
        """Brokers of ``topology`` with the calibration of ``spec``, ready to be offered ``schedule``."""
        ...

    def check_limit(self, system: Any, faults: Any) -> None:
        """SpecError where ``limit`` could not work: a server that it cannot run, faults that cannot happen here."""
        ...

    def limit(
        self, system: Any, config: Any, topology: Any, requests: Any, duration_ns: int, seed: int, **more: Any
    ) -> Any:
        """Offer ``requests`` to the nodes of a limiter; returns columns of ``requests()`` and ``samples()``.

        ``more``: ``faults``, ``drain_ns``, ``clock_skew_ns``, ``compare_replicas``, as for
        ``studies.limiting.virtual.run_requests``.
        """
        ...

    def throttle(self, system: Any, config: Any, topology: Any, demands: Any, **more: Any) -> Any:
        """Tell the nodes of a throttler their ``demands`` of every cycle; returns columns of ``samples()``."""
        ...

    def check_locate(self, topology: Any, locating: Any) -> None:
        """SpecError where ``locate`` could not work: no agents, hosts that cannot hand over here."""
        ...

    def locate(self, topology: Any, seed: int, locating: Any) -> Any:
        """Coordinate agents on nodes of ``topology``, as a ``studies.coordinates.asked.Locating`` wants them.

        Returns a ``studies.coordinates.asked.Located``: of each read each agent's *own* coordinate at that instant,
        not what others remember of it.  A live testbed starts an agent a node, waits until all have joined, verifies
        the links, counts time from then on, probes once ``interval_ns`` or says that it cannot, and says in the
        evidence whether the run can be trusted: a read that came late, an agent that died.
        """
        ...

    def check_place(self, system: Any, placing: Any) -> None:
        """SpecError where ``place`` could not work."""
        ...

    def place(self, system: Any, config: Any, topology: Any, load: Any, placing: Any) -> Any:
        """Let ``system`` place the topics of ``load`` (``core.clients.ClientLoad``) while clients come, go and move.

        ``placing`` is a ``studies.placement.asked.Placing``; returns a ``studies.placement.asked.PlacementJournal``.
        """
        ...

    def check_profile(self) -> None:
        """SpecError where ``profile`` could not work."""
        ...

    def profile(self, topology: Any, load: Any, profiling: Any) -> Any:
        """Offer ``load`` (``core.clients.ClientLoad``, clients that stay) to the only broker of ``topology``.

        ``profiling`` is a ``studies.profile.asked.Profiling``; returns a ``studies.profile.asked.Profiled``.
        """
        ...

    def verify(self, topology: Any, seed: int) -> Evidence:
        """Make the links of ``topology``, measure every path, take them down: nothing is offered."""
        ...


def load_testbed(name: str) -> Backend:
    """The testbed called ``name``; SpecError for an unknown one."""
    backend: Backend = lookup("testbed", TESTBEDS, name)
    return backend


def files_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that a run's ``testbed_options`` name: what is in them belongs to its identity."""
    from testbed.hosts.docker.wishes import archives

    return (*archives(options), *filter(None, [options.get("inventory")]))
