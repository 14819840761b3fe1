"""A controller's nodes (TB Adaptor) as processes beside real brokers: reports up, new buckets down."""

from collections.abc import Iterable, Sequence
from contextlib import closing

from core.records import Sample
from core.units import SECOND_NS
from studies.control.asked import Controlled, Controlling
from studies.distribution.live import LiveDeployment
from studies.distribution.live import check as check_topic
from systems.api import SetBucket
from testbed.api import Testbed
from testbed.hosts.site import Site
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.planes import ControlAt, Surroundings
from testbed.servers.found import check_servers

LEAD_NS = 4 * SECOND_NS  # to introduce the nodes to each other and to their brokers


def run(site: Site, asked: Controlling) -> Controlled:
    """One window as long as the run, with a node at each broker and those that the system adds at work."""
    assert asked.system.nodes is not None
    with closing(LiveDeployment(site, asked)) as deployment:
        names, brokers = deployment.names, deployment.brokers_up
        envelope, config = asked.begin(deployment)
        fleet = NodeFleet(site, asked.system, config, asked.seed, list(asked.system.nodes(names, config, asked.seed)))

        def begin(begin_ns: int) -> None:
            at = {broker.name: ControlAt(broker.control_port, brokers.token) for broker in brokers}
            fleet.surroundings = Surroundings(brokers=at, topic=deployment.topic)
            fleet.connect()
            fleet.go(begin_ns, {})

        try:
            fleet.start()
            window = deployment.play(0, asked.duration_ns, deployment.faults, begin, LEAD_NS)
            fleet.statuses("finish")
            samples, commands = told_until(asked.duration_ns, fleet.samples(), fleet.names, deployment.topic)
        finally:
            fleet.stop()
        windows = []
        for start_ns in asked.starts_ns(0):
            counts = window.counts(start_ns, start_ns + asked.window_ns, len(names))
            windows.append((counts.latency, counts.access_delay))
        return Controlled(names, envelope, windows, samples, commands, deployment.messages(), deployment.evidence())


def told_until(
    until_ns: int, samples: Iterable[Sample], names: Sequence[str], topic: str
) -> tuple[list[Sample], list[tuple[int, str, SetBucket]]]:
    """Samples in order, and the commands that brokers were given; what nodes did while the load drained is left out."""
    rows = [row for row in samples if row[0] < until_ns]
    commands = []
    for name in names:
        # A broker's node tells of each limit that it has set, its rate first.
        rates = [row for row in rows if row[1:3] == (name, "bucket_rate_rps")]
        bursts = [row for row in rows if row[1:3] == (name, "bucket_burst_count")]
        for (at_ns, _, _, rate_rps), (_, _, _, burst_count) in zip(rates, bursts, strict=False):
            commands.append((at_ns, name, SetBucket(topic, rate_rps, burst_count)))
    rows.sort(key=lambda row: row[:3])
    commands.sort(key=lambda row: row[:2])
    return rows, commands


def check(testbed: Testbed, asked: Controlling) -> None:
    """SpecError for what real brokers cannot do."""
    check_topic(testbed, asked)
    check_servers(asked.system, testbed.name, commands=True)
