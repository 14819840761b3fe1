"""hot-keys: keys that are offered at multiples of their limit, each at nodes of its own choice.

A limit is said as deployed limiters say it: ``count`` requests of a key (a user) in a ``period``.  Its requests are
Poisson at a ``factor`` of count / period, and reach the nodes in a *shape*:

- ``even``: each at a node drawn anew;
- ``skewed``: ``share`` of them at one node, which is drawn for the key, the rest evenly at the others;
- ``moving``: the same, but the one is another node in each n-th part of ``duration``: all n in turn, the first drawn.

Keys have nothing to do with each other, so that one run holds all shapes and factors.  Randomness is named by key:
instants depend on the seed, the key and its rate alone, and those of a longer load begin with those of a shorter one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from core.errors import SpecError
from core.limits import GENERATORS, UserCount, check_product
from core.records import Int32, Int64, Request
from core.seeds import generator
from core.units import rational
from workloads.api import Offer, Size, Workload, require, span_of
from workloads.placement import Columns, at_nodes, before

EVEN, SKEWED, MOVING = SHAPES = ("even", "skewed", "moving")
MOST_REQUESTS = 10**7
_SURPLUS = 6.0  # standard deviations of a Poisson count: a draw of so many more is enough but for once in 10^9
_LEAST_DRAW = 16


class HotKey(NamedTuple):
    """A key: the user's name, and what that stands for; ``number``: from 1, among those of its shape and factor."""

    user: str
    shape: str
    factor: Fraction  # of the limit: how much is offered
    number: int


@dataclass(frozen=True)
class HotKeysConfig:
    """Options of the keys; all of them are ours.  Raises SpecError when made."""

    count: int = 20  # N, requests that are allowed
    period: str = "1s"  # in this span: c = N, r = N / period
    factors: str = "0.5,1,2,5"  # how many times the limit is offered
    shapes: str = "even,skewed,moving"  # where requests arrive
    keys: UserCount = 1  # of each factor and shape
    duration: str = "20s"  # the natural length
    share: float = 0.8  # skewed, moving: of a key's requests, those at the one node

    def __post_init__(self) -> None:
        require(1 <= self.count <= 10**6, "count", self.count, "give 1 to 1,000,000 requests")
        require(self.period_ns > 0, "period", self.period, "give a span above 0")
        names = [_factor_text(factor) for factor in self.factor_values]
        require(min(self.factor_values) > 0, "factors", self.factors, 'give numbers above 0, as in "0.5,1,2"')
        require(len(set(names)) == len(names), "factors", self.factors, "give each once")
        shapes = self.shape_names
        require(set(shapes) <= set(SHAPES), "shapes", self.shapes, f"choose of {', '.join(SHAPES)}")
        require(len(set(shapes)) == len(shapes), "shapes", self.shapes, "give each once")
        require(self.keys >= 1, "keys", self.keys, "give 1 or more keys")
        require(self.duration_ns > 0, "duration", self.duration, "give a span above 0")
        require(0 <= self.share <= 1, "share", self.share, "give a share from 0 to 1")
        check_product("workload hot-keys", GENERATORS, keys=self.keys, factors=len(names), shapes=len(shapes))
        few = self.request_count <= MOST_REQUESTS
        require(few, "keys", self.keys, f"offer at most {MOST_REQUESTS:,} requests: fewer keys, or for a shorter time")

    @property
    def period_ns(self) -> int:
        """The limit's period."""
        return span_of("period", self.period)

    @property
    def duration_ns(self) -> int:
        """The natural length."""
        return span_of("duration", self.duration)

    @property
    def factor_values(self) -> tuple[Fraction, ...]:
        """The factors, as given; SpecError naming one that is no number."""
        try:
            return tuple(rational(text) for text in self.factors.split(","))
        except ValueError as error:
            raise SpecError(f"workload option factors={self.factors!r}", str(error)) from None

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The shapes, as given."""
        return tuple(text.strip() for text in self.shapes.split(","))

    @property
    def request_count(self) -> float:
        """What all keys together are expected to send."""
        whole = sum(self.factor_values) * self.count * Fraction(self.duration_ns, self.period_ns)
        return float(whole * len(self.shape_names) * self.keys)

    def rate_per_ns(self, factor: Fraction) -> float:
        """Of one key at a factor of the limit."""
        return float(factor * self.count / self.period_ns)


def keys_of(config: HotKeysConfig) -> list[HotKey]:
    """All keys, in the order of the users' numbers: by shape, then factor."""
    return [
        HotKey(f"{shape}-{_factor_text(factor)}x-{number}", shape, factor, number)
        for shape, factor, number in product(config.shape_names, config.factor_values, range(1, config.keys + 1))
    ]


def _factor_text(factor: Fraction) -> str:
    return f"{float(factor):g}"


def _instants(key: HotKey, config: HotKeysConfig, seed: int) -> Int64:
    """Sums of exponential gaps, up to the end; int64, sorted."""
    rng, rate = generator(seed, "hot-keys", key.user, "instants"), config.rate_per_ns(key.factor)
    expected = rate * config.duration_ns
    count = _LEAST_DRAW + int(expected + _SURPLUS * expected**0.5)
    gaps = rng.standard_exponential(count)
    while (ends := np.cumsum(gaps))[-1] < expected:
        gaps = np.concatenate([gaps, rng.standard_exponential(_LEAST_DRAW)])
    at_ns = np.floor(ends[ends < expected] / rate).astype(np.int64)
    return at_ns[at_ns < config.duration_ns]


class HotKeys:
    """What the keys send; the natural length is the option ``duration``."""

    def __init__(self, config: HotKeysConfig, seed: int):
        self.config, self.duration_ns, self._seed = config, config.duration_ns, seed
        self.keys = keys_of(config)
        instants = [_instants(key, config, seed) for key in self.keys]
        at_ns = np.concatenate(instants)
        users = np.repeat(np.arange(len(self.keys), dtype=np.int32), [len(its) for its in instants])
        order = np.lexsort((users, at_ns))
        names = tuple(key.user for key in self.keys)
        self._columns = Columns(at_ns[order], users[order], np.ones(len(order), np.int32), names)

    def columns(self) -> Columns:
        """All requests in order of time; a request's row is its id."""
        return self._columns

    def requests(self, nodes: Sequence[str], duration_ns: int) -> dict[str, list[Request]]:
        """Requests of each node in order of time, before ``duration_ns``; ids count up over all nodes."""
        part = before(self._columns, duration_ns)
        places = np.zeros(len(part.user), np.int32)
        ends = np.cumsum(np.bincount(part.user, minlength=len(self.keys)))
        rows = np.split(np.argsort(part.user, kind="stable"), ends[:-1])
        for key, its in zip(self.keys, rows, strict=True):
            places[its] = self._places(key, part.at_ns[its], len(nodes))
        return at_nodes(nodes, part, places)

    def _places(self, key: HotKey, at_ns: Int64, count: int) -> Int32:
        """Index of the node, of ``count``, that each of a key's requests reaches."""
        rng = generator(self._seed, "hot-keys", key.user, "places")
        first, draws = int(rng.integers(count)), rng.random(len(at_ns))
        if key.shape == EVEN or count == 1:
            return (draws * count).astype(np.int32)
        part_ns = -(-self.duration_ns // count)
        hot = first + (at_ns // part_ns if key.shape == MOVING else np.zeros(len(at_ns), np.int64))
        share = self.config.share
        others = np.minimum((draws - share) / max(1 - share, 1e-9) * (count - 1), count - 2).astype(np.int64)
        places: Int32 = ((hot + np.where(draws < share, 0, 1 + others)) % count).astype(np.int32)
        return places


def size(config: HotKeysConfig) -> Size:
    """What is expected."""
    return Size(config.request_count, config.duration_ns)


WORKLOAD = Workload(
    "hot-keys",
    "keys offered at multiples of their limit: spread evenly, mostly at one node, or at one that changes",
    HotKeysConfig,
    HotKeys,
    Offer.REQUESTS,
    size,
)
