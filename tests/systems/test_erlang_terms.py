"""Sizes of terms, as ``erts_debug:size_shared`` of OTP 25 counted them."""

import pytest

from core.records import Request
from core.units import SECOND_NS
from systems.api import Arrival, Timer
from systems.limiting import crdt_counter, crdt_queue
from systems.parts.erlang_terms import BUCKET_WORDS, WORD_BYTES, map_words, node_words

NAMES = [f"n{number}" for number in range(30)]


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
