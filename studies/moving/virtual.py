"""Traffic that shifts, in virtual time: nodes beside brokers whose publishers can move."""

from operator import itemgetter

import numpy as np

from core.errors import SystemFault
from core.records import Envelope, Int32, Sample
from core.units import SECOND_NS, duration_ns
from studies.distribution.deployment import Deployment
from studies.distribution.virtual import check_near, deployment_of
from studies.moving.asked import Moving, MovingShown
from studies.moving.shown import windows_of
from studies.sharing.rules import one_way_ns
from systems.api import SetBucket
from systems.distribution.migrator import SYSTEM as MIGRATOR
from systems.limiting.granted import part_of
from testbed.api import Testbed
from testbed.topologies.topology import Topology, mesh
from testbed.trust.moved import MovedMessages
from testbed.virtual.gates import GrantedLoop, NodeGroup
from testbed.virtual.moving import MovingLoop, MovingPlane

PATIENCE_NS = 600 * SECOND_NS  # all that waits at publishers has been sent by then


def run(asked: Moving) -> MovingShown:
    """Carry the whole run, then count it window by window, by the messages' intended instants."""
    deployment = deployment_of(asked)
    names = deployment.names
    assignment, envelope, split = deployment.start_in_blocks(asked.duration_ns)
    plane = MovingPlane(deployment.fleet, names, assignment, asked.duration_ns)
    if asked.way.sharing.part is None:
        samples = _commanded(asked, deployment, plane, split)
    else:
        samples = _granted(asked, plane, assignment, envelope)
    deliveries = plane.deliveries()
    if deliveries.lost_count or deliveries.out_of_order_count:
        what = f"{deliveries.lost_count} messages lost, {deliveries.out_of_order_count} out of order"
        raise SystemFault(what, "a publisher that moves loses nothing: tell us of this run")
    if deliveries.waiting_count:
        raise SystemFault(
            f"{deliveries.waiting_count} messages wait at publishers for ten minutes", "give brokers tokens"
        )
    messages = _rows(deliveries, deployment.topic) if asked.keeps_messages else {}
    windows = windows_of(asked, deliveries, plane.transfers, len(names))
    return MovingShown(envelope, windows, deliveries, plane.transfers, plane.refused_count, samples, messages)


def _commanded(asked: Moving, deployment: Deployment, plane: MovingPlane, split: dict[str, Envelope]) -> list[Sample]:
    """Nodes set buckets and move publishers."""
    names, seed = plane.names, asked.seed
    capacities = {broker.name: max(1.0, broker.rcap_rps) for broker in deployment.brokers}
    config = asked.migrator_config(split, deployment.topic, capacities)
    assert MIGRATOR.nodes is not None
    everyone = list(MIGRATOR.nodes(names, config, seed))
    loop = MovingLoop(NodeGroup(MIGRATOR, config, _ground(asked, everyone), names, seed), plane)
    loop.report_every(duration_ns(asked.rule.interval))
    loop.run(asked.duration_ns)
    samples = list(loop.journal.samples)
    loop.drain(asked.duration_ns + PATIENCE_NS)
    return samples


def _granted(asked: Moving, plane: MovingPlane, assignment: Int32, whole: Envelope) -> list[Sample]:
    """Limiters' nodes hear of each message once, and their parts of the bucket become sub-buckets.

    Publishers stay, so that nodes hear the same whatever brokers do: first all that they say, then the brokers.
    """
    way, names, topic = asked.way, plane.names, plane.fleet.topic
    assert way.sharing.part is not None
    deployed = NodeGroup(way.system, way.config(whole), _ground(asked, names), names, asked.seed)
    loop = GrantedLoop(deployed, topic, way.sharing.part)
    block = asked.schedule.block(0, asked.duration_ns)
    loop.arrive(block.at_ns + plane.network_ns, assignment[block.publisher], block.count)
    loop.run(asked.duration_ns)
    told = ((at_ns, name, part) for name, parts in loop.parts.items() for at_ns, part in parts)
    for at_ns, name, part in sorted(told, key=itemgetter(0)):  # at one instant in the order in which they were told
        plane.advance(at_ns)
        bucket = part_of(part, whole, len(names))
        plane.actuate(name, SetBucket(topic, bucket.rate_rps, bucket.burst_count), plane.fleet.now_ns)
    plane.advance(asked.duration_ns + 1)
    return loop.journal.samples


def _ground(asked: Moving, names: list[str]) -> Topology:
    return mesh("moving", names, one_way_ns("study moving", asked.rule.rtt))


def _rows(deliveries: MovedMessages, topic: str) -> dict[str, np.ndarray]:
    return {
        "message": deliveries.number,
        "publisher": deliveries.publisher,
        "broker": deliveries.broker,
        "topic": np.full(len(deliveries.number), topic, object),
        "intended_at_ns": deliveries.intended_ns,
        "sent_at_ns": deliveries.sent_ns,
        "arrived_at_ns": deliveries.arrived_ns,
        "released_at_ns": deliveries.released_ns,
        "received_at_ns": deliveries.received_ns,
    }


def check(testbed: Testbed, asked: Moving) -> None:
    """SpecError for what modelled brokers cannot do where publishers move."""
    check_near(testbed, asked, "publishers that move")
