"""Requests of users to a rate-limited service: Poisson users spread over its nodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.limits import Factor, Rps, UserCount
from core.records import Request
from core.seeds import generator
from core.units import SECOND_NS
from workloads.api import Offer, Workload, require


def poisson_requests(
    nodes: Sequence[str],
    users_count: int,
    rate_rps: float,
    duration_ns: int,
    seed: int,
    sticky: bool = True,
    cost: int = 1,
    highest_rps: Factor = 0.0,
    uneven: bool = False,
) -> dict[str, list[Request]]:
    """Requests of each node in order of time, before ``duration_ns``; ids count up over all nodes.

    Each user sends at ``rate_rps``, or where ``highest_rps`` is above 0, at evenly spaced rates from the one to the
    other: always to the same node (user i to node i mod n), or with ``sticky=False`` each request to a node drawn
    at random.  These nodes are all alike, or if ``uneven``, the k-th of an order of the user's own gets a share in
    proportion to 1/k.  Randomness is named by user.
    """
    assert nodes and users_count >= 0 and rate_rps > 0 and duration_ns >= 0
    rates = np.linspace(rate_rps, highest_rps or rate_rps, users_count)
    arrivals: list[tuple[int, int, int]] = []  # (instant, user, node)
    for user in range(users_count):
        rng = generator(seed, "requests", user)
        instants = _poisson_instants(float(rates[user]), duration_ns, rng)
        if sticky:
            places = np.full(len(instants), user % len(nodes))
        elif uneven:
            shares = 1 / np.arange(1, len(nodes) + 1)
            places = rng.permutation(len(nodes))[rng.choice(len(nodes), len(instants), p=shares / shares.sum())]
        else:
            places = rng.integers(len(nodes), size=len(instants))
        arrivals.extend((int(at_ns), user, int(place)) for at_ns, place in zip(instants, places, strict=True))
    requests: dict[str, list[Request]] = {name: [] for name in nodes}
    for number, (at_ns, user, place) in enumerate(sorted(arrivals)):
        requests[nodes[place]].append(Request(number, f"user-{user}", at_ns, cost))
    return requests


def _poisson_instants(rate_rps: float, duration_ns: int, rng: np.random.Generator) -> np.ndarray:
    """Instants of a Poisson process in [0, duration_ns): their number, then where they fall; int64, sorted."""
    count = rng.poisson(rate_rps * duration_ns / SECOND_NS)
    return np.sort(rng.integers(0, max(1, duration_ns), size=count))


@dataclass(frozen=True)
class RequestsConfig:
    """Options of users who send requests.  Raises SpecError when made."""

    users: UserCount = 20  # ours
    rate_rps: Rps = 10.0  # ours: requests a second of each user
    highest_rps: Factor = 0.0  # ours: users' rates go from rate_rps up to this; 0: all are alike
    sticky: bool = True  # ours: a user always asks the same node
    uneven: bool = False  # ours, where not sticky: a user asks some nodes more often than others, by Zipf's law
    cost: int = 1  # tokens that a request takes

    def __post_init__(self) -> None:
        require(self.users >= 1, "users", self.users, "give 1 or more users")
        require(0 < self.rate_rps < math.inf, "rate_rps", self.rate_rps, "give a finite rate above 0")
        alike_or_more = self.highest_rps == 0 or self.rate_rps <= self.highest_rps < math.inf
        require(alike_or_more, "highest_rps", self.highest_rps, "give rate_rps or more, or 0")
        require(not (self.sticky and self.uneven), "uneven", self.uneven, "give sticky = false, too")
        require(1 <= self.cost < 2**31, "cost", self.cost, "give 1 or more tokens, less than 2**31")


@dataclass(frozen=True)
class RequestLoad:
    """Poisson users; what a limiter is offered instead of a schedule of messages."""

    config: RequestsConfig
    seed: int
    duration_ns: None = None  # the users never stop

    def requests(self, nodes: Sequence[str], duration_ns: int) -> dict[str, list[Request]]:
        """Requests of each node in order of time, before ``duration_ns``."""
        config = self.config
        return poisson_requests(
            nodes,
            config.users,
            config.rate_rps,
            duration_ns,
            self.seed,
            config.sticky,
            config.cost,
            config.highest_rps,
            config.uneven,
        )


WORKLOAD = Workload(
    "requests", "Poisson users who ask limiters for admission", RequestsConfig, RequestLoad, Offer.REQUESTS
)
