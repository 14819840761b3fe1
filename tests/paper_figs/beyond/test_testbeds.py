"""The figures about testbeds: their grids, their tables' arithmetic, and that they draw what there is."""

import pandas as pd
import pytest

from core.errors import SpecError
from harness.experiment import SCALES
from harness.run import carried_out
from paper_figs.beyond import crdt_wan, fidelity, link_accuracy
from paper_figs.srtm import fig4
from paper_figs.style import SERIES
from studies.inputs import run_id


def paths(**columns):
    base = {
        "testbed": "mininet", "delays": "", "repetition": 0, "source": "n1", "target": "n2", "requested_delay_ms": 5.0,
        "measured_delay_ms": 5.1, "requested_jitter_ms": 0.0, "measured_p05_ms": 5.0, "measured_p95_ms": 5.4,
        "requested_loss_probability": 0.0, "lost_count": 0, "probe_count": 200,
    }  # fmt: skip
    frame = pd.DataFrame([{**base, **{name: values[n] for name, values in columns.items()}} for n in (0, 1, 2)])
    return frame.assign(error_ms=frame.measured_delay_ms - frame.requested_delay_ms)


def test_link_accuracy_is_measured_live_and_covers_what_was_promised():
    points = link_accuracy.points(SCALES["quick"], {})
    assert {spec.testbed for spec in points} == {"mininet"} and {spec.study for spec in points} == {"links"}
    wanted = {spec.topology_options["delay"] for spec in points if len(spec.topology_options) == 2}
    assert wanted == {"1ms", "5ms", "20ms", "40ms"}
    assert {bool(spec.topology_options.get(name)) for spec in points for name in ("jitter", "loss_probability")} == {
        True,
        False,
    }


def test_each_way_of_delaying_has_every_point():
    plain = link_accuracy.points(SCALES["quick"], {"delays": ""})
    both = link_accuracy.points(SCALES["quick"], {"delays": "netem, user-space"})
    assert all(not spec.testbed_options for spec in plain)
    for way in ("netem", "user-space"):
        own = [spec.topology_options for spec in both if spec.testbed_options == {"delays": way}]
        assert own == [spec.topology_options for spec in plain]
    with pytest.raises(SpecError, match="netem"):
        link_accuracy.points(SCALES["quick"], {"delays": "netem,magic"})


def test_paths_of_a_point_are_taken_together():
    found = link_accuracy.over_paths(paths(measured_delay_ms=[5.1, 4.9, 5.3], lost_count=[0, 4, 2]))
    (row,) = found.to_dict("records")
    assert row["path_count"] == 3 and row["error_ms"] == pytest.approx(0.1)
    assert (row["least_error_ms"], row["largest_error_ms"]) == pytest.approx((-0.1, 0.3))
    assert row["loss"] == pytest.approx(6 / 600) and row["loss_low"] < 0.01 < row["loss_high"]
    assert row["above_ms"] == pytest.approx(0.4)


@pytest.mark.slow
def test_link_accuracy_draws_delays_jitter_and_loss():
    frame = paths(
        requested_jitter_ms=[0.0, 2.0, 0.0], requested_loss_probability=[0.0, 0.0, 0.05], lost_count=[0, 0, 11]
    )
    drawing = link_accuracy.draw({"paths": frame, "points": link_accuracy.over_paths(frame)})
    delays, jitter, _ = drawing.axes
    assert delays.get_ylim()[1] == pytest.approx(1.5), "medians inside: stalls do not stretch the axis"
    assert sorted(jitter.lines[0].get_xdata()) == [0.0, 2.0] and max(jitter.lines[0].get_ydata()) == pytest.approx(0.4)
    assert "as requested" in {text.get_text() for text in drawing.legends[0].get_texts()}
    two = paths(delays=["netem", "netem", "user-space"])
    drawing = link_accuracy.draw({"paths": two, "points": link_accuracy.over_paths(two)})
    words = {text.get_text().split(":")[0] for text in drawing.legends[0].get_texts()}
    assert {"netem", "in user space"} <= words
    far = paths(measured_delay_ms=[5.1, 9.0, 5.3], measured_p95_ms=[5.4, 9.5, 5.4])
    drawing = link_accuracy.draw({"paths": far, "points": link_accuracy.over_paths(far)})
    assert drawing.axes[0].get_ylim()[1] > 4.0, "a median that is off is in the picture"


def test_fidelity_has_every_point_on_both_testbeds_and_shares_fig_4_s_runs():
    points = fidelity.points(SCALES["quick"], {})
    both = [[spec for spec in points if spec.testbed == testbed] for testbed in ("virtual", "mininet")]
    virtual, live = ([{**spec.factors(), "system": spec.system} for spec in side] for side in both)
    assert virtual == live and len(live) == 4 + len(fidelity.NAMES)
    ids = {run_id(spec, "") for spec in both[0]}
    assert {run_id(spec, "") for spec in fig4.points(SCALES["small"], {})} <= ids
    shared = {run_id(spec, "") for spec in points} & {run_id(spec, "") for spec in crdt_wan.points(SCALES["quick"], {})}
    assert len(shared) == 2 * len(fidelity.NAMES)


def latency(metric, k, repetition=0, **columns):
    found = {"metric": metric, "testbed": "mininet", "k": k, "repetition": repetition, "validity": "valid"}
    for quantile, value in (("p50", 1.0), ("p95", 5.0), ("p99", 9.0)):
        found |= {f"virtual_{quantile}_ms": k * value, f"live_{quantile}_ms": k * value + 0.3}
    return {**found, "kolmogorov_distance": 0.1 * k, "wasserstein_ms": 0.3, **columns}


@pytest.mark.slow
def test_fidelity_draws_both_testbeds_distances_and_flips():
    rows = [latency(metric, k, n) for metric in fidelity.METRICS for k in (1, 2) for n in (0, 1)]
    decisions = pd.DataFrame([
        {"name": name, "repetition": n, "flipped_share": share, "flipped_low": 0.0, "flipped_high": 0.2,
         "virtual_admitted_count": 100, "live_admitted_count": 90}
        for name, n, share in (("queue", 0, 0.1), ("counter", 0, 0.02), ("counter", 1, 0.04))
    ])  # fmt: skip
    drawing = fidelity.draw({"latency": pd.DataFrame(rows), "decisions": decisions})
    first = drawing.axes[0]
    drawn = [
        list(line.get_ydata()) for line in first.lines if line.get_color() == SERIES[0] and len(line.get_ydata()) == 2
    ]
    assert [1.0, 2.0] in drawn and [1.3, 2.3] in drawn
    texts = {text.get_text() for axes in drawing.axes for text in axes.texts}
    assert {"0.10", "0.20", "admitted −10.00%"} <= texts
    nothing = decisions.iloc[:0]
    assert fidelity.draw({"latency": pd.DataFrame(rows), "decisions": nothing}).axes, "no limiters were run"


@pytest.mark.slow
def test_links_are_probed_by_the_virtual_testbed_as_well():
    from msgspec.structs import replace

    from harness.run import resolve

    specs = [replace(spec, testbed="virtual") for spec in link_accuracy.points(SCALES["quick"], {})]
    lossy = next(spec for spec in specs if spec.topology_options.get("loss_probability") == 0.2)
    point = resolve(lossy)
    found = carried_out(point).evidence.paths
    assert len(found) == link_accuracy.HOSTS * (link_accuracy.HOSTS - 1)
    assert all(path.measured_delay_ns == path.requested_delay_ns == 5_000_000 for path in found)
    assert 0.15 < sum(path.lost_count for path in found) / sum(path.probe_count for path in found) < 0.25
