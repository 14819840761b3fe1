"""Instants of hosts whose clocks differ come home by ours: what agents are told and what they tell is translated."""

from dataclasses import replace

import numpy as np
import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from harness.run import resolve
from studies.distribution.asked import DeploymentConfig
from testbed.brokers.brokerd.client import COLUMNS, read_rows
from testbed.hosts.places import LOCAL
from tests.harness.common import small
from tests.live import needs
from tests.studies.distribution.up import up
from tests.testbed.hosts.ssh.ahead import OFFSETS_NS


@pytest.mark.slow
@needs("go")
def test_publishers_whose_clocks_are_ahead() -> None:
    """Their clocks are not, really: so they send 300 ms late by ours, and think that they are on time."""
    point = resolve(
        small(
            testbed="local",
            workload_options={"publishers": 20},
            topology_options={"brokers": 1},
            calibration="small",
            slo="calibrated",
            round="1s",
        )
    )
    ahead = replace(LOCAL, maker="tests.testbed.hosts.ssh.ahead:AheadSite")
    live = up(replace(point, testbed=ahead), DeploymentConfig(profile="5s"))
    try:
        live.next_round(np.zeros(20, np.int32), SECOND_NS)
        window = live._last
        # Of most that are soon enough: for the others the machine may have stood still.
        late_ns = np.quantile(window.lateness_ns(), 0.2)
        took_ns = np.quantile((window.received_at_ns - window.sent_at_ns)[window.offered], 0.2)
    finally:
        live.close()
    assert 0 <= late_ns < 100 * MILLISECOND_NS
    ahead_ns = OFFSETS_NS["publishers1"]
    # Clocks are set while a test runs: what two processes make of one instant is some tens of microseconds apart.
    assert ahead_ns - MILLISECOND_NS < took_ns < ahead_ns + 200 * MILLISECOND_NS


@pytest.mark.parametrize("offset_ns", [0, 5_000, -7])
def test_rows_of_a_broker(tmp_path, offset_ns: int) -> None:
    table = np.array([[0, 3, 100, 100, 110, 0], [1, 4, 200, 200, 210, 230]], "<i8")
    table.tofile(tmp_path / "rows")
    rows = read_rows(tmp_path / "rows", 2, offset_ns)
    assert list(rows) == list(COLUMNS)
    assert rows["message"].tolist() == [0, 1] and rows["publisher"].tolist() == [3, 4]
    assert rows["arrived_at_ns"].tolist() == [100 - offset_ns, 200 - offset_ns]
    assert rows["released_at_ns"].tolist() == [0, 230 - offset_ns]  # the first one still waits
