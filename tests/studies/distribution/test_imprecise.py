"""Imprecise correlation (SRTM VI-D): members that send within milliseconds of each other, on modelled brokers."""

import numpy as np
import pytest

from analysis.verdicts import t_interval
from collectors.histogram import quantile
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, repeated
from harness.run import asked_of, resolve
from studies.distribution.asked import Searched, Searching
from studies.distribution.virtual import run

CONFORMANT = {"envelope": "conformant", "margin": 1.02}


def groups_of_25(spread: str, **system: int) -> list[Searched]:
    """Five searches of SRTM for 1,000 Poisson publishers, batch 10."""
    workload = {"publishers": 1_000, "batch": 10, "group_size": 25, "spread": spread}
    spec = RunSpec(
        system="srtm", system_options=system, workload="poisson", workload_options=workload, study_options=CONFORMANT
    )
    searches = []
    for one in repeated([spec], 5, seed=1):
        _, asked = asked_of(resolve(one))
        assert isinstance(asked, Searching)
        searches.append(run(asked))
    return searches


@pytest.mark.parametrize(("spread", "at_most_ms"), [("2ms", 0.65), ("4ms", 0.5)])
def test_split_in_two_neighbours_in_time_are_on_different_brokers(spread, at_most_ms):
    """In order of their numbers members of one broker are neighbours in time: 0.95 and 0.54 ms."""
    p99_ms = [quantile(one.fresh.latency.sum(axis=0), 0.99) / MILLISECOND_NS for one in groups_of_25(spread, brokers=2)]
    assert t_interval(p99_ms).mean <= at_most_ms


def test_at_a_millisecond_two_or_three_brokers_are_enough():
    """In order of their numbers: three or four."""
    for search in groups_of_25("1ms"):
        assert 2 <= np.count_nonzero(search.fresh.rates_rps) <= 3
