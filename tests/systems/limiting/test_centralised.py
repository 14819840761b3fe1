from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting.asked import RequestJournal
from systems.api import Arrival, Decide, Delivery, Effect, Send, SetTimer, Start, Timer, Verdict
from systems.conformance import check_system
from systems.limiting.centralised import SYSTEM, Answer, CentralisedNode, CentralState, Config, TokenRequest, nodes
from testbed.faults import EVERY, ClockSkew, Crash, Heal, LinkDuplication, Partition, Restart
from testbed.topologies.topology import mesh
from testbed.virtual.bench import VirtualBench
from tests.studies.limiting.given import run_requests

NAMES = ["n1", "n2", "n3"]
ASKED = st.lists(  # (node, user, gap in ms, cost); at one instant the server hears of its own requests first
    st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.integers(1, 2_000), st.integers(1, 6)), max_size=60
)


def requests_of(asked: list[tuple[int, str, int, int]]) -> dict[str, list[Request]]:
    offered: dict[str, list[Request]] = {name: [] for name in NAMES}
    at_ns = 0
    for number, (node, user, gap_ms, cost) in enumerate(asked):
        at_ns += gap_ms * MILLISECOND_NS
        offered[NAMES[node]].append(Request(number, user, at_ns, cost))
    return offered


def by_hand(asked: list[tuple[int, str, int, int]], capacity: int, rate: str) -> list[str]:
    """A token bucket in rationals, request by request: no instants, no GCRA."""
    tokens: dict[str, Fraction] = defaultdict(lambda: Fraction(capacity))
    seen_s: dict[str, Fraction] = defaultdict(Fraction)
    at_s, decisions = Fraction(0), []
    for _, user, gap_ms, cost in asked:
        at_s += Fraction(gap_ms, 1_000)
        tokens[user] = min(Fraction(capacity), tokens[user] + (at_s - seen_s[user]) * Fraction(rate))
        seen_s[user] = at_s
        admitted = tokens[user] >= cost
        tokens[user] -= cost if admitted else 0
        decisions.append("admit" if admitted else "reject")
    return decisions


def decisions(journal: RequestJournal) -> list[str]:
    rows = journal.requests()
    return [decision for _, decision in sorted(zip(rows["request_id"], rows["decision"], strict=True))]


def run(offered: dict[str, list[Request]], delay_ms: int = 0, faults: tuple = (), **options: object) -> RequestJournal:
    config = Config(**options)  # type: ignore[arg-type]
    topology = mesh("mesh", NAMES, delay_ms * MILLISECOND_NS)
    return run_requests(SYSTEM, config, topology, offered, 130 * SECOND_NS, 1, faults, drain_ns=10 * SECOND_NS)


def verdict_of(effects: list[Effect]) -> Verdict:
    (effect,) = effects
    assert isinstance(effect, Decide)
    return effect.verdict


@given(ASKED, st.integers(1, 8), st.sampled_from(["1", "0.3", "1/3", "2.5"]))
@settings(max_examples=40, deadline=None)
def test_without_delay_it_is_a_token_bucket_in_the_order_of_arrival(
    asked: list[tuple[int, str, int, int]], capacity: int, rate: str
) -> None:
    journal = run(requests_of(asked), capacity=capacity, rate=rate)
    assert decisions(journal) == by_hand(asked, capacity, rate)


def test_a_decision_takes_the_round_trip_and_none_at_the_server() -> None:
    offered = {"n1": [Request(0, "u", 0)], "n2": [Request(1, "u", SECOND_NS)]}
    rows = run(offered, delay_ms=20).requests()
    waited = dict(zip(rows["node"], zip(rows["intended_at_ns"], rows["decided_at_ns"], strict=True), strict=True))
    assert waited == {"n1": (0, 0), "n2": (SECOND_NS, SECOND_NS + 40 * MILLISECOND_NS)}


def test_requests_are_decided_in_the_order_in_which_the_server_hears_of_them() -> None:
    """n2 asks first, but n1 is the server: with one token, n1's later request takes it."""
    offered = {"n2": [Request(0, "u", 0)], "n1": [Request(1, "u", 5 * MILLISECOND_NS)]}
    assert decisions(run(offered, delay_ms=20, capacity=1)) == ["reject", "admit"]
    assert decisions(run(offered, delay_ms=20, capacity=1, server="n2")) == ["admit", "reject"]
    assert decisions(run(offered, delay_ms=1, capacity=1)) == ["admit", "reject"]


@pytest.mark.parametrize(("on_failure", "expected"), [("open", "admit"), ("closed", "reject")])
def test_without_an_answer_a_node_decides_alone(on_failure: str, expected: str) -> None:
    offered = {"n2": [Request(i, "u", i * 100 * MILLISECOND_NS) for i in range(40)]}
    faults = (Partition(SECOND_NS, ("n1",)), Heal(10 * SECOND_NS, ("n1",)))
    journal = run(offered, 10, faults, capacity=5, timeout="500ms", on_failure=on_failure)
    rows = journal.requests()
    cut_off = [i for i, at_ns in enumerate(rows["intended_at_ns"]) if at_ns >= SECOND_NS]
    assert {rows["decision"][i] for i in cut_off} == {expected}
    waited = {rows["decided_at_ns"][i] - rows["intended_at_ns"][i] for i in cut_off}
    assert waited == {500 * MILLISECOND_NS}


def test_a_late_answer_is_ignored_but_its_token_is_gone() -> None:
    made = nodes(NAMES, Config(capacity=1), 0)
    asker, server = made["n2"], made["n1"]
    assert asker.handle(Arrival(Request(7, "u", 0)), 0) == [
        Send("n1", TokenRequest(7, "u", 1)),
        SetTimer("timeout", SECOND_NS),
    ]
    assert verdict_of(asker.handle(Timer("timeout", SECOND_NS), SECOND_NS)) is Verdict.ADMIT
    assert server.handle(Delivery("n2", TokenRequest(7, "u", 1)), 2 * SECOND_NS) == [Send("n2", Answer(7, True))]
    assert asker.handle(Delivery("n1", Answer(7, True)), 3 * SECOND_NS) == []
    assert verdict_of(server.handle(Arrival(Request(8, "u", 0)), 2 * SECOND_NS)) is Verdict.REJECT


def test_one_timer_serves_all_questions() -> None:
    asker = nodes(NAMES, Config(), 0)["n2"]
    first = asker.handle(Arrival(Request(1, "u", 0)), 0)
    second = asker.handle(Arrival(Request(2, "u", 0)), 400)
    third = asker.handle(Arrival(Request(3, "u", 0)), 500)
    assert [len(effects) for effects in (first, second, third)] == [2, 1, 1]
    assert isinstance(asker, CentralisedNode) and not asker.idle()
    asker.handle(Delivery("n1", Answer(2, True)), 600)
    assert asker.handle(Timer("timeout", SECOND_NS), SECOND_NS) == [
        Decide(1, Verdict.ADMIT, unanswered=True),
        SetTimer("timeout", SECOND_NS + 500),
    ]
    assert asker.handle(Timer("timeout", SECOND_NS + 500), SECOND_NS + 500) == [
        Decide(3, Verdict.ADMIT, unanswered=True)
    ]
    assert asker.idle()


@pytest.mark.parametrize(
    ("offset_ms", "longest_ms"), [(-300_000, 1_000), (-1_000, 1_000), (-300, 1_300), (-40, 1_040), (300_000, 1_000)]
)
def test_a_step_of_the_clock_does_not_make_requests_wait(offset_ms: int, longest_ms: int) -> None:
    """Without an answer, each request waits a second; those under way at a small step back may wait longer by it."""
    offered = {"n2": [Request(i, "u", i * 50 * MILLISECOND_NS) for i in range(100)]}
    step_at_ns = 1_530 * MILLISECOND_NS
    faults = (Partition(0, ("n1",)), ClockSkew(step_at_ns, "n2", offset_ms * MILLISECOND_NS))
    rows = run(offered, 10, faults).requests()
    waited_ns = {
        asked_ns: decided_ns - asked_ns
        for asked_ns, decided_ns in zip(rows["intended_at_ns"], rows["decided_at_ns"], strict=True)
    }
    assert set(rows["decision"]) == {"admit"}
    assert max(waited_ns.values()) <= longest_ms * MILLISECOND_NS
    later = {wait_ns for asked_ns, wait_ns in waited_ns.items() if asked_ns > step_at_ns + SECOND_NS}
    assert later == {SECOND_NS}
    if offset_ms <= -1_000:
        assert set(waited_ns.values()) == {SECOND_NS}, "a step that is longer than the timeout is made up for exactly"


@given(st.lists(st.tuples(st.integers(0, 2_000), st.sampled_from([0, 0, 0, -5_000, -700, -30, 400])), max_size=40))
def test_steps_of_the_clock_never_make_a_request_wait_long(steps: list[tuple[int, int]]) -> None:
    """Whatever the clock does: timers ring on time, and each request waits a timeout more for each step at most."""
    node = nodes(NAMES, Config(timeout="1us"), 0)["n2"]
    timer_at = true_ns = offset_ns = 0
    asked: dict[int, int] = {}
    stepped: dict[int, int] = {}

    def do(effects: list[Effect]) -> None:
        nonlocal timer_at
        for effect in effects:
            if isinstance(effect, SetTimer):
                timer_at = max(true_ns, effect.at_ns - offset_ns)
            elif isinstance(effect, Decide):
                assert true_ns - asked.pop(effect.request_id) <= 1_000 * (1 + stepped[effect.request_id])

    for number, (gap_ns, step_ns) in enumerate([*steps, *[(10_000, 0)] * (len(steps) + 1)]):
        until_ns = true_ns + gap_ns
        while asked and timer_at <= until_ns:
            true_ns = timer_at
            do(node.handle(Timer("timeout", true_ns + offset_ns), true_ns + offset_ns))
        true_ns = until_ns
        offset_ns += step_ns
        stepped.update({request_id: stepped[request_id] + (step_ns < 0) for request_id in asked})
        if number < len(steps):
            asked[number], stepped[number] = true_ns, 0
            do(node.handle(Arrival(Request(number, "u", true_ns)), true_ns + offset_ns))
    assert not asked


def test_a_doubled_question_takes_its_token_once() -> None:
    offered = {"n2": [Request(i, "u", i * MILLISECOND_NS) for i in range(10)]}
    journal = run(offered, 10, (LinkDuplication(0, EVERY, EVERY, 1.0),), capacity=8, rate="0.001")
    assert decisions(journal) == ["admit"] * 8 + ["reject"] * 2


def test_a_restarted_server_starts_from_full_buckets_or_from_a_snapshot() -> None:
    offered = {"n1": [Request(i, "u", i * SECOND_NS) for i in range(10)]}
    faults = (Crash(4_500 * MILLISECOND_NS, "n1"), Restart(4_600 * MILLISECOND_NS, "n1"))
    journal = run(offered, 10, faults, capacity=3, rate="0.001")
    assert decisions(journal) == ["admit"] * 3 + ["reject"] * 2 + ["admit"] * 3 + ["reject"] * 2

    server = nodes(NAMES, Config(capacity=1), 0)["n1"]
    server.handle(Arrival(Request(1, "u", 0)), 0)
    assert isinstance(server, CentralisedNode)
    again = nodes(NAMES, Config(capacity=1), 0)["n1"]
    again.handle(Start(server.snapshot()), 5)
    assert verdict_of(again.handle(Arrival(Request(2, "u", 0)), 5)) is Verdict.REJECT
    assert nodes(NAMES, Config(), 0)["n2"].snapshot() == CentralState({})  # type: ignore[attr-defined]


def test_the_servers_clock_alone_counts() -> None:
    made = nodes(NAMES, Config(capacity=1, rate="1"), 0)
    assert made["n2"].handle(Arrival(Request(1, "u", 0)), 10**15)[0] == Send("n1", TokenRequest(1, "u", 1))
    assert made["n1"].handle(Delivery("n2", TokenRequest(1, "u", 1)), -5) == [Send("n2", Answer(1, True))]
    assert made["n1"].handle(Delivery("n3", TokenRequest(2, "u", 1)), -5 + SECOND_NS - 1) == [
        Send("n3", Answer(2, False))
    ]
    assert made["n1"].handle(Delivery("n3", TokenRequest(3, "u", 1)), -5 + SECOND_NS) == [Send("n3", Answer(3, True))]


@pytest.mark.parametrize("line", [False, True])
def test_full_buckets_are_forgotten(line: bool) -> None:
    server = nodes(["n1"], Config(capacity=2, rate="1000", line=line), 0)["n1"]
    assert isinstance(server, CentralisedNode)
    for i in range(5_000):
        server.handle(Arrival(Request(i, f"user-{i}", 0)), i * MILLISECOND_NS)
    assert server.state_bytes() <= 1_025 * 40
    few = nodes(["n1"], Config(), 0)["n1"]
    assert isinstance(few, CentralisedNode) and server.allocated_bytes() > few.allocated_bytes() > 0


@pytest.mark.parametrize(
    "options",
    [
        {"server": "nobody"},
        {"on_failure": "ajar"},
        {"timeout": "soon"},
        {"timeout": "0s"},
        {"capacity": 0},
        {"rate": "x"},
    ],
)
def test_options_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=next(iter(options))):
        nodes(NAMES, Config(**options), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [Config(), Config(3, "2.5", "n2", "20ms", "closed"), Config(line=True)])
def test_it_conforms(config: Config) -> None:
    check_system(SYSTEM, VirtualBench(), config)


# --- with a line -----------------------------------------------------------------------------------


def due_by_hand(asked: list[tuple[int, str, int, int]], capacity: int, rate: str) -> list[Fraction | None]:
    """When one bucket a user, asked in order, has each one's tokens, in seconds; None: for more than it holds."""
    full_s: dict[str, Fraction] = defaultdict(Fraction)  # when it is full again
    at_s, due = Fraction(0), list[Fraction | None]()
    for _, user, gap_ms, cost in asked:
        at_s += Fraction(gap_ms, 1_000)
        if cost > capacity:
            due.append(None)
            continue
        full_s[user] = max(full_s[user], at_s) + cost / Fraction(rate)
        due.append(max(at_s, full_s[user] - capacity / Fraction(rate)))
    return due


@settings(max_examples=60)
@given(ASKED, st.integers(1, 6), st.sampled_from(["2", "1/3", "7"]))
def test_in_line_everybody_waits_for_the_tokens_that_those_before_left(asked, capacity, rate):
    """At no delay, to the nanosecond; a wait that is longer than the time-out is decided alone."""
    journal = run(requests_of(asked), capacity=capacity, rate=rate, line=True, on_failure="closed", timeout="3000s")
    rows = journal.requests()
    told = {
        number: (decision, at_ns)
        for number, decision, at_ns in zip(rows["request_id"], rows["decision"], rows["decided_at_ns"], strict=True)
    }
    for number, due_s in enumerate(due_by_hand(asked, capacity, rate)):
        decision, at_ns = told[number]
        if due_s is None:
            assert decision == "reject"
        elif due_s * SECOND_NS < 139 * SECOND_NS:  # the run's end
            assert (decision, at_ns) == ("admit", -int(-due_s * SECOND_NS // 1))


def test_who_was_given_up_keeps_its_place_and_who_waits_dies_with_the_server():
    server = CentralisedNode("n1", "n1", Config(capacity=1, rate="1", line=True))
    effects = [server.handle(Delivery(name, TokenRequest(number, "u", 1)), 0) for number, name in enumerate("ab", 1)]
    assert effects == [[Send("a", Answer(1, True))], [SetTimer("line", SECOND_NS)]]
    assert server.handle(Delivery("b", TokenRequest(2, "u", 1)), 0) == [] and not server.idle()
    assert server.handle(Arrival(Request(3, "u", 0, 1)), 0) == [SetTimer("line", SECOND_NS)]
    assert server.handle(Timer("line", SECOND_NS), SECOND_NS) == [
        Send("b", Answer(2, True)),
        SetTimer("line", 2 * SECOND_NS),
    ]
    state = server.snapshot()
    assert server.handle(Timer("line", 2 * SECOND_NS), 2 * SECOND_NS) == [Decide(3, Verdict.ADMIT)] and server.idle()
    again = CentralisedNode("n1", "n1", Config(capacity=1, rate="1", line=True))
    assert again.handle(Start(state), SECOND_NS) == [] and again.idle()
    assert again.handle(Arrival(Request(4, "u", 0, 1)), SECOND_NS) == [SetTimer("line", 3 * SECOND_NS)]
