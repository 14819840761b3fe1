from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Decide, Delivery, Effect, Event, Send, SetTimer, Start, Timer, UnexpectedEvent, Verdict
from systems.conformance import check_system
from systems.limiting.leases import SYSTEM, Ask, Config, Learn, LeaseNode, Lend, nodes
from systems.parts.limit import gcra, limit_of
from systems.parts.portion import MILLION
from testbed.faults import Heal, Partition
from testbed.topology import mesh
from testbed.virtual.bench import VirtualBench
from testbed.virtual.request_run import event_loop

NAMES = ["n1", "n2", "n3"]
USER = "u"


@dataclass
class World:
    """Nodes, their clocks, and messages that arrive in any order, twice, or never, as the test likes."""

    config: Config
    names: list[str] = field(default_factory=lambda: list(NAMES))
    offsets_ns: dict[str, int] = field(default_factory=dict)
    now_ns: int = 0
    crash_count: int = 0
    nodes: dict[str, LeaseNode] = field(default_factory=dict)
    timers: dict[tuple[str, str], int] = field(default_factory=dict)
    flying: list[tuple[str, str, Any]] = field(default_factory=list)
    admitted: list[tuple[int, int]] = field(default_factory=list)  # (at_ns, cost)
    sent_count: int = 0

    def __post_init__(self) -> None:
        for name in self.names:
            self.start(name)

    def start(self, name: str, snapshot: Any = None) -> None:
        node = nodes(self.names, self.config, 1)[name]
        assert isinstance(node, LeaseNode)
        self.nodes[name] = node
        self.timers = {key: at_ns for key, at_ns in self.timers.items() if key[0] != name}
        self.give(name, Start(snapshot))

    def clock_ns(self, name: str) -> int:
        return self.now_ns + self.offsets_ns.get(name, 0)

    def give(self, name: str, event: Event) -> list[Effect]:
        effects = self.nodes[name].handle(event, self.clock_ns(name))
        for effect in effects:
            match effect:
                case Send(target, message):
                    self.sent_count += 1
                    self.flying.append((name, target, message))
                case SetTimer(timer, at_ns):
                    assert at_ns >= self.clock_ns(name)
                    self.timers[name, timer] = at_ns - self.offsets_ns.get(name, 0)
        self.check()
        return effects

    def check(self) -> None:
        """The leases that clients hold, and those that the allocator counts, are at most the whole."""
        for user in {user for node in self.nodes.values() for user in node.client.users}:
            assert sum(self.held(name, user) for name in self.names) <= len(self.names) * MILLION
            for node in self.nodes.values():
                if node.allocator is not None and user in node.allocator.book.accounts:
                    account = node.allocator.book.accounts[user]
                    outstanding = sum(lease.outstanding for lease in account.leases.values())
                    assert account.pool.parts + outstanding == len(self.names) * MILLION

    def held(self, name: str, user: str = USER) -> int:
        """Parts that a node may use by a lease."""
        borrowed = self.nodes[name].client.users.get(user)
        if borrowed is None or borrowed.until_ns is None or borrowed.until_ns <= self.clock_ns(name):
            return 0
        return borrowed.portion.parts

    def ask(self, name: str, cost: int = 1, user: str = USER) -> bool:
        effects = self.give(name, Arrival(Request(0, user, self.now_ns, cost)))
        (verdict,) = [effect.verdict for effect in effects if isinstance(effect, Decide)]
        if verdict is Verdict.ADMIT:
            self.admitted.append((self.now_ns, cost))
        return verdict is Verdict.ADMIT

    def deliver(self, index: int, keep: bool = False) -> None:
        if self.flying:
            index %= len(self.flying)
            source, target, message = self.flying[index] if keep else self.flying.pop(index)
            self.give(target, Delivery(source, message))

    def settle(self) -> None:
        """Deliver everything, in order."""
        while self.flying:
            self.deliver(0)

    def wait(self, span_ns: int, settle: bool = False) -> None:
        """Let time pass; timers ring."""
        until_ns = self.now_ns + span_ns
        while due := [(at_ns, key) for key, at_ns in self.timers.items() if at_ns <= until_ns]:
            self.now_ns, (name, timer) = min(due)
            del self.timers[name, timer]
            self.give(name, Timer(timer, self.clock_ns(name)))
            if settle:
                self.settle()
        self.now_ns = until_ns

    def crash(self, name: str) -> None:
        self.crash_count += 1
        self.start(name)

    def spans(self) -> Iterable[tuple[int, int]]:
        """(tokens, ns) of every span that begins and ends with an admission."""
        for first, (begin_ns, _) in enumerate(self.admitted):
            total = 0
            for end_ns, cost in self.admitted[first:]:
                total += cost
                yield total, end_ns - begin_ns


def world(names: list[str] | None = None, settled: bool = True, **options: Any) -> World:
    made = World(Config(**{"capacity": 6, "rate": "1"} | options), names or list(NAMES))
    if settled:
        made.settle()
    return made


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(NAMES), st.integers(1, 3)),
        st.tuples(st.just("ask"), st.sampled_from(NAMES), st.integers(1, 3)),
        st.tuples(st.just("deliver"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("deliver"), st.just(0), st.just(0)),
        st.tuples(st.just("twice"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("lose"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("settle"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 12_000), st.just(0)),
        st.tuples(st.just("crash"), st.sampled_from(NAMES), st.just(0)),
    ),
    max_size=80,
)
OPTIONS = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 12),
        "rate": st.sampled_from(["0.3", "1", "4/3"]),
        "share": st.sampled_from(["proportional", "fair"]),
        "learning": st.sampled_from(["heard", "lease"]),
        "spare": st.booleans(),
    }
)
SHORT = {"refresh": "1s", "lease": "10s", "window": "4s"}


def act(made: World, actions: list[tuple[str, Any, int]], crashes: Iterable[str]) -> None:
    allowed = set(crashes)
    for what, which, cost in actions:
        match what:
            case "ask":
                made.ask(which, cost)
            case "deliver":
                made.deliver(which)
            case "twice":
                made.deliver(which, keep=True)
            case "lose" if made.flying:
                made.flying.pop(which % len(made.flying))
            case "settle":
                made.settle()
            case "wait":
                made.wait(which * MILLISECOND_NS)
            case "crash" if which in allowed:
                made.crash(which)


@settings(max_examples=300)
@given(ACTIONS, OPTIONS, st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_leases_never_sum_to_more_than_the_whole(
    actions: list[tuple[str, Any, int]], options: dict[str, Any], offsets_s: list[int]
) -> None:
    """World.check looks after every event; messages are lost, overtaken, doubled, and everybody crashes."""
    offsets_ns = {name: offset * SECOND_NS for name, offset in zip(NAMES, offsets_s, strict=True)}
    act(World(Config(**options, **SHORT), offsets_ns=offsets_ns), actions, NAMES)


@settings(max_examples=300)
@given(ACTIONS, OPTIONS)
def test_without_a_safe_share_no_more_than_c_plus_rt_is_admitted(
    actions: list[tuple[str, Any, int]], options: dict[str, Any]
) -> None:
    """Clients do not forget what they know of the allocator: it may crash, they do not."""
    made = World(Config(**options, **SHORT, safe="0"))
    act(made, actions, NAMES[:1])
    for total, span_ns in made.spans():
        assert total <= made.config.capacity + Fraction(made.config.rate) * Fraction(span_ns, SECOND_NS)


@settings(max_examples=300)
@given(ACTIONS, OPTIONS, st.sampled_from(["", "0", "1/10", "1"]))
def test_over_admission_is_bounded_by_the_safe_shares(
    actions: list[tuple[str, Any, int]], options: dict[str, Any], safe: str
) -> None:
    made = World(Config(**options, **SHORT, safe=safe))
    act(made, actions, NAMES)
    share, capacity = Fraction(safe or "1/3"), made.config.capacity
    forgotten = made.crash_count * capacity * max(share, Fraction(1, 1))  # all of them together forget the pool
    for total, span_ns in made.spans():
        limit = capacity + Fraction(made.config.rate) * Fraction(span_ns, SECOND_NS)
        assert total <= limit * (1 + 2 * share) + forgotten


def test_it_conforms() -> None:
    check_system(SYSTEM, VirtualBench())
    busy = Config(capacity=5, rate="2", share="fair", refresh="200ms", lease="1s", window="500ms")
    check_system(SYSTEM, VirtualBench(), busy)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3 * SECOND_NS), st.integers(1, 3)), max_size=60), st.integers(1, 9))
def test_one_node_alone_is_the_centralised_bucket(offered: list[tuple[int, int]], capacity: int) -> None:
    made = world(["n1"], capacity=capacity)
    limit, full_at = limit_of(capacity, "1"), 0
    for gap_ns, cost in offered:
        made.wait(gap_ns)
        expected = gcra(limit.ticks(made.now_ns), full_at, limit, cost)
        assert made.ask("n1", cost) == (expected is not None)
        full_at = full_at if expected is None else expected
