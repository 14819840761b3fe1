"""The centralised throttler: shares in proportion to demand, a report-and-command round trip late."""

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.units import SECOND_NS
from studies.throttling.asked import Throttling
from studies.throttling.virtual import run
from systems.api import Arrival, Decide, Delivery, Report, Start, Timer, Verdict
from systems.conformance import check_system
from systems.limiting.centralised_throttler import PATIENCE, SYSTEM, Centre, Config, in_proportion, nodes
from systems.limiting.command_messages import NEVER, Command, UserCommands
from systems.limiting.throttling_users import Demand, in_parts
from systems.parts.portion import MILLION
from testbed.faults import Crash, Fault, Heal, Partition, Restart
from testbed.topologies.topology import full_mesh
from testbed.virtual.bench import VirtualBench
from testbed.virtual.scheduler import event_loop
from tests.systems.limiting.throttling_common import RATES, STEPS, Alone

COUNT, CYCLES = 5, 30


def limits(demands: np.ndarray, delay: str, faults: tuple[Fault, ...] = (), **options: Any) -> np.ndarray:
    """Limits in force in each cycle of a second, (cycles, servers); l_total = 1,000."""
    config = Config(rate="1000", cycle="1s", **options)
    topology = full_mesh(demands.shape[1], delay)
    samples = run(Throttling(SYSTEM, config, topology, demands, {}, SECOND_NS, 1, faults)).samples
    return np.array([value for _, _, metric, value in samples if metric == "limit"]).reshape(len(demands), -1)


@pytest.fixture
def demands() -> np.ndarray:
    return np.random.default_rng(2).uniform(1.0, 900.0, (CYCLES, COUNT))


@pytest.mark.parametrize("delay_ms", [0, 100, 499, 500, 501, 900])
def test_a_change_is_answered_a_round_trip_late(demands: np.ndarray, delay_ms: int) -> None:
    """Cycle k's demand decides the limit of cycle k + 1 + ceil(round trip / cycle) of every remote server."""
    found = limits(demands, f"{delay_ms}ms")
    late = 1 + ceil(2 * delay_ms / 1_000)
    shares = 1000.0 * demands / demands.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[late:, 1:], shares[:-late, 1:], rtol=1e-9)
    assert (found[:late, 1:] == 200.0).all()


def test_without_delay_the_sum_is_exact_and_only_the_newest_demand_is_missed(demands: np.ndarray) -> None:
    found = limits(demands, "0ms")
    np.testing.assert_allclose(found.sum(axis=1), 1000.0, rtol=1e-15)
    steady = np.tile(demands[0], (10, 1))
    admitted = np.minimum(limits(steady, "0ms"), steady).sum(axis=1)
    np.testing.assert_allclose(admitted[1:], min(1000.0, demands[0].sum()))


AMOUNTS = st.just(0.0) | st.floats(1e-6, 1e9)


@given(AMOUNTS, st.lists(AMOUNTS, min_size=1, max_size=20))
def test_parts_add_up_and_are_in_proportion(total: float, weights: list[float]) -> None:
    parts = in_proportion(total, weights)
    assert sum(parts) == pytest.approx(total, rel=1e-12) and min(parts) >= -1e-6 * total
    whole = sum(weights)
    expected = [total * weight / whole for weight in weights] if whole else [total / len(weights)] * len(weights)
    assert parts == pytest.approx(expected, rel=1e-6, abs=1e-6 * total)


def test_a_silent_server_keeps_its_part_and_the_others_are_not_held_up(demands: np.ndarray) -> None:
    config = Config(rate="1000", cycle="1s")
    faults = (Crash(10 * SECOND_NS + 1, "n3"),)
    shown = run(Throttling(SYSTEM, config, full_mesh(COUNT, "0ms"), demands, {}, SECOND_NS, 1, faults))
    kept = [(at_ns, node, value) for at_ns, node, metric, value in shown.samples if metric == "limit"]
    last = {node: value for at_ns, node, value in kept if at_ns == CYCLES * SECOND_NS}
    assert set(last) == {"n1", "n2", "n4", "n5"}
    rest = 1000.0 - sum(last.values())
    assert 0.0 < rest < 1000.0
    # The centre gives up waiting when its own next report is there: that is one cycle newer than the others'.
    known = [demands[CYCLES - 2, 0], demands[CYCLES - 3, 1], demands[9, 2], *demands[CYCLES - 3, 3:]]
    assert last["n2"] == pytest.approx(1000.0 * known[1] / sum(known))


def test_a_centre_that_restarts_commands_when_all_have_reported_again(demands: np.ndarray) -> None:
    found = limits(demands, "0ms", (Crash(10 * SECOND_NS + 1, "n1"), Restart(10 * SECOND_NS + 2, "n1")))
    shares = 1000.0 * demands / demands.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[11:, 1:], shares[10:-1, 1:], rtol=1e-9)


def test_an_overtaken_command_is_passed_over() -> None:
    node = nodes(["a", "b"], Config(rate="10", cycle="1s"), 1)["b"]
    node.handle(Start(None), 0)
    node.handle(Report(Demand(0, 1.0)), SECOND_NS)
    node.handle(Delivery("a", Command(1, 7.0)), SECOND_NS)
    node.handle(Delivery("a", Command(0, 3.0)), SECOND_NS)
    assert node.limit == 7.0  # type: ignore[attr-defined]
    node.handle(Delivery("a", Command(2, 9.0)), SECOND_NS + 5)
    assert node.limit == 7.0  # type: ignore[attr-defined]
    node.handle(Report(Demand(1, 1.0)), 2 * SECOND_NS)
    assert node.limit == 9.0  # type: ignore[attr-defined]


# --- users ------------------------------------------------------------------------------------------------


def test_a_users_limit_goes_where_its_requests_are() -> None:
    names = [f"n{i}" for i in range(1, 5)]
    loop = event_loop(SYSTEM, Config(capacity=20, rate="20", average="2s"), full_mesh(4, "20ms"), names, 1)
    number = 0
    for place, (name, rate) in enumerate({"n3": 60, "n1": 1, "n2": 1, "n4": 1}.items()):
        requests = [Request(number + i, "u", i * SECOND_NS // rate + place * 1_000_000) for i in range(40 * rate)]
        number += len(requests)
        loop.offer(name, requests)
    journal = loop.run(45 * SECOND_NS)
    admitted = [(at, node) for at, node, verdict in journal.verdicts.values() if verdict is Verdict.ADMIT]
    late = [node for at, node in admitted if 20 * SECOND_NS <= at < 40 * SECOND_NS]
    assert 15 * 20 < late.count("n3") <= len(late) <= 20 * 20 + 20
    members: list[Any] = [loop._members[name].node for name in names]
    assert not any(node.idle() for node in members)
    assert all(node.state_bytes() > 0 and node.allocated_bytes() > node.state_bytes() for node in members)
    assert sum(node.buckets.users["u"].parts for node in members) == 4 * MILLION
    loop.run(80 * SECOND_NS)
    assert [node.idle() for node in members] == [True] * 4
    assert [node.state_bytes() for node in members] == [0] * 4


def asked_for_at_n2_alone(*faults: Fault, then_n3: int = 0) -> Any:
    """c = 30 in 100 s: n2, asked for 10 s, has all but the floor; then so many requests at n3, one in 100 ms."""
    loop = event_loop(SYSTEM, Config(capacity=30, rate="0.3"), full_mesh(3, "20ms"), ["n1", "n2", "n3"], 1)
    loop.offer("n2", [Request(n, "u", n * SECOND_NS) for n in range(10)])
    loop.offer("n3", [Request(100 + n, "u", 12 * SECOND_NS + n * SECOND_NS // 10) for n in range(then_n3)])
    loop.fail(faults)
    return loop


def parts_of(loop: Any) -> list[int]:
    return [node.holds().get("u", 0) for node in loop.living().values()]


def test_a_centre_that_is_back_gives_nothing_of_what_a_server_holds_that_is_cut_off() -> None:
    away = (Partition(11 * SECOND_NS, ("n2",)), Crash(11 * SECOND_NS + 1, "n1"), Restart(11 * SECOND_NS + 2, "n1"))
    loop = asked_for_at_n2_alone(*away, Heal(20 * SECOND_NS, ("n2",)), then_n3=60)
    loop.run(11 * SECOND_NS)
    before = parts_of(loop)
    assert before == [50_000, 2_900_000, 50_000]
    for tenth in range(111, 200):
        loop.run(tenth * SECOND_NS // 10)
        assert sum(parts_of(loop)) <= 3 * MILLION and parts_of(loop)[1:] == before[1:]
    loop.run(24 * SECOND_NS)
    assert sum(parts_of(loop)) == 3 * MILLION and parts_of(loop)[2] > 1_000_000, "n3 is asked now"


def test_a_restart_of_the_centre_destroys_no_tokens_of_others() -> None:
    loop = asked_for_at_n2_alone(Crash(11 * SECOND_NS + 1, "n1"), Restart(11 * SECOND_NS + 2, "n1"), then_n3=1)

    def tokens(now_ns: int) -> dict[str, float]:
        loop.run(now_ns)
        buckets = {name: node.buckets for name, node in loop.living().items()}
        for one in buckets.values():
            one.fill(one.users["u"], now_ns)
        return {name: one.users["u"].grains / one.whole.token for name, one in buckets.items()}

    before, after = tokens(11 * SECOND_NS), tokens(16 * SECOND_NS)
    assert sum(parts_of(loop)) == 3 * MILLION
    assert sum(after.values()) >= before["n2"] + before["n3"] + 5 * 0.3 - 1


def test_users_known_from_a_peer_begin_without_tokens() -> None:
    donor, node = nodes(["a", "b"], Config(capacity=10, rate="1"), 1).values()
    donor.handle(Arrival(Request(1, "u", 0)), 0)
    node.handle(Start(donor.snapshot()), SECOND_NS)  # type: ignore[attr-defined]
    (decided, *_) = node.handle(Arrival(Request(2, "u", SECOND_NS)), SECOND_NS)
    assert decided == Decide(2, Verdict.REJECT)
    node.handle(Delivery("a", UserCommands(5, {"u": (2 * MILLION, 0, 3), "v": (0, 0, 3)})), 2 * SECOND_NS)
    node.handle(Delivery("a", UserCommands(4, {"u": (0, 0, 3)})), 2 * SECOND_NS)
    (decided, *_) = node.handle(Arrival(Request(3, "u", 3 * SECOND_NS)), 3 * SECOND_NS)
    assert decided == Decide(3, Verdict.ADMIT)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 6), st.sampled_from(RATES), st.integers(0, 1), st.sampled_from(["random", "aligned"]), STEPS)
def test_one_node_decides_as_gcra(capacity: int, rate: str, minimum: int, phase: str, steps: Any) -> None:
    """Request by request, to the nanosecond."""
    config = Config(capacity=capacity, rate=rate, minimum=minimum, phase=phase)
    alone = Alone(nodes(["a"], config, 1)["a"], config.limit)
    verdicts = alone.follow(steps)
    assert [admitted for admitted, _ in verdicts] == [conforms for _, conforms in verdicts]


def test_a_nanosecond_too_early_is_too_early() -> None:
    config = Config(capacity=1, rate="1/3")
    alone = Alone(nodes(["a"], config, 1)["a"], config.limit)
    assert alone.ask(5) == (True, True)
    for _ in range(500):
        tie_ns = alone.tie_ns()
        assert alone.ask(tie_ns - 1) == (False, False) and alone.ask(tie_ns) == (True, True)


def test_a_clock_that_was_set_back_brings_no_token_twice() -> None:
    node = nodes(["a"], Config(capacity=1, rate="1"), 1)["a"]
    found = []
    for number, at_s in enumerate((10, 9, 10, 11)):
        (decided, *_) = node.handle(Arrival(Request(number, "u", 0)), at_s * SECOND_NS)
        found.append(decided.verdict)  # type: ignore[union-attr]
    assert found == [Verdict.ADMIT, Verdict.REJECT, Verdict.REJECT, Verdict.ADMIT]


@given(st.integers(-(10**12), 10**12), st.lists(st.integers(0, 10**15), min_size=1, max_size=9))
def test_whole_parts_add_up_and_are_in_proportion(total: int, weights: list[int]) -> None:
    parts, whole = in_parts(total, weights), sum(weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        exact = Fraction(total * weight, whole) if whole else Fraction(total, len(weights))
        assert abs(part - exact) < 1


@given(
    st.lists(st.tuples(st.floats(0.0, 1e6), st.integers(-(10**9), 10**9)), min_size=3, max_size=3),
    st.floats(0.0, 1.0),
    st.integers(1, 3),
)
def test_commands_only_move_what_is_there(reports: list[tuple[float, int]], floor: float, heard: int) -> None:
    """Shares are all parts, and moves sum up to none, in whatever order and number reports come."""
    names = ["a", "b", "c"]
    centre = Centre(names, 1.0, floor, 1_000)
    centre.report_users("a", {"u": (1.0, 0, 0, NEVER)})
    first = centre.command_users(0, 100)
    assert [command.shares["u"] for command in first] == [(MILLION, 0, 0)] * 3
    for name, (demand, millionths) in list(zip(names, reports, strict=True))[:heard]:
        centre.report_users(name, {"u": (demand, millionths, 1, 0)})
    commands = [command.shares["u"] for command in centre.command_users(PATIENCE, 100)]
    assert sum(parts for parts, _, _ in commands) == 3 * MILLION and min(parts for parts, _, _ in commands) >= 0
    assert sum(moved for _, moved, _ in commands) == 0
    assert all(commands[place][:2] == (MILLION, 0) for place in range(heard, 3))


def test_a_user_that_rests_keeps_its_shares_until_it_is_forgotten() -> None:
    names, whole = ["a", "b"], 2 * MILLION
    centre = Centre(names, 1.0, 0.0, 50)
    for cycle, obeyed in ((0, NEVER), (1, 0)):
        for name, demand in zip(names, (3.0, 1.0), strict=True):
            centre.report_users(name, {"u": (demand, 0, cycle, obeyed)})
        shares = [command.shares["u"][0] for command in centre.command_users(cycle, 10)]
    assert shares == [whole * 3 // 4, whole // 4]
    assert [command.shares for command in centre.command_users(12, 10)] == [{}, {}] and not centre.asked
    centre.report_users("b", {"u": (9.0, 0, 20, 1)})
    assert [command.shares["u"] for command in centre.command_users(20, 10)] == [(shares[0], 0, 20), (shares[1], 0, 20)]
    centre.command_users(31, 10)
    centre.sweep(70)
    assert centre.shares
    centre.report_users("b", {"u": (9.0, 0, 71, 20)})  # its servers have forgotten it
    assert [command.shares["u"][0] for command in centre.command_users(71, 10)] == [MILLION, MILLION]
    centre.command_users(82, 10)
    centre.sweep(122)
    assert not centre.shares and not centre.rested


def test_a_user_that_comes_back_finds_its_tokens_where_it_left_them() -> None:
    """c = 100 in 100 s: all requests come at n1, which has nearly all of it when the user rests for 15 s."""
    loop = event_loop(SYSTEM, Config(capacity=100, rate="1"), full_mesh(2, "20ms"), ["n1", "n2"], 1)
    steady = [Request(n, "u", n * SECOND_NS) for n in range(60)]
    back = [Request(100, "u", 75 * SECOND_NS)]
    burst = [Request(200 + n, "u", 76 * SECOND_NS + n) for n in range(80)]
    loop.offer("n1", [*steady, *back, *burst])
    verdicts = loop.run(80 * SECOND_NS).verdicts
    assert {number for number, (_, _, verdict) in verdicts.items() if verdict is Verdict.REJECT} == set()


@pytest.mark.parametrize("options", [{}, {"phase": "aligned", "average": "0s", "centre": "n2"}])
def test_it_conforms(options: dict[str, Any]) -> None:
    check_system(SYSTEM, VirtualBench(), Config(**options))


@pytest.mark.parametrize(
    ("options", "names"),
    [({"centre": "z"}, "centre = 'z'"), ({"floor": 1.5}, "floor = 1.5"), ({"cycle": "soon"}, "cycle = 'soon'")],
)
def test_options_that_make_no_sense_are_spec_errors(options: dict[str, Any], names: str) -> None:
    with pytest.raises(SpecError, match=names):
        nodes(["a", "b"], Config(**options), 1)


def test_strangers_are_refused() -> None:
    node = nodes(["a", "b"], Config(), 1)["b"]
    for event in (Delivery("z", Command(1, 1.0)), Timer("other", 1), Report(5)):
        with pytest.raises(AssertionError, match="no case"):
            node.handle(event, 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("average", ["0s", "10s"])
def test_together_servers_never_admit_more_than_burst_and_rate(seed: int, average: str) -> None:
    """Whatever the commands, tokens are only moved: at most c + r t, and the floor of a token a server."""
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(1, 5)]
    config = Config(capacity=12, rate="6", average=average)
    loop = event_loop(SYSTEM, config, full_mesh(4, "20ms", "10ms"), names, seed)
    instants, places = np.sort(rng.integers(0, 20 * SECOND_NS, 600)), (rng.random(600) ** 3 * 4).astype(int)
    for place, name in enumerate(names):
        chosen = np.flatnonzero(places == place)
        loop.offer(name, [Request(int(i), "u", int(instants[i])) for i in chosen])
    journal = loop.run(25 * SECOND_NS)
    at_s = np.sort([at / SECOND_NS for at, _, verdict in journal.verdicts.values() if verdict is Verdict.ADMIT])
    assert len(at_s) > 100  # of the 132 that 20 s allow
    for first in range(len(at_s)):
        counts = np.arange(1, len(at_s) - first + 1)
        assert (counts <= 12 + 3 + 6 * (at_s[first:] - at_s[first]) + 1e-6).all()
