"""Logs whose best limiter can be derived, and the derivation: a few lines that know nothing of Ratebed's limiters.

Whatever a limiter does, it does one of three things: it asks one server (exact but for the order of what is under way,
2 (n - 1) / n messages a request), it splits the limit among nodes (no messages), or it decides at once by what it has
heard of the others, who tell each other what they admit (n - 1 messages an admission, and nobody knows what happened
in the last moments).  Each is played here in its ideal form, in floating point, and judged as ``advise`` says it
judges: by the larger error, by messages where errors are within half a percent.  Leases are a split that moves; where
requests come evenly it cannot be better than an even one.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

NODES = 8
MARGIN = 0.005
SHORTEST_NEWS_S = 0.1  # how old news is at best: nobody speaks more often, and cities are far apart
SERVER, SPLIT, TELL, NOBODY = "centralised", "static-split", "tell", "nobody"


@dataclass(frozen=True)
class Log:
    """Instants in s, ascending, users, and the limit: ``count`` in ``period_s``."""

    at_s: list[float]
    user: list[int]
    count: int
    period_s: int

    @property
    def limit(self) -> str:
        """As a user types it."""
        return f"{self.count}/{self.period_s}s"

    def write(self, path):
        """As CSV; returns the path."""
        rows = (f"{1_700_000_000 + at:.6f},u{user}\n" for at, user in zip(self.at_s, self.user, strict=True))
        path.write_text("time,user\n" + "".join(rows))
        return path


def _log(rows, count, period_s):
    rows.sort()
    return Log([at for at, _ in rows], [user for _, user in rows], count, period_s)


def _poisson(rng, rate, span_s):
    return np.sort(rng.uniform(0, span_s, rng.poisson(rate * span_s)))


def one_hot_user(seed):
    """One asks five times what it may, evenly everywhere; some others hardly ask."""
    rng = np.random.default_rng(seed)
    rows = [(at, 0) for at in _poisson(rng, 100, 100)]
    rows += [(at, user) for user in range(1, 6) for at in _poisson(rng, 0.1, 100)]
    return _log(rows, 200, 10)


def many_near_the_limit(seed):
    """A hundred users, each at 0.9 to 1.2 times what it may."""
    rng = np.random.default_rng(seed)
    rows = [(at, user) for user in range(100) for at in _poisson(rng, rng.uniform(0.9, 1.2), 100)]
    return _log(rows, 10, 10)


def bursts(seed):
    """Users send three times what a full bucket holds within 50 ms, and then nothing until it is full again."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(40):
        for begin in np.arange(rng.uniform(0, 15), 100, 20):
            rows += [(begin + at, user) for at in rng.uniform(0, 0.05, 30)]
    return _log([row for row in rows if row[0] < 100], 10, 10)


def nobody_near(seed):
    """Users ask a hundredth of what they may."""
    rng = np.random.default_rng(seed)
    rows = [(at, user) for user in range(50) for at in _poisson(rng, 0.1, 100)]
    return _log([*rows, (0.0, 0), (99.9, 0)], 100, 10)


LOGS = {"one hot user": one_hot_user, "many near the limit": many_near_the_limit, "bursts": bursts}


def derived(log, seed):
    """Who is best by the argument above: one of SERVER, SPLIT, TELL, or NOBODY where nothing is rejected."""
    rng = np.random.default_rng([seed, 1])
    place = rng.integers(NODES, size=len(log.at_s)).tolist()
    exact = _exact(log)
    if np.mean(exact) > 1 - MARGIN:
        return NOBODY
    errors = {SERVER: _error(log, exact, _server(log, place, rng)), SPLIT: _error(log, exact, _split(log, place))}
    errors[TELL] = _error(log, exact, _tell(log, place))
    least = min(errors.values())
    messages = {SPLIT: 0.0, SERVER: 2 * (NODES - 1) / NODES, TELL: (NODES - 1) * float(np.mean(exact))}
    return min((name for name in errors if errors[name] <= least + MARGIN), key=lambda name: messages[name])


class _Bucket:
    def __init__(self, size, rate):
        self.size, self.rate, self.tokens, self.at_s = size, rate, size, 0.0

    def refill(self, at_s):
        self.tokens = min(self.size, self.tokens + (at_s - self.at_s) * self.rate)
        self.at_s = at_s

    def take(self, at_s):
        self.refill(at_s)
        taken = self.tokens >= 1 - 1e-9
        self.tokens -= taken
        return taken


def _exact(log):
    rate = log.count / log.period_s
    buckets = defaultdict(lambda: _Bucket(log.count, rate))
    return [buckets[user].take(at) for at, user in zip(log.at_s, log.user, strict=True)]


def _server(log, place, rng):
    """The same bucket, but requests come in the order in which their questions do."""
    far_s = np.concatenate([[0.0], rng.uniform(0.03, 0.16, NODES - 1)])
    order = np.argsort([at + far_s[node] for at, node in zip(log.at_s, place, strict=True)], kind="stable")
    rate = log.count / log.period_s
    buckets = defaultdict(lambda: _Bucket(log.count, rate))
    decided = [False] * len(order)
    for row in order.tolist():
        decided[row] = buckets[log.user[row]].take(log.at_s[row] + far_s[place[row]])
    return decided


def _split(log, place):
    rate = log.count / log.period_s
    buckets = defaultdict(lambda: _Bucket(log.count / NODES, rate / NODES))
    rows = zip(log.at_s, log.user, place, strict=True)
    return [buckets[user, node].take(at) for at, user, node in rows]


def _tell(log, place):
    """A node takes from one bucket a user, in which is all that it admitted, and what others did but for the last."""
    buckets = defaultdict(lambda: _Bucket(log.count, log.count / log.period_s))
    untold = defaultdict(list)  # user and node -> admissions of others that it has not heard of: when it does
    decided = []
    for at, user, node in zip(log.at_s, log.user, place, strict=True):
        bucket = buckets[user, node]
        heard = [since for since in untold[user, node] if since <= at]
        untold[user, node] = untold[user, node][len(heard) :]
        for since in heard:
            bucket.refill(since)
            bucket.tokens -= 1
        taken = bucket.take(at)
        decided.append(taken)
        for other in range(NODES) if taken else ():
            if other != node:
                untold[user, other].append(at + SHORTEST_NEWS_S)
    return decided


def _error(log, exact, decided):
    """The larger of what was admitted too much and too little, by user and period."""
    more = defaultdict(int)
    for at, user, right, its in zip(log.at_s, log.user, exact, decided, strict=True):
        more[user, at // log.period_s] += int(its) - int(right)
    over = sum(max(0, each) for each in more.values())
    under = sum(max(0, -each) for each in more.values())
    return max(over, under) / len(exact)
