"""The readings of the SRTM papers: what each makes of a figure's points, and that the defaults are one cell."""

from typing import Any

import pytest

from harness.experiment import SCALES, Reading
from harness.run import resolve
from paper_figs import load_figure
from paper_figs.srtm import readings
from testbed.brokers.model import load_calibration

DISTRIBUTED = ("srtm-fig5", "srtm-fig6", "srtm-fig7", "srtm-fig8", "srtm-fig9", "srtm-table1")
TINY = SCALES["tiny"]


def points(key: str, **options: Any) -> list[Any]:
    return load_figure(key).experiment.points(TINY, options)


def envelopes(key: str, **options: Any) -> dict[str, set[str]]:
    """The rules of b by kind of arrivals."""
    specs = points(key, **options)
    return {
        kind: {spec.study_options["envelope"] for spec in specs if spec.workload == kind}
        for kind in ("poisson", "periodic")
    }


@pytest.mark.parametrize("key", DISTRIBUTED)
def test_every_figure_of_topics_that_are_distributed_has_the_readings(key: str) -> None:
    assert set(readings.READINGS) <= set(load_figure(key).experiment.options)


@pytest.mark.parametrize("key", ["srtm-fig6", "srtm-fig8", "srtm-table1"])
def test_periodic_topics_have_the_letters_envelope_and_poisson_ones_need_the_minutes(key: str) -> None:
    assert envelopes(key) == {"poisson": {"conformant"}, "periodic": {"profiled"}}
    assert envelopes(key, envelope="literal") == {"poisson": {"profiled"}, "periodic": {"profiled"}}
    assert envelopes(key, envelope="replayed") == {"poisson": {"replayed"}, "periodic": {"replayed"}}


def test_fig7_has_poisson_by_the_letter_beside_every_reading() -> None:
    for reading, rules in (("conformant", {"conformant", "profiled"}), ("literal", {"profiled"})):
        assert envelopes("srtm-fig7", envelope=reading)["poisson"] == rules
    specs = points("srtm-fig7", envelope="literal")
    assert len({spec.to_json() for spec in specs}) == len(specs)


@pytest.mark.parametrize("key", DISTRIBUTED)
def test_every_value_of_every_reading_makes_runs(key: str) -> None:
    for reading in load_figure(key).experiment.options:
        assert isinstance(reading, Reading) and reading.source and reading.default in reading.values
        for value in reading.values:
            specs = points(key, **{reading.name: value})
            assert specs
            for spec in specs:
                resolve(spec)


def test_a_default_that_is_said_is_the_default() -> None:
    for key in DISTRIBUTED:
        said = {option.name: option.default for option in load_figure(key).experiment.options}
        assert points(key, **said) == points(key)


def test_margin_mcap_costs_and_pump_are_passed_on() -> None:
    assert {spec.study_options["margin"] for spec in points("srtm-fig5", margin=1.1)} == {1.1}
    for spec in points("srtm-fig6", mcap="benchmarked"):
        assert spec.study_options["mcap_batch"] == spec.workload_options["batch"]
    assert {spec.study_options["mcap_rps"] for spec in points("srtm-fig6", mcap="implied")} == {85_000.0}
    for key in (*DISTRIBUTED, "srtm-fig4"):
        assert {spec.calibration for spec in points(key)} == {"srtm-paper"}
        assert {spec.calibration for spec in points(key, costs="srtm-slow")} == {"srtm-slow"}
        assert {spec.calibration for spec in points(key, pump="shared")} == {"srtm-shared"}


def test_calibrations_of_readings_say_what_they_are() -> None:
    for name in (*readings.COSTS.values, "srtm-shared"):
        model = load_calibration(str(name))
        assert model.fitted_on and model.provenance.strip() and model.pump_takes_core == (name == "srtm-shared")


def test_a_panel_may_be_chosen() -> None:
    kinds = {spec.workload for spec in points("srtm-fig6", panels="periodic")}
    assert kinds == {"periodic"}
    assert {spec.workload for spec in load_figure("srtm-fig6").experiment.points(SCALES["small"], {})} == {"poisson"}
