"""The counter over arrays is the counter as listed: same verdicts, same messages byte for byte, same model bytes."""

from typing import Any

import numpy as np
import pytest

from core.records import Request
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Start, Timer
from systems.limiting.counter_fast import FastNode
from systems.limiting.crdt_counter import SYSTEM, Config, nodes
from testbed.faults import Crash, Fault, Heal, Partition, Restart
from testbed.topologies.topology import mesh
from testbed.virtual.scheduler import event_loop

NAMES = [f"n{i}" for i in range(5)]


def traffic(seed: int, names: list[str], users: int, count: int, span_ns: int) -> dict[str, list[Request]]:
    """Requests of heavy-tailed users at random nodes, some of several tokens."""
    rng = generator(seed, "traffic")
    at_ns = np.sort(rng.integers(0, span_ns, count))
    who = rng.zipf(1.3, count) % users
    where, cost = rng.integers(0, len(names), count), rng.choice([1, 1, 1, 1, 2, 5], count)
    offered: dict[str, list[Request]] = {name: [] for name in names}
    for i in range(count):
        offered[names[where[i]]].append(Request(i, f"user {who[i]}", int(at_ns[i]), int(cost[i])))
    return offered


def run(config: Config, seed: int, faults: list[Fault], names: list[str], count: int) -> Any:
    """20 s of traffic and 20 s to settle, with loss, disorder, and clocks that differ by up to a second."""
    topology = mesh("mesh", names, 30 * MILLISECOND_NS, 20 * MILLISECOND_NS, loss_probability=0.05)
    rng = generator(seed, "skew")
    offsets_ns = {name: int(rng.integers(-SECOND_NS, SECOND_NS)) for name in names}
    loop = event_loop(SYSTEM, config, topology, names, seed, keep_steps=True, clock_offsets_ns=offsets_ns)
    for name, requests in traffic(seed, names, 150, count, 20 * SECOND_NS).items():
        loop.offer(name, requests)
    loop.fail(faults)
    return loop.run(40 * SECOND_NS)


TROUBLE: list[Fault] = [
    Crash(3 * SECOND_NS, "n1"),
    Partition(5 * SECOND_NS, ("n3", "n4")),
    Restart(7 * SECOND_NS, "n1"),
    Crash(8 * SECOND_NS, "n2"),
    Heal(10 * SECOND_NS, ("n3", "n4")),
    Restart(11 * SECOND_NS, "n2", "n0"),
]

VARIANTS: list[dict[str, Any]] = [
    {},
    {"refill_cap": "literal", "whole_tokens": False, "rate": "1/3"},
    {"overlay": "ring", "choice": "all", "rate": "0.333333"},
    {"push": "broadcast", "rate": "2.5"},
    {"memory": "shared"},
    {"memory": "process", "phase": "aligned", "unit": "words"},
    {"overlay": "ring", "unit": "external"},
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_twins_tell_the_same_story(options: dict[str, Any], seed: int) -> None:
    literal, fast = (
        run(Config(**{"capacity": 8, "body": body, **options}), seed, TROUBLE, NAMES, 600)
        for body in ("literal", "fast")
    )
    assert len(literal.steps) == len(fast.steps)
    for one, other in zip(literal.steps, fast.steps, strict=True):
        assert one == other
    weights = [[row for row in journal.samples if row[2] != "allocated_bytes"] for journal in (literal, fast)]
    assert weights[0] == weights[1]
    assert {metric for _, _, metric, _ in weights[0]} >= {"state_bytes", "sent_bytes"}


@pytest.mark.slow
def test_the_twins_agree_with_more_neighbours_than_a_mask_has_bits() -> None:
    names = [f"n{i}" for i in range(70)]
    literal, fast = (run(Config(capacity=8, gossip="1s", body=body), 3, [], names, 150) for body in ("literal", "fast"))
    assert literal.steps == fast.steps


def test_a_message_costs_what_changed_not_how_many_users_there_are() -> None:
    few, many = (_with_users(count) for count in (10, 5_000))
    sizes = []
    for node in (few, many):
        node.handle(Arrival(Request(1, "user 3", 0)), 0)
        (_, send) = node.handle(Timer("gossip", 0), 0)
        sizes.append(len(send.message.users + send.message.limits + send.message.counts))  # type: ignore[union-attr]
    assert sizes[0] == sizes[1]
    assert many.state_bytes() > 400 * few.state_bytes()


def _with_users(count: int) -> FastNode:
    node = nodes(["n1", "n2"], Config(), 1)["n1"]
    assert isinstance(node, FastNode)
    node.handle(Start(None), 0)
    for i in range(count):
        node.handle(Arrival(Request(i, f"user {i}", 0)), 0)
    node.handle(Timer("gossip", 0), 0)
    assert node.idle()
    return node
