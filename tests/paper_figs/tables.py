"""Figure tables as a paper would have them, and ways to spoil them: what the tests of claims are made of.

A ``Case`` says that a claim's verdict on its published tables is ``published``, and that each
perturbation turns it into one of ``NOT_REPRODUCED``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts import Claim, Judgement, judge
from core.seeds import generator
from paper_figs import all_claims

REPETITIONS = 5
Frames = dict[str, pd.DataFrame]
NOT_REPRODUCED = frozenset({Judgement.CONTRADICTED, Judgement.UNDECIDED, Judgement.DIRECTION_ONLY})


def repeated(
    points: Iterable[Mapping[str, Any]], values: tuple[str, ...] = ("p99_ms",), noise: float = 0.01
) -> pd.DataFrame:
    """One row a point and repetition; each of ``values`` varies by a relative ``noise``, the same each time."""
    rng = generator(1, "synthetic figure tables")
    rows = [dict(point, repetition=repetition) for point in points for repetition in range(REPETITIONS)]
    frame = pd.DataFrame(rows)
    for value in values:
        frame[value] = frame[value] * (1 + noise * rng.uniform(-1, 1, len(frame)))
    return frame


def chosen(frame: pd.DataFrame, where: Mapping[str, Any]) -> pd.Series:
    """Which rows have these values; at least one must, or the perturbation does nothing."""
    rows = pd.Series(True, frame.index)
    for column, value in where.items():
        rows &= frame[column] == value
    assert rows.any(), f"no row with {where}"
    return rows


def scaled(frame: pd.DataFrame, value: str, factor: float, /, **where: Any) -> pd.DataFrame:
    """``value`` times ``factor`` in the rows with these values."""
    found = frame.copy()
    rows = chosen(frame, where)
    found[value] = np.where(rows, found[value] * factor, found[value])
    return found


def swapped(frame: pd.DataFrame, column: str, one: Any, other: Any) -> pd.DataFrame:
    """The series ``one`` and ``other`` of ``column`` change names."""
    chosen(frame, {column: one}), chosen(frame, {column: other})
    found = frame.copy()
    found[column] = [{one: other, other: one}.get(name, name) for name in frame[column]]
    return found


def reversed_over(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The points of ``column`` in the opposite order: the smallest gets the largest's values."""
    at = sorted(set(frame[column]))
    found = frame.copy()
    found[column] = frame[column].map(dict(zip(at, at[::-1], strict=True)))
    return found


@dataclass(frozen=True)
class Case:
    """A claim, the tables of its publication, and perturbations (name -> function of those tables)."""

    claim: str
    tables: Callable[[], Frames]
    perturbations: Mapping[str, Callable[[Frames], Frames]]
    published: Judgement = Judgement.REPRODUCED
    spoiled: frozenset[Judgement] = field(default=NOT_REPRODUCED)


def claim_called(name: str) -> Claim:
    """The registered claim of this id."""
    return next(claim for claim in all_claims() if claim.id == name)


def verdict(name: str, tables: Frames) -> Judgement:
    """The judgement on a claim, and that it was judged at all."""
    result = judge(claim_called(name), tables)
    assert not result.problem, f"{name}: {result.problem}"
    return result.judgement


def check_published(case: Case) -> None:
    """The claim holds where the paper's statement does."""
    assert verdict(case.claim, case.tables()) is case.published


def check_spoiled(case: Case, perturbation: str) -> None:
    """The perturbation changes the verdict for the worse, and leaves the original tables alone."""
    tables = case.tables()
    before = {name: frame.copy() for name, frame in tables.items()}
    found = verdict(case.claim, case.perturbations[perturbation](tables))
    assert found in case.spoiled and found is not case.published, found
    assert all(frame.equals(before[name]) for name, frame in tables.items())


def parametrised(cases: Iterable[Case]) -> list[Any]:
    """pytest parameters: every case with every perturbation."""
    import pytest

    return [pytest.param(case, name, id=f"{case.claim}: {name}") for case in cases for name in case.perturbations]


def ends_of(axes: Any) -> list[tuple[float, float]]:
    """The lowest and highest end of each band and each set of error bars of a panel that has any, as drawn."""
    from matplotlib.collections import FillBetweenPolyCollection, LineCollection

    ends = []
    for one in axes.collections:
        if isinstance(one, LineCollection | FillBetweenPolyCollection):
            heights = np.concatenate([path.vertices[:, 1] for path in one.get_paths()] or [np.array([])])
            ends += [(float(heights.min()), float(heights.max()))] if np.isfinite(heights).any() else []
    return ends
