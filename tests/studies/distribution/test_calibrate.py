"""``ratebed calibrate``: a short measurement of a real broker, and the file that comes of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.distribution import calibrate
from studies.distribution.asked import Deployed
from studies.distribution.calibrate import MOST_RPS, STEP_RPS, Bench, Measures, measure, timer_overshoot_ns
from studies.distribution.window import Window
from testbed import load_testbed
from testbed.brokers.model import load_calibration, slo_ns
from testbed.hosts.local import LocalSite
from testbed.hosts.site import Site
from testbed.trust.accounts import ABSENT, DeliveryAccount
from tests.live import needs
from tests.studies.distribution.idle import IDLE, IdleBrokers

FOUND = Measures(100, 200, 30, 40, 2, 5_000, 25 * MILLISECOND_NS, 1, 2, 3, 4, 5)

Measured = Callable[..., Measures]


def window(latency_ns: int, span_ns: int) -> Window:
    """A hundred messages, all of them so long under way."""
    at_ns = np.arange(100, dtype=np.int64) * span_ns // 100
    zeros, nothing = np.zeros(100, np.int32), DeliveryAccount(*[0] * 11)
    stamps = at_ns, at_ns, at_ns, at_ns, at_ns + latency_ns
    waited_ns, error_ns = np.zeros(100, np.int64), np.full(100, ABSENT)
    return Window(0, np.ones(100, bool), zeros, zeros, at_ns, {}, nothing, *stamps, waited_ns, error_ns)


class IdleBench(Bench):
    """Without processes: messages take a millisecond at rates of up to ``fast_rps``, above that a second."""

    crews = IDLE
    made: list[Any]
    fast_rps: int

    def __init__(self, site: Site, asked: Deployed) -> None:
        super().__init__(site, asked)
        self.made.append(self)

    def offer(self, rate_rps: float, span_ns: int) -> Window:
        return window(MILLISECOND_NS if rate_rps <= self.fast_rps else SECOND_NS, span_ns)


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """``measure`` on an ``IdleBench``."""
    monkeypatch.setattr("studies.distribution.live.Brokers", IdleBrokers)
    monkeypatch.setattr(calibrate, "Bench", IdleBench)
    monkeypatch.setattr(calibrate, "SLEEPS", 3)
    testbed: Any = SimpleNamespace(site=lambda topology, seed: LocalSite(topology, tmp_path, tmp_path))

    def measured(fast_rps: int, span_ns: int = SECOND_NS, most_rps: int = MOST_RPS) -> Measures:
        monkeypatch.setattr(IdleBench, "made", [], raising=False)
        monkeypatch.setattr(IdleBench, "fast_rps", fast_rps, raising=False)
        return measure(testbed, span_ns, 1, 20 * MILLISECOND_NS, most_rps, say=lambda text: None)

    return measured


def test_the_file_can_be_used_as_a_calibration(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FOUND.toml("of a test"))
    model = load_calibration(str(file))
    assert (model.network_ns, model.wakeup_ns, model.message_ns, model.pump_ns) == (100, 200, 30, 40)
    assert (model.mcap_rps, model.cores, model.fitted_on) == (5_000, 2, ())
    assert slo_ns("calibrated", str(file)) == 25 * MILLISECOND_NS
    assert "of a test" in model.provenance


def test_the_file_has_the_slo_that_mcap_was_found_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(replace(FOUND, slo_ns=1_500_000).toml("of a test"))
    assert slo_ns("calibrated", str(file)) == 1_500_000


def test_deliveries_of_a_long_trial_have_room_for_their_records(idle: Measured) -> None:
    assert idle(MOST_RPS, span_ns=30 * SECOND_NS).mcap_rps == MOST_RPS
    bench = IdleBench.made[-1]
    assert bench.brokers_up.rows == bench.subscribers.rows >= 30 * MOST_RPS


@pytest.mark.parametrize("fast_rps", [STEP_RPS, 4 * STEP_RPS, 7 * STEP_RPS, 8 * STEP_RPS])
def test_mcap_is_the_largest_rate_that_meets_the_slo(idle: Measured, fast_rps: int) -> None:
    assert idle(fast_rps, most_rps=8 * STEP_RPS).mcap_rps == fast_rps


def test_where_not_even_the_least_rate_meets_the_slo_there_is_no_mcap(idle: Measured) -> None:
    with pytest.raises(MachineError, match="not even 250 messages a second"):
        idle(STEP_RPS - 1, most_rps=8 * STEP_RPS)


@pytest.mark.parametrize("offered", [False, True], ids=["nothing is sent", "all is sent at the beginning"])
def test_a_trial_without_messages_meets_no_slo(idle: Measured, monkeypatch: pytest.MonkeyPatch, offered: bool) -> None:
    nothing = replace(window(0, 1), offered=np.full(100, offered))
    monkeypatch.setattr(IdleBench, "offer", lambda *asked: nothing)
    with pytest.raises(MachineError, match="a trial has no message to be judged by; give a longer --span"):
        idle(MOST_RPS)


def test_sleeps_are_never_too_short() -> None:
    assert timer_overshoot_ns().min() >= 0


@needs("go")
@pytest.mark.slow
def test_a_real_broker_is_measured(tmp_path: Path) -> None:
    said: list[str] = []
    found = measure(load_testbed("local"), SECOND_NS // 2, seed=1, slo_ns=SECOND_NS, most_rps=1_500, say=said.append)
    assert found.slo_ns == SECOND_NS and 0 < found.mcap_rps <= 1_500 and found.mcap_rps % 250 == 0
    assert 0 < found.wakeup_ns < SECOND_NS and 0 <= found.message_ns < SECOND_NS and found.pump_ns < SECOND_NS
    assert 0 < found.base_p50_ns <= found.base_p99_ns and said
    file = tmp_path / "mine.toml"
    file.write_text(found.toml("of a test"))
    assert load_calibration(str(file)).mcap_rps == found.mcap_rps
