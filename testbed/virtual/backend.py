"""The virtual testbed's ``Backend``: imports the kernels only when something is deployed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.errors import SpecError
from core.records import Schedule
from core.units import duration_ns
from studies.distribution.far import Far, far_of
from testbed.servers import check_servers
from testbed.trust.evidence import Evidence

if TYPE_CHECKING:
    from studies.coordinates.asked import Located, Locating
    from studies.distribution.virtual import Deployment
    from studies.limiting.virtual import RequestJournal
    from studies.placement.asked import PlacementJournal
    from testbed.topologies.topology import Topology

JOURNAL_ROWS = 2_000_000  # messages kept at most when a run asks for them


class VirtualBackend:
    """Objects instead of hosts, a model instead of links."""

    real_time = False
    privileges = "none"

    def probe(self) -> list[tuple[str, bool, str]]:
        """Virtual time needs nothing but Python."""
        return [("virtual time", True, "needs nothing")]

    def with_options(self, options: Mapping[str, Any], topology: "Topology") -> "VirtualBackend":
        """See ``testbed.Backend``; there are none."""
        if options:
            raise SpecError(f"testbed virtual has no options, got {', '.join(options)}", "leave them out")
        return self

    def check(self, topology: "Topology", schedule: Any, spec: Any, config: Any) -> None:
        """See ``testbed.Backend``."""
        from testbed.brokers.model import load_calibration

        load_calibration(spec.calibration)
        if not hasattr(schedule, "block"):
            raise SpecError(
                f"workload {spec.workload!r} offers requests, not messages", "use poisson, periodic, … or trace"
            )
        names, loads = _broker_names(topology), config.initial_loads_rps
        if not names:
            raise SpecError(f"topology {topology.name!r} has no brokers", "use srtm-lan")
        for option, only in (("faults", ()), ("gc", "friendly")):
            if getattr(config, option) != only:
                raise SpecError(f"virtual brokers have no {option}", "use --testbed mininet, or local")
        if (far := far_of(topology, 1)) is not None:
            _check_far(topology, far, spec, config)
        if loads and len(loads) != len(names):
            raise SpecError(f"{len(loads)} initial loads for {len(names)} brokers", "give one a broker")

    def deploy(self, topology: "Topology", schedule: Schedule, spec: Any, config: Any) -> "Deployment":
        """A topic on the brokers of ``topology``.  ``config`` is a ``studies.distribution.asked.DeploymentConfig``."""
        from studies.distribution.far_deployment import FarDeployment
        from studies.distribution.virtual import Deployment
        from studies.distribution.windows import other_topics
        from testbed.brokers.model import load_calibration, slo_ns
        from testbed.virtual.capacity import benchmarked_capacity_rps

        names = _broker_names(topology)
        loads = list(config.initial_loads_rps) or [0.0] * len(names)
        others = [other_topics(load, config.initial_batch, spec.seed, n) for n, load in enumerate(loads)]
        rows = JOURNAL_ROWS if "messages" in spec.keep else 0
        model = load_calibration(spec.calibration)
        if config.stamps == "read":
            model = replace(model, read_time_stamps=True)
        if config.mcap_batch:
            mcap_rps = benchmarked_capacity_rps(model, slo_ns(spec.slo, spec.calibration), config.mcap_batch, spec.seed)
            model = replace(model, mcap_rps=mcap_rps)
        far = far_of(topology, schedule.population.count)
        if far is not None:
            return FarDeployment(model, names, schedule, others, config, duration_ns(spec.round), far, rows > 0)
        return Deployment(model, names, schedule, others, config, duration_ns(spec.round), rows)

    def check_limit(self, system: Any, faults: Any) -> None:
        """See ``testbed.Backend``."""
        check_servers(system, "virtual", is_real=False)

    def limit(
        self, system: Any, config: Any, topology: "Topology", requests: Any, duration_ns: int, seed: int, **more: Any
    ) -> "RequestJournal":
        """See ``testbed.Backend``."""
        from studies.limiting.virtual import run_requests

        return run_requests(system, config, topology, requests, duration_ns, seed, **more)

    def throttle(self, system: Any, config: Any, topology: "Topology", demands: Any, **more: Any) -> "RequestJournal":
        """See ``testbed.Backend``."""
        from studies.throttling.virtual import run_cycles

        return run_cycles(system, config, topology, demands, **more)

    def check_locate(self, topology: "Topology", locating: "Locating") -> None:
        """See ``testbed.Backend``."""
        from studies.coordinates.asked import check_locating

        check_locating(topology, locating)

    def locate(self, topology: "Topology", seed: int, locating: "Locating") -> "Located":
        """See ``testbed.Backend``."""
        from studies.coordinates.virtual import located

        return located(topology, seed, locating)

    def check_place(self, system: Any, placing: Any) -> None:
        """See ``testbed.Backend``."""

    def place(self, system: Any, config: Any, topology: "Topology", load: Any, placing: Any) -> "PlacementJournal":
        """See ``testbed.Backend``."""
        from studies.placement.virtual import run_placement

        return run_placement(system, config, topology, load, placing)

    def check_profile(self) -> None:
        """See ``testbed.Backend``: what a broker costs is what a profile is to find out."""
        raise SpecError("virtual brokers have no data plane to profile", "use --testbed mininet, or local")

    def profile(self, topology: "Topology", load: Any, profiling: Any) -> Any:
        """See ``testbed.Backend``."""
        self.check_profile()

    def verify(self, topology: "Topology", seed: int) -> Evidence:
        """See ``testbed.Backend``: the model's network, probed like a real one."""
        from studies.links.virtual import measured_paths

        return Evidence(paths=measured_paths(topology, seed))


def _check_far(topology: "Topology", far: Far, spec: Any, config: Any) -> None:
    """SpecError for what the model of long paths cannot do."""
    if far.uncertain:
        raise SpecError(f"topology {topology.name}: jitter or loss on a topic's path", "use --testbed mininet")
    if spec.study == "control":
        raise SpecError("TB Adaptor's virtual brokers have no long paths", "use srtm-lan, or --testbed mininet")
    if config.non_conformant == "drop":
        raise SpecError("virtual brokers at the end of long paths drop nothing", "use srtm-lan, or delay")


def _broker_names(topology: "Topology") -> list[str]:
    return [name for host in topology.hosts if host.role == "broker" for name in host.node_names]


BACKEND = VirtualBackend()
