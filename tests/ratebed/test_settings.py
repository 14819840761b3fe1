"""Names of results on other testbeds."""

import pytest

from ratebed.settings import setting_of


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
