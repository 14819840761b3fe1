"""A controller's nodes on modelled brokers: one report a second.

The kernel reckons how long a message waits when it comes, by its sub-bucket as it is then.  On brokers, and in the
study ``sharing``, who waits goes by what the sub-bucket becomes: a command that brings tokens shortens waits there,
and not here.  How many tokens are owed is the same for both.
"""

from core.units import SECOND_NS
from studies.control.asked import Controlled, Controlling
from studies.distribution.virtual import check_near, deployment_of
from testbed.api import Testbed
from testbed.trust.evidence import NOTHING
from testbed.virtual.fleet import FleetPlane
from testbed.virtual.scheduler import event_loop


def run(asked: Controlling) -> Controlled:
    """Histograms are taken window by window, by the messages' intended instants."""
    deployment = deployment_of(asked)
    envelope, config = asked.begin(deployment)
    fleet, names = deployment.fleet, deployment.names
    plane, begin_ns = FleetPlane(fleet, names), fleet.now_ns
    loop = event_loop(asked.system, config, asked.topology, names, asked.seed, plane, start_ns=begin_ns)
    loop.report_every(SECOND_NS)
    windows = []
    for start_ns in asked.starts_ns(begin_ns):
        fleet.state.clear_histograms()
        fleet.record(start_ns, start_ns + asked.window_ns)
        loop.run(start_ns + asked.window_ns - 1)
        fleet.advance(start_ns + asked.window_ns)
        windows.append((fleet.state.latency.copy(), fleet.state.access_delay.copy()))
    end_ns = begin_ns + asked.duration_ns
    if fleet.now_ns < end_ns:  # what no whole window has is played, as live, and is in no histogram
        loop.run(end_ns - 1)
        fleet.advance(end_ns)
    journal = loop.journal
    return Controlled(names, envelope, windows, journal.samples, journal.commands, deployment.messages(), NOTHING)


def check(testbed: Testbed, asked: Controlling) -> None:
    """SpecError for what modelled brokers cannot do under a controller."""
    check_near(testbed, asked, "brokers under a controller", {})  # such pumps end in later windows than their messages'
