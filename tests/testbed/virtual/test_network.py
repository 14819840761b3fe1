from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from systems.api import Transport
from testbed.faults import (
    ClockSkew,
    Crash,
    Handover,
    Heal,
    LinkDuplication,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
    check_faults,
    read_faults,
)
from testbed.topologies.topology import SWITCH, Host, Link, Topology, mesh
from testbed.virtual.network import RETRANSMIT_MINIMUM_NS, Network, Parcel

MS = 1_000_000


def parcel(source: str = "n1", target: str = "n2", size_bytes: int = 100) -> Parcel:
    return Parcel(source, target, b"", size_bytes, 0)


def sent(network: Network, content: Parcel, now_ns: int) -> int | None:
    """When the parcel arrives: once, or never."""
    found = network.send(content, now_ns)
    assert len(found) <= 1
    return found[0] if found else None


def arrivals(network: Network, count: int, source: str = "n1", target: str = "n2") -> list[int | None]:
    """One parcel each millisecond."""
    return [sent(network, parcel(source, target), n * MS) for n in range(count)]


def test_delay_is_the_sum_of_links_and_transmission() -> None:
    hosts = (Host("a"), Host("s", role="switch"), Host("b"))
    topology = Topology("t", hosts, (Link("a", "s", 3 * MS, rate_bps=8_000_000), Link("s", "b", 4 * MS)))
    network = Network(topology, 1)
    assert sent(network, parcel("a", "b", 1_000), 10) == 10 + 7 * MS + MS  # 1,000 bytes at 8 Mbit/s: 1 ms
    assert sent(network, parcel("a", "a"), 10) == 10


def test_the_same_seed_gives_the_same_network_and_paths_do_not_disturb_each_other() -> None:
    topology = mesh("m", ["n1", "n2", "n3"], 5 * MS, 2 * MS, 0.3)
    alone = arrivals(Network(topology, 7), 200)
    assert alone == arrivals(Network(topology, 7), 200)
    assert alone != arrivals(Network(topology, 8), 200)
    shared = Network(topology, 7)
    mixed = []
    for n in range(200):
        sent(shared, parcel("n3", "n2"), n * MS)
        mixed.append(sent(shared, parcel(), n * MS))
        sent(shared, parcel("n2", "n1"), n * MS)
    assert mixed == alone


def test_jitter_stays_within_its_bounds_and_lets_datagrams_overtake() -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 3 * MS), 1)
    found = [at_ns for at_ns in arrivals(network, 500) if at_ns is not None]
    delays = [at_ns - n * MS for n, at_ns in enumerate(found)]
    assert len(delays) == 500
    assert 2 * MS <= min(delays) < 3 * MS and 7 * MS < max(delays) <= 8 * MS
    assert found != sorted(found)


@given(st.integers(0, 2**32), st.floats(0.0, 0.9), st.lists(st.integers(0, 20 * MS), max_size=40))
def test_streams_keep_their_order_and_lose_nothing(seed: int, loss: float, gaps_ns: Sequence[int]) -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 5 * MS, loss), seed, Transport.STREAM)
    now_ns, found = 0, []
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        at_ns = sent(network, parcel(), now_ns)
        if at_ns is not None:  # after 15 retransmissions in vain a connection gives up
            assert at_ns >= now_ns
            found.append(at_ns)
    assert found == sorted(found)
    assert len(found) + network.lost_count["n1"] == len(gaps_ns)
    assert loss > 0.2 or len(found) == len(gaps_ns)


def test_a_lost_stream_message_comes_after_doubling_timeouts() -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 0, 0.5), 1, Transport.STREAM)
    wait_ns = RETRANSMIT_MINIMUM_NS + 10 * MS
    possible = {5 * MS + (2**tries - 1) * wait_ns for tries in range(16)}
    seen = set()
    for n in range(200):
        now_ns = n * 10**15  # far apart, so that order holds nothing back
        at_ns = sent(network, parcel(), now_ns)
        assert at_ns is not None
        seen.add(at_ns - now_ns)
    assert seen <= possible and {5 * MS, 5 * MS + wait_ns, 5 * MS + 3 * wait_ns} <= seen


def test_loss_has_its_probability_and_can_change() -> None:
    network = Network(mesh("m", ["n1", "n2"], MS, 0, 0.25), 3)
    lost = arrivals(network, 4_000).count(None)
    assert abs(lost - 1_000) < 140  # five standard deviations
    assert network.lost_count["n1"] == lost
    network.apply(LinkLoss(0, "n2", "n1", 0.0))
    assert None not in arrivals(network, 100)
    network.apply(LinkLoss(0, "*", "*", 1.0))
    assert set(arrivals(network, 100)) == {None}


def test_a_doubled_message_arrives_twice_and_a_stream_keeps_it_in_order() -> None:
    for transport in Transport:
        network = Network(mesh("m", ["n1", "n2"], 5 * MS, 3 * MS), 1, transport)
        network.apply(LinkDuplication(0, "n1", "n2", 0.25))
        found = [network.send(parcel(), n * MS) for n in range(4_000)]
        doubled = [times for times in found if len(times) == 2]
        assert abs(len(doubled) - 1_000) < 140
        assert all(first == second for first, second in doubled)
        if transport is Transport.STREAM:
            flat = [at_ns for times in found for at_ns in times]
            assert flat == sorted(flat)


def test_held_back_datagrams_are_overtaken_and_streams_are_not() -> None:
    for transport in Transport:
        network = Network(mesh("m", ["n1", "n2"], 5 * MS), 1, transport)
        network.apply(LinkReordering(0, "*", "*", 0.5, 2 * MS))
        delays = {sent(network, parcel(), n * 10 * MS) - n * 10 * MS for n in range(50)}  # type: ignore[operator]
        assert delays == ({5 * MS} if transport is Transport.STREAM else {5 * MS, 7 * MS})


def test_a_partition_loses_datagrams_until_it_heals() -> None:
    network = Network(mesh("m", ["n1", "n2", "n3"], MS), 1)
    assert sent(network, parcel("n1", "n2"), 0) == MS
    network.apply(Partition(0, ("n1",)))
    assert sent(network, parcel("n1", "n2"), 0) is None
    assert sent(network, parcel("n2", "n1"), 0) is None
    assert sent(network, parcel("n2", "n3"), 0) == MS
    network.apply(Partition(0, ("n3",)))
    assert network.apply(Heal(0, ("n1",))) == []
    assert sent(network, parcel("n1", "n2"), 0) == MS
    assert sent(network, parcel("n2", "n3"), 0) is None
    network.apply(Heal(0, ()))
    assert sent(network, parcel("n2", "n3"), 0) == MS


def test_a_partition_holds_streams_until_it_heals() -> None:
    network = Network(mesh("m", ["n1", "n2", "n3"], MS), 1, Transport.STREAM)
    network.apply(Partition(0, ("n1",)))
    first, second = parcel("n1", "n2", 1), parcel("n2", "n1", 2)
    assert sent(network, first, 0) is None and sent(network, second, 0) is None
    assert network.held_count == 2 and not network.lost_count
    network.crash("n3")
    assert network.apply(Heal(0, ("n1",))) == [first, second]
    assert network.held_count == 0


def test_a_crash_ends_the_streams_of_a_node() -> None:
    network = Network(mesh("m", ["n1", "n2", "n3"], MS), 1, Transport.STREAM)
    network.apply(Partition(0, ("n1",)))
    sent(network, parcel("n1", "n2"), 0)
    sent(network, parcel("n1", "n3"), 0)
    network.crash("n2")
    assert [held.target for held in network.apply(Heal(0, ()))] == ["n3"]
    assert network.lost_count == {"n1": 1}


TOPOLOGY = mesh("m", ["n1", "n2", "n3"], MS)


def test_faults_are_read_from_plain_values() -> None:
    rows: list[dict[str, Any]] = [
        {"kind": "heal", "at": "3s"},
        {"kind": "partition", "at": "2s", "side": ["n1", "n2"]},
        {"kind": "crash", "at": "500ms", "node": "n3"},
        {"kind": "restart", "at": "900ms", "node": "n3"},
        {"kind": "link-loss", "at": "7ns", "a": "n1", "b": "n2", "loss_probability": 0.5},
        {"kind": "clock-skew", "at": "4s", "node": "n1", "offset": "-5ms"},
        {"kind": "link-reordering", "at": "5s", "a": "*", "b": "*", "reordering_probability": 0.1, "hold": "2ms"},
    ]
    assert check_faults(read_faults(rows), TOPOLOGY) == [
        LinkLoss(7, "n1", "n2", 0.5),
        Crash(500 * MS, "n3"),
        Restart(900 * MS, "n3"),
        Partition(2_000 * MS, ("n1", "n2")),
        Heal(3_000 * MS),
        ClockSkew(4_000 * MS, "n1", -5 * MS),
        LinkReordering(5_000 * MS, "*", "*", 0.1, 2 * MS),
    ]


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ({"kind": "crush", "at": "2s"}, "did you mean 'crash'"),
        ({"kind": ["crash"], "at": "2s"}, "kind"),
        (["crash"], "write a table"),
        ({"kind": "crash", "at": 2, "node": "n1"}, "at = 2"),
        ({"kind": "crash", "node": "n1"}, "at = None"),
        ({"kind": "crash", "at": "soon", "node": "n1"}, "at = 'soon'"),
        ({"kind": "crash", "at": "2s"}, "needs option 'node'"),
        ({"kind": "crash", "at": "2s", "nod": "n1"}, "did you mean 'node'"),
        ({"kind": "partition", "at": "2s", "side": "n1"}, "option side = 'n1'"),
    ],
)
def test_unreadable_faults_are_spec_errors(row: dict, names: str) -> None:
    with pytest.raises(SpecError, match=names):
        read_faults([row])


@pytest.mark.parametrize(
    "faults",
    [
        [Crash(1, "n9")],
        [Crash(-1, "n1")],
        [Partition(1, ())],
        [Crash(1, "n1"), Restart(2, "n1", "n1")],
        [Crash(1, "n1"), Restart(2, "n1", "n9")],
        [ClockSkew(1, "n9", 5)],
        [LinkReordering(1, "*", "*", 0.5, 0)],
        [LinkDuplication(1, "n1", "n2", 1.5)],
        [Restart(1, "n1")],
        [Crash(1, "n1"), Crash(2, "n1")],
        [Partition(1, ("n9",))],
        [Heal(1, ("n1",))],
        [Partition(1, ("n1",)), Heal(2), Heal(3, ("n1",))],
        [LinkLoss(1, "n1", "n9", 0.5)],
        [LinkLoss(1, "n1", "n2", 1.5)],
    ],
)
def test_faults_that_cannot_happen_are_spec_errors(faults: list) -> None:
    with pytest.raises(SpecError):
        check_faults(faults, TOPOLOGY)


def test_a_host_that_moves_takes_its_link_along() -> None:
    hosts = (Host("a"), Host("b"), Host("c", nodes=("c", "d")), *(Host(name, role=SWITCH) for name in ("s", "t")))
    links = (Link("a", "s", 1), Link("b", "s", 2), Link("c", "t", 4), Link("s", "t", 100))
    network = Network(Topology("two", hosts, links), 1)

    def delay(source: str, target: str) -> int:
        (at_ns,) = network.send(Parcel(source, target, b"", 0, 0), 0)
        return at_ns

    assert [delay("a", "b"), delay("a", "c"), delay("c", "d")] == [3, 105, 0]
    network.apply(Handover(0, "a", "t"))
    assert [delay("a", "b"), delay("b", "a"), delay("a", "d"), delay("b", "c")] == [103, 103, 5, 106]
    network.apply(Handover(0, "b", "t"))
    network.apply(Handover(0, "c", "s"))
    assert [delay("a", "b"), delay("c", "a"), delay("c", "d")] == [3, 105, 0]
    network.apply(Handover(0, "a", "s"))
    assert delay("a", "c") == 5


def test_a_stream_keeps_its_order_over_a_handover() -> None:
    hosts = (Host("a"), Host("b"), *(Host(name, role=SWITCH) for name in ("s", "t")))
    network = Network(
        Topology("two", hosts, (Link("a", "s", 1), Link("b", "t", 2), Link("s", "t", 100))), 1, Transport.STREAM
    )
    assert network.send(Parcel("a", "b", b"", 0, 0), 0) == [103]
    network.apply(Handover(0, "a", "t"))
    assert network.send(Parcel("a", "b", b"", 0, 0), 10) == [103]
    assert network.send(Parcel("a", "b", b"", 0, 0), 101) == [104]


@pytest.mark.parametrize(("host", "point"), [("nobody", "s"), ("a", "b"), ("a", "nowhere"), ("s", "t")])
def test_a_handover_that_cannot_be_is_refused(host: str, point: str) -> None:
    hosts = (Host("a"), Host("b"), *(Host(name, role=SWITCH) for name in ("s", "t", "u")))
    links = (Link("a", "s", 1), Link("b", "t", 2), Link("s", "t", 100), Link("s", "u", 1))
    with pytest.raises(SpecError, match="Handover"):
        check_faults([Handover(0, host, point)], Topology("two", hosts, links))


def test_a_fault_names_a_link_as_it_is_by_then() -> None:
    hosts = (Host("a"), *(Host(name, role=SWITCH) for name in ("s", "t")))
    topology = Topology("two", hosts, (Link("a", "s", 1), Link("s", "t", 100)))
    moved = Handover(1, "a", "t")
    assert check_faults([LinkLoss(2, "a", "t", 0.5), moved], topology) == [moved, LinkLoss(2, "a", "t", 0.5)]
    with pytest.raises(SpecError, match="no link a-s"):
        check_faults([LinkLoss(2, "a", "s", 0.5), moved], topology)
