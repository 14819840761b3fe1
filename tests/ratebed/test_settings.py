"""Names of results on other testbeds."""

import pytest

from harness.experiment import GroundOption, Option
from ratebed.settings import other_ground, setting_of


@pytest.mark.parametrize(
    ("own", "asked", "scale", "suffix", "testbed"),
    [
        (["virtual"], "", "quick", "", "virtual"),
        (["virtual"], "virtual", "paper", "", "virtual"),
        (["virtual"], "mininet", "paper", "@mininet", "mininet"),
        (["virtual"], "mininet", "small", "@mininet-small", "mininet"),
        (["virtual"], "", "small", "@virtual-small", "virtual"),
        (["mininet"], "", "small", "", "mininet"),
        (["mininet"], "mininet", "quick", "", "mininet"),
        (["mininet"], "virtual", "quick", "@virtual", "virtual"),
        (["mininet", "virtual"], "", "small", "", "mininet"),
        (["mininet", "virtual"], "local", "small", "@local", "local"),
        ([], "mininet", "small", "", "virtual"),
    ],
)
def test_plain_at_home_and_named_elsewhere(own, asked, scale, suffix, testbed):
    found = setting_of(own, asked, scale)
    assert (found.suffix, found.testbed) == (suffix, testbed)
    assert found.name("srtm-fig4") == f"srtm-fig4{suffix}"
    assert bool(found.text) == bool(suffix)


@pytest.mark.parametrize(
    ("asked", "scale", "suffix"),
    [("", "quick", "@virtual+pulsar"), ("mininet", "paper", "@mininet+pulsar"), ("", "small", "@virtual+pulsar-small")],
)
def test_other_ground_has_a_name(asked, scale, suffix):
    found = setting_of(["virtual"], asked, scale, "pulsar")
    assert found.suffix == suffix and "pulsar" in found.text


def test_the_ground_is_what_is_not_a_figures_own():
    options = (Option("zones", "of the city"), GroundOption("broker", "whose", default="ours"))
    assert other_ground(options, {"zones": "3"}) == other_ground(options, {"broker": "ours"}) == ""
    assert other_ground(options, {"broker": "pulsar"}) == "pulsar"
