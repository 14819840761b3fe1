"""instants: one user's requests at stated instants, and the same pattern again and again.

For traffic that can be decided by hand: the bursts with pauses of the thesis' Fig. 4.2, or saturation
(a pattern of one request, every 10 ms).
"""

from dataclasses import dataclass

import numpy as np

from core.limits import RoundCount
from core.seeds import generator
from core.units import MILLISECOND_NS
from workloads.api import Offer, Size, Workload, require, span_of
from workloads.placement import RULES, Columns, PlacedRequests, user_id

MOST_REQUESTS = 10**7


@dataclass(frozen=True)
class InstantsConfig:
    """Options of the pattern; all of them are ours.  Raises SpecError when made."""

    at: tuple[str, ...] = ("0ms",)  # instants in order, whole milliseconds (the injector knows no finer ones)
    period: str = "1s"  # from one pattern to the next
    repeats: RoundCount = 1  # how often the pattern comes
    cost: int = 1  # tokens of a request
    placement: str = "injector"  # injector (thesis 4.3.1) | user | random

    def __post_init__(self) -> None:
        require(len(self.at) > 0, "at", self.at, "give at least one instant")
        at_ms = self.at_ms
        require(list(at_ms) == sorted(at_ms) and at_ms[0] >= 0, "at", self.at, "give instants from 0ms on, in order")
        require(self.period_ms > 0, "period", self.period, "give whole milliseconds, at least 1")
        require(
            1 <= self.repeats <= MOST_REQUESTS // len(self.at),
            "repeats",
            self.repeats,
            "give 1 to ten million requests",
        )
        fits = self.repeats == 1 or at_ms[-1] - at_ms[0] <= self.period_ms
        require(fits, "period", self.period, "give at least the length of the pattern")
        require(1 <= self.cost < 2**31, "cost", self.cost, "give 1 or more tokens")
        require(self.placement in RULES, "placement", self.placement, f"choose one of {', '.join(RULES)}")

    @property
    def at_ms(self) -> tuple[int, ...]:
        """The pattern in milliseconds."""
        return tuple(_milliseconds("at", text) for text in self.at)

    @property
    def period_ms(self) -> int:
        """The period in milliseconds."""
        return _milliseconds("period", self.period)


def _milliseconds(field: str, text: str) -> int:
    span_ns = span_of(field, text)
    require(span_ns % MILLISECOND_NS == 0, field, text, "give whole milliseconds")
    return span_ns // MILLISECOND_NS


class Instants(PlacedRequests):
    """The requests; the natural length is up to the end of the last period, and includes the last request."""

    def __init__(self, config: InstantsConfig, seed: int):
        starts_ms = np.arange(config.repeats, dtype=np.int64) * config.period_ms
        at_ms = (starts_ms[:, None] + np.array(config.at_ms, np.int64)).ravel()
        count = len(at_ms)
        name = user_id(generator(seed, "instants"))
        columns = Columns(
            at_ms * MILLISECOND_NS, np.zeros(count, np.int32), np.full(count, config.cost, np.int32), (name,)
        )
        end_ms = max(config.repeats * config.period_ms, int(at_ms[-1]) + 1)
        super().__init__(columns, end_ms * MILLISECOND_NS, config.placement, seed)


def size(config: InstantsConfig) -> Size:
    """Of a typical number of requests."""
    return Size(10_000.0, Instants(config, 1).duration_ns)


WORKLOAD = Workload(
    "instants", "one user's requests at stated instants, repeated", InstantsConfig, Instants, Offer.REQUESTS, size
)
