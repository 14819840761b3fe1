"""Claims on figure tables that hold a system which joined the grid, and on tables that lack a failed run."""

from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge
from tests.paper_figs.srtm import test_claims_of_searches, test_claims_of_splitting
from tests.paper_figs.tables import Case, Frames, claim_called

CASES = [*test_claims_of_splitting.CASES, *test_claims_of_searches.CASES]
FOREIGN = "mine.py:SYSTEM"


def joined(frame: pd.DataFrame) -> pd.DataFrame:
    """Every point once more by a foreign system, ten times as slow and with twice the brokers, and one point more."""
    if "system" not in frame:  # Proposition 1's tables are made of LB's runs alone
        return frame
    point = [name for name in frame if name not in ("system", "p99_ms", "broker_count", "delay_ms")]
    more = frame.drop_duplicates(point).assign(system=FOREIGN)
    for value, factor in (("p99_ms", 10.0), ("delay_ms", 10.0), ("broker_count", 2.0), ("round_count", 3.0)):
        if value in more:
            more[value] *= factor
    for x in ("publishers", "group_size", "spread_ms", "k"):
        if x in more:
            more = pd.concat([more, more[more[x] == more[x].max()].assign(**{x: more[x].max() * 2})])
            break
    return pd.concat([more, frame], ignore_index=True)


def evidence_of(case: Case, tables: Frames) -> Any:
    measure = claim_called(case.claim).measure
    assert measure is not None
    found = measure(tables)
    return sorted(map(repr, found.exact)), sorted(map(repr, found.direction))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_a_foreign_system_changes_no_claim(case: Case) -> None:
    tables = case.tables()
    more = {name: joined(frame) for name, frame in tables.items()}
    assert any(len(more[name]) > len(frame) for name, frame in tables.items() if "system" in frame) or (
        "srtm-prop1/gaps" in tables
    )
    assert evidence_of(case, more) == evidence_of(case, tables)


def without_one_repetition(frame: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    """The rows without repetition 2 of one series, or of one point of it."""
    return frame[~((frame[column] == value) & (frame.repetition == 2))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_missing_runs_leave_a_claim_judged_or_without_data(case: Case) -> None:
    tables = case.tables()
    for name, frame in tables.items():
        series = [column for column in frame if column not in ("repetition", "p99_ms", "delay_ms", "wait_probability")]
        for column in series:
            for value in frame[column].drop_duplicates().iloc[:2]:
                for lacking in (without_one_repetition(frame, column, value), frame[frame[column] != value]):
                    result = judge(claim_called(case.claim), {**tables, name: lacking})
                    assert not result.problem or result.problem.startswith("no data"), (column, value, result.problem)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_empty_tables_are_no_data(case: Case) -> None:
    result = judge(claim_called(case.claim), {name: frame.iloc[:0] for name, frame in case.tables().items()})
    assert result.judgement is Judgement.UNDECIDED


def test_two_rows_of_one_repetition_are_a_mistake() -> None:
    from paper_figs.series import by_repetition

    frame = pd.DataFrame({"system": ["lb", "lb"], "repetition": [0, 0], "p99_ms": [1.0, 3.0]})
    with pytest.raises(AssertionError):
        by_repetition(frame, "p99_ms", system="lb")
