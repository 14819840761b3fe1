"""A controller's run in virtual time: how long it is, and what its histograms have of it."""

import numpy as np

from core.units import SECOND_NS
from harness.run import carried_out, resolve
from studies.api import Journal
from studies.spec import RunSpec


def played(duration: str) -> Journal:
    spec = RunSpec(
        system="tb-adaptor",
        workload="shifting",
        workload_options={"publishers": 40, "rate_rps": 20.0, "shift_at": "3s", "share_after": 0.6},
        topology_options={"brokers": 2},
        calibration="edge",
        slo="calibrated",
        study="control",
        seed=5,
        study_options={"duration": duration, "window": "5s"},
        keep=("messages",),
    )
    return carried_out(resolve(spec))


def test_a_run_lasts_its_duration_and_histograms_have_its_whole_windows() -> None:
    """The envelope is of a time before: what is played of either is the same as long as both last."""
    shorter, longer = played("10s"), played("12s")
    for tables, last_s in ((shorter.tables, 10), (longer.tables, 12)):
        assert last_s - 0.5 < max(tables["messages"]["intended_at_ns"]) / SECOND_NS < last_s
        assert last_s - 2 < max(tables["samples"]["at_ns"]) / SECOND_NS <= last_s
    rows = longer.tables["latency_histogram"]
    assert set(np.asarray(rows["round"]).tolist()) == {1, 2}
    assert all(np.array_equal(rows[name], shorter.tables["latency_histogram"][name]) for name in rows)
