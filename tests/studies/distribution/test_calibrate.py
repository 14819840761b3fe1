"""``ratebed calibrate``: a short measurement of a real broker, and the file that comes of it."""

from pathlib import Path

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from studies.distribution.calibrate import Measures, measure, timer_overshoot_ns
from testbed import load_testbed
from testbed.brokers.model import load_calibration, slo_ns
from tests.live import needs

FOUND = Measures(100, 200, 30, 40, 2, 5_000, 25 * MILLISECOND_NS, 1, 2, 3, 4, 5)


def test_the_file_can_be_used_as_a_calibration(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FOUND.toml("of a test"))
    model = load_calibration(str(file))
    assert (model.network_ns, model.wakeup_ns, model.message_ns, model.pump_ns) == (100, 200, 30, 40)
    assert (model.mcap_rps, model.cores, model.fitted_on) == (5_000, 2, ())
    assert slo_ns("calibrated", str(file)) == 25 * MILLISECOND_NS
    assert "of a test" in model.provenance


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
