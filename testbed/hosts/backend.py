"""The ``Backend`` of testbeds with real processes and sockets: they differ in how they make a site."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.writer import read_logs
from core.errors import LinkError, SpecError
from core.units import duration_ns
from systems.loader import is_file, name_of
from testbed.faults import ClockSkew, Crash, Restart, check_faults, read_faults
from testbed.hosts.site import explained
from testbed.servers import check_servers
from testbed.topologies.topology import Topology
from testbed.trust.evidence import DEGRADED, EXACT, Evidence, Fidelity

if TYPE_CHECKING:
    from studies.distribution.live import LiveDeployment
    from testbed.hosts.site import Site

ROLES = ("broker", "publisher", "subscriber")


@dataclass(frozen=True)
class LiveBackend:
    """See ``testbed.Backend``.  ``site`` and ``prober``: "module:NAME", imported on use."""

    name: str
    site: str  # a class: (topology, folder)
    prober: str
    privileges: str = "none"
    has_links: bool = True
    real_time: bool = True
    has_servers: bool = True  # can Serf, ZooKeeper and profiled brokers be run on its hosts?
    checker: str = ""  # of a run's options: what the site is made with, or an error; empty: there are none
    options: Mapping[str, Any] = field(default_factory=dict)  # what the site is made with

    def probe(self) -> Any:
        """What this machine has of what the testbed needs."""
        return _named(self.prober)()

    def with_options(self, options: Mapping[str, Any], topology: Topology) -> "LiveBackend":
        """See ``testbed.Backend``."""
        if self.checker:
            return replace(self, options=_named(self.checker)(options, topology))
        if options:
            raise SpecError(f"testbed {self.name} has no options, got {', '.join(options)}", "leave them out")
        return self

    def check(self, topology: Topology, schedule: Any, spec: Any, config: Any) -> None:
        """See ``testbed.Backend``; what only a model can do is refused."""
        from testbed.brokers.model import load_calibration

        load_calibration(spec.calibration)
        if not hasattr(schedule, "block"):
            raise SpecError(
                f"workload {spec.workload!r} offers requests, not messages", "use poisson, periodic, … or trace"
            )
        for role in ROLES:
            if not topology.node_names(role):
                raise SpecError(f"topology {topology.name!r} has no host with the role {role}", "use srtm-lan")
        loads, names = config.initial_loads_rps, topology.node_names("broker")
        if loads and len(loads) != len(names):
            raise SpecError(f"{len(loads)} initial loads for {len(names)} brokers", "give one a broker")
        for option, only in (("non_conformant", "delay"), ("release_quantum", False), ("mcap_batch", 0)):
            if getattr(config, option) != only:
                fix = f"leave it {only!r}, or use --testbed virtual"
                raise SpecError(f"live brokers know no {option} = {getattr(config, option)!r}", fix)
        places = {*names, *topology.node_names("publisher"), *topology.node_names("subscriber")}
        for fault in check_faults(read_faults(config.faults), topology):
            if isinstance(fault, Restart | ClockSkew) or (isinstance(fault, Crash) and fault.node not in places):
                raise SpecError(f"{fault} cannot happen to a topic", "crash a broker, or a host of publishers")

    def deploy(self, topology: Topology, schedule: Any, spec: Any, config: Any) -> "LiveDeployment":
        """A topic on real brokers.  LinkError where a path is not what the topology wants."""
        from studies.distribution.live import LiveDeployment
        from studies.distribution.windows import other_topics
        from testbed.brokers.model import load_calibration, slo_ns

        names = topology.node_names("broker")
        loads = list(config.initial_loads_rps) or [0.0] * len(names)
        others = [other_topics(load, config.initial_batch, spec.seed, number) for number, load in enumerate(loads)]
        site = self._site(topology, spec.seed)
        try:
            with explained(site):
                deployment = LiveDeployment(
                    site, names, schedule, others, config, duration_ns(spec.round),
                    load_calibration(spec.calibration).mcap_rps, slo_ns(spec.slo, spec.calibration),
                    duration_ns(getattr(config, "duration", "0s")),
                )  # fmt: skip
        except BaseException as error:
            error.logs = read_logs(site.folder / "logs")  # type: ignore[attr-defined]
            site.close()
            raise
        return deployment

    def check_limit(self, system: Any, faults: Any) -> None:
        """See ``testbed.Backend``."""
        if not self.has_servers and is_file(name_of(system)):
            fix = "bring it into systems/, or use another testbed"
            raise SpecError(f"{name_of(system)} is not brought to the machines of {self.name}", fix)
        check_servers(system, self.name, is_real=True)
        links = [fault for fault in faults if not isinstance(fault, Crash | Restart | ClockSkew)]
        if links and not self.has_links:
            raise SpecError(f"{links[0]}: {self.name} has no links to change", "use --testbed mininet, or virtual")

    def limit(
        self, system: Any, config: Any, topology: Topology, requests: Any, duration_ns: int, seed: int, **more: Any
    ) -> Any:
        """See ``testbed.Backend``."""
        from collectors.probes import Probes, Together
        from studies.limiting.live import run_requests_live
        from testbed.trust.fidelity import SCALE_NS
        from testbed.trust.observed import Findings, namespaces

        with self.up(topology, seed) as site:
            findings = Findings(SCALE_NS, site.verify())
            with Probes(site.processes, lambda: namespaces(site), usage=site.usage) as probes:
                found = run_requests_live(site, system, config, topology, requests, duration_ns, seed, **more)
            findings.played(found.epoch_ns, found.epoch_ns + duration_ns)
            findings.late(found.lateness_ns())
            findings.faulty = bool(found.journal.faults)
            findings.answers, findings.lost_agents = found.answers, found.lost_servers
            findings.site_counters = site.counters()
            findings.notes = site.notes
            seen = Together(probes, site.probes())
            return replace(found, evidence=findings.evidence(seen, read_logs(site.folder / "logs")))

    def throttle(self, system: Any, config: Any, topology: Topology, demands: Any, **more: Any) -> Any:
        """Throttlers are told demands, not sent requests: there is nothing to put on sockets."""
        raise SpecError(f"testbed {self.name} runs no throttlers", "use --testbed virtual")

    def check_locate(self, topology: Topology, locating: Any) -> None:
        """See ``testbed.Backend``; agents probe as often as a profile of Serf's says."""
        from studies.coordinates.asked import check_locating
        from studies.coordinates.live import profile_of

        check_locating(topology, locating)
        profile_of(locating.interval_ns)
        if not self.has_links:
            fix = "use --testbed mininet, or virtual"
            raise SpecError(f"{self.name} has no links whose delays coordinate agents could estimate", fix)

    def locate(self, topology: Topology, seed: int, locating: Any) -> Any:
        """See ``testbed.Backend``: real Serf agents."""
        from studies.coordinates.live import locate_live

        with self.up(topology, seed) as site:
            return locate_live(site, locating)

    def check_place(self, system: Any, placing: Any) -> None:
        """See ``testbed.Backend``."""
        self._check_servers()
        from studies.placement.live import check_wishes

        check_wishes(placing, self.has_links)
        check_servers(system, self.name, is_real=True, commands=True)

    def place(self, system: Any, config: Any, topology: Topology, load: Any, placing: Any) -> Any:
        """See ``testbed.Backend``: real brokers, Serf agents and ZooKeeper."""
        from studies.placement.live import check_names, run_placement_live
        from testbed.topologies.places import with_clients

        self.check_place(system, placing)
        check_names(load, config)
        whole = with_clients(topology, load.homes, placing.access_ns)
        with self.up(whole, placing.seed) as site:
            return run_placement_live(site, system, config, load, placing)

    def check_profile(self) -> None:
        """See ``testbed.Backend``."""
        self._check_servers()

    def profile(self, topology: Topology, load: Any, profiling: Any) -> Any:
        """See ``testbed.Backend``."""
        from studies.profile.live import run_profile_live

        with self.up(topology, profiling.seed) as site:
            return run_profile_live(site, load, profiling)

    def verify(self, topology: Topology, seed: int) -> Evidence:
        """See ``testbed.Backend``.  A path that is off is what was to be found out: the run is degraded, not failed."""
        with self.up(topology, seed) as site:
            fidelity = EXACT
            try:
                paths = site.verify()
            except LinkError as error:
                if not error.paths:
                    raise
                paths, fidelity = list(error.paths), Fidelity(DEGRADED, (error.what,))
            samples = [(0, host, metric, value) for host, metric, value in site.counters()]
            logs = read_logs(site.folder / "logs")
            return Evidence(fidelity, paths, samples, logs, notes=tuple(site.notes))

    def _check_servers(self) -> None:
        if not self.has_servers:
            fix = "use --testbed mininet, local or virtual"
            raise SpecError(f"testbed {self.name} runs neither placements nor profiles", fix)

    @contextmanager
    def up(self, topology: Topology, seed: int) -> "Iterator[Site]":
        """A site, taken down at the end; an error takes the logs of its processes with it."""
        site = self._site(topology, seed)
        try:
            with explained(site):
                yield site
        except Exception as error:
            error.logs = read_logs(site.folder / "logs")  # type: ignore[attr-defined]
            raise
        finally:
            site.close()

    def _site(self, topology: Topology, seed: int) -> "Site":
        """Hosts and links, with a folder that goes with them; ``seed``: of what the links draw."""
        folder = Path(tempfile.mkdtemp(prefix="ratebed-"))
        try:
            site: Site = _named(self.site)(topology, folder, seed=seed, owns_folder=True, **self.options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return site


def _named(text: str) -> Any:
    module, _, name = text.partition(":")
    return getattr(import_module(module), name)


LOCAL = LiveBackend("local", "testbed.hosts.local:LocalSite", "testbed.hosts.local:probe", has_links=False)
MININET = LiveBackend(
    "mininet", "testbed.hosts.mininet.site:MininetSite", "testbed.hosts.mininet.site:probe", privileges="root",
    checker="testbed.hosts.mininet.site:site_options",
)  # fmt: skip
DOCKER = LiveBackend(
    "docker", "testbed.hosts.docker.site:DockerSite", "testbed.hosts.docker.site:probe", privileges="root",
    checker="testbed.hosts.docker.wishes:site_options",
)  # fmt: skip
SSH = LiveBackend(
    "ssh", "testbed.hosts.ssh.site:SshSite", "testbed.hosts.ssh.needs:probe", privileges="keys",
    has_links=False, has_servers=False,
    checker="testbed.hosts.ssh.needs:site_options",
)  # fmt: skip
