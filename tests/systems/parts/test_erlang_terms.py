"""Sizes of terms and messages, as ``erts_debug`` and ``erlang:external_size`` of OTP 25 counted them."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.records import Request
from core.units import SECOND_NS
from systems.api import Arrival, Delivery, Send, Start, Timer
from systems.limiting import counter_common, crdt_counter, crdt_queue, queue_common
from systems.limiting.crdt_counter_literal import CounterBucket, packed, unpacked
from systems.parts.erlang_terms import (
    BUCKET_WORDS,
    WORD_BYTES,
    counter_message_bytes,
    map_words,
    node_words,
    queue_message_bytes,
)
from systems.parts.limit import limit_of

NAMES = [f"n{number}" for number in range(30)]
LIMIT = limit_of(300, "0.3")
UNIX_MS = 1_600_000_000_123
BODIES = [
    (crdt_counter, {"body": "fast"}),
    (crdt_counter, {"body": "literal"}),
    (crdt_queue, {"implementation": "arrays"}),
    (crdt_queue, {"implementation": "lists"}),
]


def external_bytes(term: Any) -> int:
    """Of a term within another; text is an atom."""
    match term:
        case dict():
            return 5 + sum(external_bytes(each) for pair in term.items() for each in pair)
        case list():
            return (6 if term else 1) + sum(map(external_bytes, term))
        case tuple():
            return 2 + sum(map(external_bytes, term))
        case bytes():
            return 5 + len(term)
        case str():
            return 3 + len(term)
        case float():
            return 9
    return 2 if term < 2**8 else 5 if term < 2**27 else 3 + -(-term.bit_length() // 8)


def flat_words(term: Any) -> int:
    """Of a term, each that it has in it wherever it is referred to; text is an atom."""
    match term:
        case dict():
            assert len(term) <= 32
            return (4 if term else 3) + sum(1 + flat_words(each) for pair in term.items() for each in pair)
        case list():
            return sum(2 + flat_words(each) for each in term)
        case tuple():
            return 1 + sum(1 + flat_words(each) for each in term)
        case bytes():
            return 2 + -(-len(term) // 8)
        case float():
            return 2
    return 0


def by_unit(term: Any) -> dict[str, int]:
    """Of a whole message, by unit, and of what travels: 99."""
    return {"external": 1 + external_bytes(term), "words": WORD_BYTES * flat_words(term), "encoded": 99}


def in_erlang(message: Any) -> Any:
    """A message as the thesis' nodes in Erlang send it (testbed/erlang)."""
    if isinstance(message, queue_common.Elements):
        queues = queue_common.unpack(message).values()
        return {_text(number): [("element", UNIX_MS, UNIX_MS) for _ in queue] for number, queue in enumerate(queues)}
    buckets = unpacked(message, LIMIT).values()
    counts = [{node + 1: count for (node, _), count in bucket.counts.items()} for bucket in buckets]
    return {_text(number): ("bucket", each, 300.0, UNIX_MS) for number, each in enumerate(counts)}


def _text(number: int) -> bytes:
    return b"%032x" % number


USER = _text(0)
TERMS = [  # and their sizes by Erlang: external, words
    ({}, 6, 3),
    ({USER: []}, 44, 12),
    ({USER: [("element", UNIX_MS, UNIX_MS)]}, 79, 18),
    ({USER: [("element", UNIX_MS, UNIX_MS), ("element", UNIX_MS, UNIX_MS)]}, 109, 24),
    ({USER: ("bucket", {}, 300.0, UNIX_MS)}, 77, 22),
    ({USER: ("bucket", {1: 255}, 300.0, UNIX_MS)}, 81, 25),
    ({USER: ("bucket", {1: 256}, 300.0, UNIX_MS)}, 84, 25),
    ({USER: ("bucket", {256: 1}, 300.0, UNIX_MS)}, 84, 25),
    ({USER: ("bucket", {1: 3_000_000_000}, 300.0, UNIX_MS)}, 86, 25),
    ({USER: ("bucket", dict.fromkeys(range(1, 31), 1), 300.0, UNIX_MS)}, 197, 83),
    ({_text(number): [] for number in range(32)}, 1_222, 260),
]


@pytest.mark.parametrize(("term", "external", "words"), TERMS, ids=range(len(TERMS)))
def test_the_yardstick(term: Any, external: int, words: int) -> None:
    assert by_unit(term) == {"external": external, "words": WORD_BYTES * words, "encoded": 99}


COUNTS = st.dictionaries(st.integers(0, 300), st.integers(1, 2**27 - 1), min_size=1, max_size=32)


@given(st.lists(COUNTS, min_size=1, max_size=32), st.booleans())
def test_a_counters_message(buckets: list[dict[int, int]], tagged: bool) -> None:
    """Lives, which are ours, weigh nothing in Erlang."""
    each = (CounterBucket({(node, 0): count for node, count in counts.items()}, 0, 0) for counts in buckets)
    message: Any = packed(((_text(number)[16:], bucket) for number, bucket in enumerate(each)), LIMIT, tagged)
    for unit, weight in by_unit(in_erlang(message)).items():
        assert counter_common.message_bytes(unit, message, encoded_bytes=99) == weight


@given(st.lists(st.integers(1, 50), min_size=1, max_size=32), st.sampled_from(["0.3", "0.123457"]))
def test_a_queues_message(lengths: list[int], rate: str) -> None:
    """A message of a fine rate, which has instants of its own, weighs nothing more in Erlang."""
    queues = {_text(number)[16:]: [(at, at, 0) for at in range(length)] for number, length in enumerate(lengths)}
    message = queue_common.pack(queues, crdt_queue.rule(crdt_queue.Config(rate=rate), 30))
    term = {_text(number): [("element", UNIX_MS, UNIX_MS)] * length for number, length in enumerate(lengths)}
    for unit, weight in by_unit(term).items():
        assert queue_common.message_bytes(unit, message, encoded_bytes=99) == weight


@settings(max_examples=25, deadline=None)
@given(
    body=st.sampled_from(BODIES),
    unit=st.sampled_from(["encoded", "external", "words"]),
    asked=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.sampled_from([1, 2, 280])), max_size=30),
)
def test_a_node_counts_what_it_sends(
    body: tuple[ModuleType, dict[str, Any]], unit: str, asked: list[tuple[int, int, int]]
) -> None:
    """Three nodes are asked, as (node, user, tokens), and tell each other."""
    system, options = body
    nodes = system.nodes(NAMES[:3], system.Config(**options, unit=unit), 1)
    for node in nodes.values():
        node.handle(Start(None), 0)
    for number, (at, user, cost) in enumerate(asked):
        now_ns, node = number * SECOND_NS, nodes[NAMES[at]]
        node.handle(Arrival(Request(number, f"u{user}", now_ns, cost)), now_ns)
        for effect in node.handle(Timer("gossip", now_ns), now_ns):
            if isinstance(effect, Send):
                assert node.message_bytes(effect.message, 99) == by_unit(in_erlang(effect.message))[unit]
                nodes[effect.target].handle(Delivery(NAMES[at], effect.message), now_ns)


@pytest.mark.parametrize(("users", "words"), [(33, 329), (64, 624), (100, 976), (1_000, 9_724)])
def test_messages_of_many_users_are_off_by_little(users: int, words: int) -> None:
    assert queue_message_bytes("words", users, 0) == pytest.approx(WORD_BYTES * words, rel=0.03)
    assert queue_message_bytes("external", users, users) == 6 + users * (79 - 6)


@pytest.mark.parametrize(("nodes", "words"), [(33, 127), (64, 246), (1_000, 3_710)])
def test_so_are_buckets_of_many_nodes(nodes: int, words: int) -> None:
    own = 6 + 6 + BUCKET_WORDS
    assert counter_message_bytes("words", [nodes], 0) == pytest.approx(WORD_BYTES * (words + own), rel=0.03)


@pytest.mark.parametrize(("entries", "words"), [(0, 0), (1, 6), (29, 62), (32, 68), (50, 188), (1_000, 3_716)])
def test_maps(entries: int, words: int) -> None:
    assert map_words(entries) == pytest.approx(words, rel=0.01)


def test_a_counter_at_rest_that_all_nodes_have_served() -> None:
    assert node_words(29, 1, [0] * 29, 1) + BUCKET_WORDS + map_words(30) == 145


@pytest.mark.parametrize("system", [crdt_counter, crdt_queue])
def test_what_is_queued_for_many_is_one_term(system: object) -> None:
    """A request is queued for 29: a place in 29 maps, and in the queue's case a cell of 29 lists."""
    weights = {}
    for memory in ("shared", "columns"):
        node = system.nodes(NAMES, system.Config(memory=memory), 1)["n0"]  # type: ignore[attr-defined]
        empty = node.state_bytes()
        node.handle(Arrival(Request(0, "u", SECOND_NS)), SECOND_NS)
        full = node.state_bytes()
        node.handle(Timer("gossip", SECOND_NS), SECOND_NS)
        weights[memory] = full - empty, full - node.state_bytes()
    content = {crdt_counter: BUCKET_WORDS + map_words(1), crdt_queue: 4 + 2}[system]  # type: ignore[index]
    each = {crdt_counter: 6, crdt_queue: 6 + 2}[system]  # type: ignore[index]
    two_keys = 2 * 6
    assert weights["shared"] == (WORD_BYTES * (6 + two_keys + content + 29 * each), WORD_BYTES * each)
    assert weights["columns"][0] == 30 * weights["columns"][1]
