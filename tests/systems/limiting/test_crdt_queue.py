"""The node on arrays equals the literal one; the queue conforms; one node is a token bucket."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.codec import Codec
from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Delivery, Send, Start, Timer
from systems.conformance import check_system
from systems.limiting.crdt_queue import SYSTEM, Config, nodes
from systems.limiting.queue_common import FineElements
from systems.limiting.sliding_log import SYSTEM as SLIDING_LOG
from systems.limiting.sliding_log import Config as LogConfig
from systems.parts.limit import gcra, limit_of
from testbed.virtual.bench import VirtualBench
from tests.systems.limiting.queue_common import World, admitted, ask, content, gossip

CONFIGS = st.builds(
    Config,
    capacity=st.sampled_from([1, 4, 12, 40]),
    rate=st.sampled_from(["1", "7/3", "0.3", "20"]),
    overlay=st.sampled_from(["full-mesh", "ring", "star"]),
    gossip=st.sampled_from(["100ms", "300ms"]),
    choice=st.sampled_from(["pending", "all"]),
    frequency=st.booleans(),
    linf=st.booleans(),
    window=st.sampled_from([0, 1, 3]),
    threshold=st.sampled_from(["100ms", "2400ms"]),
    keep_last=st.sampled_from([0, 0, 1, 4]),
    resolution=st.sampled_from(["1ns", "10ms"]),
    births=st.sampled_from(["unique", "clock"]),
    identity=st.sampled_from(["exact", "birth", "not-later"]),
    memory=st.sampled_from(["columns", "shared", "process"]),
    unit=st.sampled_from(["encoded", "external", "words"]),
)


def both(world: World, steps: int) -> tuple[list[Any], list[Any]]:
    twin = replace(world, config=replace(world.config, implementation="lists"), log=[])
    return world.run(steps), twin.run(steps)


def assert_equal(world: World, steps: int) -> None:
    fast, literal = both(world, steps)
    for number, (one, other) in enumerate(zip(fast, literal, strict=True)):
        assert one == other, f"step {number}"


@settings(max_examples=40, deadline=None)
@given(CONFIGS, st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([1, 10, 60]))
def test_arrays_equal_lists(config: Config, count: int, seed: int, gap_ms: int) -> None:
    assert_equal(World(SYSTEM, config, count, seed, gap_ns=gap_ms * MILLISECOND_NS), 300)


@pytest.mark.parametrize("options", [{}, {"frequency": True}, {"linf": True}, {"frequency": True, "linf": True}])
def test_arrays_equal_lists_for_long(options: dict[str, Any]) -> None:
    config = Config(capacity=60, rate="4", window=4, threshold="300ms", gossip="200ms", **options)
    assert_equal(World(SYSTEM, config, 4, 7, users=150, gap_ns=8 * MILLISECOND_NS), 2_500)


def test_arrays_equal_lists_with_more_neighbours_than_a_word_has_bits() -> None:
    config = Config(capacity=200, rate="5", frequency=True, window=3, threshold="500ms")
    assert_equal(World(SYSTEM, config, 130, 3, crash=0.0), 700)


@settings(max_examples=15, deadline=None)
@given(st.booleans(), st.sampled_from([0, 2]), st.integers(0, 10**6))
@example(True, 0, 6971)  # a restart from a copy, and messages in its very instant
def test_sliding_logs_on_arrays_equal_those_on_lists(frequency: bool, keep_last: int, seed: int) -> None:
    config = LogConfig(capacity=8, rate="6", frequency=frequency, window=2, threshold="200ms", keep_last=keep_last)
    assert_equal(World(SLIDING_LOG, config, 4, seed), 300)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 6),
    st.sampled_from(["1", "0.3", "7/3", "1000"]),
    st.lists(st.tuples(st.integers(0, 1_500), st.integers(1, 3)), max_size=60),
)
def test_one_node_is_a_token_bucket(capacity: int, rate: str, steps: list[tuple[int, int]]) -> None:
    """Claim T2 made exact: GCRA and the queue decide alike, to the nanosecond."""
    limit, (node,) = limit_of(capacity, rate), nodes(["n1"], Config(capacity=capacity, rate=rate), 1).values()
    node.handle(Start(None), 0)
    now_ns, full_at = 0, 0
    for number, (gap_ms, cost) in enumerate(steps):
        now_ns += gap_ms * MILLISECOND_NS
        conforming = gcra(limit.ticks(now_ns), full_at, limit, cost)
        full_at = full_at if conforming is None else conforming
        effects = node.handle(Arrival(Request(number, "u", now_ns, cost)), now_ns)
        assert admitted(effects) == (conforming is not None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"frequency": True, "linf": True, "window": 3},
        {"capacity": 5, "rate": "1", "keep_last": 3, "choice": "all"},
        {"rate": "0.123457"},
        {"frequency": True, "resolution": "1ms", "births": "clock", "identity": "birth", "memory": "process"},
    ],
)
def test_it_conforms(options: dict[str, Any]) -> None:
    check_system(SYSTEM, VirtualBench(), Config(**options))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"capacity": 0}, "capacity"),
        ({"rate": "fast"}, "rate"),
        ({"rate": "1e10"}, "rate"),
        ({"rate": "200", "resolution": "10ms"}, "rate"),
        ({"window": -1}, "window"),
        ({"frequency": True, "true_gaps": True, "window": 1}, "window"),
        ({"frequency": True, "true_gaps": True, "capacity": 3}, "window"),
        ({"keep_last": -1}, "keep_last"),
        ({"threshold": "2400"}, "threshold"),
        ({"resolution": "0ns"}, "resolution"),
        ({"key": "death"}, "key"),
        ({"implementation": "rust"}, "implementation"),
        ({"unit": "furlongs"}, "unit"),
        ({"overlay": "cube"}, "overlay"),
        ({"gossip": "-1s"}, "gossip"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError, match=f"{named} = "):
        nodes(["n1", "n2"], Config(**options), 1)


def test_a_clock_beyond_the_ticks_is_refused() -> None:
    """Where ticks are no finer than 30 days allow: at the start, and whenever the clock gets there."""
    month_ns, unix_ns = 30 * 86_400 * SECOND_NS, 1_700_000_000 * SECOND_NS
    for implementation in ("arrays", "lists"):
        node = nodes(["n1"], Config(rate="0.001779", implementation=implementation), 1)["n1"]
        with pytest.raises(SpecError, match="n1: 1700000000000000000 ns is too late"):
            node.handle(Start(None), unix_ns)
        assert [ask(node, at_ns / SECOND_NS, cost=300) for at_ns in (0, month_ns)] == [True, True]
        with pytest.raises(SpecError, match="too late"):
            ask(node, 2 * month_ns / SECOND_NS)


@pytest.mark.parametrize(("rate", "base_s"), [("0.123457", 86_400), ("0.999999", 9_300), ("0.123457", 1_700_000_000)])
@pytest.mark.parametrize("name", ["queue", "log"])
def test_fine_rates_at_late_instants(rate: str, base_s: int, name: str) -> None:
    """Instants of more ticks than 64 bits hold are exact at the node, and on the wire."""
    system, config = (SYSTEM, Config) if name == "queue" else (SLIDING_LOG, LogConfig)
    limit, names = limit_of(3, rate), ["n1", "n2", "n3"]
    its: dict[str, Any] = dict(system.nodes(names, config(capacity=3, rate=rate), 1))  # type: ignore[misc]
    base_ns, codec = base_s * SECOND_NS, Codec(system.messages)
    for node in its.values():
        node.handle(Start(None), base_ns)
    verdicts = [admitted(its["n1"].handle(Arrival(Request(i, "u", base_ns, 1)), base_ns)) for i in range(4)]
    assert verdicts == [True, True, True, False]
    for effect in its["n1"].handle(Timer("gossip", base_ns + 9), base_ns + 9):
        if isinstance(effect, Send):
            told = its[effect.target]
            told.handle(Delivery("n1", codec.decode(codec.encode(effect.message))), base_ns + 10)
    assert content(told.snapshot(), limit.ticks_per_ns) == content(its["n1"].snapshot(), limit.ticks_per_ns)
    again: Any = dict(system.nodes(names, config(capacity=3, rate=rate), 2))["n3"]  # type: ignore[misc]
    again.handle(Start(codec.decode(codec.encode(told.snapshot()))), base_ns + 20)
    tokens = 1 if name == "queue" else 3  # until the first is back
    back_ns = limit.instant_ns(limit.ticks(base_ns) + tokens * limit.token_ticks)
    for node in (its["n1"], told, again):
        asked = [node.handle(Arrival(Request(0, "u", at, 1)), at) for at in (back_ns - 1, back_ns)]
        assert [admitted(effects) for effects in asked] == [False, True]


@pytest.mark.parametrize("seed", range(4))
def test_fine_elements_say_what_elements_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that send deaths in ticks equal lists that send them in ns, and ticks beyond."""
    world = World(SYSTEM, Config(capacity=6, rate="0.999", frequency=True, window=2), 3, seed)
    coarse = replace(world, log=[]).run(300)
    monkeypatch.setattr("systems.limiting.queue_common.COARSE_TICKS_PER_NS", 998)
    fine = world.run(300)
    assert isinstance(world.nodes["n0"].snapshot(), FineElements)
    assert fine == coarse


def test_a_round_looks_only_at_users_that_changed() -> None:
    node: Any = nodes(["n1", "n2"], Config(), 1)["n1"]
    looked_at = node._meta[node.space.kernel.QUEUED + 1 :]  # how many users are on the only neighbour's list
    for number in range(500):
        ask(node, 0, user=f"u{number}")
    assert looked_at.tolist() == [500] and len(content(gossip(node, 0.3)["n2"])) == 500 and looked_at.tolist() == [0]
    ask(node, 0.5, user="u7")
    ask(node, 0.5, user="u7")
    assert looked_at.tolist() == [1] and len(content(gossip(node, 0.6)["n2"])) == 1


def test_memory_is_given_back() -> None:
    """Blocks of users whose elements are gone serve others: the pool follows the living, not the past."""
    node: Any = nodes(["n1", "n2"], Config(rate="1"), 1)["n1"]
    for number in range(3_000):
        ask(node, 2 * number, user=f"u{number}")
        for target, message in gossip(node, 2 * number + 1).items():  # n2 echoes it when it is dead
            node.handle(Delivery(target, message), (2 * number + 1) * SECOND_NS)
    assert len(node._pool) == 256 and node.state_bytes() == 0 and node.idle()
