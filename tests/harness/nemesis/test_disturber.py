"""The nemesis at work on a process of nobody's: what it did, and what it could not do and why, is known afterwards."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from harness.nemesis import disturber
from harness.nemesis.audit import missed
from harness.nemesis.disturber import (
    FAILED,
    HAD_ENDED,
    NO_LOAD,
    NOT_THERE,
    OVER,
    STOPPED,
    Nemesis,
    Strike,
)
from harness.nemesis.schedule import ClockStep, Freeze, Kill
from tests.testbed.brokers.with_clients import until

LOAD_NS = 4 * SECOND_NS
AT_NS = 100 * MILLISECOND_NS


class Site(SimpleNamespace):
    """As much of a site as the nemesis looks at.  ``leaving``: whom the run stops once it has been seen."""

    leaving = ""

    @property
    def processes(self):
        there = [(name, child.pid) for name, child in list(self.agents.items()) if child.poll() is None]
        self.agents.pop(self.leaving, None)
        return there


@pytest.fixture
def site(tmp_path):
    state = SimpleNamespace(token="ab12" * 8, tag="rab12", path=tmp_path / "state")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield Site(agents={"node-n1": child}, state=state, folder=tmp_path, epoch_ns=time.time_ns())
    child.kill()
    assert child.stdin is not None
    child.stdin.close()
    child.wait()


def played(site, *troubles, seconds=0.0):
    """The strikes on a site whose run lasts so long; without end: until each has been tried, or none will be."""
    nemesis = Nemesis(troubles, Path(site.folder))
    with nemesis.beside(site):
        time.sleep(seconds)
        until(lambda: seconds or nemesis.fault or is_done(nemesis), "the strikes")
    return nemesis


def is_done(nemesis):
    return nemesis.strikes and all(strike.tried_ns is not None for strike in nemesis.strikes)


def test_who_is_killed_is_gone_and_nothing_was_missed(site):
    (strike,) = played(site, Kill(AT_NS, "node-n1")).outcomes()
    assert site.agents["node-n1"].wait(60) == -9
    assert strike.why_not == "" and strike.pid == site.agents["node-n1"].pid and strike.tried_ns >= AT_NS
    assert missed([strike], (), LOAD_NS, has_result=True) == []


def test_no_strike_comes_early_where_the_machine_stands_still_between_looks_at_its_two_clocks(site, monkeypatch):
    stands_s, look = [0.5], time.time_ns

    def looked():
        time.sleep(stands_s.pop() if stands_s else 0)
        return look()

    monkeypatch.setattr(time, "time_ns", looked)
    (strike,) = played(site, Kill(SECOND_NS, "node-n1")).outcomes()
    assert strike.begin_ns >= site.epoch_ns + SECOND_NS - MILLISECOND_NS and not stands_s


def test_a_name_that_nobody_has_is_told_whatever_became_of_the_run(site):
    (strike,) = played(site, Freeze(AT_NS, "node-n9", 1)).outcomes()
    assert strike.why_not == NOT_THERE
    for has_result in (True, False):
        (problem,) = missed([strike], (), LOAD_NS, has_result)
        assert "freeze node-n9" in problem and NOT_THERE in problem


def test_who_had_ended_by_itself_and_who_was_stopped_by_the_run_are_told_apart(site):
    site.agents["node-n1"].kill()
    site.agents["node-n1"].wait()
    (strike,) = played(site, Kill(AT_NS, "node-n1")).outcomes()
    assert strike.why_not == HAD_ENDED
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    site.agents["node-n2"], site.leaving = other, "node-n2"
    try:
        (strike,) = played(site, Kill(AT_NS, "node-n2")).outcomes()
    finally:
        other.communicate()
    assert strike.why_not == STOPPED


def test_a_strike_that_the_runs_end_forestalls_is_kept_and_matters_within_the_load(site):
    late_ns = 3_600 * SECOND_NS
    (strike,) = played(site, Kill(late_ns, "node-n1"), seconds=0.05).outcomes()
    assert strike.why_not == OVER and strike.tried_ns is None
    assert missed([strike], (), late_ns, has_result=True) == []
    assert missed([strike], (), late_ns + 1, has_result=True)
    assert missed([strike], (), late_ns + 1, has_result=False) == []


def test_a_load_that_is_never_announced_is_told_where_there_is_a_result(site):
    site.epoch_ns = None
    (strike,) = played(site, Kill(AT_NS, "node-n1"), seconds=0.05).outcomes()
    assert strike.why_not == NO_LOAD and missed([strike], (), LOAD_NS, has_result=True)


def test_a_nemesis_that_fails_says_so_and_lets_go_of_whom_it_held(site, monkeypatch):
    def refused(by_ns):
        raise PermissionError("not this clock")

    monkeypatch.setattr(disturber, "step", refused)
    troubles = Freeze(0, "node-n1", LOAD_NS), ClockStep(AT_NS, 1), Kill(2 * AT_NS, "node-n1")
    nemesis = played(site, *troubles)
    assert nemesis.fault == "PermissionError: not this clock"
    frozen, *others = nemesis.outcomes()
    assert frozen.why_not == "" and frozen.end_ns is not None
    assert [strike.why_not for strike in others] == [FAILED, FAILED]
    child = site.agents["node-n1"]
    child.stdin.close()  # at which it ends, if it goes on
    assert child.wait(60) in (0, 1)


CRASH = {"kind": "crash", "at": "1s", "node": "n1"}


@pytest.mark.parametrize(
    ("process", "tried_ns", "strikes", "faults", "is_told"),
    [
        ("node-n1", 2 * SECOND_NS, (), (), True),
        ("node-n1", 2 * SECOND_NS, (), (CRASH,), False),
        ("redis-n1", 2 * SECOND_NS, (), (CRASH,), False),
        ("serf-n1-agent", 2 * SECOND_NS, (), (CRASH,), False),
        ("node-n11", 2 * SECOND_NS, (), (CRASH,), True),
        ("node-n1", SECOND_NS // 2, (), (CRASH,), True),
        ("node-n1", 2 * SECOND_NS, (), ({**CRASH, "kind": "restart"},), True),
        ("node-n1", 2 * SECOND_NS, (Strike(Kill(0, "node-n1"), 1, tried_ns=1),), (), False),
        ("node-n1", 2 * SECOND_NS, (Strike(Kill(0, "node-n1"), why_not=OVER),), (), True),
        ("node-n1", 2 * SECOND_NS, (Strike(Freeze(0, "node-n1", 1), 1, tried_ns=1),), (), True),
    ],
)
def test_an_earlier_kill_or_crash_excuses(process, tried_ns, strikes, faults, is_told):
    late = Strike(Kill(tried_ns, process), why_not=HAD_ENDED, tried_ns=tried_ns)
    told = [line for line in missed([*strikes, late], faults, LOAD_NS, has_result=True) if HAD_ENDED in line]
    assert bool(told) is is_told
