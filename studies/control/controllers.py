"""The nodes of a controller (TB Adaptor) as processes beside the brokers: reports up, new buckets down."""

from typing import Any

from core.units import SECOND_NS
from systems.api import SetBucket, System
from testbed.brokers.launcher import Brokers
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.planes import ControlAt, Surroundings

LEAD_NS = 4 * SECOND_NS  # to introduce the nodes to each other and to their brokers


class Controllers:
    """A node at each broker, and those that the system adds (the adaptor, on the control host)."""

    lead_ns = LEAD_NS

    def __init__(self, site: Site, brokers: Brokers, system: System, config: Any, topic: str, seed: int):
        assert system.nodes is not None
        self._brokers, self._topic = brokers, topic
        names = [broker.name for broker in brokers]
        every = list(system.nodes(names, config, seed))
        self._fleet = NodeFleet(site, system, config, seed, every)
        self._fleet.start()

    def start(self, begin_ns: int) -> None:
        """Introduce everybody; the nodes begin at an instant of CLOCK_REALTIME."""
        brokers = {broker.name: ControlAt(broker.control_port, self._brokers.token) for broker in self._brokers}
        self._fleet.surroundings = Surroundings(brokers=brokers, topic=self._topic)
        self._fleet.connect()
        self._fleet.go(begin_ns, {})

    def take_home(self, until_ns: int) -> tuple[list[tuple[int, str, str, float]], list[tuple[int, str, Any]]]:
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
