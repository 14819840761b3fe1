"""Requests of users to a rate-limited service: Poisson users spread over its nodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.limits import Rps, UserCount
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
) -> dict[str, list[Request]]:
    """Requests of each node in order of time, before ``duration_ns``; ids count up over all nodes.

    Each user sends at ``rate_rps``: always to the same node (user i to node i mod n), or with
    ``sticky=False`` each request to a node drawn at random.  Randomness is named by user.
    """
    assert nodes and users_count >= 0 and rate_rps > 0 and duration_ns >= 0
    arrivals: list[tuple[int, int, int]] = []  # (instant, user, node)
    for user in range(users_count):
        rng = generator(seed, "requests", user)
        instants = _poisson_instants(rate_rps, duration_ns, rng)
        places = np.full(len(instants), user % len(nodes)) if sticky else rng.integers(len(nodes), size=len(instants))
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
    sticky: bool = True  # ours: a user always asks the same node
    cost: int = 1  # tokens that a request takes

    def __post_init__(self) -> None:
        require(self.users >= 1, "users", self.users, "give 1 or more users")
        require(0 < self.rate_rps < math.inf, "rate_rps", self.rate_rps, "give a finite rate above 0")
        require(self.cost >= 1, "cost", self.cost, "give 1 or more tokens")


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
            nodes, config.users, config.rate_rps, duration_ns, self.seed, config.sticky, config.cost
        )


WORKLOAD = Workload(
    "requests", "Poisson users who ask limiters for admission", RequestsConfig, RequestLoad, Offer.REQUESTS
)
