"""Topics over long paths in virtual time: each message takes its own path, whatever the others do."""

import numpy as np
import pytest

from core.errors import SpecError
from core.records import Envelope
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import RunSpec
from harness.run import check_all
from studies.distribution.asked import Deployed, DeploymentConfig
from studies.distribution.deployment import LAN_NS, far_of
from studies.distribution.virtual import deployment_of
from testbed.brokers.model import load_calibration
from testbed.topologies.topology import load_topology
from tests.testbed.virtual.broker_twin import BrokerTwin
from workloads import load

CITIES = {"brokers": "London, Sydney", "publishers": "London, New York, Singapore", "subscribers": "London"}
PUBLISHERS = 30
ENVELOPE = Envelope(700.0, 12.0)


def carried(topology, assignment, batch=1):
    """Columns of messages of one window of a second."""
    workload = load("poisson")
    schedule = workload.make(workload.config(publishers=PUBLISHERS, rate_rps=20.0, batch=batch), 7)
    asked = Deployed(topology, schedule, DeploymentConfig(), "small", 1, SECOND_NS, SECOND_NS, keeps_messages=True)
    its = deployment_of(asked)
    its.start(0, assignment, ENVELOPE)
    counts = its.carry(0, SECOND_NS, 0, SECOND_NS)
    return its, schedule.block(0, SECOND_NS), its.messages(), counts


@pytest.mark.parametrize("batch", [1, 5])
def test_equally_long_paths_add_to_every_latency_and_nothing_else(batch):
    assignment = np.arange(PUBLISHERS, dtype=np.int32) % 3
    near, _, found, counts = carried(load_topology("srtm-lan", {"brokers": 3}), assignment, batch)
    _, _, far, far_counts = carried(load_topology("srtm-lan", {"brokers": 3, "delay": "4ms"}), assignment, batch)
    assert near.model.network_ns == load_calibration("small").network_ns
    more_ns = 8 * MILLISECOND_NS - LAN_NS
    order = np.argsort(found["message"])
    for name, added_ns in (("intended_at_ns", 0), ("arrived_at_ns", 1), ("released_at_ns", 1), ("received_at_ns", 2)):
        assert (far[name] == found[name][order] + added_ns * more_ns).all(), name
    assert (far["message"] == found["message"][order]).all() and (far["publisher"] == found["publisher"][order]).all()
    assert (far_counts.access_delay == counts.access_delay).all()
    assert far_counts.latency.sum() == counts.latency.sum() == len(order)


def test_each_message_takes_its_own_path_and_brokers_serve_them_as_they_come():
    topology = load_topology("wan", CITIES)
    assignment = np.arange(PUBLISHERS, dtype=np.int32) // 5 % 2
    its, block, found, _ = carried(topology, assignment)
    sources, sinks = topology.node_names("publisher"), topology.node_names("subscriber")
    delay = {(a, b): topology.path(a, b).one_way_delay_ns - LAN_NS for a in sources for b in its.names}
    parts = its.start(0, assignment, ENVELOPE)
    expected = []
    for number, name in enumerate(its.names):
        twin = BrokerTwin(its.model, parts[number])
        mine = np.flatnonzero(assignment[block.publisher] == number)
        later = [int(block.at_ns[i]) + delay[sources[block.publisher[i] % len(sources)], name] for i in mine]
        out_ns = max(0, topology.path(name, sinks[0]).one_way_delay_ns - LAN_NS)
        for place in np.argsort(later, kind="stable"):
            for message in twin.emission(later[place], 1):
                expected.append((int(mine[place]), message.released_at_ns, message.received_at_ns + out_ns))
    got = zip(*(found[name].tolist() for name in ("message", "released_at_ns", "received_at_ns")), strict=True)
    assert sorted(expected) == list(got)
    assert found["message"].tolist() == list(range(block.message_count))
    assert (found["intended_at_ns"] == block.at_ns).all()


def test_silent_publishers_send_nothing():
    assignment = np.full(PUBLISHERS, -1, np.int32)
    assignment[:10] = 1
    _, block, found, counts = carried(load_topology("wan", CITIES), assignment)
    assert set(found["publisher"]) <= set(range(10)) and len(found["message"]) == (block.publisher < 10).sum()
    assert counts.latency.sum(axis=1).tolist() == [0, len(found["message"])]


def test_lans_have_no_long_paths():
    assert far_of(load_topology("srtm-lan"), 5) is None
    assert far_of(load_topology("wan", {"nodes": 3}), 5) is None, "nobody says who publishes"


def test_roles_live_in_their_cities():
    topology = load_topology("wan", CITIES)
    assert topology.node_names() == ["broker1", "broker2", "publisher1", "publisher2", "publisher3", "subscriber1"]
    assert topology.node_names("broker") == ["broker1", "broker2"]
    assert topology.path("publisher1", "broker1").one_way_delay_ns == 500_000, "both in London"
    apart_ns = topology.path("publisher1", "broker2").one_way_delay_ns
    assert apart_ns == load_topology("wan", {"nodes": 2, "cities": "London, Sydney"}).path("n1", "n2").one_way_delay_ns
    with pytest.raises(SpecError, match=r"broker in 'Londom'.*London"):
        load_topology("wan", {"brokers": "Londom"})


@pytest.mark.parametrize(
    ("topology_options", "more", "message"),
    [
        ({"jitter": "10%"}, {}, "jitter or loss"),
        ({"loss_probability": 0.01}, {}, "jitter or loss"),
        ({}, {"study_options": {"non_conformant": "drop"}}, "drop nothing"),
    ],
)
def test_what_the_model_cannot_do_is_refused(topology_options, more, message):
    spec = RunSpec(
        system="lb", workload="poisson", topology="wan", topology_options={**CITIES, **topology_options}, **more
    )
    with pytest.raises(SpecError, match=message):
        check_all([spec])
