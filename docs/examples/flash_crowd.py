"""flash-crowd: users who ask now and then, and of whom, at one instant, each begins to ask many times faster.

An example of a workload in one file: options that check themselves, and what they make of a seed.

    ratebed run --system crdt-counter --workload docs/examples/flash_crowd.py:WORKLOAD --topology full-mesh
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.records import Request
from core.seeds import generator
from core.units import SECOND_NS
from workloads.api import Offer, Workload, require, span_of


@dataclass(frozen=True)
class Config:
    """Options of flash-crowd."""

    users: int = 20
    rate: float = 1.0  # requests a second of each user before the crowd
    factor: float = 10.0  # how many times faster afterwards
    at: str = "5s"  # when it comes

    def __post_init__(self) -> None:
        """SpecError for what makes no load."""
        require(self.users >= 1, "users", self.users, "give at least 1")
        require(self.rate > 0, "rate", self.rate, "give more than 0")
        require(self.factor >= 1, "factor", self.factor, "give at least 1")
        span_of("at", self.at)


@dataclass(frozen=True)
class Crowd:
    """What limiters are asked: each user's requests, spread over all nodes."""

    config: Config
    seed: int
    duration_ns: None = None  # it never ends: the study says how long it is

    def requests(self, nodes: Sequence[str], duration_ns: int) -> Mapping[str, Sequence[Request]]:
        """Node -> requests in order of time.  A user's own generator draws all of theirs: more users move nobody's."""
        at_ns = span_of("at", self.config.at)
        drawn: list[tuple[int, int, int]] = []  # instant, user, node
        for user in range(self.config.users):
            rng = generator(self.seed, "flash-crowd", user)
            now_ns = 0.0
            while True:
                rate_rps = self.config.rate * (self.config.factor if now_ns >= at_ns else 1.0)
                next_ns = now_ns + rng.exponential(SECOND_NS / rate_rps)
                if now_ns < at_ns <= next_ns:
                    now_ns = float(at_ns)  # a Poisson process forgets: from here on it is drawn anew, and faster
                    continue
                now_ns = next_ns
                if now_ns >= duration_ns:
                    break
                drawn.append((int(now_ns), user, int(rng.integers(len(nodes)))))
        asked: dict[str, list[Request]] = {node: [] for node in nodes}
        for number, (instant_ns, user, place) in enumerate(sorted(drawn)):
            asked[nodes[place]].append(Request(number, f"user-{user}", instant_ns))
        return asked


WORKLOAD = Workload("flash-crowd", "users who all at once ask many times faster", Config, Crowd, Offer.REQUESTS)
