"""Sessions of the nemesis: when they end, what their ledger adds up to, and whether their memory has grown."""

import json
from itertools import count

import pytest

from core.errors import MachineError, SpecError
from core.units import SECOND_NS
from harness.nemesis import session
from harness.nemesis.__main__ import main
from harness.nemesis.disturber import OVER, Strike
from harness.nemesis.fates import Fates
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.growth import growth
from harness.nemesis.ledger import NemesisLedger, When, read_ledger, write_ledger
from harness.nemesis.schedule import Freeze, FullDisk, Kill, LiveSchedule
from harness.nemesis.session import FRUITLESS_RUNS, WARM_UP_ROUNDS, NemesisPlan, NemesisSession
from harness.nemesis.trial import AUDIT_FAILED, ENDED, LiveTrial
from testbed.trust.evidence import INVALID, VALID

NOW = When("now")
FATES = Fates(10, {"not_sent": 1, "delivered": 9})


def trial(schedule, outcome=INVALID, fates=FATES, memory_mb=100, **more):
    return LiveTrial(schedule, outcome, ("why",), (), fates, (), 1.0, memory_mb * 10**6, 9, **more)


@pytest.fixture
def played(monkeypatch):
    """The seeds that are played; every third run ends with an error."""
    seeds = []

    def play(schedule):
        seeds.append(schedule.seed)
        return trial(schedule) if len(seeds) % 3 else trial(schedule, ENDED, None)

    monkeypatch.setattr(session, "play", play)
    return seeds


def test_a_session_goes_on_until_so_many_of_the_ledgers_runs_have_counted_fates(played, tmp_path, capsys):
    path = tmp_path / "ledger.json"
    words = ["--testbed", "local", "--ledger", str(path), "--until"]
    assert main([*words, "5"]) == 0 and played == [1, 2, 3, 4, 5, 6, 7]
    told = "5 have counted fates, which sum to offered in 5 of 5 (50 in all); without: 2 ended with an error;"
    assert f"7 runs (0 valid, 0 degraded, 5 invalid); {told}" in capsys.readouterr().out
    assert main([*words, "5"]) == 0 and len(played) == 7, "enough were there"
    assert main([*words, "6"]) == 0 and played[7:] == [8]
    assert read_ledger(path).counted("local") == 6 and read_ledger(path).counted("mininet") == 0


def test_a_machine_on_which_no_run_comes_to_an_account_is_told(monkeypatch):
    monkeypatch.setattr(session, "play", lambda schedule: trial(schedule, ENDED, None))
    trials = NemesisSession(NemesisPlan("local", SECOND_NS, until=1)).trials()
    for _ in range(FRUITLESS_RUNS):
        next(trials)
    with pytest.raises(MachineError, match="without counted fates"):
        next(trials)


def test_fates_that_do_not_sum_are_seen_in_the_summary():
    wrong = FATES._replace(offered=11)
    schedule = LiveSchedule(7, "lb", "mininet", SECOND_NS)
    ledger = (
        NemesisLedger().with_trial(trial(schedule), "abc", NOW).with_trial(trial(schedule, fates=wrong), "abc", NOW)
    )
    assert "2 have counted fates, which sum to offered in 1 of 2 (21 in all); without: none;" in ledger.summary()


def test_runs_without_fates_are_told_by_why():
    schedule, disk = (LiveSchedule(7, "lb", "mininet", SECOND_NS, troubles=those) for those in ((), (FullDisk(9),)))
    ledger = NemesisLedger()
    for one, outcome in ((schedule, ENDED), (disk, ENDED), (disk, VALID), (schedule, AUDIT_FAILED)):
        ledger = ledger.with_trial(trial(one, outcome, None), "abc", NOW)
    assert "without: 2 on a small disk, 1 ended with an error, 1 audit failed;" in ledger.summary()


def test_the_ledger_adds_up(tmp_path):
    schedule = LiveSchedule(7, "lb", "mininet", SECOND_NS, troubles=(Kill(1, "broker-broker1"),))
    ended = LiveTrial(schedule, ENDED, ("an error",), ("left: process 3",), None, (), 1.0, 10**8, 9)
    ledger = read_ledger(tmp_path / "ledger.json").with_trial(trial(schedule), "abc", NOW)
    ledger = ledger.with_trial(ended, "abc", NOW)
    write_ledger(tmp_path / "ledger.json", ledger)
    again = read_ledger(tmp_path / "ledger.json")
    assert again.deviations[0].command == schedule.command and again.played[1].said == ("an error",)
    assert again == ledger != NemesisLedger() and again.next_seed("mininet") == 8 and again.next_seed("local") == 1


def test_a_strike_that_did_not_land_is_not_in_the_ledger_as_done():
    kill, stop = Kill(SECOND_NS, "broker-broker1"), Freeze(0, "broker-broker2", 1)
    schedule = LiveSchedule(7, "lb", "mininet", SECOND_NS, troubles=(kill, stop))
    strikes = Strike(kill, why_not=OVER), Strike(stop, 1)
    one = LiveTrial(schedule, INVALID, (), (), FATES, strikes, 1.0, 10**8, 9)
    killed, frozen = NemesisLedger().with_trial(one, "abc", NOW).played[0].troubles
    assert killed.endswith(f"(not done: {OVER})") and "not done" not in frozen


def test_a_ledger_of_before_grounds_were_kept_is_read(tmp_path):
    played = {"seed": 12, "ground": "lb", "testbed": "local", "load_seconds": 3.0, "commit": "abc", "troubles": []}
    played |= {"outcome": "ended", "seconds": 1.0, "resident_mb": 1.0, "descriptors": 6, "begun": "then"}
    deviation = {"seed": 12, "ground": "lb", "testbed": "local", "commit": "abc", "what": "left", "reason": "open"}
    (tmp_path / "ledger.json").write_text(json.dumps({"played": [played], "deviations": [deviation]}))
    ledger = read_ledger(tmp_path / "ledger.json")
    assert ledger.played[0].grounds == () and ledger.deviations[0].command == ""


# --- soaks --------------------------------------------------------------------------------------------------


def soaked(monkeypatch, capsys, *words, memory_mb, beside_mb=lambda number: 0):
    """A soak on a clock of its own, of which a run takes 10 s: exit code and what it says."""
    numbers, now_ns = count(), [0]

    def play(schedule):
        number = next(numbers)
        now_ns[0] += 10 * SECOND_NS
        return trial(schedule, memory_mb=memory_mb(number), beside_bytes=beside_mb(number) * 10**6)

    monkeypatch.setattr(session, "play", play)
    monkeypatch.setattr(session.time, "monotonic_ns", lambda: now_ns[0])
    return main(["--testbed", "local", *words]), capsys.readouterr().out


WARM_UP = WARM_UP_ROUNDS * len(GROUNDS)


def test_a_soak_begins_with_every_kind_of_run_and_then_lasts_its_hour(monkeypatch, capsys, tmp_path):
    path = tmp_path / "ledger.json"

    def filling(number):
        return 150 + min(number, WARM_UP) * 10

    code, said = soaked(monkeypatch, capsys, "--for", "1h", "--ledger", str(path), memory_mb=filling)
    memory = f"{150 + 10 * WARM_UP}.0"
    assert code == 0 and f"1.00 h, 360 runs after the warm-up: memory {memory} -> {memory} MB (+0.0%" in said
    runs = read_ledger(path).played
    assert [one.is_warm_up for one in runs] == [True] * WARM_UP + [False] * 360
    assert {one.ground for one in runs[: len(GROUNDS)]} == set(GROUNDS)
    assert runs[0].grounds and not runs[-1].grounds and runs[-1].at_s == 10 * len(runs)


@pytest.mark.parametrize(("more_mb", "code"), [(4, 0), (6, 1)])
@pytest.mark.parametrize("is_beside", [False, True])
def test_memory_that_grows_within_a_soak_is_a_finding(more_mb, code, is_beside, monkeypatch, capsys):
    def more(number):
        return more_mb if number >= WARM_UP + 30 else 0

    memory = {"beside_mb": more} if is_beside else {}
    done, said = soaked(
        monkeypatch, capsys, "--for", "10min", memory_mb=lambda n: 100 + (0 if is_beside else more(n)), **memory
    )
    assert done == code and ("WRONG  memory grew by 6.0%" in said) == bool(code)


def test_a_session_of_before_its_memory_is_judged_alone():
    schedule, ledger = LiveSchedule(7, "lb", "mininet", SECOND_NS), NemesisLedger()
    for begun in ("monday", "tuesday"):
        for number in range(10):
            memory_mb = 100 + 2 * number if begun == "monday" else 300
            when = When(begun, 60.0 * number, is_warm_up=number < 3)
            ledger = ledger.with_trial(trial(schedule, memory_mb=memory_mb), "abc", when)
    ledger = ledger.with_trial(trial(schedule), "abc", When("no soak", 5.0))
    first, second = ledger.soaks()
    assert (first.runs, first.first_mb, first.last_mb) == (7, 108, 116) and first.problem
    assert second.share == 0 and second.hours == pytest.approx(7 / 60) and not second.problem


def test_one_run_alone_says_nothing_of_growth():
    assert "too short" in growth("now", 0, [(1, 100)]).problem and "too short" in growth("now", 0, []).line()
    assert "memory grew" in growth("now", 0, [(1, 100), (2, 105)]).problem


def test_of_few_runs_one_alone_is_no_judge():
    rows = [(number, 130 if number in (2, 8) else 100) for number in range(9)]
    assert growth("now", 0, rows).share == 0
    assert growth("now", 0, [(number, 100 if number < 3 else 110) for number in range(6)]).problem


def test_a_soak_that_is_over_with_its_warm_up_is_too_short(monkeypatch, capsys):
    code, said = soaked(monkeypatch, capsys, "--for", "1s", memory_mb=lambda number: 100)
    assert code == 1 and "WRONG  too short to say whether memory grows" in said


def test_an_interrupted_soak_is_judged_for_the_time_that_it_had(monkeypatch, capsys, tmp_path):
    def memory_mb(number):
        if number == WARM_UP + 8:
            raise KeyboardInterrupt
        return 100 + 5 * number

    code, said = soaked(monkeypatch, capsys, "--for", "1h", memory_mb=memory_mb)
    assert code == 130 and "0.02 h, 8 runs after the warm-up" in said and "WRONG  memory grew" in said


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("--until", "9"), "is in {ledger}, and the same command goes on"),
        (("--until", "9", "--first", "1"), "is in {ledger}\n"),
        (("--count", "9"), "is in {ledger}\n"),
        (None, "is kept nowhere"),
    ],
)
def test_what_is_left_of_an_interrupted_session_is_said(words, left, monkeypatch, capsys, tmp_path):
    def play(schedule):
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "play", play)
    ledger = tmp_path / "ledger.json"
    assert main([*words, "--ledger", str(ledger)] if words else ["--until", "9"]) == 130
    assert left.format(ledger=ledger) in capsys.readouterr().err


def test_a_seed_that_is_played_again_counts_once(played, tmp_path):
    words = ["--testbed", "local", "--ledger", str(tmp_path / "ledger.json"), "--first", "1"]
    assert main([*words, "--count", "2"]) == 0 == main([*words, "--count", "1"])
    assert played == [1, 2, 1] and read_ledger(tmp_path / "ledger.json").counted("local") == 2
    assert main([*words, "--until", "4"]) == 0 and played[3:] == [1, 2, 3, 4, 5], "3 has ended"


@pytest.mark.parametrize(
    "words", [("--for", "0s"), ("--count", "-1"), ("--count", "0"), ("--until", "0"), ("--first", "-1")]
)
def test_a_session_plays_something(words):
    with pytest.raises(SpecError, match=" ".join(words)):
        main(["--testbed", "local", *words])


def test_a_span_needs_its_unit():
    with pytest.raises(SpecError, match="--for 60"):
        main(["--for", "60"])
