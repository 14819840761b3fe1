import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from testbed.links import LinkStates
from testbed.topologies.topology import SWITCH, TOPOLOGIES, Host, Link, Topology, load_topology, mesh


def line(*delays_ns: int) -> Topology:
    """Hosts h0 - h1 - h2 ..., link i of delay ``delays_ns[i]``."""
    hosts = tuple(Host(f"h{i}") for i in range(len(delays_ns) + 1))
    links = tuple(Link(f"h{i}", f"h{i + 1}", delay) for i, delay in enumerate(delays_ns))
    return Topology("line", hosts, links)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=8))
def test_delays_add_up_along_a_path(delays_ns: list[int]) -> None:
    topology = line(*delays_ns)
    assert topology.path("h0", f"h{len(delays_ns)}").one_way_delay_ns == sum(delays_ns)
    assert topology.path(f"h{len(delays_ns)}", "h0").one_way_delay_ns == sum(delays_ns)
    assert topology.path("h0", "h0").links == ()


def test_the_path_is_the_one_of_least_delay_then_of_fewest_links() -> None:
    hosts = (Host("a"), Host("b"), Host("c"))
    slow = Topology("t", hosts, (Link("a", "b", 10), Link("a", "c", 4), Link("c", "b", 5)))
    assert [link.b for link in slow.path("a", "b").links] == ["c", "b"]
    equal = Topology("t", hosts, (Link("a", "c", 5), Link("c", "b", 5), Link("a", "b", 10)))
    assert len(equal.path("a", "b").links) == 1


def test_loss_jitter_and_transmission_combine_along_a_path() -> None:
    links = (Link("a", "b", 10, 2, 0.5, 8_000), Link("b", "c", 10, 3, 0.5, 16_000))
    topology = Topology("t", (Host("a"), Host("b"), Host("c")), links)
    path = topology.path("a", "c")
    assert path.loss_probability == 0.75
    assert path.jitter_ns == 5
    assert LinkStates(topology).state("a", "c").transmission_ns(1_000) == 1_500_000_000


def test_srtm_lan_is_the_testbed_of_the_paper() -> None:
    topology = load_topology("srtm-lan")
    assert len(topology.machines) == 7
    assert all(host.cores == 16 for host in topology.machines)
    assert [host.role for host in topology.machines].count("publisher") == 2
    assert [host.role for host in topology.machines].count("subscriber") == 2
    assert topology.node_names("broker") == [f"broker{i}" for i in range(1, 7)]
    assert {topology.host_of(f"broker{i}") for i in range(1, 7)} == {"brokers1", "brokers2"}
    assert topology.host_of("adaptor") == "control"
    assert all(link.rate_bps == 40 * 10**9 for link in topology.links)
    assert topology.path("broker1", "broker2").one_way_delay_ns == 0  # on one host
    assert topology.path("broker1", "adaptor").one_way_delay_ns == 20_000


@pytest.mark.parametrize("brokers", [1, 2, 3, 7, 40])
def test_srtm_lan_carries_any_number_of_brokers(brokers: int) -> None:
    topology = load_topology("srtm-lan", {"brokers": brokers})
    assert len(topology.node_names("broker")) == brokers
    for host in topology.hosts:
        if host.role == "broker":
            assert 2 * len(host.nodes) <= host.cores


def test_star_and_full_mesh() -> None:
    star = load_topology("star", {"nodes": 3, "delay": "7ms"})
    assert star.node_names() == ["hub", "n1", "n2", "n3"]
    assert star.path("n1", "n2").one_way_delay_ns == 14_000_000
    full = load_topology("full-mesh", {"nodes": 5})
    assert len(full.links) == 10
    assert full.path("n1", "n5").one_way_delay_ns == 5_000_000


def test_a_dumbbell_has_one_link_between_its_halves() -> None:
    topology = load_topology("dumbbell", {"nodes": 5, "rate_mbps": 2.5, "jitter": "2ms", "loss_probability": 0.1})
    assert topology.node_names() == ["n1", "n2", "n3", "n4", "n5"]
    delays_ns = [topology.path("n1", name).one_way_delay_ns for name in ("n3", "n4", "n5")]
    assert delays_ns == [2 * 10**6, 22 * 10**6, 22 * 10**6]
    across, beside = topology.path("n2", "n5"), topology.path("n5", "n4")
    assert across.jitter_ns == 2_000_000 and across.loss_probability == pytest.approx(0.1)
    assert [link.rate_bps for link in across.links] == [None, 2_500_000, None]
    assert beside.jitter_ns == 0 and beside.loss_probability == 0
    assert all(link.rate_bps is None for link in load_topology("dumbbell").links)


@pytest.mark.parametrize(("depth", "fanout"), [(1, 1), (1, 4), (2, 3), (3, 2), (5, 1)])
def test_a_tree_is_as_deep_and_wide_as_asked(depth: int, fanout: int) -> None:
    topology = load_topology("tree", {"depth": depth, "fanout": fanout, "delay": "1ms"})
    leaves = fanout**depth
    assert topology.node_names() == [f"n{i}" for i in range(1, leaves + 1)]
    assert len(topology.hosts) == sum(fanout**level for level in range(depth + 1)) == len(topology.links) + 1
    degrees = {name: sum(name in (link.a, link.b) for link in topology.links) for name in ("s1", "n1")}
    assert degrees == {"s1": fanout, "n1": 1}
    if leaves > 1:
        assert topology.path("n1", f"n{leaves}").one_way_delay_ns == (2 * depth if fanout > 1 else 0) * 10**6
        assert topology.path("n1", "n2").one_way_delay_ns == 2 * 10**6


def test_a_direct_topology_takes_no_detours() -> None:
    hosts = (Host("a"), Host("b"), Host("c"), Host("d"))
    links = (Link("a", "b", 9), Link("a", "c", 2), Link("c", "b", 3), Link("b", "d", 4), Link("c", "d", 1))
    short, direct = Topology("t", hosts, links), Topology("t", hosts, links, direct=True)
    delays = [[topology.path("a", to).one_way_delay_ns for to in ("b", "c", "d")] for topology in (short, direct)]
    assert delays == [[5, 2, 3], [9, 2, 3]]  # to d in two links over c, not over b


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_registered_topology_builds_by_default(name: str) -> None:
    topology = load_topology(name)
    assert topology.name == name
    assert load_topology(name) == topology


@pytest.mark.parametrize(
    ("hosts", "links", "names"),
    [
        ((), (), "no hosts"),
        ((Host("a"), Host("a")), (), "host a is there twice"),
        ((Host("a", nodes=("x",)), Host("b", nodes=("x",))), (Link("a", "b"),), "node x is there twice"),
        ((Host("a"), Host("b", nodes=("a",))), (Link("a", "b"),), "node a is there twice"),
        ((Host("a", nodes=("x",)), Host("b", nodes=("a",))), (Link("a", "b"),), "is a host and a node"),
        ((Host("a", cores=0),), (), "0 cores"),
        ((Host("a", role=SWITCH, nodes=("x",)),), (), "switch a has nodes"),
        ((Host("a"),), (Link("a", "b"),), "does not join two hosts"),
        ((Host("a"),), (Link("a", "a"),), "does not join two hosts"),
        ((Host("a"), Host("b")), (Link("a", "b"), Link("b", "a")), "link a-b is there twice"),
        ((Host("a"), Host("b")), (), "no path from a to b"),
        ((Host("a"), Host("b")), (Link("a", "b", -1),), "delay -1"),
        ((Host("a"), Host("b")), (Link("a", "b", 5, 6),), "jitter 6"),
        ((Host("a"), Host("b")), (Link("a", "b", loss_probability=1.5),), "loss_probability 1.5"),
        ((Host("a"), Host("b")), (Link("a", "b", rate_bps=0),), "rate_bps 0"),
    ],
)
def test_what_cannot_be_is_a_spec_error(hosts: tuple[Host, ...], links: tuple[Link, ...], names: str) -> None:
    with pytest.raises(SpecError, match=names):
        Topology("t", hosts, links)


@pytest.mark.parametrize(
    ("name", "options", "names"),
    [
        ("srtm-lam", {}, "did you mean 'srtm-lan'"),
        ("star", {"node": 3}, "did you mean 'nodes'"),
        ("star", {"nodes": "three"}, "option nodes = 'three'"),
        ("star", {"nodes": 0}, "nodes = 0"),
        ("star", {"delay": "5 parsecs"}, "not a duration"),
        ("star", {"delay": "1ms", "jitter": "2ms"}, "jitter"),
        ("srtm-lan", {"brokers": 0}, "brokers = 0"),
        ("dumbbell", {"nodes": 1}, "nodes = 1"),
        ("dumbbell", {"rate_mbps": -1}, "rate_mbps = -1"),
        ("tree", {"depth": 0}, "depth = 0"),
        ("tree", {"depth": 10, "fanout": 3}, "at most 1000"),
        ("tree", {"rate_mbps": float("nan")}, "rate_mbps = nan"),
    ],
)
def test_bad_options_are_spec_errors(name: str, options: dict, names: str) -> None:
    with pytest.raises(SpecError, match=names):
        load_topology(name, options)


def test_an_unknown_node_is_a_spec_error() -> None:
    with pytest.raises(SpecError, match="no node 'n9'"):
        mesh("m", ["n1", "n2"], 5).host_of("n9")
