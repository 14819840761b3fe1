"""Measured delays between places made whole: both directions as one, holes filled or refused, all of it counted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations

import numpy as np

from core.errors import SpecError
from core.registry import hint

UNEVEN = 0.10  # ours: directions that differ by more than this share of their mean are counted
REPAIRS = ("", "detour")  # of a pair that was not measured in either direction: an error, or the best detour

Pair = frozenset[str]


@dataclass(frozen=True)
class Repairs:
    """What was done to the delays of so many ``pairs`` of places; each of the others counts pairs, too."""

    pairs: int = 0
    uneven: int = 0  # the directions differ by more than 10 % of their mean, which is taken
    one_direction: int = 0  # only one direction was measured; it stands for both
    filled: int = 0  # neither was; the best detour through a third place stands for it
    shortened: int = 0  # some detour is shorter than the direct delay (the triangle inequality is violated)
    detours: bool = False  # whether messages take such detours

    def notes(self) -> tuple[str, ...]:
        """A sentence for each kind of repair that was needed."""
        said = {
            "uneven": "of {} pairs {} have directions more than 10 % apart: the mean is taken",
            "one_direction": "of {} pairs {} were measured in one direction only: it stands for both",
            "filled": "of {} pairs {} were not measured: the best detour through a third place stands for them",
            "shortened": "of {} pairs {} have a detour shorter than the direct delay: "
            + ("messages take it" if self.detours else "messages go the direct way"),
        }
        counts = asdict(self)
        return tuple(said[name].format(self.pairs, counts[name]) for name in said if counts[name])


def between(
    table: str, delays_ns: Mapping[tuple[str, str], int], wanted: Sequence[str], repair: str = ""
) -> tuple[dict[Pair, int], Repairs]:
    """One delay for each pair of ``wanted``: the mean of the directions that ``delays_ns`` has by (from, to), in ns.

    ``table``: the file's name, for errors.  A pair without any is a SpecError, unless ``repair`` is ``"detour"``.
    """
    if repair not in REPAIRS:
        raise SpecError(f"topology option repair = {repair!r}", "give detour, or nothing")
    known = {name for ends in delays_ns for name in ends}
    for name in wanted:
        if name not in known:
            raise SpecError(f"{table}: no city {name!r}", hint(name, known))
    delays: dict[Pair, int] = {}
    uneven = one_direction = filled = 0
    for a, b in combinations(wanted, 2):
        both = _directions(delays_ns, a, b)
        if not both:
            both = [_detour(table, delays_ns, known, a, b, repair)]
            filled += 1
        else:
            one_direction += len(both) == 1
            uneven += len(both) == 2 and abs(both[0] - both[1]) > UNEVEN * sum(both) / 2
        delays[frozenset((a, b))] = sum(both) // len(both)
    return delays, Repairs(len(delays), uneven, one_direction, filled)


def with_detours(repairs: Repairs, delays: Mapping[Pair, int], places: Sequence[str], taken: bool = False) -> Repairs:
    """``repairs`` with the pairs counted for which a detour over other ``places`` is shorter, and maybe ``taken``."""
    direct = matrix_of(delays, places)
    best = direct.copy()
    for via in range(len(places)):  # Floyd and Warshall
        np.minimum(best, best[:, via, None] + best[None, via, :], out=best)
    return replace(repairs, shortened=int(np.count_nonzero(best < direct)) // 2, detours=taken)


def matrix_of(delays: Mapping[Pair, int], places: Sequence[str]) -> np.ndarray:
    """The delays as a symmetric int64 (places, places) with zeros on its diagonal."""
    number = {name: i for i, name in enumerate(places)}
    square = np.zeros((len(places), len(places)), np.int64)
    for pair, delay_ns in delays.items():
        a, b = (number[name] for name in pair)
        square[a, b] = square[b, a] = delay_ns
    return square


def _directions(delays_ns: Mapping[tuple[str, str], int], a: str, b: str) -> list[int]:
    return [delays_ns[ends] for ends in ((a, b), (b, a)) if ends in delays_ns]


def _detour(
    table: str, delays_ns: Mapping[tuple[str, str], int], known: Iterable[str], a: str, b: str, repair: str
) -> int:
    if not repair:
        raise SpecError(f"{table}: nothing about {a} and {b}", "leave one of them out, or give repair = detour")
    legs = [(_directions(delays_ns, a, via), _directions(delays_ns, via, b)) for via in known if via not in (a, b)]
    sums = [sum(one) // len(one) + sum(other) // len(other) for one, other in legs if one and other]
    if not sums:
        raise SpecError(f"{table}: nothing about {a} and {b}, and no detour", "leave one of them out")
    return min(sums)
