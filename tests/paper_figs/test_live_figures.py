"""The figures about live brokers, from real processes to the drawing, at tiny scale on loopback."""

import msgspec
import pytest

from harness.experiment import SCALES
from harness.run import execute
from paper_figs import load_figure
from tests.live import needs

pytestmark = [needs("brokerd"), pytest.mark.slow, pytest.mark.long]


def made(key, spark, folder):
    """The figure's tables, of runs made now."""
    from analysis.tables import load

    experiment = load_figure(key).experiment
    for number, spec in enumerate(experiment.runs(SCALES["tiny"], {}, 1)):
        execute(msgspec.structs.replace(spec, testbed="local"), f"run{number}", folder / f"run{number}")
    return load_figure(key).tables(load(spark, sorted(folder.iterdir())))


def test_stamps(spark, tmp_path):
    found = made("srtm-timestamps", spark, tmp_path)
    runs = found["runs"]
    assert set(runs.stamps) == {"kernel", "read"} and set(runs.connections) == {20, 60}
    assert set(runs.metric) == {"stamp_error", "undue_delay", "undue_delay_kernel", "undue_delay_read"}
    errors = runs[runs.metric == "stamp_error"]
    assert (errors.p50_us > 0).all() and (errors.p99_us >= errors.p50_us).all(), "reading comes after arriving"
    assert (runs[runs.metric == "undue_delay"]["count"].to_numpy() <= errors["count"].to_numpy()).all()
    load_figure("srtm-timestamps").draw(found).savefig(tmp_path / "drawn.png")


def test_collection(spark, tmp_path):
    found = made("srtm-gc", spark, tmp_path)
    runs, collections = found["runs"], found["collections"]
    assert set(runs["mode"]) == set(collections["mode"]) == {"default", "friendly"}
    assert set(runs.metric) == {"ingress_time", "broker_time"}
    wide = runs.pivot(index="mode", columns="metric", values="p50_ms")
    assert (wide.broker_time > wide.ingress_time).all() and (wide.ingress_time > 0).all()
    assert (collections.message_count > 0).all() and (collections.rss_mb > 1).all()
    assert collections.set_index("mode").gc_cycle_count["friendly"] == 0
    load_figure("srtm-gc").draw(found).savefig(tmp_path / "drawn.png")
