"""probes: who knows of a request, and when?  One node is asked, and after a *lag* all others are.

A trial has a user of its own: one request at the first node, and a lag later one at every other node, all at once.
With a capacity of one token, a node that rejects the probe knows that the token is taken; one that
accepts does not.  Probes change what nodes know, but of this user only, and each user is probed once.
Their own elements are gossiped on, too: ``spacing`` leaves the nodes time to fall silent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.limits import check_product
from core.records import Request
from core.seeds import generator
from core.units import MILLISECOND_NS
from workloads.api import Offer, Size, Workload, require, span_of
from workloads.placement import user_id

OFFSET_NS = MILLISECOND_NS  # trials begin just after a multiple of the spacing, where aligned rounds are
TRIALS = 100_000  # ours: of a run


@dataclass(frozen=True)
class ProbesConfig:
    """Options of the trials; all of them are ours.  Raises SpecError when made."""

    lags: tuple[str, ...] = ("900ms",)  # how long after the request the others are asked; trials take turns
    steps: int = 1  # and after twice, thrice ... as many of these lags
    trials: int = 10  # of each lag
    spacing: str = "63s"  # between trials; aligned rounds fit where it is a multiple of theirs
    cost: int = 1  # tokens of a request

    def __post_init__(self) -> None:
        require(len(self.lags) > 0, "lags", self.lags, "give at least one lag")
        require(1 <= self.steps <= 10_000, "steps", self.steps, "give 1 to 10,000")
        require(1 <= self.trials <= 10_000, "trials", self.trials, "give 1 to 10,000")
        check_product("workload probes", TRIALS, lags=len(self.lags), steps=self.steps, trials=self.trials)
        lags_ns = self.lags_ns
        require(min(lags_ns) > 0, "lags", self.lags, "give lags above 0")
        longest_ns = max(lags_ns) + OFFSET_NS
        require(longest_ns <= self.spacing_ns, "spacing", self.spacing, "give more than the longest lag")
        require(1 <= self.cost < 2**31, "cost", self.cost, "give 1 or more tokens")

    @property
    def lags_ns(self) -> tuple[int, ...]:
        """All lags: each of ``lags`` times 1 to ``steps``."""
        return tuple(span_of("lags", text) * step for step in range(1, self.steps + 1) for text in self.lags)

    @property
    def spacing_ns(self) -> int:
        """From one trial to the next."""
        return span_of("spacing", self.spacing)


class ProbeTrials:
    """The trials' requests; a trial that would end after ``duration_ns`` is left out."""

    def __init__(self, config: ProbesConfig, seed: int):
        lags_ns = config.lags_ns * config.trials
        rng = generator(seed, "probes")
        starts_ns = np.arange(len(lags_ns)) * config.spacing_ns + OFFSET_NS
        self._trials = [(int(at), lag, user_id(rng)) for at, lag in zip(starts_ns, lags_ns, strict=True)]
        self._cost = config.cost
        self.duration_ns = len(lags_ns) * config.spacing_ns

    def requests(self, nodes: Sequence[str], duration_ns: int) -> dict[str, list[Request]]:
        """Requests of each node in order of time; a trial's first request comes to the first node.

        Unlike other request workloads this one asks every node, so that the requests depend on how many there are.
        """
        requests: dict[str, list[Request]] = {name: [] for name in nodes}
        for number, (at_ns, lag_ns, user) in enumerate(self._trials):
            if at_ns + lag_ns >= duration_ns:
                break
            first = number * len(nodes)
            requests[nodes[0]].append(Request(first, user, at_ns, self._cost))
            for place, node in enumerate(nodes[1:], 1):
                requests[node].append(Request(first + place, user, at_ns + lag_ns, self._cost))
        return requests


def size(config: ProbesConfig) -> Size:
    """Of a typical number of requests."""
    return Size(10_000.0, ProbeTrials(config, 1).duration_ns)


WORKLOAD = Workload(
    "probes",
    "asks every node who knows of a request, a set time after it",
    ProbesConfig,
    ProbeTrials,
    Offer.REQUESTS,
    size,
)
