"""The bench of the conformance suite in virtual time."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.records import Request
from systems.api import Report, System
from systems.conformance import Scenario
from testbed.faults import Crash, Fault, Heal, Partition, Restart
from testbed.topology import mesh
from testbed.virtual.request_run import event_loop
from testbed.virtual.scheduler import Step


class VirtualBench:
    """Runs nodes on a full mesh whose paths take ``delay_ns`` plus or minus ``jitter_ns``."""

    def __init__(self, delay_ns: int = 5_000_000, jitter_ns: int = 2_000_000):
        self.delay_ns, self.jitter_ns = delay_ns, jitter_ns

    def run_nodes(
        self,
        system: System,
        config: Any,
        names: Sequence[str],
        requests: Mapping[str, Sequence[Request]],
        reports: Sequence[tuple[int, str, Any]],
        scenario: Scenario,
        seed: int,
    ) -> list[Step]:
        """See ``systems.conformance.Bench``."""
        assert system.nodes is not None
        everyone = list(system.nodes(list(names), config, seed))
        topology = mesh("bench", everyone, self.delay_ns, self.jitter_ns, scenario.loss_probability)
        loop = event_loop(system, config, topology, names, seed, keep_steps=True)
        for node, offered in requests.items():
            loop.offer(node, offered)
        for at_ns, node, measurement in reports:
            loop.inject(node, at_ns, Report(measurement))
        loop.fail(_faults(scenario))
        return loop.run(scenario.duration_ns).steps


def _faults(scenario: Scenario) -> list[Fault]:
    begin, end = scenario.trouble_ns
    faults: list[Fault] = []
    if scenario.crash:
        faults += [Crash(begin, scenario.crash), Restart(end, scenario.crash)]
    if scenario.cut_off:
        faults += [Partition(begin, (scenario.cut_off,)), Heal(end, (scenario.cut_off,))]
    return faults
