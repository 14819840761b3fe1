from typing import Any

import pytest

from core.errors import SpecError
from core.units import MILLISECOND_NS
from testbed.topologies.places import sites, with_clients
from testbed.topologies.topology import load_topology


def test_sites_are_as_far_apart_as_in_the_paper() -> None:
    topology = load_topology("city-mec", {"managers": 2})
    assert [(site.name, site.proxy) for site in sites(topology)] == [(f"site{n}", f"proxy{n}") for n in range(1, 5)]
    assert topology.node_names("broker") == [f"broker{n}{end}" for n in range(1, 5) for end in ("", "-agent")]
    assert topology.node_names("manager") == ["manager1", "manager1-agent", "manager2", "manager2-agent"]
    assert topology.node_names("store") == ["store"]
    delays = {
        (a, b): topology.path(a, b).one_way_delay_ns / MILLISECOND_NS
        for a, b in (("broker1", "broker4"), ("broker2-agent", "proxy2"), ("proxy3", "manager1"), ("store", "broker2"))
    }
    assert list(delays.values()) == [15, 0, 40, 40]
    with_two = with_clients(topology, {"a": 0, "b": 3}, 8 * MILLISECOND_NS)
    assert with_two.path("a", "b").one_way_delay_ns == 31 * MILLISECOND_NS
    assert with_two.path("a", "broker1").one_way_delay_ns == 8 * MILLISECOND_NS


def test_some_sites_and_the_cloud_may_have_brokers() -> None:
    topology = load_topology("city-mec", {"sites": 3, "brokers": "3,1", "cloud_brokers": 2, "cloud_delay": "20ms"})
    hosts = [host.name for host in topology.hosts if host.role == "broker"]
    assert hosts == ["broker1", "broker3", "broker4", "broker5"]
    assert topology.path("broker4", "broker5").one_way_delay_ns == 0
    assert topology.path("broker4", "broker1").one_way_delay_ns == 20 * MILLISECOND_NS
    assert len(sites(topology)) == 3
    assert load_topology("city-mec", {"brokers": 2}) == load_topology("city-mec", {"brokers": [2]})


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"sites": 0}, "sites = 0"),
        ({"managers": 0}, "managers = 0"),
        ({"cloud_brokers": -1}, "cloud_brokers = -1"),
        ({"site_rtt": "fast"}, "site_rtt: not a duration"),
        ({"cloud_delay": "7ms"}, "cloud_delay = 7ms"),
        ({"brokers": "1,1"}, "brokers = '1,1'"),
        ({"brokers": 5}, "brokers = 5"),
        ({"brokers": "north"}, "brokers = 'north'"),
        ({"brokers": []}, "brokers = "),
    ],
)
def test_bad_options_are_spec_errors(options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what) as raised:
        load_topology("city-mec", options)
    assert raised.value.fix or "duration" in what
