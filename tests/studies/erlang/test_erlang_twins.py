"""The thesis' nodes in Erlang beside ours in Python: with births unique, the same verdict on every request.

Erlang draws its neighbours as it likes; ours are made to choose the same.  Then they must send at the same instants
to the same nodes, by Erlang's units as much, decide alike, and come to rest at the same instant.  In two corners ours
keep a sounder rule than the listings; there they are given the listings' (``as_listed``, ``refilled_as_listed``).
Instants of lives are whole milliseconds here, and tokens a millisecond halves of halves, so that no rounding tells the
two apart.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from core.records import Request
from core.seeds import generator
from core.units import MILLISECOND_NS
from studies.erlang import virtual
from studies.erlang.asked import ErlangLimiting
from systems.api import Arrival, Decide, Delivery, Effect, Send, Start, System, Timer, Verdict
from systems.limiting import crdt_counter, crdt_queue
from systems.limiting.counter_common import Config as CounterConfig
from systems.limiting.crdt_counter_literal import CounterBucket
from systems.limiting.crdt_queue import Config as QueueConfig
from systems.limiting.crdt_queue_literal import LiteralQueueNode, Queue
from testbed.erlang.emulator import ErlangAnswer, play
from testbed.topologies.topology import load_topology
from tests.live import needs
from tests.studies.limiting.given import Given

pytestmark = [needs("erlang"), pytest.mark.slow]

GOSSIP_MS = 30
# A case takes a third of a second; smaller ones say no more of what went wrong.
TRIALS = settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
USERS = [f"{number:032x}" for number in (7, 11)]


@dataclass(frozen=True)
class Load:
    """Requests at nodes from 0, as (instant in ms, node, user), in order of time."""

    node_count: int
    rows: tuple[tuple[int, int, int], ...]


@st.composite
def loads(draw: st.DrawFn) -> Load:
    """Many requests for few tokens, often several in one millisecond."""
    count = draw(st.integers(1, 5))
    span_ms, requests = draw(st.integers(1, 400)), draw(st.integers(1, 150))
    rng = generator(draw(st.integers(0, 2**32)), "requests")
    columns = (rng.integers(most, size=requests).tolist() for most in (span_ms, count, 2))
    return Load(count, tuple(sorted(zip(*columns, strict=True), key=lambda row: row[0])))


def asked(system: System, config: Any, load: Load, **more: Any) -> ErlangLimiting:
    topology = load_topology("full-mesh", {"nodes": max(1, load.node_count), "delay": "0ms"})
    names = topology.node_names()
    requests: dict[str, list[Request]] = {name: [] for name in names}
    for number, (at_ms, node, user) in enumerate(load.rows):
        requests[names[node]].append(Request(number, USERS[user], at_ms * MILLISECOND_NS))
    drain_ns = 20_000 * MILLISECOND_NS
    return ErlangLimiting(system, config, topology, Given(requests), 10**9, 1, drain_ns=drain_ns, **more)


def in_erlang(request: ErlangLimiting, load: Load) -> ErlangAnswer:
    rows = [(at_ms, node + 1, USERS[user]) for at_ms, node, user in load.rows]
    return play(virtual.job_of(request, journal=True), rows)


@dataclass
class Twin:
    """Our nodes, driven as the Erlang ones are: requests, then rounds, then what these sent."""

    nodes: Mapping[str, Any]
    sent: list[tuple[int, str, str, bool]]
    sent_bytes: Counter[str] = field(default_factory=Counter)  # by node, in the unit asked for
    now_ms: int = 0

    def handle(self, name: str, event: Any) -> list[Effect]:
        effects: list[Effect] = self.nodes[name].handle(event, self.now_ms * MILLISECOND_NS)
        return effects

    def deliver(self, name: str, effects: list[Effect], urgent: bool) -> None:
        for send in (effect for effect in effects if isinstance(effect, Send)):
            self.sent.append((self.now_ms, name, send.target, urgent))
            self.sent_bytes[name] += self.nodes[name].message_bytes(send.message, encoded_bytes=0)
            self.handle(send.target, Delivery(name, send.message))

    def ask(self, name: str, request: Request) -> bool:
        effects = self.handle(name, Arrival(request))
        (verdict,) = [effect.verdict for effect in effects if isinstance(effect, Decide)]
        self.deliver(name, effects, urgent=True)
        return verdict is Verdict.ADMIT

    def gossip(self) -> None:
        event = Timer("gossip", self.now_ms * MILLISECOND_NS)
        effects = {name: self.handle(name, event) for name in self.nodes}
        for name, of_node in effects.items():
            self.deliver(name, of_node, urgent=False)

    def is_quiet(self) -> bool:
        return all(node.idle() for node in self.nodes.values())


def in_python(request: ErlangLimiting, load: Load, answer: ErlangAnswer) -> tuple[list[bool], Twin, int | None]:
    """Verdicts, what was sent, and when all was first quiet after the last request."""
    names = request.topology.node_names()
    assert request.system.nodes is not None
    twin = Twin(request.system.nodes(names, request.config, 1), [])
    targets = {
        (message.at_ms, names[message.source - 1]): names[message.target - 1]
        for message in answer.messages
        if not message.urgent
    }
    for name, node in twin.nodes.items():
        twin.handle(name, Start(None))
        others = list(node.neighbours)

        def choose(queued: object, name: str = name, others: list[str] = others) -> int | None:
            target = targets.get((twin.now_ms, name))
            return None if target is None else others.index(target)

        node.rounds.choose = choose
    at = defaultdict(list)
    for number, (at_ms, node_number, user) in enumerate(load.rows):
        at[at_ms].append((names[node_number], Request(number, USERS[user], at_ms * MILLISECOND_NS)))
    end_ms = answer.converged_at_ms or max(at) + 20_000
    verdicts = []
    for now_ms in sorted({*at, *range(GOSSIP_MS, end_ms + 1, GOSSIP_MS)}):
        twin.now_ms = now_ms
        for name, each in at[now_ms]:
            verdicts.append(twin.ask(name, each))
        if now_ms >= max(load.rows)[0] and twin.is_quiet():
            return verdicts, twin, now_ms
        if now_ms % GOSSIP_MS == 0 and now_ms:
            twin.gossip()
        if now_ms >= max(load.rows)[0] and twin.is_quiet():
            return verdicts, twin, now_ms
    return verdicts, twin, None


def expect_twins(system: System, config: Any, load: Load, ours: Any, **more: Any) -> None:
    request = asked(system, config, load, **more)
    answer = in_erlang(request, load)
    verdicts, twin, quiet_ms = in_python(replace(request, config=ours), load, answer)
    names = request.topology.node_names()
    assert answer.accepted == verdicts
    assert [(at, names[a - 1], names[b - 1], urgent) for at, a, b, urgent in answer.messages] == twin.sent
    assert answer.converged_at_ms == quiet_ms
    weights = Counter[str]()
    for weight in answer.weights:
        weights[names[weight.node - 1]] += {"external": weight.external_bytes, "words": weight.word_bytes}[ours.unit]
    assert twin.sent_bytes == weights


def refilled_as_listed(self: LiteralQueueNode, queue: Queue, user: bytes, now_ticks: int) -> Queue:
    """Listing 4.4: dead heads go, where ours drops all that has left the local state.

    An element that left it may stand behind an older one that came later and lives longer.
    """
    return self._refill(queue, now_ticks)


@TRIALS
@given(
    load=loads(),
    capacity=st.integers(1, 6),
    rate=st.sampled_from(["125", "62.5", "15.625"]),
    frequency=st.booleans(),
    linf=st.booleans(),
    identity=st.sampled_from(["not-later", "birth"]),
    window=st.integers(1, 3),
)
def test_the_queue_decides_as_ours_does(
    load: Load, capacity: int, rate: str, frequency: bool, linf: bool, identity: str, window: int
) -> None:
    config = QueueConfig(
        capacity=capacity,
        rate=rate,
        gossip=f"{GOSSIP_MS}ms",
        phase="aligned",
        frequency=frequency,
        linf=linf,
        window=window,
        threshold="20ms",
        literal_priorities=linf,
        implementation="lists",
    )
    ours = replace(config, identity=identity, unit="words")  # births, here finer than ms, are longer in the other
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiteralQueueNode, "_refill_delta", refilled_as_listed)
        expect_twins(crdt_queue.SYSTEM, config, load, ours, births="unique", identity=identity)


def as_listed(self: CounterBucket, other: CounterBucket) -> CounterBucket:
    """Listing 3.4: of equal limits each keeps its own instant, where ours takes the later."""
    counts = {
        slot: max(self.counts.get(slot, 0), other.counts.get(slot, 0)) for slot in {**self.counts, **other.counts}
    }
    newer = other if other.limit_ticks > self.limit_ticks else self
    return CounterBucket(counts, newer.limit_ticks, newer.refilled_at_ns)


@TRIALS
@given(
    load=loads(),
    capacity=st.integers(1, 6),
    rate=st.sampled_from(["125", "62.5", "15.625"]),
    cap=st.sampled_from(["bucket", "literal"]),
    whole=st.booleans(),
    unit=st.sampled_from(["external", "words"]),
)
def test_the_counter_decides_as_ours_does(
    load: Load, capacity: int, rate: str, cap: str, whole: bool, unit: str
) -> None:
    config = CounterConfig(
        capacity=capacity,
        rate=rate,
        gossip=f"{GOSSIP_MS}ms",
        phase="aligned",
        refill_cap=cap,
        whole_tokens=whole,
        body="literal",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CounterBucket, "merged", as_listed)
        expect_twins(crdt_counter.SYSTEM, config, load, replace(config, queued="literal", unit=unit))
