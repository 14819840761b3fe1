"""The scale small: its physics, its runs on every testbed, and how long they take."""

import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.estimate import campaign_seconds, expected_seconds
from harness.experiment import CALIBRATED, SCALES
from harness.run import resolve
from paper_figs import FIGURES, load_figure
from studies.api import point_slo_ns, round_ns
from tests.harness.common import small

SMALL = SCALES["small"]


def of(prefix):
    """The figures of a paper that have points; those with live runs of their own choose their load themselves."""
    found = []
    for key in FIGURES:
        if key.startswith(prefix):
            specs = points(key)
            if specs and all(spec.testbed == "virtual" for spec in specs):
                found.append(key)
    return found


def points(key):
    experiment = load_figure(key).experiment
    return experiment.runs(SMALL, {option.name: option.default for option in experiment.options}, seed=1)


SRTM, CRDT = of("srtm-"), of("crdt-")
LONGEST_S = 20 * 60.0


@pytest.mark.parametrize("key", CRDT)
def test_nodes_are_few_enough_to_be_processes(key):
    for spec in points(key):
        assert len(resolve(spec).topology.node_names()) <= 10


@pytest.mark.parametrize("key", SRTM)
def test_topics_are_small_enough_for_two_cores(key):
    for spec in points(key):
        if spec.study not in ("distribution", "control"):
            continue
        point = resolve(spec)
        assert point.schedule.population.total_rps <= 1_200
        assert len(point.topology.node_names("broker")) <= 4
        assert round_ns(spec) <= 30 * SECOND_NS


def test_the_slo_is_the_calibrations():
    spec = small(slo=CALIBRATED, calibration="small")
    assert point_slo_ns(spec) > point_slo_ns(small()) == SECOND_NS // 1000
    with pytest.raises(SpecError, match="has no SLO"):
        point_slo_ns(small(slo=CALIBRATED))


def test_other_scales_keep_the_papers_physics():
    for scale in SCALES.values():
        for key in SRTM:
            for spec in load_figure(key).experiment.points(scale, {"trace": ""}):
                assert (spec.calibration == "small") <= (scale is SMALL)
                assert (spec.slo == CALIBRATED) <= (scale is SMALL)


def test_real_time_runs_are_one_after_another(monkeypatch):
    specs = points("srtm-fig4")
    modelled = campaign_seconds(specs, jobs=2)
    assert modelled == pytest.approx(sum(map(expected_seconds, specs)) / 2)
    monkeypatch.setattr("testbed.virtual.VIRTUAL.real_time", True)
    assert campaign_seconds(specs, jobs=2) == campaign_seconds(specs, jobs=1) > 4 * 30


@pytest.mark.parametrize("key", [*SRTM, *CRDT])
def test_no_figure_takes_longer_than_twenty_minutes_in_real_time(key, monkeypatch):
    specs = points(key)
    monkeypatch.setattr("testbed.virtual.VIRTUAL.real_time", True)
    assert 60 < campaign_seconds(specs, jobs=1) <= LONGEST_S
