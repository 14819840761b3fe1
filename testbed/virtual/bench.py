"""The bench of the conformance suite in virtual time."""

from collections.abc import Mapping, Sequence

from core.records import Request
from systems.api import Report, Step, System
from systems.conformance import FaultScenario
from testbed.faults import EVERY, Crash, Fault, Heal, LinkDuplication, LinkReordering, Partition, Restart
from testbed.topologies.topology import mesh
from testbed.virtual.scheduler import event_loop

DELAY_NS, JITTER_NS = 5_000_000, 2_000_000


class VirtualBench:
    """Runs nodes on a full mesh whose paths take ``DELAY_NS`` plus or minus ``JITTER_NS``."""

    def run_nodes(
        self,
        system: System,
        config: object,
        names: Sequence[str],
        requests: Mapping[str, Sequence[Request]],
        reports: Sequence[tuple[int, str, object]],
        scenario: FaultScenario,
        seed: int,
    ) -> list[Step]:
        """See ``systems.conformance.ConformanceBench``."""
        assert system.nodes is not None
        everyone = list(system.nodes(list(names), config, seed))
        topology = mesh("bench", everyone, DELAY_NS, JITTER_NS, scenario.loss_probability)
        loop = event_loop(
            system, config, topology, names, seed, keep_steps=True, clock_offsets_ns=scenario.clocks_ahead_ns
        )
        for node, offered in requests.items():
            loop.offer(node, offered)
        for at_ns, node, measurement in reports:
            loop.inject(node, at_ns, Report(measurement))
        loop.fail(_faults(scenario))
        return loop.run(scenario.duration_ns).steps


def _faults(scenario: FaultScenario) -> list[Fault]:
    begin, end = scenario.trouble_ns
    faults: list[Fault] = []
    if scenario.duplication_probability:
        faults.append(LinkDuplication(0, EVERY, EVERY, scenario.duplication_probability))
    if scenario.reordering_probability:
        faults.append(LinkReordering(0, EVERY, EVERY, scenario.reordering_probability, DELAY_NS))
    if scenario.crash:
        faults += [Crash(begin, scenario.crash), Restart(end, scenario.crash, scenario.copy_from)]
    if scenario.cut_off:
        faults += [Partition(begin, (scenario.cut_off,)), Heal(end, (scenario.cut_off,))]
    return faults
