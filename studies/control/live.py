"""A controller's nodes as processes beside real brokers, while the topic's messages come."""

from studies.api import LiveBody
from studies.control.asked import Controlled, Controlling
from studies.control.controllers import Controllers
from studies.distribution.live import check_real, deployed
from testbed.api import Testbed
from testbed.hosts.site import Site
from testbed.servers.server import check_servers


def run(site: Site, asked: Controlling) -> Controlled:
    """One window as long as the run, with the controller's nodes at work."""
    with deployed(site, asked.deployed) as deployment:
        envelope, config = asked.begin(deployment)
        controllers = Controllers(site, deployment.brokers_up, asked.system, config, deployment.topic, asked.seed)
        try:
            window = deployment.play(0, asked.duration_ns, deployment.faults, None, controllers)
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
    check_real(testbed, asked.deployed)
    check_servers(asked.system, testbed.name, is_real=True, commands=True)


BODY = LiveBody(run, check)
