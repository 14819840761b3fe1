"""The exact M/D/1 queue, against the textbook's sum in long decimals, known means, and simulation."""

from decimal import Decimal, localcontext
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.seeds import generator
from systems.parts import md1

RHO = 1 / 1.1  # the papers' token buckets: r = 1.1 x the message rate


def textbook_exceeds(rho: float, x: float) -> float:
    """1 - (1 - rho) sum over j <= x of (rho (j - x))^j / j! exp(rho (x - j)), in 120 digits."""
    with localcontext() as context:
        context.prec = 120
        rho_d, x_d, total, factorial = Decimal(rho), Decimal(x), Decimal(0), Decimal(1)
        for j in range(floor(x) + 1):
            factorial *= max(j, 1)
            power = (rho_d * (j - x_d)) ** j if j else Decimal(1)
            total += power / factorial * (rho_d * (x_d - j)).exp()
        return float(1 - (1 - rho_d) * total)


def access_delays(gaps: np.ndarray, batch: int, rate: float, burst: float) -> np.ndarray:
    """Delays (batches, batch) of a token bucket, by Lindley's recursion on the unfinished work."""
    drained = gaps * rate
    work, found = 0.0, np.empty(len(gaps))
    for i, gone in enumerate(drained):
        work = max(0.0, work - gone)
        found[i] = work
        work += batch
    return np.maximum(0.0, found[:, None] + np.arange(1, batch + 1) - burst) / rate


@given(rho=st.floats(0.05, 0.97), x=st.floats(0, 60))
def test_workload_is_the_textbooks(rho: float, x: float) -> None:
    assert md1.workload_exceeds(rho, x) == pytest.approx(textbook_exceeds(rho, x), abs=1e-11)


@given(rho=st.floats(0.05, 0.97), x=st.floats(0, 150), step=st.floats(0, 3))
def test_workload_is_a_distribution(rho: float, x: float, step: float) -> None:
    here, there = md1.workload_exceeds(rho, x), md1.workload_exceeds(rho, x + step)
    assert 0 <= there <= here + 1e-12 <= 1 + 1e-12
    assert md1.workload_exceeds(rho, 0) == pytest.approx(rho)  # not empty


def test_tail_decays_at_the_roots_rate() -> None:
    theta = 0.1876  # root of rho (e^theta - 1) = theta at rho = 1/1.1, to four digits
    assert RHO * (np.exp(theta) - 1) == pytest.approx(theta, rel=1e-4)
    ratio = md1.workload_exceeds(RHO, 60) / md1.workload_exceeds(RHO, 50)
    assert ratio == pytest.approx(np.exp(-10 * theta), rel=1e-2)


@pytest.mark.parametrize("rho", [0.2, 0.7, RHO])
def test_queue_length_has_the_pollaczek_khinchine_mean(rho: float) -> None:
    p = md1.queue_length_probabilities(rho, 400)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p @ np.arange(400) == pytest.approx(rho + rho**2 / (2 * (1 - rho)), rel=1e-9)


@pytest.mark.parametrize("rho", [0.2, 0.7, RHO])
def test_mean_excess_falls_by_the_share_above(rho: float) -> None:
    assert md1.mean_excess(rho, 0) == pytest.approx(rho / (2 * (1 - rho)))
    for level in (0.5, 3.0, 7.25):
        slope = (md1.mean_excess(rho, level + 1e-4) - md1.mean_excess(rho, level - 1e-4)) / 2e-4
        assert slope == pytest.approx(-md1.workload_exceeds(rho, level), abs=1e-6)
    assert 0 <= md1.mean_excess(rho, 150) < 1e-10


def last_of_batch_delay_s(message_rps: float, rate_rps: float, burst_count: float, batch: int) -> float:
    """Mean access delay of a batch's last message: that of a bucket (r/B, b/B) (SRTM VI-B)."""
    return md1.mean_delay_s(message_rps / batch, rate_rps / batch, burst_count / batch)


@pytest.mark.parametrize(("batch", "burst"), [(1, 1.0), (1, 4.3), (1, 13.0), (10, 60.5)])
def test_against_simulation(batch: int, burst: float) -> None:
    gaps = generator(7, "md1", batch).exponential(batch / 1000, 1_000_000)
    delay_s = access_delays(gaps, batch, 1100.0, burst)
    parts = delay_s.reshape(20, -1)  # standard errors from 20 parts that hardly depend on each other
    for found, exact in (
        (parts.mean(axis=1), md1.mean_delay_s(1000, 1100, burst, batch)),
        ((parts > 1e-9).mean(axis=1), md1.wait_probability(1000, 1100, burst, batch)),
        (
            delay_s[:, -1].reshape(20, -1).mean(axis=1),
            last_of_batch_delay_s(1000, 1100, burst, batch),
        ),
    ):
        error = found.std(ddof=1) / 20**0.5
        assert error < 0.2 * exact
        assert abs(found.mean() - exact) < 4 * error


def test_eq1_is_exact_at_one_token_and_a_few_percent_off_above() -> None:
    assert md1.eq1_delay_s(1000, 1100, 1) == pytest.approx(md1.mean_delay_s(1000, 1100, 1))
    assert md1.eq1_delay_s(1000, 1100, 10, batch=10) == pytest.approx(last_of_batch_delay_s(1000, 1100, 10, 10))
    for burst in (2, 5, 26):
        ratio = md1.eq1_delay_s(1000, 1100, burst) / md1.mean_delay_s(1000, 1100, burst)
        assert 1.01 < ratio < 1.07


@given(burst=st.floats(2, 40), k=st.integers(2, 6))
def test_eq1_and_the_exact_delay_grow_at_least_k_fold(burst: float, k: int) -> None:
    for delay_s in (md1.eq1_delay_s, md1.mean_delay_s):
        whole, part = delay_s(1000, 1100, burst), delay_s(1000 / k, 1100 / k, max(1.0, burst / k))
        assert part >= k * whole * (1 - 1e-9)


def test_smallest_burst() -> None:
    burst = md1.smallest_burst(RHO)
    assert md1.wait_probability(10, 11, burst) <= 0.01 < md1.wait_probability(10, 11, burst - 1)
    assert burst == 26
    assert md1.smallest_burst(RHO, 0.95) == 1
