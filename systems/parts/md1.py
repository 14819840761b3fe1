"""Token buckets under Poisson arrivals: the M/D/1 queue, exactly, and SRTM's Eq. (1).

Unit of work: one token.  U is the unfinished work that an arrival finds in the M/D/1 queue whose
service time is the time to make one token, 1/r, at utilisation rho = lambda/r.  A message waits
where U > b - 1, and it waits (U + 1 - b) / r (SRTM II-A).

Every sum here has positive terms only.  (The textbook's sum for P(U <= x) alternates in sign and
loses all digits for x above some 20.)  Probabilities are good to about 1e-13 in absolute terms.
"""

from functools import lru_cache
from math import ceil, exp, floor

import numpy as np

from core.records import Float64

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)  # on [-1, 1]


def queue_length_probabilities(rho: float, count: int) -> Float64:
    """P(n in an M/D/1 system) for n = 0..count-1, float64 (count,).

    Flows between {0..n} and {n+1, ...} of the chain seen at departures balance:
    p[n+1] a[0] = p[0] P(A > n) + sum over j = 1..n of p[j] P(A > n+1-j), A being Poisson(rho).
    """
    assert 0 < rho < 1 and count >= 1
    more = _poisson_tail(rho, count + 1)
    p = np.zeros(count)
    p[0] = 1.0 - rho
    for n in range(count - 1):
        p[n + 1] = (p[0] * more[n] + p[1 : n + 1] @ more[n:0:-1]) / exp(-rho)
    return p


def _poisson_tail(mean: float, count: int) -> Float64:
    """P(A > n) for n = 0..count-1, summed from the small end."""
    terms = np.empty(count + 60)
    terms[0] = exp(-mean)
    for n in range(1, len(terms)):
        terms[n] = terms[n - 1] * mean / n
    return np.cumsum(terms[::-1])[::-1][1 : count + 1]


@lru_cache(maxsize=256)
def _at_most_waiting(rho: float, count: int) -> Float64:
    """P(at most n customers wait, besides the one in service) for n = 0..count-1."""
    return np.cumsum(queue_length_probabilities(rho, count + 1))[1:]


def workload_exceeds(rho: float, x: float) -> float:
    """P(U > x) of the M/D/1 queue, 0 < rho < 1, any real x, U in service times.

    With x = n - u, n = floor(x) + 1: the work is at most x exactly if u earlier, at most n - 1 - j
    customers were waiting and j arrived since (G. J. Franx, Oper. Res. Lett. 29, 2001).
    """
    if x < 0:
        return 1.0
    n = floor(x) + 1
    waiting = _at_most_waiting(rho, 32 * ceil(n / 32))[:n]  # a few sizes only, for the cache
    return max(0.0, 1.0 - float(_poisson_terms(rho * (n - x), n) @ waiting[::-1]))


def _poisson_terms(mean: float, count: int) -> Float64:
    """P(A = n) for n = 0..count-1."""
    ratios = np.full(count, mean)
    ratios[1:] /= np.arange(1, count)
    ratios[0] = exp(-mean)
    return np.cumprod(ratios)


def mean_excess(rho: float, level: float) -> float:
    """E[(U - level)^+] in service times, exactly: E[U] less the integral of P(U > x) over 0..level."""
    mean = rho / (2 * (1 - rho))  # Pollaczek and Khinchine
    if level <= 0:
        return mean - level
    whole = floor(level)  # P(U > x) is smooth between whole x
    inside = sum(_area(rho, n, n + 1.0) for n in range(whole)) + _area(rho, whole, level)
    return max(0.0, mean - inside)


@lru_cache(maxsize=4096)
def _area(rho: float, low: float, high: float) -> float:
    """The integral of P(U > x) over [low, high], which lies between two whole numbers."""
    half = (high - low) / 2
    nodes = zip(_NODES, _WEIGHTS, strict=True)
    return half * sum(weight * workload_exceeds(rho, low + half * (1 + node)) for node, weight in nodes)


def wait_probability(message_rps: float, rate_rps: float, burst_count: float, batch: int = 1) -> float:
    """The share of messages that wait for a token of the bucket (r, b), exactly.

    Poisson batches of ``batch`` messages: number j of a batch waits where U + j > b, U being the
    work of M/D/1 with customers of ``batch`` tokens each.
    """
    rho = message_rps / rate_rps
    return float(np.mean([workload_exceeds(rho, (burst_count - j) / batch) for j in range(1, batch + 1)]))


def mean_delay_s(message_rps: float, rate_rps: float, burst_count: float, batch: int = 1) -> float:
    """Mean access delay of a message in seconds, exactly; batches as in ``wait_probability``."""
    rho = message_rps / rate_rps
    excess = [batch * mean_excess(rho, (burst_count - j) / batch) for j in range(1, batch + 1)]
    return float(np.mean(excess)) / rate_rps


def eq1_delay_s(message_rps: float, rate_rps: float, burst_count: float, batch: int = 1) -> float:
    """SRTM's Eq. (1): P(U > b - 1) / (2 r (1 - rho)), with b and r divided by ``batch`` (VI-B), in seconds.

    Exact for b = 1 only: its second factor is the mean delay of *whoever finds work*, while those
    who find more than b - 1 > 0 wait 1/theta/r on average for large b, theta being the queue's decay rate.
    """
    rate_rps, burst_count = rate_rps / batch, burst_count / batch
    rho = message_rps / batch / rate_rps
    return workload_exceeds(rho, burst_count - 1) / (2 * rate_rps * (1 - rho))


def smallest_burst(rho: float, wait_share: float = 0.01) -> int:
    """The smallest whole b at which at most ``wait_share`` of Poisson messages wait (report, footnote 8)."""
    assert 0 < wait_share < 1
    burst = 1
    while workload_exceeds(rho, burst - 1) > wait_share:
        burst += 1
    return burst
