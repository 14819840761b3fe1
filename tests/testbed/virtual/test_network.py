import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from systems.api import Transport
from testbed.faults import (
    ClockSkew,
    Crash,
    Fault,
    Handover,
    Heal,
    LinkDelay,
    LinkDuplication,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
    check_faults,
    read_faults,
)
from testbed.nodes.retransmission import RETRANSMIT_MAXIMUM_NS, first_wait_ns, next_wait_ns
from testbed.topologies.mec import city_mec
from testbed.topologies.topology import SWITCH, Host, Link, Topology, mesh
from testbed.virtual.network import Network, Parcel, Stream

MS = 1_000_000
SECOND = 1_000 * MS


def parcel(source: str = "n1", target: str = "n2", size_bytes: int = 100) -> Parcel:
    return Parcel(source, target, b"", size_bytes, 0)


def sent(network: Network, content: Parcel, now_ns: int) -> int | None:
    """When the parcel arrives: once, or never."""
    found = [at_ns for at_ns, what in network.send(content, now_ns) if what is content]
    assert len(found) <= 1
    return found[0] if found else None


def carried(
    network: Network, sendings: Iterable[tuple[int, Parcel]], faults: Sequence[Fault] = ()
) -> list[tuple[int, Parcel]]:
    """What arrives when, in the order of the instants; of one instant, faults first, then what is sent."""
    serial = count()
    heap: list[tuple[int, int, Any]] = [(fault.at_ns, next(serial), fault) for fault in faults]
    heap += [(at_ns, next(serial), ("send", content)) for at_ns, content in sendings]
    heapq.heapify(heap)
    arrived = []
    while heap:
        now_ns, _, what = heapq.heappop(heap)
        happenings = []
        match what:
            case ("send", content):
                happenings = network.send(content, now_ns)
            case Stream():
                happenings = network.retry(what, now_ns)
            case Parcel():
                arrived.append((now_ns, what))
            case Crash(node=node):
                network.end_streams(node)
            case _:
                network.apply(what)
        for at_ns, after in happenings:
            assert at_ns >= now_ns
            heapq.heappush(heap, (at_ns, next(serial), after))
    return arrived


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


def tries_ns(wait_ns: int, until_ns: int) -> list[int]:
    """When a message is sent that is lost all the time, by hand: the waits double up to a second."""
    found = [0]
    while found[-1] < until_ns:
        found.append(found[-1] + wait_ns)
        wait_ns = min(2 * wait_ns, SECOND)
    return found


def test_the_rule_of_retransmission() -> None:
    assert tries_ns(210 * MS, 5 * SECOND) == [n * MS for n in (0, 210, 630, 1_470, 2_470, 3_470, 4_470, 5_470)]
    waits_ns = [first_wait_ns(10 * MS)]
    for _ in range(4):
        waits_ns.append(next_wait_ns(waits_ns[-1]))
    assert waits_ns == [210 * MS, 420 * MS, 840 * MS, SECOND, SECOND]
    assert first_wait_ns(3 * SECOND) == SECOND == RETRANSMIT_MAXIMUM_NS


@given(st.integers(0, 2**32), st.floats(0.0, 0.9), st.lists(st.integers(0, 20 * MS), max_size=40))
def test_streams_keep_their_order_and_lose_nothing(seed: int, loss: float, gaps_ns: Sequence[int]) -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 5 * MS, loss), seed, Transport.STREAM)
    now_ns, sendings = 0, []
    for size, gap_ns in enumerate(gaps_ns):
        now_ns += gap_ns
        sendings.append((now_ns, parcel(size_bytes=size)))
    found = carried(network, sendings)
    assert [content for _, content in found] == [content for _, content in sendings]
    assert all(at_ns >= sent_ns for (at_ns, _), (sent_ns, _) in zip(found, sendings, strict=True))
    assert network.waiting_count == 0 and not network.lost_count


@given(st.integers(0, 2**32), st.floats(0.0, 1.0), st.lists(st.integers(0, 3 * SECOND), max_size=30))
def test_after_the_last_heal_all_is_there_within_a_second_and_a_delay(
    seed: int, loss: float, instants: list[int]
) -> None:
    delay_ns, healed_ns = 30 * MS, 20 * SECOND
    network = Network(mesh("m", ["n1", "n2", "n3"], delay_ns), seed, Transport.STREAM)
    faults = [
        LinkLoss(0, "*", "*", loss),
        Partition(SECOND, ("n1",)),
        Heal(5 * SECOND, ("n1",)),
        LinkLoss(healed_ns, "*", "*", 0.0),
    ]
    sendings = [(at_ns, parcel("n1", f"n{2 + n % 2}", n)) for n, at_ns in enumerate(sorted(instants))]
    found = carried(network, sendings, faults)
    assert len(found) == len(sendings) and network.waiting_count == 0
    assert max((at_ns for at_ns, _ in found), default=0) <= healed_ns + RETRANSMIT_MAXIMUM_NS + delay_ns


def test_a_lost_stream_message_is_sent_again_after_doubling_waits() -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 0, 0.5), 1, Transport.STREAM)
    far_apart = [(n * 10**12, parcel(size_bytes=n)) for n in range(200)]
    took_ns = {at_ns - content.size_bytes * 10**12 for at_ns, content in carried(network, far_apart)}
    possible = [5 * MS + at_ns for at_ns in tries_ns(210 * MS, 60 * SECOND)]
    assert took_ns <= set(possible) and set(possible[:4]) <= took_ns


@pytest.mark.parametrize(("ends_ms", "arrives_ms"), [(100, 215), (210, 215), (211, 635), (55_000, 55_475)])
def test_the_end_of_a_loss_is_noticed_by_the_next_try(ends_ms: int, arrives_ms: int) -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 0, 1.0), 1, Transport.STREAM)
    assert carried(network, [(0, parcel())], [LinkLoss(ends_ms * MS, "*", "*", 0.0)]) == [(arrives_ms * MS, parcel())]


def test_the_wait_begins_anew_once_the_first_comes_through() -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS, 0, 1.0), 1, Transport.STREAM)
    second = parcel(size_bytes=2)
    (ring_ns, stream), *more = network.send(parcel(), 0)
    assert isinstance(stream, Stream) and ring_ns == 210 * MS and not more
    assert network.retry(stream, ring_ns) == [(630 * MS, stream)]
    assert network.send(second, 300 * MS) == []  # lost as well; the timer runs
    through = iter([0.0, 1.0])  # the first comes through, and the second does not
    network.apply(LinkLoss(0, "*", "*", 0.5))
    stream.route.loss = type("Drawn", (), {"random": lambda self: next(through)})()  # type: ignore[assignment]
    assert network.retry(stream, 630 * MS) == [(635 * MS, parcel()), (840 * MS, stream)]


def test_what_comes_through_waits_for_what_was_sent_before() -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS), 1, Transport.STREAM)
    faults = [LinkLoss(0, "*", "*", 1.0), LinkLoss(1 * MS, "*", "*", 0.0), LinkLoss(3 * MS, "*", "*", 1.0)]
    faults.append(LinkLoss(200 * MS, "*", "*", 0.0))
    sendings = [(0, parcel(size_bytes=1)), (2 * MS, parcel(size_bytes=2)), (4 * MS, parcel(size_bytes=3))]
    found = carried(network, sendings, faults)
    assert [(at_ns, content.size_bytes) for at_ns, content in found] == [(215 * MS, n) for n in (1, 2, 3)]


@pytest.mark.parametrize(("transport", "last_ms"), [(Transport.DATAGRAM, 12), (Transport.STREAM, 26)])
def test_a_delay_that_changes_lets_datagrams_overtake_and_no_stream(transport: Transport, last_ms: int) -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS), 1, transport)
    faults = [LinkDelay(0, "*", "*", 20 * MS), LinkDelay(5 * MS, "n2", "n1", 0)]
    sendings = [(1 * MS, parcel(size_bytes=1)), (7 * MS, parcel(size_bytes=2))]
    found = carried(network, sendings, faults)
    assert sorted((content.size_bytes, at_ns) for at_ns, content in found) == [(1, 26 * MS), (2, last_ms * MS)]


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
        found = [[at_ns for at_ns, _ in network.send(parcel(), n * MS)] for n in range(4_000)]
        doubled = [times for times in found if len(times) == 2]
        assert abs(len(doubled) - 1_000) < 140
        apart = {second - first for first, second in doubled}
        assert (apart == {0}) if transport is Transport.STREAM else (min(apart) < -5 * MS and max(apart) > 5 * MS)
        if transport is Transport.STREAM:
            flat = [at_ns for times in found for at_ns in times]
            assert flat == sorted(flat)


def test_a_copy_of_a_datagram_is_held_back_for_itself() -> None:
    network = Network(mesh("m", ["n1", "n2"], 5 * MS), 1)
    network.apply(LinkDuplication(0, "*", "*", 1.0))
    network.apply(LinkReordering(0, "*", "*", 0.5, 2 * MS))
    seen = {tuple(at_ns for at_ns, _ in network.send(parcel(), 0)) for _ in range(50)}
    assert seen == {(first * MS, second * MS) for first in (5, 7) for second in (5, 7)}


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
    network.apply(Heal(0, ("n1",)))
    assert sent(network, parcel("n1", "n2"), 0) == MS
    assert sent(network, parcel("n2", "n3"), 0) is None
    network.apply(Heal(0, ()))
    assert sent(network, parcel("n2", "n3"), 0) == MS


def test_a_partition_holds_streams_until_it_heals() -> None:
    network = Network(mesh("m", ["n1", "n2", "n3"], MS), 1, Transport.STREAM)
    there, back = parcel("n1", "n2", 1), parcel("n2", "n1", 2)
    faults = [Partition(0, ("n1",)), Crash(1, "n3"), Heal(10 * SECOND, ("n1",))]
    found = carried(network, [(0, there), (100 * MS, back)], faults)
    assert found == [(10_415 * MS, there), (10_515 * MS, back)]  # 202, 606, 1,414 ms, and then each second
    assert network.waiting_count == 0 and not network.lost_count


def test_a_crash_ends_the_streams_of_a_node() -> None:
    network = Network(mesh("m", ["n1", "n2", "n3"], MS), 1, Transport.STREAM)
    lost, kept, after = parcel("n1", "n2", 1), parcel("n1", "n3", 2), parcel("n1", "n2", 3)
    faults = [Partition(0, ("n1",)), Crash(50 * MS, "n2"), Heal(100 * MS)]
    found = carried(network, [(0, lost), (0, kept), (101 * MS, after)], faults)
    assert found == [(102 * MS, after), (203 * MS, kept)]
    assert network.lost_count == {"n1": 1} and network.waiting_count == 0


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
        {"kind": "link-delay", "at": "6s", "a": "n1", "b": "n3", "hold": "20ms"},
        {"kind": "link-delay", "at": "7s", "a": "n3", "b": "n1", "hold": "0ms"},
    ]
    assert check_faults(read_faults(rows), TOPOLOGY) == [
        LinkLoss(7, "n1", "n2", 0.5),
        Crash(500 * MS, "n3"),
        Restart(900 * MS, "n3"),
        Partition(2_000 * MS, ("n1", "n2")),
        Heal(3_000 * MS),
        ClockSkew(4_000 * MS, "n1", -5 * MS),
        LinkReordering(5_000 * MS, "*", "*", 0.1, 2 * MS),
        LinkDelay(6_000 * MS, "n1", "n3", 20 * MS),
        LinkDelay(7_000 * MS, "n3", "n1", 0),
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
        [LinkDelay(1, "*", "*", -1)],
        [LinkDelay(1, "n1", "n9", 5)],
        [LinkDuplication(1, "n1", "n2", 1.5)],
        [Restart(1, "n1")],
        [Crash(1, "n1"), Crash(2, "n1")],
        [Partition(1, ("n9",))],
        [Partition(1, ("n1", "s"))],
        [Heal(1, ("n1",))],
        [Partition(1, ("n1",)), Heal(2), Heal(3, ("n1",))],
        [LinkLoss(1, "n1", "n9", 0.5)],
        [LinkLoss(1, "n1", "n2", 1.5)],
    ],
)
def test_faults_that_cannot_happen_are_spec_errors(faults: list) -> None:
    hosts, links = (*TOPOLOGY.hosts, Host("s", role=SWITCH)), (*TOPOLOGY.links, Link("s", "n3"))
    with pytest.raises(SpecError):
        check_faults(faults, Topology("m", hosts, links))


@pytest.mark.parametrize(
    ("switch", "hosts"),
    [("site1", "broker1, proxy1"), ("cloud", "manager1, store"), ("city", "broker1, broker2, proxy1")],
)
def test_who_cuts_off_a_switch_is_told_who_is_behind_it(switch: str, hosts: str) -> None:
    with pytest.raises(SpecError) as raised:
        check_faults([Partition(1, (switch,))], city_mec(sites=2))
    assert raised.value.fix == f"name the hosts behind it, as in {hosts}"


def test_a_host_that_moves_takes_its_link_along() -> None:
    hosts = (Host("a"), Host("b"), Host("c", nodes=("c", "d")), *(Host(name, role=SWITCH) for name in ("s", "t")))
    links = (Link("a", "s", 1), Link("b", "s", 2), Link("c", "t", 4), Link("s", "t", 100))
    network = Network(Topology("two", hosts, links), 1)

    def delay(source: str, target: str) -> int:
        ((at_ns, _),) = network.send(Parcel(source, target, b"", 0, 0), 0)
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
    assert sent(network, parcel("a", "b"), 0) == 103
    network.apply(Handover(0, "a", "t"))
    assert sent(network, parcel("a", "b"), 10) == 103
    assert sent(network, parcel("a", "b"), 101) == 104


def test_a_message_under_repair_takes_the_road_of_its_next_try() -> None:
    hosts = (Host("a"), Host("b"), *(Host(name, role=SWITCH) for name in ("s", "t")))
    topology = Topology("two", hosts, (Link("a", "s", MS), Link("b", "t", 2 * MS), Link("s", "t", 100 * MS)))
    faults = [LinkLoss(0, "s", "t", 1.0), Handover(50 * MS, "a", "t")]
    found = carried(Network(topology, 1, Transport.STREAM), [(0, parcel("a", "b"))], faults)
    assert found == [((200 + 2 * 103 + 3) * MS, parcel("a", "b"))]


@pytest.mark.parametrize(("host", "point"), [("nobody", "s"), ("a", "b"), ("a", "nowhere"), ("s", "t"), ("u", "t")])
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
