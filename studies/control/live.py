"""A controller's nodes (TB Adaptor) as processes beside real brokers: reports up, new buckets down."""

from contextlib import closing

from collectors.rows import Sample
from core.units import SECOND_NS
from studies.control.asked import Controlled, Controlling
from studies.distribution.live import LiveDeployment
from studies.distribution.live import check as check_topic
from systems.api import SetBucket
from testbed.api import Testbed
from testbed.brokers.launcher import Brokers
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.planes import ControlAt, Surroundings
from testbed.servers import check_servers

LEAD_NS = 4 * SECOND_NS  # to introduce the nodes to each other and to their brokers


class Controllers:
    """A node at each broker, and those that the system adds (the adaptor, on the control host)."""

    def __init__(self, site: Site, brokers: Brokers, asked: Controlling, config: object, topic: str):
        assert asked.system.nodes is not None
        self._brokers, self._topic = brokers, topic
        names = [broker.name for broker in brokers]
        every = list(asked.system.nodes(names, config, asked.seed))
        self._fleet = NodeFleet(site, asked.system, config, asked.seed, every)
        self._fleet.start()

    def start(self, begin_ns: int) -> None:
        """Introduce everybody; the nodes begin at an instant of CLOCK_REALTIME."""
        brokers = {broker.name: ControlAt(broker.control_port, self._brokers.token) for broker in self._brokers}
        self._fleet.surroundings = Surroundings(brokers=brokers, topic=self._topic)
        self._fleet.connect()
        self._fleet.go(begin_ns, {})

    def take_home(self, until_ns: int) -> tuple[list[Sample], list[tuple[int, str, SetBucket]]]:
        """Rows of ``samples``, and the commands that brokers were given: (at_ns, node, SetBucket).

        What nodes did after the load's end, while it drained, is left out.
        """
        self._fleet.statuses("finish")
        rows, commands = [], []
        for name in self._fleet.names:
            told = [sample for sample in self._fleet.records(name).samples if sample[0] < until_ns]
            rows += [(at_ns, name, metric, value) for at_ns, metric, value in told]
            # A broker's node tells of each limit that it has set, its rate first.
            rates = [sample for sample in told if sample[1] == "bucket_rate_rps"]
            bursts = [sample for sample in told if sample[1] == "bucket_burst_count"]
            for (at_ns, _, rate_rps), (_, _, burst_count) in zip(rates, bursts, strict=False):
                commands.append((at_ns, name, SetBucket(self._topic, rate_rps, burst_count)))
        rows.sort(key=lambda row: row[:3])
        commands.sort(key=lambda row: row[:2])
        return rows, commands

    def stop(self) -> None:
        """End the processes."""
        self._fleet.stop()


def run(site: Site, asked: Controlling) -> Controlled:
    """One window as long as the run, with the controller's nodes at work."""
    with closing(LiveDeployment(site, asked)) as deployment:
        envelope, config = asked.begin(deployment)
        controllers = Controllers(site, deployment.brokers_up, asked, config, deployment.topic)
        try:
            window = deployment.play(0, asked.duration_ns, deployment.faults, controllers.start, LEAD_NS)
            samples, commands = controllers.take_home(asked.duration_ns)
        finally:
            controllers.stop()
        windows = []
        for start_ns in asked.starts_ns(0):
            counts = window.counts(start_ns, start_ns + asked.window_ns, len(deployment.names))
            windows.append((counts.latency, counts.access_delay))
        messages, evidence = deployment.messages(), deployment.evidence()
        return Controlled(deployment.names, envelope, windows, samples, commands, messages, evidence)


def check(testbed: Testbed, asked: Controlling) -> None:
    """SpecError for what real brokers cannot do."""
    check_topic(testbed, asked)
    check_servers(asked.system, testbed.name, is_real=True, commands=True)
