"""Schedules of trouble: one seed, one schedule; nothing in it that the run's own checks refuse."""

import time

import pytest

from core.errors import MachineError
from core.units import SECOND_NS, duration_ns
from harness.matrix import read_matrix
from harness.nemesis import clock
from harness.nemesis.__main__ import main
from harness.nemesis.disk import as_matrix
from harness.nemesis.grounds import GROUNDS
from harness.nemesis.schedule import ClockStep, Freeze, FullDisk, Kill, LiveSchedule, draw, with_step, words_of
from harness.nemesis.trial import LiveTrial
from harness.run import check_point, resolve
from testbed.trust.evidence import VALID

LOAD_NS = 4 * SECOND_NS
SCHEDULES = [draw(seed, "mininet", LOAD_NS) for seed in range(1, 200)]


def test_a_seed_makes_one_schedule_and_another_seed_another():
    assert [draw(seed, "mininet", LOAD_NS) for seed in range(1, 200)] == SCHEDULES
    assert len({repr(schedule) for schedule in SCHEDULES}) == len(SCHEDULES)


def test_every_kind_of_trouble_strikes_every_kind_of_run():
    kinds = {(schedule.ground, type(trouble)) for schedule in SCHEDULES for trouble in schedule.troubles}
    assert {kind for _, kind in kinds} == {Freeze, Kill, FullDisk} and {ground for ground, _ in kinds} == set(GROUNDS)
    told = {row["kind"] for schedule in SCHEDULES for row in schedule.faults}
    assert told == {"crash", "restart", "partition", "heal", "link-loss", "link-delay"}


@pytest.mark.parametrize("server", ["redis-n1", "zookeeper-store"])
def test_servers_are_frozen_and_killed_and_start_again(server):
    struck = [
        type(trouble)
        for schedule in SCHEDULES
        for trouble in schedule.troubles
        if words_of(trouble).split()[1] == server
    ]
    assert struck.count(Freeze) >= 1 and struck.count(Kill) >= 2
    grounds = [name for name, ground in GROUNDS.items() if server in ground.servers]
    back = {"kind": "restart", "node": server.partition("-")[2]}
    assert sum(back.items() <= row.items() for one in SCHEDULES if one.ground in grounds for row in one.faults) >= 4


def test_delays_change_within_a_run_and_are_as_they_were_at_its_end():
    changed = [rows for one in SCHEDULES if (rows := [row for row in one.faults if row["kind"] == "link-delay"])]
    assert len(changed) > 20
    for first, second, last in changed:
        assert duration_ns(first["at"]) < duration_ns(second["at"]) < duration_ns(last["at"]) <= LOAD_NS
        assert all(duration_ns(row["hold"]) for row in (first, second)) and not duration_ns(last["hold"])


def test_the_clock_of_a_machine_that_is_not_ours_is_left_alone(monkeypatch):
    monkeypatch.setattr(time, "clock_settime_ns", lambda *_: pytest.fail("the clock was set"))
    monkeypatch.setattr(clock, "PROJECT", "/nowhere")
    for act in (lambda: clock.step(1), lambda: main(["--clock", "--count", "1"])):
        with pytest.raises(MachineError, match="not ours"):
            act()
    (step,) = with_step(LiveSchedule(1, "lb", "local", LOAD_NS)).troubles
    assert isinstance(step, ClockStep) and 0 < step.at_ns < LOAD_NS and step.by_ns


@pytest.mark.parametrize(
    "words",
    [
        "--first 12 --testbed mininet --seconds 3",
        "--first 12 --testbed mininet --seconds 3 --ground redis-gcra",
        "--first 12 --testbed local --seconds 1.5 --ground pulsar --ground lb --clock",
    ],
)
def test_the_command_of_a_schedule_plays_the_very_same(words, monkeypatch):
    seen = list[LiveSchedule]()

    def play(schedule):
        seen.append(schedule)
        return LiveTrial(schedule, VALID, (), (), None, (), 1.0, 10**8, 9)

    monkeypatch.setattr("harness.nemesis.session.play", play)
    monkeypatch.setattr("harness.nemesis.__main__.require_own_machine", lambda: None)
    assert main([*words.split(), "--count", "1"]) == 0
    assert main(seen[0].command.removeprefix("python -m harness.nemesis ").split()) == 0
    assert len(seen) == 2 and seen[0] == seen[1]
    is_set = any(isinstance(trouble, ClockStep) for trouble in seen[0].troubles)
    assert is_set == ("--clock" in words and seen[0].full_disk is None)


def test_a_small_disk_is_told_of_no_step_that_nobody_makes():
    schedule = LiveSchedule(1, "lb", "local", LOAD_NS, troubles=(FullDisk(1),))
    assert with_step(schedule) == schedule


def test_where_there_are_no_links_none_are_disturbed():
    told = {row["kind"] for seed in range(1, 200) for row in draw(seed, "local", LOAD_NS).faults}
    assert told == {"crash", "restart"}


@pytest.mark.parametrize("name", GROUNDS)
def test_what_is_drawn_can_be_run(name):
    for seed in range(1, 40):
        schedule = draw(seed, "mininet", LOAD_NS, (name,))
        spec = GROUNDS[name].make("mininet", seed, LOAD_NS, schedule.faults)
        check_point(resolve(spec))
        victims = [trouble.process for trouble in schedule.troubles if not isinstance(trouble, FullDisk)]
        assert len(set(victims)) == len(victims), "two freezes of one process would end each other"


@pytest.mark.parametrize("name", GROUNDS)
def test_a_matrix_file_asks_for_the_same_run(name, tmp_path):
    spec = GROUNDS[name].make("mininet", 3, LOAD_NS, ())
    path = tmp_path / "matrix.toml"
    path.write_text(as_matrix(spec))
    (read,) = read_matrix(path, 3)
    there = {key: value for key, value in spec.study_options.items() if value != []}
    for part in ("system", "system_options", "workload", "workload_options", "topology_options", "testbed", "slo"):
        assert getattr(read, part) == getattr(spec, part)
    assert read.study_options == there and (read.study, read.round) == (spec.study, spec.round)
