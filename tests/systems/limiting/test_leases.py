from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    RunHistory,
    Send,
    SetTimer,
    Start,
    Step,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.conformance import check_system
from systems.limiting.lease_messages import Learn, LeaseRequest, Lend
from systems.limiting.leases import SYSTEM, Config, LeaseNode, nodes
from systems.parts.lease_book import LeaseBook
from systems.parts.limit import gcra, limit_of
from systems.parts.portion import MILLION
from testbed.faults import ClockSkew, Crash, Heal, Partition, Restart
from testbed.topologies.topology import load_topology, mesh
from testbed.virtual.bench import VirtualBench
from testbed.virtual.scheduler import event_loop
from tests.studies.limiting.given import run_requests
from workloads.data_set import DataSet, DataSetConfig

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

    def start(self, name: str, snapshot: Any = None, again: bool = False) -> None:
        node = nodes(self.names, self.config, 1)[name]
        assert isinstance(node, LeaseNode)
        self.nodes[name] = node
        self.timers = {key: at_ns for key, at_ns in self.timers.items() if key[0] != name}
        self.give(name, Start(snapshot, again))

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
                    count = sum(len(other.leases) for other in node.allocator.book.accounts.values())
                    assert node.allocator.book.lease_count == count
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

    def crash(self, name: str, set_clock_ns: int = 0) -> None:
        """It begins anew, its clock set by so much."""
        self.crash_count += 1
        self.offsets_ns[name] = self.offsets_ns.get(name, 0) + set_clock_ns
        self.start(name, again=True)

    def spans(self) -> Iterable[tuple[int, int]]:
        """(tokens, ns) of every span that begins and ends with an admission."""
        for first, (begin_ns, _) in enumerate(self.admitted):
            total = 0
            for end_ns, cost in self.admitted[first:]:
                total += cost
                yield total, end_ns - begin_ns


def leased(book: LeaseBook, now_ns: int) -> int:
    """Parts of the user's bucket that the allocator counts as outstanding."""
    account = book.accounts.get(USER)
    leases = account.leases.values() if account is not None else ()
    return sum(lease.outstanding for lease in leases if lease.expires_at_ns > now_ns)


def world(names: list[str] | None = None, settled: bool = True, **options: Any) -> World:
    chosen: dict[str, Any] = {"capacity": 6, "rate": "1", **options}
    made = World(Config(**chosen), names or list(NAMES))
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
        st.tuples(st.just("crash"), st.sampled_from(NAMES), st.sampled_from([0, 0, -20, -3, 5])),
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
        "minimum": st.integers(0, 2),
    }
)
SHORT: dict[str, Any] = {"refresh": "1s", "lease": "10s", "window": "4s"}


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
                made.crash(which, cost * SECOND_NS)


@settings(max_examples=300)
@given(ACTIONS, OPTIONS, st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_leases_never_sum_to_more_than_the_whole(
    actions: list[tuple[str, Any, int]], options: dict[str, Any], offsets_s: list[int]
) -> None:
    """World.check looks after every event; messages are lost, overtaken, doubled; all crash and lose their clocks."""
    offsets_ns = {name: offset * SECOND_NS for name, offset in zip(NAMES, offsets_s, strict=True)}
    act(World(Config(**options, **SHORT), offsets_ns=offsets_ns), actions, NAMES)


@settings(max_examples=300)
@given(ACTIONS, OPTIONS)
def test_without_a_safe_share_no_more_than_c_plus_rt_is_admitted(
    actions: list[tuple[str, Any, int]], options: dict[str, Any]
) -> None:
    """Whoever crashes, and whatever the clients have forgotten of the allocator."""
    made = World(Config(**options, **SHORT, safe="0"))
    act(made, actions, NAMES)
    beyond = (len(NAMES) + made.crash_count) * made.config.minimum
    for total, span_ns in made.spans():
        assert total <= made.config.capacity + Fraction(made.config.rate) * Fraction(span_ns, SECOND_NS) + beyond


@settings(max_examples=300)
@given(ACTIONS, OPTIONS, st.sampled_from(["", "0", "1/10", "1"]))
def test_over_admission_is_bounded_by_the_safe_shares(
    actions: list[tuple[str, Any, int]], options: dict[str, Any], safe: str
) -> None:
    made = World(Config(**options, **SHORT, safe=safe))
    act(made, actions, NAMES)
    share, capacity = Fraction(safe or "1/3"), made.config.capacity
    forgotten = made.crash_count * share * capacity
    forgotten += (len(NAMES) + made.crash_count) * made.config.minimum
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


def busy(made: World, wants_rps: dict[str, int], rounds: int = 4) -> None:
    """Every node is asked for tokens at a steady rate: one request a second; messages arrive at once."""
    for _ in range(rounds * 5):
        for name, rate_rps in wants_rps.items():
            made.ask(name, rate_rps)
            made.settle()
        made.wait(SECOND_NS, settle=True)


@pytest.mark.parametrize(("share", "expected"), [("proportional", [69.69, 40.31, 10]), ("fair", [60, 50, 10])])
def test_the_vectors_of_doorman_come_out_of_the_protocol(share: str, expected: list[float]) -> None:
    made = world(capacity=120, rate="120", share=share, spare=False, window="5s")
    busy(made, {"n1": 1000, "n2": 50, "n3": 10})
    rates = [120 * made.held(name) / (3 * MILLION) for name in NAMES]
    assert rates == pytest.approx(expected, abs=0.01)


def test_a_user_of_one_node_gets_the_whole_limit_there() -> None:
    made = world(capacity=6, rate="1", window="5s")
    busy(made, {"n2": 3})
    assert made.held("n2") == 3 * MILLION
    made.admitted.clear()
    for _ in range(60):
        made.wait(SECOND_NS, settle=True)
        made.ask("n2")
    assert len(made.admitted) == 60


def test_what_nobody_wants_is_lent_in_equal_shares_unless_told_not_to() -> None:
    spare, strict = world(rate="1000"), world(rate="1000", spare=False)
    for made in (spare, strict):
        made.ask("n2")
        made.settle()
    wanted = 50  # parts of 3 million: one token in a minute, of 1000 a second
    assert strict.held("n2") == wanted
    assert spare.held("n2") == wanted + (3 * MILLION - wanted) // 3


def test_tokens_move_with_the_share() -> None:
    made = world(capacity=60, rate="0.001", window="5s")  # so slow that no token comes back meanwhile
    busy(made, {"n2": 1}, rounds=1)
    assert len(made.admitted) == 5 and made.held("n2") == 3 * MILLION  # 55 tokens are left, all at n2
    busy(made, {"n3": 1}, rounds=40)
    assert len(made.admitted) == 60  # n3 took all 55, 35 of which it had no lease for at first
    assert made.held("n3") > 2 * MILLION


def test_freed_capacity_is_not_lent_before_its_holder_says_that_it_has_less() -> None:
    made = world(rate="1", window="5s", refresh="1s", lease="20s")
    busy(made, {"n2": 3}, rounds=1)
    assert made.held("n2") == 3 * MILLION
    made.flying.clear()
    begin_ns = made.now_ns
    while made.now_ns < begin_ns + 15 * SECOND_NS:
        made.wait(SECOND_NS)
        made.ask("n3", 3)
        # n2 hears nothing, so it goes on with its lease; n3 talks to the allocator without trouble.
        made.flying = [parcel for parcel in made.flying if "n2" not in parcel[:2]]
        made.settle()
        assert made.held("n3") == 0
    made.wait(8 * SECOND_NS, settle=True)
    made.ask("n3", 3)
    made.settle()
    assert made.held("n2") == 0 and made.held("n3") > 0  # now n2's lease has run out


def test_an_answer_to_an_older_question_is_not_taken() -> None:
    made = world(rate="1", refresh="1s", lease="20s", window="5s")
    made.ask("n2")
    made.deliver(0)
    (old,) = made.flying
    made.flying.clear()
    made.wait(SECOND_NS)  # no answer for a refresh interval: n2 asks again
    made.give("n2", Delivery(*old[::2]))
    assert made.held("n2") == 0
    made.settle()
    assert made.held("n2") > 0


def test_tokens_in_an_answer_that_got_lost_are_not_lost() -> None:
    made = world(capacity=60, rate="0.001", refresh="1s", lease="20s", window="5s")
    assert all(made.ask("n2") for _ in range(20))  # its safe share
    made.deliver(0)
    made.flying.clear()
    made.wait(SECOND_NS)
    made.settle()
    assert made.held("n2") == 3 * MILLION
    made.settle()
    assert sum(made.ask("n2") for _ in range(60)) == 40


def test_what_was_taken_without_a_lease_is_charged_to_the_next() -> None:
    made = world(capacity=60, rate="0.001", window="5s")
    assert all(made.ask(name) for name in ("n2", "n3") for _ in range(20))
    busy(made, {"n2": 1, "n3": 1}, rounds=40)
    token = made.nodes["n2"].terms.bucket.token
    left = sum(made.nodes[name].client.users[USER].portion.grains for name in ("n2", "n3"))
    assert len(made.admitted) + left / token == pytest.approx(60 + 0.2, abs=0.01)  # 0.2 came back in 200 s
    assert 60 <= len(made.admitted) <= 62  # one of them still owes 2 tokens


def test_a_pause_longer_than_a_lease_loses_no_token_and_makes_none() -> None:
    made = world(capacity=60, rate="0.001", refresh="1s", lease="20s", window="5s")
    for _ in range(3):
        made.ask("n2", 10)
        made.settle()
        made.wait(19 * SECOND_NS, settle=True)
        made.wait(2 * SECOND_NS)
        (given_back,) = made.flying
        assert [claim[1] for claim in given_back[2].claims] == [0]
        made.settle()
        assert made.held("n2") == 0
        made.give("n1", Delivery("n2", given_back[2]))
        made.wait(30 * SECOND_NS, settle=True)
        made.give("n1", Delivery("n2", given_back[2]))
    made.ask("n2")
    made.settle()
    assert sum(made.ask("n2") for _ in range(99)) == 29


def test_a_lease_that_ran_out_unheard_is_handed_in_afterwards() -> None:
    made = world(capacity=60, rate="0.001", refresh="1s", lease="20s", window="5s")
    made.ask("n2", 10)
    made.settle()
    made.wait(40 * SECOND_NS)  # nothing arrives
    assert made.held("n2") == 0 and made.flying
    made.settle()
    made.ask("n3")
    made.settle()
    assert sum(made.ask("n3") for _ in range(99)) == 49


def test_the_worst_over_admission_is_what_the_documentation_says() -> None:
    made = world(capacity=60, rate="0.001", window="5s")
    for name in ("n2", "n3"):
        assert sum(made.ask(name) for _ in range(99)) == 20
    for _ in range(100):
        made.flying = [parcel for parcel in made.flying if parcel[0] not in ("n2", "n3")]  # neither is heard of
        made.ask("n1")
        made.wait(SECOND_NS)
    assert len(made.admitted) == 60 + 2 * 20  # (1 + m s) c


def test_a_lease_below_the_safe_share_is_not_given_while_others_hold_what_is_missing() -> None:
    made = world(capacity=60, rate="1", window="5s")
    busy(made, {"n2": 3}, rounds=2)
    assert made.held("n2") == 3 * MILLION
    admitted = [made.ask("n3", 3)]
    made.settle()
    for _ in range(4):
        made.wait(SECOND_NS, settle=True)
        admitted.append(made.ask("n3", 3))
        made.settle()
    assert all(admitted) and made.held("n3") == 0  # out of its safe share
    busy(made, {"n2": 3, "n3": 3}, rounds=2)
    assert made.held("n2") == made.held("n3") == 3 * MILLION // 2
    strict = world(capacity=60, rate="1", window="5s", safe="0")
    busy(strict, {"n2": 3}, rounds=2)
    assert not strict.ask("n3")


def test_a_lost_allocator_leaves_safe_shares() -> None:
    made = world(capacity=6, rate="3", refresh="1s", lease="10s", window="5s")
    busy(made, {"n2": 9}, rounds=2)
    assert made.held("n2") == 3 * MILLION
    made.admitted.clear()
    for _ in range(60):
        made.wait(SECOND_NS)
        made.flying.clear()
        for _ in range(9):
            made.ask("n2")
    leased = [cost for at_ns, cost in made.admitted if at_ns < 20 * SECOND_NS]
    alone = [cost for at_ns, cost in made.admitted if at_ns >= 30 * SECOND_NS]
    assert len(leased) >= 8 * 3
    assert 40 <= len(alone) <= 41  # 1 a second


def test_the_state_weighs_its_users_accounts_and_leases() -> None:
    """80 bytes a user of the client; 48 an account and 32 a lease of the allocator."""
    made = world(capacity=60, rate="1")
    assert [made.nodes[name].state_bytes() for name in NAMES] == [0, 0, 0]
    for name in ("n2", "n3"):
        made.ask(name)
    made.ask("n3", user="v")
    made.settle()
    assert [made.nodes[name].state_bytes() for name in NAMES] == [2 * 48 + 3 * 32, 80, 2 * 80]


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "by its clients"])
def test_a_restarted_allocator_learns_before_it_lends(is_told: bool) -> None:
    made = world(capacity=60, rate="0.001", refresh="1s", lease="20s", window="5s")
    busy(made, {"n2": 1}, rounds=1)
    assert made.held("n2") == 3 * MILLION
    made.start("n1", again=is_told)
    held_up = [parcel for parcel in made.flying if parcel[1] == "n3"]
    made.flying = [parcel for parcel in made.flying if parcel[1] != "n3"]
    made.settle()
    assert made.held("n2") == 3 * MILLION  # it may keep what it has
    allocator = made.nodes["n1"].allocator
    assert allocator is not None and allocator.learning and leased(allocator.book, made.now_ns) == 3 * MILLION
    made.flying = held_up
    made.settle()
    assert not allocator.learning
    made.ask("n1")
    assert made.held("n1") == 0
    # Nobody knows what is left of another user's tokens: the allocator begins with none of them.
    made.ask("n3", user="other")
    made.settle()
    assert made.held("n3", "other") == 3 * MILLION and not made.ask("n3", user="other")
    fresh = world(capacity=60, rate="0.001", refresh="1s", lease="20s", window="5s")
    fresh.ask("n3")
    fresh.settle()
    assert fresh.held("n3") == 3 * MILLION and sum(fresh.ask("n3") for _ in range(99)) == 59


def test_learning_ends_after_a_lease_length_if_somebody_is_silent() -> None:
    for learning in ("heard", "lease"):
        made = world(settled=False, learning=learning, refresh="1s", lease="10s", window="5s")
        made.flying = [parcel for parcel in made.flying if parcel[1] != "n3"]
        made.settle()
        made.ask("n2")
        made.settle()
        assert made.held("n2") == 0 and not made.nodes["n2"].idle()
        for _ in range(10):
            made.wait(SECOND_NS)
            made.ask("n2")
            made.flying = [parcel for parcel in made.flying if "n3" not in parcel[:2]]
            made.settle()
        assert made.held("n2") > 0 and made.nodes["n2"].idle()


def test_users_without_requests_are_given_back_and_forgotten() -> None:
    made = world(capacity=3, rate="1", refresh="1s", lease="10s", window="5s")
    busy(made, {"n2": 1, "n3": 1}, rounds=1)
    assert made.nodes["n1"].state_bytes() > 0 and made.nodes["n2"].state_bytes() > 0
    made.wait(30 * SECOND_NS, settle=True)
    assert [node.state_bytes() for node in made.nodes.values()] == [0, 0, 0]
    assert all(node.allocated_bytes() > 0 and node.idle() for node in made.nodes.values())
    sent_count = made.sent_count
    made.wait(60 * SECOND_NS, settle=True)
    assert made.sent_count == sent_count


def test_a_confirmation_brings_on_no_other() -> None:
    made = world(capacity=6, rate="1", window="5s")
    made.ask("n2", 3)
    made.settle()
    made.wait(7 * SECOND_NS, settle=True)
    made.ask("n2")
    before = made.held("n2")
    made.wait(3 * SECOND_NS)  # it refreshes, and wants less
    sent_count = made.sent_count
    for _ in range(20):
        made.wait(50 * MILLISECOND_NS)  # its rate falls on while messages travel
        made.deliver(0)
    assert made.held("n2") < before
    assert made.sent_count - sent_count == 3  # the answer, its confirmation, the answer to that


def test_a_restarted_client_loses_the_tokens_that_it_had() -> None:
    made = world(capacity=60, rate="0.001", window="5s")
    assert made.ask("n2")
    made.settle()
    assert made.held("n2") == 3 * MILLION
    assert sum(made.ask("n2") for _ in range(99)) == 59
    made.wait(1)
    made.crash("n2")
    assert sum(made.ask("n2") for _ in range(99)) == 20  # a fresh safe share, and no more
    for _ in range(3):
        made.settle()
        made.wait(5 * SECOND_NS, settle=True)
        assert not made.ask("n2")


def test_a_question_that_comes_late_or_twice_changes_nothing() -> None:
    made = world(capacity=6, rate="1", window="5s")
    made.ask("n2", 2)
    (question,) = made.flying
    busy(made, {"n2": 3}, rounds=1)
    assert made.held("n2") == 3 * MILLION
    made.give("n1", Delivery("n2", question[2]))
    made.ask("n3", 2)
    made.settle()
    assert made.held("n2") == 3 * MILLION and made.held("n3") == 0


def test_a_restarted_client_does_not_take_answers_to_the_one_before() -> None:
    made = world()
    made.ask("n2")
    made.deliver(0)
    (_, _, answer) = made.flying.pop()
    assert isinstance(answer, Lend)
    made.wait(1)
    made.crash("n2")
    made.ask("n2")
    made.give("n2", Delivery("n1", answer))
    assert made.held("n2") == 0
    made.settle()
    assert made.held("n2") > 0


def test_a_late_message_of_an_allocator_that_is_gone_costs_one_exchange() -> None:
    made = world(capacity=6, rate="1", window="5s")
    busy(made, {"n2": 3})
    held, epoch, sent_count = made.held("n2"), made.nodes["n2"].epoch, made.sent_count
    for stale in (-1, 5):  # by the clock before this one, or after
        made.give("n2", Delivery("n1", Learn(stale)))
        made.settle()
        assert made.nodes["n2"].epoch == epoch and made.held("n2") == held == 3 * MILLION
    assert made.sent_count - sent_count == 2 * 4  # what it has; Learn; what it has; the answer to that


def test_an_allocator_whose_clock_was_set_back_is_heard_again() -> None:
    made = world(capacity=60, rate="1", refresh="1s", lease="20s", window="5s")
    made.wait(400 * SECOND_NS, settle=True)
    busy(made, {"n2": 3}, rounds=1)
    made.crash("n1", -300 * SECOND_NS)
    made.settle()
    allocator = made.nodes["n1"].allocator
    assert allocator is not None and not allocator.learning
    assert leased(allocator.book, made.clock_ns("n1")) == made.held("n2") == 3 * MILLION
    busy(made, {"n2": 3, "n3": 3}, rounds=3)
    assert made.held("n2") == made.held("n3") == 3 * MILLION // 2


def test_a_client_whose_clock_was_set_back_is_heard_again() -> None:
    made = world(capacity=60, rate="1", refresh="1s", lease="20s", window="5s")
    made.wait(400 * SECOND_NS, settle=True)
    made.ask("n2", 3)
    (early,) = made.flying
    busy(made, {"n2": 3}, rounds=1)
    made.crash("n2", -600 * SECOND_NS)
    assert made.nodes["n2"].born_ns < early[2].born_ns
    made.ask("n2", 3)
    made.settle()
    held, sent_count = made.held("n2"), made.sent_count
    assert held > MILLION and made.nodes["n2"].born_ns == early[2].born_ns + 1
    made.give("n1", Delivery("n2", early[2]))  # of the client that it was
    made.settle()
    assert made.held("n2") == held and made.sent_count - sent_count == 1
    busy(made, {"n2": 3}, rounds=2)
    assert made.held("n2") == 3 * MILLION


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_crash_that_sets_a_clock_back_is_survived(node: str) -> None:
    """Of the whole limit of 0.5 a second each node gets its part again, as before the crash."""
    config = Config(capacity=12, rate="0.5", refresh="1s", lease="10s", window="5s")
    loop = event_loop(SYSTEM, config, mesh("mesh", NAMES, 10 * MILLISECOND_NS), NAMES, 7, keep_steps=False)
    for index, name in enumerate(NAMES):
        instants = range(0, 600 * SECOND_NS, 3 * SECOND_NS)
        loop.offer(
            name, [Request(index * 1000 + n, USER, at_ns + index * SECOND_NS) for n, at_ns in enumerate(instants)]
        )
    back = ClockSkew(190 * SECOND_NS, node, -400 * SECOND_NS)
    loop.fail([back, Crash(200 * SECOND_NS, node), Restart(210 * SECOND_NS, node)])
    journal = loop.run(600 * SECOND_NS)
    for begin_s, end_s in ((100, 190), (300, 400), (500, 600)):
        admitted = [
            name
            for at_ns, name, verdict in journal.verdicts.values()
            if verdict is Verdict.ADMIT and begin_s <= at_ns / SECOND_NS < end_s
        ]
        assert len(admitted) == pytest.approx((end_s - begin_s) / 2, abs=5)
        assert all(admitted.count(name) >= 0.25 * len(admitted) for name in NAMES)


@pytest.mark.parametrize(
    "outages_ms",
    [
        {"n2": (3_000, 3_100), "n3": (3_200, 3_300), "n1": (4_000, 4_100)},
        dict.fromkeys(NAMES, (4_000, 4_100)),
    ],
    ids=["one by one", "at once"],
)
def test_an_allocator_that_everybody_has_forgotten_lends_nothing_twice(outages_ms: dict[str, tuple[int, int]]) -> None:
    config = Config(capacity=12, rate="1", safe="0", minimum=0, refresh="1s", lease="5s", window="3s")
    loop = event_loop(SYSTEM, config, mesh("mesh", NAMES, MILLISECOND_NS), NAMES, 1)
    for name, begin_ms, count in (("n2", 1_000, 30), ("n3", 4_500, 40)):
        instants_ns = [(begin_ms + 50 * n) * MILLISECOND_NS for n in range(count)]
        loop.offer(name, [Request(begin_ms + n, USER, at_ns) for n, at_ns in enumerate(instants_ns)])
    for name, (begin_ms, end_ms) in outages_ms.items():
        loop.fail([Crash(begin_ms * MILLISECOND_NS, name), Restart(end_ms * MILLISECOND_NS, name)])
    verdicts = loop.run(20 * SECOND_NS).verdicts.values()
    admitted = sorted(at_ns for at_ns, _, verdict in verdicts if verdict is Verdict.ADMIT)
    assert admitted[0] < 4 * SECOND_NS < admitted[-1]
    for first, begin_ns in enumerate(admitted):
        for count, end_ns in enumerate(admitted[first:], 1):
            assert count <= 12 + Fraction(end_ns - begin_ns, SECOND_NS)


WIDE = [f"n{i + 1}" for i in range(12)]


@pytest.mark.parametrize("capacity", [1, 4, 11])
def test_a_user_on_more_nodes_than_there_are_tokens_is_served(capacity: int) -> None:
    """Each of 12 nodes is asked every 12 s, a token comes back each second: all is admitted in the end."""
    none, one = (world(WIDE, capacity=capacity, rate="1", minimum=minimum) for minimum in (0, 1))
    for made in (none, one):
        for _ in range(10):
            for name in WIDE:
                made.ask(name)
                made.settle()
                made.wait(SECOND_NS, settle=True)
    assert len(none.admitted) < len(one.admitted) / 2
    assert sum(at_ns >= 60 * SECOND_NS for at_ns, _ in one.admitted) >= 0.9 * 60
    for total, span_ns in one.spans():
        assert total <= capacity + len(WIDE) + Fraction(span_ns, SECOND_NS)


def test_a_silent_allocator_leaves_each_node_a_token_at_least() -> None:
    made = world(WIDE, capacity=4, rate="1")
    for at_s in range(60):
        for name in WIDE[1:]:  # the allocator is on the first
            made.ask(name)
        made.flying.clear()
        assert len(made.admitted) == 11 * (1 + at_s // 12)  # one each, and then r / n
        made.wait(SECOND_NS)


def test_data_set_d_on_many_nodes() -> None:
    """Five tokens, 30 nodes; the centralised limiter admits 104 of the 112."""
    topology = load_topology("full-mesh", {"nodes": 30, "delay": "0ms"})
    load = DataSet(DataSetConfig(set="D", capacity=5, rate="1"), 1)
    offered = load.requests(topology.node_names(), load.duration_ns)
    counts = []
    for minimum in (0, 1, 2):
        config = Config(capacity=5, rate="1", minimum=minimum)
        rows = run_requests(SYSTEM, config, topology, offered, load.duration_ns, 1).requests()
        counts.append(list(rows["decision"]).count("admit"))
    assert counts[0] == 0 and 52 <= counts[1] < counts[2] <= 104


def test_a_node_that_copies_a_peer_begins_with_its_tokens_and_without_its_leases() -> None:
    made = world(capacity=60, rate="0.001", window="5s")
    busy(made, {"n2": 9}, rounds=1)
    assert made.held("n2") == 3 * MILLION  # 15 of 60 tokens are left
    made.start("n3", made.nodes["n2"].snapshot())
    assert made.held("n3") == 0
    assert [made.ask("n3") for _ in range(6)] == [True] * 5 + [False]  # a third of 15


def test_the_allocator_is_where_it_is_told() -> None:
    made = World(Config(server="n3"))
    assert [name for name, node in made.nodes.items() if node.allocator] == ["n3"]
    made.ask("n1")
    assert {parcel[1] for parcel in made.flying if isinstance(parcel[2], LeaseRequest)} == {"n3"}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"server": "n9"}, "server = 'n9'"),
        ({"share": "equal"}, "share = 'equal'"),
        ({"learning": "never"}, "learning = 'never'"),
        ({"safe": "2"}, "safe = '2'"),
        ({"safe": "a lot"}, "safe = 'a lot'"),
        ({"safe": "1/0"}, "safe = '1/0'"),
        ({"refresh": "0s"}, "refresh = '0s'"),
        ({"window": "soon"}, "window"),
        ({"refresh": "5s", "lease": "6s"}, "lease = '6s'"),
        ({"rate": "0"}, "rate = '0'"),
        ({"minimum": -1}, "minimum = -1"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what) as raised:
        nodes(NAMES, Config(**options), 1)
    assert raised.value.fix


def test_events_of_others_are_refused() -> None:
    made = world()
    for event in (
        Delivery("n1", "hello"),
        Timer("allocate", 0),
        Delivery("n1", LeaseRequest(None, 0, 0, True, False, ())),
    ):
        with pytest.raises(UnexpectedEvent):
            made.nodes["n2"].handle(event, 0)


def test_a_partition_is_survived_and_heals() -> None:
    config = Config(capacity=60, rate="2", refresh="1s", lease="10s", window="5s")
    loop = event_loop(SYSTEM, config, mesh("mesh", NAMES, 40 * MILLISECOND_NS, 0, 0.1), NAMES, 7, keep_steps=True)
    for index, name in enumerate(NAMES):
        instants = range(0, 120 * SECOND_NS, SECOND_NS)
        loop.offer(name, [Request(index * 1000 + n, USER, at_ns) for n, at_ns in enumerate(instants)])
    loop.fail([Partition(30 * SECOND_NS, ("n3",)), Heal(60 * SECOND_NS, ("n3",))])
    journal = loop.run(200 * SECOND_NS)
    admitted = sorted(at_ns for at_ns, _, verdict in journal.verdicts.values() if verdict is Verdict.ADMIT)
    assert len(journal.verdicts) == 360
    for first, begin_ns in enumerate(admitted):
        for count, end_ns in enumerate(admitted[first:], 1):
            assert count <= (60 + 2 * Fraction(end_ns - begin_ns, SECOND_NS)) * Fraction(5, 3)
    # Alone, n3 goes on with its safe share; and all together get nearly all that there is.
    cut_off = [
        at_ns
        for at_ns, node, verdict in journal.verdicts.values()
        if node == "n3" and verdict is Verdict.ADMIT and 45 * SECOND_NS <= at_ns < 60 * SECOND_NS
    ]
    assert len(cut_off) >= 9
    assert 0.9 * (60 + 2 * 120) <= len(admitted) <= 1.05 * (60 + 2 * 120)


FIRST = next(one for one in SYSTEM.invariants if one.name == "the first request is admitted")


def excused(rejected_ns: int, outages: Mapping[str, tuple[tuple[int, int], ...]], **options: Any) -> bool:
    """Whether somebody's first request may be rejected then, on a node whose clock is a day ahead."""
    ask = Arrival(Request(1, USER, rejected_ns))
    day_ns = 86_400 * SECOND_NS
    step = Step(rejected_ns + day_ns, "n2", 0, ask, (Decide(1, Verdict.REJECT),), rejected_ns)
    config = Config(capacity=12, rate="1", **options)
    return FIRST.broken(RunHistory(SYSTEM, config, tuple(NAMES), (step,), outages=outages)) is None


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 100))
def test_a_crash_of_the_allocator_excuses_nothing_that_was_before(at_ns: int, down_ns: int, long_ns: int) -> None:
    once = {"n1": ((down_ns, down_ns + long_ns),)}
    twice = {"n1": ((down_ns, down_ns + long_ns), (down_ns + 200, down_ns + 201))}
    assert excused(at_ns, once) == excused(at_ns, twice) == (at_ns >= down_ns)
    assert excused(at_ns, {"n2": once["n1"]}, server="n2") == (at_ns >= down_ns)
    assert not excused(at_ns, {"n3": once["n1"]}) and not excused(at_ns, {})
    assert excused(at_ns, {}, safe="0"), "who has no safe share waits for the allocator"
