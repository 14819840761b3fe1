"""The Erlang nodes by themselves: the listings' examples, Erlang's words, and equal answers to equal jobs."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import MachineError, SystemFault
from testbed.erlang import emulator
from testbed.erlang.emulator import ErlangJob, ErlangWeight, Value, compiled, play, term
from testbed.hosts import capabilities
from tests.live import needs

pytestmark = needs("erlang")

USERS = [f"{number:032x}" for number in (7, 11)]
COUNTER: dict[str, Value] = {"capacity": 3, "rate": 0.125, "cap": "bucket", "whole": True, "choice": "pending"}
QUEUE: dict[str, Value] = {
    "capacity": 3,
    "step": 8,
    "scale": 1,
    "unique": False,
    "duplicates": "birth",
    "choice": "pending",
    "linf": False,
    "counters": True,
    "frequency": "none",
}
JOB = ErlangJob(1, 1, 30, "aligned", 10_000, ("token_counter", COUNTER), 1_600_000_000_000)


def evaluated(expression: str) -> str:
    """What Erlang prints of an expression."""
    code = f'io:format("~w", [{expression}]), halt().'
    command = ["erl", *emulator.FLAGS, "-pa", str(compiled()), "-eval", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def taken(local: str, received: str, deltas: str = "#{2 => #{}, 3 => #{}}", **options: Value) -> str:
    """A queue node's local and delta states after a delta state of node 2, all of them of user u, at instant 0."""
    known = term({**QUEUE, "step": 20, **options})
    node = f"{{queue, {local}, {deltas}, none}}"
    return evaluated(f"begin {{queue, L, D, _}} = token_queue:taken(2, {received}, 0, {known}, {node}), {{L, D}} end")


def queue(*pairs: tuple[int, int]) -> str:
    return "#{u => [" + ",".join(f"{{element,{birth},{death}}}" for birth, death in pairs) + "]}"


def test_the_merge_of_4_1_2() -> None:
    told = taken(queue((1, 21), (3, 41), (5, 61)), queue((2, 22), (4, 42)))
    local = queue((1, 21), (2, 41), (3, 61), (4, 81), (5, 101))
    to_sender = queue((3, 61), (5, 101))  # not what it sent: by birth
    to_other = queue((2, 41), (3, 61), (4, 81), (5, 101))
    assert told == f"{{{local},#{{2 => {to_sender},3 => {to_other}}}}}"


@pytest.mark.parametrize(
    ("duplicates", "left"), [("birth", "#{}"), ("not_later", queue((2, 41))), ("exact", queue((2, 41)))]
)
def test_what_the_sender_is_not_sent_back(duplicates: str, left: str) -> None:
    told = taken(queue((1, 21)), queue((2, 22)), duplicates=duplicates)
    assert told == f"{{{queue((1, 21), (2, 41))},#{{2 => {left},3 => {queue((2, 41))}}}}}"


def test_of_equal_births_the_later_death_survives() -> None:  # Fig. 4.5
    later = queue((1, 61))
    assert taken(queue((1, 21)), later) == f"{{{later},#{{2 => #{{}},3 => {later}}}}}"
    assert taken(later, queue((1, 21))) == f"{{{later},#{{2 => #{{}},3 => #{{}}}}}}"


def test_two_births_of_one_millisecond_go_on_raising_each_other() -> None:
    """The first of two equal births is paired with whichever comes: its death is raised, and then the other's."""
    raised = queue((1, 41), (1, 61))
    assert taken(queue((1, 21), (1, 41)), queue((1, 41))) == f"{{{raised},#{{2 => #{{}},3 => {raised}}}}}"


WORDS = {
    "7": 0,
    "1700000000000": 0,
    "[]": 0,
    "0.5": 2,
    "[1]": 2,
    "{1, 2}": 3,
    "#{1 => 1}": 3 + 1 + 2,
    "maps:from_keys(lists:seq(1, 32), 0)": 3 + 32 + 33,
    f'<<"{USERS[0]}">>': 2 + 4,
    "{bucket, #{1 => 1}, 0.5, 1700000000000}": 5 + 6 + 2,
    "{element, 1700000000000, 1700000003333}": 4,
    "{{element, 1, 2}}": 2 + 4,
}


def test_words_of_terms() -> None:
    """As the docstring of the emulator has them."""
    terms = ", ".join(WORDS)
    assert evaluated(f"[erts_debug:flat_size(T) || T <- [{terms}]]") == f"[{','.join(map(str, WORDS.values()))}]"


def live_words(job: ErlangJob, requests: list[tuple[int, int, str]]) -> list[int | None]:
    """Of each node at the first look."""
    return [weight.shared_bytes and weight.shared_bytes // 8 for weight in first_look(job, requests)]


def first_look(job: ErlangJob, requests: list[tuple[int, int, str]]) -> list[ErlangWeight]:
    weights = play(job, requests).weights
    return [weight for weight in weights if weight.at_ms == job.look]


def test_a_bucket_counts_once_however_many_delta_states_it_waits_in() -> None:
    nodes = 20
    job = replace(JOB, nodes=nodes, interval=5_000)
    idle, asked, *_ = live_words(job, [(0, 2, USERS[0]), (1_500, 2, USERS[0])])
    assert idle is not None and asked is not None
    bucket, user, entry = 5 + 2 + 6, 2 + 4, 3 + 1 + 2
    no_delta = 0  # an empty map that is written in the code lies outside of the heap
    assert idle == 3 + (nodes - 1) + nodes + no_delta
    assert asked == idle + bucket + user + entry * nodes


def test_an_element_counts_once_and_two_words_for_each_queue() -> None:
    nodes = 20
    job = replace(JOB, nodes=nodes, interval=5_000, options=("token_queue", QUEUE))
    one, two = (
        live_words(job, [(0, 2, USERS[0]), (1_500, 2, USERS[0])][:1] + more)[1]
        for more in ([(1_500, 2, USERS[0])], [(0, 2, USERS[0]), (1_500, 2, USERS[0])])
    )
    assert one is not None and two is not None
    assert two - one == 4 + 2 * nodes


def test_one_node_is_a_token_bucket() -> None:
    requests = [(at_ms, 1, USERS[0]) for at_ms in (0, 0, 0, 0, 7, 8, 8, 16, 40, 40, 40, 40)]
    wanted = [True] * 3 + [False] * 2 + [True, False, True] + [True] * 3 + [False]
    for options in (("token_counter", COUNTER), ("token_queue", QUEUE)):
        answer = play(replace(JOB, options=options), requests)
        assert answer.accepted == wanted
        assert (answer.converged_at_ms, answer.last_sent_at_ms, answer.messages) == (40, None, [])


@pytest.mark.parametrize("collected", [True, False])
def test_equal_jobs_have_equal_answers(collected: bool) -> None:
    options = {**QUEUE, "capacity": 40, "linf": True, "frequency": (2, 2_400)}
    job = replace(JOB, nodes=10, options=("token_queue", options), collected=collected, journal=True, phase="random")
    requests = [(17 * number, 1 + number * number % 10, USERS[number % 2]) for number in range(300)]
    one, other = play(job, requests), play(job, requests)
    assert one == other
    assert {message.urgent for message in one.messages} == {True, False}
    assert sum(weight.sent_count for weight in one.weights) == len(one.messages)
    assert play(replace(job, seed=2), requests).messages != one.messages


@given(
    st.recursive(
        st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["a", "b"]),
        lambda inner: st.tuples(inner, inner) | st.dictionaries(st.sampled_from(["x", "y"]), inner),
        max_leaves=5,
    )
)
def test_terms_are_plain(value: Value) -> None:
    text = term(value)
    assert text.count("{") == text.count("}") and "\n" not in text and "inf" not in text


def test_nodes_that_break_are_told(tmp_path: Path) -> None:
    with pytest.raises(SystemFault, match="the Erlang nodes broke"):
        play(JOB, [(0, 2, USERS[0])])  # there is one node


def test_a_machine_without_erlang_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "find_capability", lambda name: None)
    with pytest.raises(MachineError, match=r"no Erlang; apt-get install .*erlang-base"):
        compiled()
