"""The centralised limiter over a whole log, compiled: which requests one token bucket a user admits.

``systems.parts.limit.gcra`` is the rule, in plain Python; a test compares them.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
import numpy as np

from core.compiled import njit


@njit(cache=True)
def admitted(at_ns, user, cost, user_count, capacity, ticks_per_ns, token_ticks):
    """Whether each request conforms, bool (n,); instants in order, any int64.

    Keeps for each user how long its bucket takes to be full again, not when: that is at most capacity x
    token_ticks, so that it does not overflow however long the log is.
    """
    most = capacity * token_ticks
    owed = np.zeros(user_count, np.int64)  # ticks until full, at seen_ns
    seen_ns = np.zeros(user_count, np.int64)
    verdicts = np.zeros(at_ns.shape[0], np.bool_)
    for i in range(at_ns.shape[0]):
        who = user[i]
        gap_ns = at_ns[i] - seen_ns[who]
        if owed[who] > 0:
            owed[who] = owed[who] - gap_ns * ticks_per_ns if gap_ns < owed[who] // ticks_per_ns + 1 else 0
            owed[who] = max(0, owed[who])
        seen_ns[who] = at_ns[i]
        if cost[i] <= capacity and owed[who] + cost[i] * token_ticks <= most:
            owed[who] += cost[i] * token_ticks
            verdicts[i] = True
    return verdicts
