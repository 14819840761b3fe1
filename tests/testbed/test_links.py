"""The fold of faults and handovers: what it says by hand, beside its literal twin, and as virtual time uses it."""

from dataclasses import dataclass, field, replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.faults import (
    ClockSkew,
    Fault,
    Handover,
    Heal,
    LinkDelay,
    LinkDuplication,
    LinkFault,
    LinkLoss,
    LinkReordering,
    Partition,
)
from testbed.links import LinkStates, PathState, held_ns, longest_delay_ns
from testbed.topologies.topology import SWITCH, Host, Link, Topology, load_topology
from testbed.virtual.network import Network

MS = MILLISECOND_NS


def test_faults_change_what_paths_do() -> None:
    topology = load_topology("star", {"nodes": 3, "delay": "5ms", "jitter": "1ms"})
    links = LinkStates(topology)
    assert len(links.states()) == 12
    assert links.states()["n1", "n2"] == PathState(10 * MS, (MS, MS))
    links.apply(LinkLoss(0, "hub", "n1", 0.5))
    links.apply(LinkLoss(0, "n2", "hub", 0.5))
    links.apply(LinkDuplication(0, "*", "*", 0.25))
    links.apply(LinkReordering(0, "hub", "n2", 0.1, 7 * MS))
    found = links.states()
    assert found["n1", "n2"] == PathState(10 * MS, (MS, MS), 0.25, (0.25, 0.25), ((0.1, 7 * MS),))
    assert found["n3", "hub"] == PathState(5 * MS, (MS,), 1.0, (0.25,))
    links.apply(LinkDuplication(0, "*", "*", 0.0))
    links.apply(Partition(0, ("n1",)))
    links.apply(Partition(0, ("n1", "n2")))
    cut = {ends for ends, path in links.states().items() if path.is_cut and ends[0] < ends[1]}
    assert cut == {("n1", "n2"), ("hub", "n1"), ("n1", "n3"), ("hub", "n2"), ("n2", "n3")}
    links.apply(Heal(0, ("n1",)))
    cut = {ends for ends, path in links.states().items() if path.is_cut and ends[0] < ends[1]}
    assert cut == {("hub", "n1"), ("n1", "n3"), ("hub", "n2"), ("n2", "n3")}
    links.apply(Heal(0))
    assert not any(path.is_cut for path in links.states().values())
    assert links.states()["n1", "n3"].loss_probability == 0.5 and not links.states()["n1", "n3"].duplications
    links.apply(LinkDelay(0, "hub", "n3", 40 * MS))
    assert links.states()["n1", "n3"].delay_ns == 50 * MS == links.states()["n3", "n2"].delay_ns
    assert links.states()["n1", "n2"].delay_ns == 10 * MS == links.topology.path("n1", "n3").one_way_delay_ns
    links.apply(LinkDelay(0, "n3", "hub", 0))
    links.set_delay("hub", "n3", MS // 2)
    assert links.states()["hub", "n3"] == PathState(MS // 2, (MS // 2,))
    assert topology.path("hub", "n3").one_way_delay_ns == 5 * MS  # the one that was given is as it was


def test_a_moved_host_takes_its_link_along() -> None:
    links = LinkStates(load_topology("tree", {"depth": 2, "fanout": 2, "delay": "5ms"}))
    links.apply(LinkReordering(0, "n1", "s2", 0.1, 7))
    links.apply(LinkDuplication(0, "n1", "s2", 0.2))
    assert links.point_of("n1") == "s2"
    links.apply(Handover(0, "n1", "s3"))
    assert links.point_of("n1") == "s3"
    found = links.states()
    assert found["n1", "n3"] == PathState(10 * MS, (), 1.0, (0.2,), ((0.1, 7),)) == found["n3", "n1"]
    assert found["n1", "n2"].delay_ns == 20 * MS
    links.apply(LinkDuplication(0, "n1", "s3", 0.0))
    links.apply(Handover(0, "n1", "s2"))
    assert links.states()["n1", "n2"] == PathState(10 * MS, reorderings=((0.1, 7),))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (LinkLoss(0, "n1", "n2", 0.5), "no link n1-n2"),
        (Handover(0, "s1", "n1"), "has 2 links"),
        (Handover(0, "n1", "mars"), "no access point 'mars'"),
        (Handover(0, "n1", "n1"), "no access point 'n1'"),
        (ClockSkew(0, "n1", 5), "nothing that a network does"),
    ],
)
def test_what_no_network_can_do_is_refused(fault: Fault, message: str) -> None:
    links = LinkStates(load_topology("tree", {"depth": 2, "fanout": 2}))
    before = links.states()
    with pytest.raises(SpecError, match=message):
        links.apply(fault)
    assert links.states() == before


# --- beside a twin, and as it is used ----------------------------------------------------------------

SWITCHES = ("s1", "s2", "s3")
LEAVES = ("a", "b", "c", "d")
CHANCES = (0.0, 0.25, 0.5, 1.0)


@dataclass
class Twin:
    """The same, without any thought: a link is a value that is replaced, and paths are sought anew."""

    topology: Topology
    doubled: dict[int, float] = field(default_factory=dict)  # number of the link -> probability
    longer_ns: dict[int, int] = field(default_factory=dict)
    held: dict[int, tuple[float, int]] = field(default_factory=dict)
    sides: list[frozenset[str]] = field(default_factory=list)

    def apply(self, fault: Fault) -> None:
        links = list(self.topology.links)
        match fault:
            case Partition(side=side):
                self.sides.append(frozenset(side))
            case Heal(side=side):
                self.sides = [other for other in self.sides if side and other != frozenset(side)]
            case Handover(host=host, point=point):
                (number,) = (i for i, link in enumerate(links) if host in (link.a, link.b))
                links[number] = replace(links[number], a=host, b=point)
            case LinkFault():
                for i, link in enumerate(links):
                    if fault.a == "*" or {fault.a, fault.b} == {link.a, link.b}:
                        links[i] = self.disturbed(i, link, fault)
        self.topology = replace(self.topology, links=tuple(links))

    def disturbed(self, number: int, link: Link, fault: LinkFault) -> Link:
        match fault:
            case LinkDuplication():
                self.doubled[number] = fault.duplication_probability
            case LinkDelay():
                self.longer_ns[number] = fault.hold_ns
            case LinkReordering():
                self.held[number] = fault.reordering_probability, fault.hold_ns
            case LinkLoss():
                return replace(link, loss_probability=fault.loss_probability)
        return link

    def state(self, source: str, target: str) -> PathState:
        path = self.topology.path(source, target)
        numbers = [self.topology.links.index(link) for link in path.links]
        return PathState(
            path.one_way_delay_ns + sum(self.longer_ns.get(i, 0) for i in numbers),
            tuple(link.jitter_ns for link in path.links if link.jitter_ns),
            prod(1.0 - link.loss_probability for link in path.links),
            tuple(self.doubled[i] for i in numbers if self.doubled.get(i)),
            tuple(self.held[i] for i in numbers if i in self.held and self.held[i][0]),
            tuple(link.rate_bps for link in path.links if link.rate_bps),
            any((source in side) != (target in side) for side in self.sides),
        )


@st.composite
def histories(draw: st.DrawFn) -> tuple[Topology, list[Fault]]:
    """A ring of switches with leaves, all links different, and faults that can happen there."""
    points = {leaf: draw(st.sampled_from(SWITCHES)) for leaf in LEAVES}
    ends = [("s1", "s2"), ("s2", "s3"), ("s3", "s1"), *points.items()]
    links = [
        Link(a, b, draw(st.integers(5, 9)) * MS + i, i % 3, i / 100, 10**6 * i if i % 2 else None)
        for i, (a, b) in enumerate(ends)
    ]
    hosts = [*(Host(name, role=SWITCH) for name in SWITCHES), *(Host(name) for name in LEAVES)]
    sides = st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3, unique=True).map(tuple)
    faults: list[Fault] = []
    for at_ns in range(draw(st.integers(0, 12))):
        a, b = draw(st.sampled_from([("*", "*"), ("s1", "s2"), *points.items()]))
        chance = draw(st.sampled_from(CHANCES))
        fault = draw(
            st.one_of(
                st.builds(Partition, st.just(at_ns), sides),
                st.builds(Heal, st.just(at_ns), st.one_of(sides, st.just(()))),
                st.builds(Handover, st.just(at_ns), st.sampled_from(LEAVES), st.sampled_from(SWITCHES)),
                st.just(LinkLoss(at_ns, a, b, chance)),
                st.just(LinkDelay(at_ns, b, a, int(chance * MS))),
                st.just(LinkDuplication(at_ns, b, a, chance)),
                st.just(LinkReordering(at_ns, a, b, chance, 1 + at_ns)),
            )
        )
        if isinstance(fault, Handover):
            points[fault.host] = fault.point
        faults.append(fault)
    return Topology("ring", tuple(hosts), tuple(links)), faults


@given(histories())
def test_the_fold_is_its_literal_twin_and_virtual_time_sees_nothing_else(history: tuple[Topology, list[Fault]]) -> None:
    topology, faults = history
    links, twin, network = LinkStates(topology), Twin(topology), Network(topology, 1)
    pairs = [(a, b) for a in LEAVES for b in LEAVES if a != b]
    routes = {pair: network._route(*pair) for pair in pairs[: len(pairs) // 2]}  # the others are made late
    for fault in faults:
        links.apply(fault)
        twin.apply(fault)
        network.apply(fault)
    states = links.states()
    assert states == {pair: twin.state(*pair) for pair in pairs}
    assert links.topology == twin.topology
    assert {pair: network._route(*pair).state for pair in pairs} == states
    assert all(network._route(*pair) is route for pair, route in routes.items())


def test_what_faults_hold_back_is_waited_for_on_every_link() -> None:
    star = load_topology("star", {"nodes": 3, "delay": "5ms", "jitter": "1ms"})
    assert longest_delay_ns(star) == 12 * MS and held_ns(star, [LinkLoss(0, "*", "*", 0.5)]) == 0
    faults = [LinkDelay(0, "*", "*", SECOND_NS), LinkReordering(0, "*", "*", 0.5, 9), LinkDelay(1, "*", "*", 0)]
    assert held_ns(star, faults) == 2 * (SECOND_NS + 9), "two links, each of which holds back by both"


def test_what_was_held_back_before_is_not_waited_for_at_the_end() -> None:
    star = load_topology("star", {"nodes": 3})

    def held_s(*faults: LinkDelay | LinkReordering) -> float:
        return held_ns(star, faults, 10 * SECOND_NS) / SECOND_NS

    def delay(at_s: int, hold_s: int, a: str = "n1", b: str = "hub") -> LinkDelay:
        return LinkDelay(at_s * SECOND_NS, a, b, hold_s * SECOND_NS)

    nothing = delay(2, 0, "*", "*")
    assert held_s(delay(1, 1), nothing) == 0 == held_s(delay(1, 1), delay(2, 0, "hub", "n1"))
    assert held_s(delay(1, 1), delay(2, 0, "hub", "n3")) == 2, "another link"
    assert held_s(delay(1, 1), LinkReordering(2 * SECOND_NS, "*", "*", 0.0, 0)) == 2, "another kind"
    assert held_s(delay(1, 1), delay(11, 0)) == 2 and held_s(delay(11, 3), delay(12, 0)) == 6
    assert held_s(delay(1, 9), nothing) == 18, "what was on the way when it ended is so still"
    assert held_s(delay(1, 4), nothing) == 8, "each of its links held it back: the last is out at 10 s"
    assert held_s(delay(1, 7), delay(2, 3), nothing) == 14 and held_s(delay(1, 3), delay(2, 2), nothing) == 0
