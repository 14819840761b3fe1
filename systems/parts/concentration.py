"""Which brokers, and how much for each: the first two principles of SRTM (IV-B, steps 1 and 2)."""

from collections.abc import Sequence


def by_capacity(rcap_rps: Sequence[float]) -> list[int]:
    """Broker indices by residual capacity, largest first; ties keep their order."""
    return sorted(range(len(rcap_rps)), key=lambda i: -rcap_rps[i])


def smallest_prefix(rcap_rps: Sequence[float], rate_rps: float) -> int:
    """The smallest k whose k first brokers have together at least ``rate_rps`` left (step 1).

    Ours: that a tie is enough; the paper wants a sum that "exceeds" the rate.  It decides where capacities are round
    numbers: Fig. 6 at 10,000 publishers, whose 100,000 msg/s are just what broker 1 has left of the artifact's
    110,000, begins with one broker here, and by the word with two.  ``rcap_rps`` is sorted, largest first.  Where
    even all do not suffice: all of them, since the capacities are estimates that the measurement corrects.
    """
    total = 0.0
    for k, rcap in enumerate(rcap_rps, start=1):
        total += rcap
        if total >= rate_rps:
            return k
    return len(rcap_rps)


def max_min_quotas(rcap_rps: Sequence[float], rate_rps: float) -> list[float]:
    """Shares of the topic that maximise the smallest one (step 2), float (k,), in the order given.

    quota_i = min(rcap_i, rate/k), taken progressively as the artifact does: from the fullest broker
    of the prefix to the one with most room, each at most its even share of what is left; the last of
    them takes the rest, even beyond its estimate.
    """
    left = rate_rps
    quotas = [0.0] * len(rcap_rps)
    order = by_capacity(rcap_rps)
    for place in range(len(order) - 1, -1, -1):
        i = order[place]
        quotas[i] = min(max(rcap_rps[i], 0.0), left / (place + 1)) if place else left
        left -= quotas[i]
    return quotas


def equal_total_quotas(load_rps: Sequence[float], rate_rps: float) -> list[float]:
    """Shares of the topic that make the brokers' *total* loads as equal as possible (Conc, VI-C).

    Water filling: brokers already above the common level get nothing.  float (k,), in the order given.
    """
    order = sorted(range(len(load_rps)), key=lambda i: load_rps[i])
    filled = 0.0
    level = load_rps[order[0]] + rate_rps
    for count, i in enumerate(order, start=1):
        filled += load_rps[i]
        level = (filled + rate_rps) / count
        if count == len(order) or level <= load_rps[order[count]]:
            break
    return [max(0.0, level - load) for load in load_rps]
