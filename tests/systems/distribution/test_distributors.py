"""LB, Conc, Max-Min and SRTM: known answers on measuring oracles whose truth is a formula."""

import itertools

import numpy as np
import pytest

from core.errors import SpecError
from core.records import Envelope, Population
from systems import SYSTEMS
from systems.api import UNASSIGNED, Broker, BrokerMeasure, Distribution, Measured, Outcome, Problem
from systems.distribution import conc, lb, max_min, srtm
from systems.loader import load_system
from systems.parts.assignment import rates_of

SLO_NS = 1_000_000


def problem_of(count=1000, group_size=1, loads=(0.0,) * 6, mcap=110_000.0) -> Problem:
    publishers = Population(np.full(count, 10.0), (np.arange(count) // group_size).astype(np.int32))
    brokers = tuple(Broker(f"b{i}", mcap, load) for i, load in enumerate(loads))
    return Problem(publishers, Envelope(1.1 * publishers.total_rps, 100.0), brokers, SLO_NS, 60 * 10**9)


def search(system, config, problem, p99_of, seed=1) -> tuple[Distribution, list]:
    """Drive a distributor; ``p99_of(rate, load)`` is a broker's p99 in ns, from the topic's and its other load."""
    generator = system.distribute(problem, config, np.random.default_rng(seed))
    trials = []
    try:
        trial = next(generator)
        while True:
            trials.append(trial)
            rates = rates_of(problem.publishers, trial.assignment, len(problem.brokers))
            p99s = [p99_of(rate, b.load_rps) if rate else None for rate, b in zip(rates, problem.brokers, strict=True)]
            seen = tuple(BrokerMeasure(p, int(rate), rate) for p, rate in zip(p99s, rates, strict=True))
            trial = generator.send(Measured(seen, max(p for p in p99s if p is not None)))
    except StopIteration as stop:
        return stop.value, trials


def linear(capacity_rps):
    """A broker meets the SLO up to a total load, and its p99 is proportional to the load."""
    return lambda rate, load: int(SLO_NS * (rate + load) / capacity_rps)


def publishers_on(problem, distribution):
    return np.bincount(distribution.assignment, minlength=len(problem.brokers)).tolist()


def test_lb_is_even_over_all_and_measures_nothing():
    problem = problem_of(count=1001)
    found, trials = search(lb.SYSTEM, lb.Config(), problem, linear(1e9))
    assert trials == [] and sorted(publishers_on(problem, found)) == [166, 167, 167, 167, 167, 167]


@pytest.mark.parametrize(("capacity", "k"), [(200_000, 1), (55_000, 2), (40_000, 3), (18_000, 6)])
def test_conc_takes_the_smallest_number_that_measures_well(capacity, k):
    problem = problem_of(count=10_000)
    found, trials = search(conc.SYSTEM, conc.Config(), problem, linear(capacity))
    assert found.broker_count == k == len(trials) and found.outcome is Outcome.PLACED


def test_conc_equalises_total_loads_and_max_min_topic_loads():
    """SRTM VI-C: 8k publishers over initial loads of 10, 40, 50 kmsg/s."""
    loads = (10e3, 40e3, 50e3, 60e3, 70e3, 80e3)
    problem = problem_of(count=8_000, loads=loads)
    equal, _ = search(conc.SYSTEM, conc.Config(), problem, linear(62_000))
    even, _ = search(max_min.SYSTEM, max_min.Config(), problem, linear(78_000))
    assert publishers_on(problem, equal) == [5000, 2000, 1000, 0, 0, 0]
    assert sorted(publishers_on(problem, even))[3:] == [2666, 2667, 2667]


def test_forced_number_of_brokers_needs_no_round():
    problem = problem_of()
    found, trials = search(max_min.SYSTEM, max_min.Config(brokers=4), problem, linear(1))
    assert found.broker_count == 4 and trials == []


@pytest.mark.parametrize("system", [conc.SYSTEM, max_min.SYSTEM, srtm.SYSTEM])
def test_out_of_brokers_carries_the_best_configuration(system):
    problem = problem_of(count=600)
    found, _ = search(system, system.config(), problem, lambda rate, load: int(5e6 - 100 * rate / 6))
    assert found.outcome is Outcome.OUT_OF_BROKERS
    assert (found.assignment != UNASSIGNED).all() and found.broker_count == 1  # p99 falls with the load here


def test_srtm_fills_one_broker_after_another_and_splits_groups_evenly():
    """Groups of 10 where a broker carries 5 of each: SRTM Table I, 2 rounds and 1."""
    problem = problem_of(group_size=10)
    found, trials = search(srtm.SYSTEM, srtm.Config(), problem, linear(5_500))
    assert [trial.iteration for trial in trials] == [1, 1, 2]
    for broker in (0, 1):
        assert set(np.bincount(problem.publishers.group[found.assignment == broker])) == {5}


def test_srtm_searches_by_halves_until_it_is_in_the_band():
    problem = problem_of(group_size=20)
    _, trials = search(srtm.SYSTEM, srtm.Config(), problem, linear(3_800))
    first = [int((trial.assignment == 0).sum()) for trial in trials if trial.iteration == 1]
    assert first == [1000, 500, 250, 350]  # 20, 10, 5, 7 of each group; 7 is within 20 % of the SLO


def test_srtm_never_moves_publishers_back_to_an_earlier_broker():
    problem = problem_of(count=990, group_size=30)
    _, trials = search(srtm.SYSTEM, srtm.Config(), problem, linear(2_200))
    for earlier, later in itertools.pairwise(trials):
        placed = (earlier.assignment >= 0) & (later.assignment >= 0)
        if earlier.iteration < later.iteration:
            assert (later.assignment[placed] >= earlier.assignment[placed]).all()


def test_srtm_fills_the_vacancy_of_a_last_broker():
    """A residue below the even share is filled up from the others, in proportion by group."""
    problem = problem_of(count=1000, group_size=10)
    filled, _ = search(srtm.SYSTEM, srtm.Config(), problem, linear(8_100))
    literal, _ = search(srtm.SYSTEM, srtm.Config(fill_vacancy=False), problem, linear(8_100))
    assert sorted(publishers_on(problem, filled))[-2:] == [500, 500]
    assert min(n for n in publishers_on(problem, literal) if n) < 500


def test_srtm_gives_up_a_broker_that_gets_worse_with_less_load():
    problem = problem_of(count=1000, group_size=10)

    def p99_of(rate, load):
        return int(3e6 - 100 * rate)

    _, trials = search(srtm.SYSTEM, srtm.Config(), problem, p99_of)
    _, patient = search(srtm.SYSTEM, srtm.Config(give_up=False), problem, p99_of)
    assert len(trials) < len(patient)


def test_srtm_places_heterogeneous_publishers_by_rate():
    rng = np.random.default_rng(1)
    publishers = Population(rng.pareto(2.0, 900) * 10 + 1, (np.arange(900) // 9).astype(np.int32))
    brokers = tuple(Broker(f"b{i}", 110_000.0, 0.0) for i in range(6))
    problem = Problem(publishers, Envelope(1.1 * publishers.total_rps, 100.0), brokers, SLO_NS, 60 * 10**9)
    capacity = publishers.total_rps / 3.2
    for proportion in ("rate", "publishers"):
        found, _ = search(srtm.SYSTEM, srtm.Config(proportion=proportion), problem, linear(capacity))
        rates = rates_of(publishers, found.assignment, 6)
        assert found.outcome is Outcome.PLACED and rates.max() <= capacity
        assert rates.sum() == pytest.approx(publishers.total_rps)


def test_distributors_of_the_registry_leave_nobody_out():
    for key in SYSTEMS:
        system = load_system(key)
        if system.distribute is None:
            continue
        for count in (7, 100):
            problem = problem_of(count=count, group_size=3, loads=(90_000.0, 0.0, 109_990.0))
            for capacity in (1, 300, 110_000):
                found, trials = search(system, system.config(), problem, linear(capacity))
                assert (found.assignment != UNASSIGNED).all(), (key, count, capacity)
                assert len(trials) < 60


BENCHMARKED = dict(start="model", batch=10, drain=0.737, base="338us")  # of the fitted broker: 67 us a batch of 10


@pytest.mark.parametrize(("group_size", "k"), [(1, 1), (5, 1), (10, 2), (15, 3), (30, 4)])
def test_srtm_may_start_from_a_model_of_bursts(group_size, k):
    """Room for 9.9 emissions of 67 us, and bursts that meet: 8 at once are too many of 67 groups, not of 34."""
    problem = problem_of(group_size=group_size)
    found, trials = search(srtm.SYSTEM, srtm.Config(**BENCHMARKED), problem, linear(1e9))
    assert found.broker_count == k and len(trials) == 1 and found.outcome is Outcome.PLACED
    counts = [np.bincount(problem.publishers.group[found.assignment == broker]).max() for broker in range(k)]
    assert max(counts) - min(counts) <= 2 and max(counts) < 10


def test_a_modelled_start_is_fitted_as_any():
    """Three brokers where the model says two: the binary search and the next iteration are those of IV-B."""
    problem = problem_of(group_size=10)
    found, trials = search(srtm.SYSTEM, srtm.Config(**BENCHMARKED), problem, linear(4_000))
    assert found.broker_count == 3 and found.outcome is Outcome.PLACED and trials[0].assignment.max() == 1
    _, by_capacity = search(srtm.SYSTEM, srtm.Config(), problem, linear(4_000))
    assert len(trials) < len(by_capacity) and by_capacity[0].assignment.max() == 0


def test_a_model_that_wants_more_than_there_is_starts_on_all_and_heeds_what_brokers_carry():
    all_of_them, trials = search(srtm.SYSTEM, srtm.Config(**BENCHMARKED), problem_of(group_size=100), linear(1e9))
    assert all_of_them.broker_count == 6 and len(trials) == 1
    busy = problem_of(group_size=15, loads=(0.0, 80_000.0, 80_000.0, 80_000.0, 80_000.0, 80_000.0))
    assert search(srtm.SYSTEM, srtm.Config(**BENCHMARKED), busy, linear(1e9))[0].broker_count > 2


@pytest.mark.parametrize(("option", "value"), [("start", "guess"), ("base", "soon"), ("batch", 0), ("drain", 0.0)])
def test_an_impossible_start_is_named(option, value):
    with pytest.raises(SpecError, match=option):
        srtm.Config(**{option: value})
