"""The queue's frequency threshold, derived from a log as the thesis did (section 4.3.3).

For each of the users that were never limited but sent the most: the mean gap in a sliding window of w
requests, averaged over the windows, without those of more than 5 s (pauses between bursts); then the
mean over the users, rounded to 100 ms.  The gap of a window is its length divided by w, not w - 1: that
is how the node measures what it compares with the threshold (Listing 4.5).
"""

from dataclasses import dataclass

import numpy as np

from core.errors import SpecError
from core.records import Int32, Int64
from core.units import MILLISECOND_NS, SECOND_NS
from systems.parts.limit import gcra, limit_of

USER_COUNT = 10_000
LONGEST_GAP_NS = 5 * SECOND_NS
ROUNDED_TO_NS = 100 * MILLISECOND_NS


@dataclass(frozen=True)
class FrequencyThreshold:
    """``threshold_ns`` is ``mean_gap_ns`` rounded; it comes from ``window_count`` windows of ``user_count`` users.

    ``limited_count``: users of the log that were limited, and left out.
    """

    threshold_ns: int
    mean_gap_ns: float
    user_count: int
    window_count: int
    limited_count: int


def frequency_threshold(
    at_ns: Int64,
    user: Int32,
    window: int,
    capacity: int,
    rate: str,
    users: int = USER_COUNT,
    cost: Int32 | None = None,
) -> FrequencyThreshold:
    """The threshold for windows of ``window`` requests, from a log in order of time.

    ``user``: an index; ``users``: how many count, those who sent the most and were never rejected by a
    centralised limiter of ``capacity`` tokens and ``rate`` a second.  A user without a window of at most
    5 s a request does not count.  SpecError where no user counts, or a window is too short to have gaps.
    """
    if window < 2:
        raise SpecError(f"a frequency threshold for windows of {window}", "give 2 requests or more (capacity / nodes)")
    if users < 1:
        raise SpecError(f"a frequency threshold from {users} users", "give 1 or more")
    limited = _limited(at_ns, user, cost, capacity, rate)
    sent = np.bincount(user, minlength=len(limited))
    ranked = np.argsort(np.where(limited, 0, -sent), kind="stable")[:users]
    chosen = ranked[~limited[ranked] & (sent[ranked] >= window)]
    order = np.argsort(user, kind="stable")
    begins = np.cumsum(sent) - sent
    means, windows = [], 0
    for number in chosen.tolist():
        instants = at_ns[order[begins[number] : begins[number] + sent[number]]]
        gaps_ns = (instants[window - 1 :] - instants[: len(instants) - window + 1]) / window
        gaps_ns = gaps_ns[gaps_ns <= LONGEST_GAP_NS]
        if len(gaps_ns):
            means.append(float(gaps_ns.mean()))
            windows += len(gaps_ns)
    if not means:
        fix = "give a longer log, a shorter window, or a higher limit"
        raise SpecError(f"no user that was not limited has {window} requests at most 5 s apart", fix)
    mean_ns = float(np.mean(means))
    rounded_ns = max(int(mean_ns / ROUNDED_TO_NS + 0.5), 1) * ROUNDED_TO_NS  # of 0 nobody would be urgent
    return FrequencyThreshold(rounded_ns, mean_ns, len(means), windows, int(limited.sum()))


def _limited(at_ns: Int64, user: Int32, cost: Int32 | None, capacity: int, rate: str) -> np.ndarray:
    """Whether each user was rejected at least once by the centralised limiter, bool (users,)."""
    limit = limit_of(capacity, rate)
    count = int(user.max()) + 1 if len(user) else 0
    full_at = [int(at_ns[0]) * limit.ticks_per_ns if count else 0] * count
    limited = np.zeros(count, np.bool_)
    costs = [1] * len(user) if cost is None else cost.tolist()
    for instant, who, tokens in zip(at_ns.tolist(), user.tolist(), costs, strict=True):
        after = gcra(limit.ticks(instant), full_at[who], limit, tokens)
        if after is None:
            limited[who] = True
        else:
            full_at[who] = after
    return limited
