"""owner-global: Gubernator's leaky bucket, its copies at other nodes, and when hits and states are sent."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Decide, Delivery, Effect, Event, Send, SetTimer, Start, Timer, Verdict
from systems.conformance import check_system
from systems.limiting.owner_global import SYSTEM, TIMEOUT_NS, Config, GlobalNode, LeakyTable, nodes
from systems.limiting.owner_messages import HITS, STATES, Gathered, TakenIn
from systems.parts.consistent_hash import name_hash, range_of
from systems.parts.gather_loop import GatherLoop
from systems.parts.limit import limit_of
from testbed.faults import EVERY, Heal, LinkDuplication, Partition
from testbed.topologies.topology import mesh
from testbed.virtual.bench import VirtualBench
from tests.studies.limiting.given import run_requests
from tests.systems.limiting.deployed_study import study

NAMES = ["n1", "n2", "n3"]
SYNC_NS = 100 * MILLISECOND_NS
OWNED = next(f"u{number}" for number in range(99) if range_of(name_hash(f"u{number}"), 3) == 0)  # by n1


def made(**options: Any) -> dict[str, GlobalNode]:
    """Nodes with c = 4, 4 a second."""
    config = Config(**{"capacity": 4, "rate": "4", **options})
    return {name: node for name, node in nodes(NAMES, config, 0).items() if isinstance(node, GlobalNode)}


def do(node: GlobalNode, event: Event, at_ms: int) -> list[Effect]:
    return node.handle(event, at_ms * MILLISECOND_NS)


def ask(node: GlobalNode, at_ms: int, cost: int = 1) -> bool:
    decided = do(node, Arrival(Request(0, OWNED, 0, cost)), at_ms)[0]
    assert isinstance(decided, Decide)
    return decided.verdict is Verdict.ADMIT


# --- the bucket ------------------------------------------------------------------------------------


def bucket(capacity: int = 4, rate: str = "4") -> Any:
    """Hits at an instant in ms, of one user."""
    table = LeakyTable(limit_of(capacity, rate))

    def hit(at_ms: int, hits: int = 1, date_ms: int | None = None, drain: bool = False) -> bool:
        date_ns = (at_ms if date_ms is None else date_ms) * MILLISECOND_NS
        return table.hit("u", hits, date_ns, at_ms * MILLISECOND_NS, drain)

    return hit


def test_the_last_whole_token_takes_the_fraction_too() -> None:
    hit = bucket()
    assert hit(0, 3) and hit(400) and hit(600)  # 1, then 1.6, then 0 are left, not 0.6
    assert hit(650) and hit(1_000) and not hit(1_000)  # 1.4 have come back since 650, not 2


def test_a_user_whose_state_is_asked_for_is_not_swept() -> None:
    """It was hit so long ago that it would be full again, and is one too many."""
    table = LeakyTable(limit_of(4, "4"))
    for number in range(1_024):
        table.hit(f"u{number}", 1, 0, 0)
    assert table.state("late", 0, 5 * SECOND_NS) == ("late", 4, 0)
    assert [*table.buckets] == ["late"]


def test_a_bucket_leaks_whole_tokens_or_more() -> None:
    hit = bucket()
    assert hit(0, 4) and not hit(249) and hit(250)
    assert not hit(490) and not hit(499) and hit(500)  # asking in between moves nothing


def test_overload_that_is_forwarded_drains() -> None:
    for drain in (False, True):
        hit = bucket()
        assert hit(0, 2) and not hit(10, 3, drain=drain)
        assert hit(20) != drain


def test_late_hits_make_a_bucket_full_that_they_should_have_emptied() -> None:
    hit = bucket()
    assert hit(5_000, 4) and not hit(5_010)
    assert not hit(5_020, 9, date_ms=3_900, drain=True)  # kept until 4,900 only: gone
    assert hit(5_030, 4)


def test_a_new_bucket_is_full_and_more_than_it_holds_empties_it() -> None:
    hit = bucket()
    assert not hit(0, 5) and not hit(1) and hit(250)
    assert hit(1_251, 4)  # nobody asked for c/r


@given(
    st.lists(st.tuples(st.integers(0, 700), st.integers(1, 4)), min_size=1, max_size=60),
    st.integers(1, 6),
    st.sampled_from(["0.5", "4", "7/3"]),
)
@settings(max_examples=150, deadline=None)
def test_the_bucket_by_hand(steps: list[tuple[int, int]], capacity: int, rate: str) -> None:
    """The rules one by one, in fractions; and in any span it admits less than c + 1 + r t."""
    table, at_ms, per_ms = LeakyTable(limit_of(capacity, rate)), 0, Fraction(rate) / 1_000
    left, leaked_ms, full_ms = Fraction(0), 0, Fraction(-1)
    admitted: list[tuple[int, int]] = []
    for gap_ms, hits in steps:
        at_ms += gap_ms
        is_new = at_ms > full_ms
        if is_new:
            left, leaked_ms = Fraction(capacity), at_ms
        full_ms = at_ms + capacity / per_ms
        if (at_ms - leaked_ms) * per_ms >= 1:
            left, leaked_ms = left + (at_ms - leaked_ms) * per_ms, at_ms
        left = Fraction(capacity) if int(left) > capacity else left
        expected = hits <= int(left)
        if expected:
            left = Fraction(0) if hits == int(left) else left - hits
            admitted.append((at_ms, hits))
        elif is_new:
            left = Fraction(0)
        assert table.hit("u", hits, at_ms * MILLISECOND_NS, at_ms * MILLISECOND_NS) == expected
    for first, (begin_ms, _) in enumerate(admitted):
        total = 0
        for end_ms, hits in admitted[first:]:
            total += hits
            assert total < capacity + 1 + (end_ms - begin_ms) * per_ms


# --- the loop --------------------------------------------------------------------------------------


def loop() -> GatherLoop:
    return GatherLoop("hits", 100, True, generator(1, "draws"))


def put(gather: GatherLoop, *items: tuple[str, int, int], now_ns: int = 0) -> tuple[bool, list[Effect]]:
    gather.queue.extend(items)
    effects: list[Effect] = []
    return gather.is_due(now_ns, effects), effects


def test_the_first_user_starts_the_timer_and_one_who_is_alone_once_more() -> None:
    gather = loop()
    assert put(gather, ("u", 1, 5), now_ns=5) == (False, [SetTimer("hits", 105)])
    assert put(gather, ("v", 1, 6), ("u", 2, 7)) == (False, [])
    assert gather.gathered == {"u": (3, 5), "v": (1, 6)}
    assert gather.rang(105) == [] and gather.is_due(105, []) and not gather.is_idle
    alone = loop()
    put(alone, ("u", 1, 5), ("u", 1, 6), ("u", 1, 7))
    assert alone.rang(100) == [SetTimer("hits", 200)] and alone.is_due(100, [])
    alone.gathered = {}
    assert alone.rang(200) == [] and not alone.is_due(200, []) and alone.is_idle


def test_the_last_date_counts_where_states_are_told() -> None:
    gather = GatherLoop("states", 100, False, generator(1, "draws"))
    put(gather, ("u", 1, 5), ("u", 1, 7))
    assert gather.gathered == {"u": (2, 7)}


def test_while_an_answer_is_awaited_nothing_moves_and_then_a_tick_may_come_first() -> None:
    sent = set()
    for seed in range(40):
        gather = GatherLoop("hits", 100, True, generator(seed, "draws"))
        put(gather, ("u", 1, 0), ("u", 1, 1))
        gather.rang(100)
        assert gather.is_due(100, [])
        gather.gathered, gather.awaited = {}, {("n1", 1)}
        put(gather, ("u", 1, 150), ("u", 1, 160), ("u", 1, 170))
        gather.rang(200)
        assert not gather.is_due(200, []) and len(gather.queue) == 3
        gather.awaited.clear()
        sent.add(gather.gathered.get("u", (0, 0))[0] if gather.is_due(300, []) else 0)
    assert sent == {0, 1, 2, 3}


# --- the nodes -------------------------------------------------------------------------------------


def test_hits_go_to_the_owner_rejected_ones_as_well_and_its_state_to_all() -> None:
    made_nodes = made()
    owner, node = made_nodes["n1"], made_nodes["n2"]
    node.handle(Start(None), 0)
    assert [ask(node, at_ms) for at_ms in (10, 20, 30, 40, 50, 60)] == [True] * 4 + [False] * 2
    sent = do(node, Timer(HITS, 0), 110)
    hits = Gathered(HITS, 1, ((OWNED, 6, 10 * MILLISECOND_NS),))
    assert Send("n1", hits) in sent and SetTimer("hits, late", 110 * MILLISECOND_NS + TIMEOUT_NS) in sent
    assert not node.idle() and node.state_bytes() > 0 and node.allocated_bytes() > 0
    assert do(owner, Delivery("n2", hits), 150) == [
        Send("n2", TakenIn(HITS, 1)),
        SetTimer(STATES, 150 * MILLISECOND_NS + SYNC_NS),
    ]
    assert do(owner, Delivery("n2", hits), 151) == []  # a copy
    state = Gathered(STATES, 1, ((OWNED, 0, 1_010 * MILLISECOND_NS),))
    told = do(owner, Timer(STATES, 0), 250)
    assert told[:2] == [Send("n2", state), Send("n3", Gathered(STATES, 2, state.rows))]
    assert do(node, Delivery("n1", TakenIn(HITS, 1)), 200) == []
    third = made_nodes["n3"]
    assert ask(third, 240)
    assert do(third, Delivery("n1", state), 300)[0] == Send("n1", TakenIn(STATES, 1))
    assert not ask(third, 540) and ask(third, 550)  # filled as if nobody else were asked


def test_the_owner_decides_on_its_own_bucket_without_draining_it() -> None:
    owner = made()["n1"]
    assert ask(owner, 0, 3) and not ask(owner, 1, 2) and ask(owner, 2)


def test_who_does_not_answer_is_waited_for_so_long() -> None:
    node = made()["n2"]
    ask(node, 0)
    do(node, Timer(HITS, 0), 100)
    assert do(node, Arrival(Request(1, OWNED, 0)), 200) == [Decide(1, Verdict.ADMIT)]
    assert not node.idle()
    late = do(node, Timer("hits, late", 0), 600)
    assert late == [SetTimer(HITS, 600 * MILLISECOND_NS + SYNC_NS)]
    assert do(node, Delivery("n1", TakenIn(HITS, 1)), 650) == []
    (hits,) = (effect.message for effect in do(node, Timer(HITS, 0), 700) if isinstance(effect, Send))
    assert hits == Gathered(HITS, 2, ((OWNED, 1, 200 * MILLISECOND_NS),))


def test_each_node_gains_r_for_itself_unless_it_is_told_too_often_to_gain_a_token() -> None:
    """Three nodes are asked for nearly r each.  A token takes 250 ms: told every 100 ms or so, a copy has none."""
    offered = {
        name: [Request(1_000 * place + number, OWNED, number * 260 * MILLISECOND_NS + place) for number in range(100)]
        for place, name in enumerate(NAMES)
    }
    topology, admitted = mesh("mesh", NAMES, 10 * MILLISECOND_NS), []
    for sync in ("100ms", "1s"):
        config = Config(capacity=4, rate="4", sync=sync)
        rows = run_requests(SYSTEM, config, topology, offered, 26 * SECOND_NS, 1).requests()
        admitted.append(rows["decision"].count("admit"))
    whole_count = 4 + 4 * 26
    assert 0.9 * whole_count < admitted[0] <= whole_count and admitted[1] > 2 * whole_count


@pytest.mark.parametrize(
    "faults",
    [
        (LinkDuplication(0, EVERY, EVERY, 1.0),),
        (Partition(SECOND_NS, ("n1",)), Heal(4 * SECOND_NS, ("n1",))),
    ],
)
def test_faults_are_survived(faults: tuple) -> None:
    offered = {
        name: [Request(1_000 * place + n, OWNED, n * 10**8) for n in range(60)] for place, name in enumerate(NAMES)
    }
    config, topology = Config(capacity=4, rate="4"), mesh("mesh", NAMES, 10 * MILLISECOND_NS)
    journal = run_requests(SYSTEM, config, topology, offered, 6 * SECOND_NS, 1, faults, drain_ns=60 * SECOND_NS)
    assert set(journal.requests()["decision"]) == {"admit", "reject"}
    assert "convergence_ns" in journal.samples()["metric"]


@pytest.mark.parametrize("options", [{"sync": "soon"}, {"sync": "0s"}, {"capacity": 0}, {"rate": "x"}])
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(options))):
        made(**options)


@pytest.mark.parametrize("config", [Config(), Config(6, "2"), Config(1, "2", "1s")])
def test_it_conforms(config: Config) -> None:
    check_system(SYSTEM, VirtualBench(), config)


def test_full_buckets_are_forgotten() -> None:
    table = LeakyTable(limit_of(2, "1000"))
    for number in range(5_000):
        table.hit(f"user-{number}", 1, number * MILLISECOND_NS, number * MILLISECOND_NS)
    assert len(table.buckets) <= 1_025


def test_one_place_alone_grants_what_the_servers_replay_grants() -> None:
    """At 1x, 2x, 5x the server without delay granted 0.96, 0.80, 0.84, and a replay of its rule 0.95, 0.80, 0.85."""
    for offered_times, expected in ((1, 0.95), (2, 0.80), (5, 0.85)):
        limit, rng = limit_of(20, "20"), generator(3, "replay", offered_times)
        table = LeakyTable(limit)
        instants = sorted(rng.integers(0, 20 * SECOND_NS, rng.poisson(offered_times * 400)).tolist())
        granted = sum(table.hit("u", 1, at_ns, at_ns) for at_ns in instants)
        fair = min(len(instants), 20 + 400)
        assert granted / fair == pytest.approx(expected, abs=0.06)


def test_the_study_of_the_real_server() -> None:
    """Gubernator 2.13, GLOBAL, five cities: granted 1.05, 1.80, 3.70, excess 16.8 and 56 c; with 1 s 1.97, 4.66, 77 c.

    In one place at 5x: 1.75 and 16 c.  It was measured once; 5x unlimited is 4.71 there, and 4.8 here.
    """
    one, two, five = (study("owner-global", times) for times in (1, 2, 5))
    assert one.granted == pytest.approx(1.03, abs=0.06)
    assert two.granted == pytest.approx(1.80, rel=0.1) and two.excess == pytest.approx(16.8, rel=0.15)
    assert five.granted == pytest.approx(3.70, rel=0.15) and five.excess == pytest.approx(56, rel=0.2)
    slow = study("owner-global", 5, sync="1s")
    assert slow.granted == pytest.approx(4.66, rel=0.1) and slow.excess == pytest.approx(77, rel=0.1)
    here = study("owner-global", 5, wan=False)
    assert here.granted == pytest.approx(1.75, rel=0.15) and here.excess == pytest.approx(16, rel=0.25)
