"""Soaking: schedules from seeds, trials, what is counted; what fails is a number that replays it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from harness.executors.local import spawning_pool
from harness.soak.draw import HEALED_NS, LATE_HEAL_NS, LOAD_END_NS, draw, system_of
from harness.soak.ledger import SoakLedger, Stretch, read_ledger, write_ledger
from harness.soak.schedule import SoakRequest, SoakSchedule, Told, fault_row, read_schedule, write_schedule
from harness.soak.session import CHUNK, SCHEDULE, play_chunk, soak
from harness.soak.shrink import minimised
from harness.soak.trial import RULES, Breach, invariants_of, play
from harness.soak.variants import SOAKED
from systems import SYSTEMS
from systems.api import Actuate, Arrival, Decide, Effect, Event, Invariant, RunHistory, Violation
from systems.limiting.centralised import CentralisedNode
from systems.loader import load_system
from systems.placement.messages import Follow
from testbed.faults import Handover, Heal, LinkFault, Restart, read_faults
from testbed.virtual.scheduler import EventLoop
from tests.harness.soak.planted import adaptor_drops_a_fraction, begin_where_an_adaptor_drops_a_fraction
from tests.tidy import ROOT

SEEDS = st.integers(1, 10**6)


@given(SEEDS)
def test_a_seed_is_a_schedule_for_ever(seed: int) -> None:
    schedule = draw(seed)
    assert schedule == draw(seed)
    assert schedule.system == system_of(seed)
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=SoakSchedule) == schedule


@given(SEEDS)
def test_everything_is_mended_in_time(seed: int) -> None:
    schedule = draw(seed)
    assert len(schedule.nodes) >= 3
    assert max(schedule.load_ns()) <= LOAD_END_NS
    faults = schedule.faults()
    assert all(
        fault.at_ns <= (LATE_HEAL_NS if isinstance(fault, Heal) else HEALED_NS)
        for fault in faults
        if not isinstance(fault, Handover)
    )
    kinds = [row["kind"] for trouble in schedule.troubles for row in trouble]
    assert kinds.count("crash") == kinds.count("restart")
    assert kinds.count("partition") == kinds.count("heal")
    last = {type(fault): vars(fault) for fault in faults if isinstance(fault, LinkFault)}
    assert all(0.0 in fields.values() for fields in last.values())


@given(SEEDS)
def test_faults_read_as_they_were_written(seed: int) -> None:
    faults = draw(seed).faults()
    assert read_faults([fault_row(fault) for fault in faults]) == faults


SEARCHES = "it searches in rounds of measurement: there is no node that could crash"
DEPLOYED = "a server that only real hosts have; redis-gcra stands for the one node that all of these share"
NOT_SOAKED = {
    **dict.fromkeys(("lb", "conc", "max-min", "srtm"), SEARCHES),
    **dict.fromkeys(("nginx", "ratelimit", "ratelimit-sentinel", "bucket4j", "haproxy"), DEPLOYED),
}


def test_every_system_is_soaked_or_stands_here_with_its_reason() -> None:
    assert set(SYSTEMS) == {*SOAKED, *NOT_SOAKED} and not NOT_SOAKED.keys() & SOAKED.keys()
    for key, reason in NOT_SOAKED.items():
        system = load_system(key)
        assert system.nodes is None if reason == SEARCHES else ":DRIVER" in system.servers, key
    for key in SOAKED:
        if not load_system(key).servers:
            assert load_system(key).invariants, key
        assert len({invariant.name for invariant in invariants_of(load_system(key))}) > 5


def drawn_for(systems: set[str], seeds: range) -> list[SoakSchedule]:
    return [draw(seed) for seed in seeds if system_of(seed) in systems]


def test_what_throttlers_promise_where_nothing_takes_time_is_judged_often() -> None:
    schedules = drawn_for({"throttler", "centralised-throttler"}, range(1, 3_000))
    aligned = [one for one in schedules if one.system == "throttler" and "phase" in one.options]
    by_cycle = [one for one in schedules if one.told]
    for counting_on_it in (aligned, by_cycle):
        at_once = [one for one in counting_on_it if not (one.delay_ns or one.jitter_ns or one.clocks_ahead_ns)]
        assert len(counting_on_it) > 10
        assert 0.3 < len(at_once) / len(counting_on_it) < 0.9
        assert [one for one in at_once if not one.troubles], "and nothing goes wrong"
    others = [one for one in schedules if one not in aligned and not one.told]
    assert sum(one.delay_ns > 0 for one in others) > len(others) / 2


def test_schedules_without_delay_are_what_they_were_but_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's schedules are shifted, nor what else is drawn of these."""
    systems, seeds = set(SOAKED), range(1, 300)
    now = drawn_for(systems, seeds)
    monkeypatch.setattr("harness.soak.draw._at_once", lambda *told: False)
    before = drawn_for(systems, seeds)
    changed = [(one, other) for one, other in zip(now, before, strict=True) if one != other]
    assert changed
    for one, other in changed:
        assert one.system in ("throttler", "centralised-throttler")
        kept = {"delay_ns": other.delay_ns, "jitter_ns": other.jitter_ns, "clocks_ahead_ns": other.clocks_ahead_ns}
        assert msgspec.structs.replace(one, **kept) == other


@pytest.mark.parametrize("key", ["pulsar", "all-pairs", "epulsar"])
def test_what_is_soaked_while_topics_go_round_is_soaked_at_rest(key: str) -> None:
    """Where they go round for ever, whether clients are served is not judged."""
    at_rest = [variant.options for variant in SOAKED[key] if "periodic" not in variant.options]
    rotating = [variant.options for variant in SOAKED[key] if "periodic" in variant.options]
    assert [{**options, "periodic": "3s"} for options in at_rest] == rotating
    assert any(options.get("drain") for options in at_rest) and any("executors" in options for options in at_rest)


def test_a_client_that_comes_back_is_told_where_it_is_and_what_it_wants() -> None:
    seen = 0
    for schedule in drawn_for({"pulsar", "all-pairs", "epulsar", "gossip-placer"}, range(1, 600)):
        for back in schedule.faults():
            if not (isinstance(back, Restart) and back.node.startswith("client")):
                continue
            seen += 1
            mine = [one for one in schedule.told if one.node == back.node]
            at, wants = "", dict[tuple[str, str], bool]()
            for one in (one for one in mine if one.at_ns <= back.at_ns):
                if one.proxy:
                    at = one.proxy
                else:
                    wants[one.topic, one.role] = one.wanted
            again = [one for one in mine if one.at_ns == back.at_ns + 1]
            assert [one.proxy for one in again if one.proxy] == [at]
            wanted = sorted((one.topic, one.role) for one in again if one.role)
            assert wanted == sorted(key for key, is_wanted in wants.items() if is_wanted)
            assert all(one.wanted for one in again)
    assert seen


def test_a_client_that_crashes_is_served_again() -> None:
    brokers = ("broker1", "broker2")
    nodes = ("manager1", *brokers, "store", *(f"{name}-agent" for name in brokers), "proxy1", "clienta", "clientb")
    crash = ({"kind": "crash", "at": "5s", "node": "clientb"}, {"kind": "restart", "at": "6s", "node": "clientb"})
    red = {
        name: Told(SECOND_NS, name, "red", role=role)
        for name, role in (("clienta", "producer"), ("clientb", "consumer"))
    }
    told = (*(Told(0, name, proxy="proxy1") for name in red), *red.values())
    again = tuple(msgspec.structs.replace(one, at_ns=6 * SECOND_NS + 1) for one in told if one.node == "clientb")
    options = dict(SOAKED["epulsar"][0].options)
    schedule = SoakSchedule(1, "epulsar", options, nodes, 14 * SECOND_NS, MILLISECOND_NS, told=(*told, *again))
    played = play(msgspec.structs.replace(schedule, troubles=(crash,)))
    assert not played.breaches
    follows = [
        step.incarnation
        for step in played.steps
        for effect in step.effects
        if step.node == "clientb" and isinstance(effect, Actuate) and isinstance(effect.command, Follow)
    ]
    assert set(follows) == {0, 1}


def test_a_trial_is_the_same_twice() -> None:
    for seed in range(1, 26):
        first, again = play(draw(seed), twice=True), play(draw(seed))
        assert repr(first.steps) == repr(again.steps)
        assert first.breaches == again.breaches


DIGESTS = """
import sys
from hashlib import sha256

from harness.soak.draw import draw
from harness.soak.trial import play

print(hash("soak"))
for seed in map(int, sys.argv[1:]):
    print(seed, sha256(repr(play(draw(seed)).steps).encode()).hexdigest())
"""


def digests(seeds: Iterable[int], string_hashing: int) -> list[str]:
    """Of the histories of seeds, played in a process of its own, after a hash of it."""
    environment = {**os.environ, "PYTHONHASHSEED": str(string_hashing)}
    command = [sys.executable, "-c", DIGESTS, *map(str, seeds)]
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()


@pytest.mark.slow
def test_histories_do_not_depend_on_how_strings_are_hashed() -> None:
    """What a set of names is gone through by differs between processes, and not between two trials of one."""
    seeds = [seed for system in SOAKED for seed in islice((one for one in count(1) if system_of(one) == system), 2)]
    (hashed, *histories), (other_hashed, *others) = (digests(seeds, hashing) for hashing in (1, 2))
    assert hashed != other_hashed
    assert len(histories) == len(seeds)
    assert [draw(seed).system for seed, one, other in zip(seeds, histories, others, strict=True) if one != other] == []


def test_chunks_do_not_depend_on_each_other() -> None:
    """Two workers find what one finds, in the same order; no state of a trial is left to the next."""
    alone = [(chunk.first, chunk.last, chunk.count, chunk.failures) for chunk in soak(1, 2 * CHUNK, "static-split")]
    both = [(chunk.first, chunk.last, chunk.count, chunk.failures) for chunk in soak(1, 2 * CHUNK, "static-split", 2)]
    assert alone == both
    assert [chunk[2] for chunk in alone] == [CHUNK, CHUNK]
    seeds = [seed for seed in range(1, 500) if system_of(seed) == "static-split"][:3]
    assert play_chunk(tuple(seeds), 1).last == seeds[-1]


def test_workers_find_the_failures_that_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_pool(jobs: int, begin: Callable[[], None]) -> ProcessPoolExecutor:
        return spawning_pool(jobs, begin_where_an_adaptor_drops_a_fraction)

    adaptor_drops_a_fraction(monkeypatch)
    monkeypatch.setattr("harness.soak.session.spawning_pool", broken_pool)
    alone, both = ([chunk.failures for chunk in soak(1, 2 * CHUNK, "tb-adaptor", jobs)] for jobs in (1, 2))
    assert alone == both and any(alone)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_minimal_is_exactly_what_is_needed(needed: set[int], more: set[int]) -> None:
    left = minimised(sorted(needed | more), lambda part: needed <= set(part))
    assert set(left) == needed


def test_a_ledger_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "results" / "soak.json"
    assert read_ledger(path).next_seed("") == 1
    ledger = SoakLedger().played(Stretch("a", "", 1, 25, 25, 0.1)).played(Stretch("a", "", 26, 50, 25, 0.1))
    ledger = ledger.deviated(7, "leases", "a", (Breach("bound", 1, "n1", "more"),))
    write_ledger(path, ledger)
    again = read_ledger(path)
    assert again == ledger
    assert again.stretches == (Stretch("a", "", 1, 50, 50, 0.2),)
    assert (again.count, again.next_seed(""), again.next_seed("leases")) == (50, 51, 51)
    more = again.played(Stretch("b", "", 51, 75, 25, 0.1)).deviated(7, "leases", "a", (Breach("bound", 1, "n1", "x"),))
    assert len(more.stretches) == 2
    assert more.deviations == ledger.deviations
    for text in ("{", '{"stretches": 3}', '{"x": ' + "[" * 100_000):
        path.write_text(text)
        with pytest.raises(SpecError, match=r"soak\.json: .*name a ledger"):
            read_ledger(path)


@pytest.mark.parametrize("text", ["", "{}", '{"seed": 1}', "\xff", "[" * 3_000])
def test_a_file_that_is_no_schedule_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(SpecError, match=r"schedule\.json") as refused:
        read_schedule(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        ({"nodes": ()}, r"\$\.nodes"),
        ({"nodes": tuple(f"n{i}" for i in range(5_000))}, r"\$\.nodes"),
        ({"homes": {f"n{i}": f"s{i}" for i in range(5_000)}}, r"\$\.homes"),
        ({"requests": (SoakRequest(0, "n1", "ann", 0),)}, r"\$\.requests"),
    ],
)
def test_a_schedule_that_is_too_large_or_none_is_refused(tmp_path: Path, edit: dict[str, Any], where: str) -> None:
    write_schedule(tmp_path / "schedule.json", msgspec.structs.replace(ASKED, **edit))
    with pytest.raises(SpecError, match=rf"schedule\.json: .*{where}"):
        read_schedule(tmp_path / "schedule.json")


def test_a_schedule_of_a_file_plays_as_it_did(tmp_path: Path) -> None:
    schedule = draw(next(seed for seed in range(1, 100) if system_of(seed) == "leases"))
    write_schedule(tmp_path / "schedule.json", schedule)
    assert repr(play(read_schedule(tmp_path / "schedule.json")).steps) == repr(play(schedule).steps)


# --- what ends a trial ---------------------------------------------------------------------------

ASKED = SoakSchedule(
    1, "centralised", {"capacity": 12, "rate": "1"}, ("n1", "n2"), 14 * SECOND_NS, MILLISECOND_NS,
    requests=(SoakRequest(SECOND_NS, "n2", "ann", 1),),
)  # fmt: skip


def test_an_answer_to_a_question_never_asked_is_a_breach_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariant does not know what to say of it, and must not end the session."""
    answer = CentralisedNode._answer

    def misdirected(node: CentralisedNode, source: str, request_id: int, admitted: bool) -> Effect:
        return answer(node, source, request_id + 1_000, admitted)

    assert not play(ASKED).breaches
    monkeypatch.setattr(CentralisedNode, "_answer", misdirected)
    (breach,) = (one for one in play(ASKED).breaches if one.error)
    assert (breach.invariant, breach.error) == ("decides as a token bucket", "KeyError")
    assert re.match(r"KeyError in centralised\.py, line \d+: ", breach.what)
    monkeypatch.setattr("harness.soak.session.draw", lambda seed: msgspec.structs.replace(ASKED, seed=seed))
    chunk = play_chunk((7, 8), 7)
    assert [failure.seed for failure in chunk.failures] == [7, 8]
    assert "KeyError in centralised.py" in chunk.failures[0].line()
    assert chunk.failures[0].line().endswith("--replay 7")


def test_the_other_invariants_are_judged_beside_one_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(history: RunHistory) -> Violation | None:
        raise LookupError("nobody knows")

    always = Invariant("never holds", lambda history: Violation(1, "n1", "as said"))
    monkeypatch.setattr("harness.soak.trial.COMMON", (Invariant("cannot be judged", broken), always))
    first, second = play(ASKED).breaches
    assert (first.invariant, first.error, second.invariant) == ("cannot be judged", "LookupError", "never holds")


def test_an_error_of_the_loop_is_a_breach_at_its_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(loop: EventLoop, node: str, decision: Decide) -> None:
        raise KeyError(node)

    monkeypatch.setattr(EventLoop, "decide", lost)
    (breach,) = play(ASKED).breaches
    assert (breach.invariant, breach.at_ns, breach.error) == (RULES, SECOND_NS + 2 * MILLISECOND_NS, "KeyError")
    assert re.match(r"KeyError in test_soak\.py, line \d+: 'n2'$", breach.what)


def test_what_a_node_failed_with_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = CentralisedNode.handle

    def odd(node: CentralisedNode, event: Event, now_ns: int) -> list[Effect]:
        if isinstance(event, Arrival):
            raise ValueError("odd")
        return handle(node, event, now_ns)

    monkeypatch.setattr(CentralisedNode, "handle", odd)
    (breach,) = play(ASKED).breaches
    assert (breach.invariant, breach.at_ns, breach.error) == (RULES, SECOND_NS, "ValueError")
    assert re.search(r"ValueError: odd.* \(in test_soak\.py, line \d+\)$", breach.what)


def test_a_seed_that_makes_no_schedule_is_named_and_the_others_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(seed: int) -> SoakSchedule:
        if seed == 3:
            raise SpecError("no schedule", "mend the draw")
        if seed == 4:
            raise KeyError("left")
        return msgspec.structs.replace(ASKED, seed=seed)

    monkeypatch.setattr("harness.soak.session.draw", drawn)
    chunk = play_chunk((1, 2, 3, 4, 5), 1)
    assert chunk.count == 5
    found = [(failure.seed, failure.breaches[0].invariant) for failure in chunk.failures]
    assert found == [(3, SCHEDULE), (4, SCHEDULE)]
    assert "no schedule" in chunk.failures[0].line()


@pytest.mark.parametrize(
    "edit",
    [
        {"troubles": (({"kind": "crash", "at": "1s", "node": "n9"},),)},
        {"troubles": (({"kind": "heal", "at": "1s", "side": ["n1"]},),)},
        {"requests": (SoakRequest(SECOND_NS, "n9", "ann", 1),)},
        {"told": (Told(SECOND_NS, "n9", "red", 1.0),)},
        {"told": (Told(SECOND_NS, "n1", "red", role="owner"),)},
        {"homes": {"n1": "left", "n9": "left"}},
        {"system": "lb", "options": {}},
    ],
)
def test_a_schedule_that_cannot_be_played_is_refused_and_blames_no_system(edit: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        play(msgspec.structs.replace(ASKED, **edit))


@pytest.mark.parametrize("at_ns", [-1, 15 * SECOND_NS])
def test_a_file_with_an_instant_outside_of_the_trial_is_refused(tmp_path: Path, at_ns: int) -> None:
    told = msgspec.structs.replace(ASKED, told=(Told(at_ns, "n1", "red", 1.0),))
    write_schedule(tmp_path / "schedule.json", told)
    with pytest.raises(SpecError, match=r"schedule\.json"):
        read_schedule(tmp_path / "schedule.json")


# --- shrunk schedules at which an invariant asked for too much -----------------------------------


def test_an_allocator_back_from_a_crash_promises_nobody_a_first_request() -> None:
    options = {"capacity": 12, "rate": "1", "refresh": "1s", "lease": "5s", "window": "3s"}
    crash = ({"kind": "crash", "at": "1s", "node": "n1"}, {"kind": "restart", "at": "2s", "node": "n1"})
    schedule = SoakSchedule(1, "leases", options, ("n1", "n3"), 14 * SECOND_NS, 10**8, troubles=(crash,),
                            requests=(SoakRequest(3 * SECOND_NS, "n1", "ann", 1),))  # fmt: skip
    assert not play(schedule).breaches
    assert not play(msgspec.structs.replace(schedule, troubles=())).breaches


def test_tokens_of_one_birth_are_one_where_clocks_are_behind() -> None:
    """n4 and n5 know of n3's tokens, all born later than their own clocks: both go on with the birth after them."""
    ahead_ms = {"n1": 153, "n2": -480, "n3": 378, "n4": 119, "n5": -373}
    asked = ((8720, "n4", 1), (8815, "n3", 3), (8845, "n5", 1), (8922, "n5", 1), (8940, "n5", 1), (8967, "n5", 1),
             (8980, "n4", 3), (9053, "n5", 1), (9176, "n5", 1))  # fmt: skip
    schedule = SoakSchedule(
        60779, "crdt-queue", {"capacity": 12, "rate": "1", "frequency": True, "linf": True}, tuple(ahead_ms),
        14 * SECOND_NS, 20 * MILLISECOND_NS,
        clocks_ahead_ns={node: ahead * MILLISECOND_NS for node, ahead in ahead_ms.items()},
        requests=tuple(SoakRequest(at * MILLISECOND_NS, node, "ann", cost) for at, node, cost in asked),
    )  # fmt: skip
    played = play(schedule)
    admitted = sum("ADMIT" in repr(step.effects) for step in played.steps)
    assert admitted == len(asked), "13 tokens of 12"
    assert not played.breaches


def test_who_comes_back_while_being_forgotten_may_have_more_or_less_than_the_whole() -> None:
    asked = (SoakRequest(381_997_234, "n3", "bob", 1), SoakRequest(12_881_456_091, "n3", "bob", 1))
    options = {"capacity": 12, "rate": "1", "linger": "2s"}
    schedule = SoakSchedule(
        78787, "throttler", options, ("n2", "n3", "n5"), 14 * SECOND_NS, 10**8, requests=asked
    )  # fmt: skip
    assert not play(schedule).breaches
