"""Figure epulsar-profile: rank correlations and the knee on known data, E12 on known tables, the grid."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from analysis.verdicts import Judgement, judge
from core.seeds import generator
from harness.estimate import campaign_seconds
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs.epulsar import profile
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    parametrised,
    verdict,
)

RUNS, CORRELATIONS = "epulsar-profile/runs", "epulsar-profile/correlations"
REPETITIONS = 3


def runs(law: Callable[[pd.DataFrame], Any]) -> pd.DataFrame:
    """The design's runs, whose p95 follows a law of their columns, but for 1 %."""
    rows = []
    for repetition in range(REPETITIONS):
        for topics, producers, consumers, size_bytes, in_rps in profile.DESIGN:
            out_rps = float(in_rps * consumers)
            rows.append(
                {"repetition": repetition, "topics": topics, "producers": producers, "consumers": consumers,
                 "size_bytes": size_bytes, "rate_rps": in_rps / topics / producers, "topic_rps": in_rps / topics,
                 "in_rps": float(in_rps), "out_rps": out_rps, "offered_rps": out_rps, "out_bps": out_rps * size_bytes,
                 "broker_cores": 0.2, "clients_cores": 0.3, "core_share": profile.CORE_SHARE}
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["p95_ms"] = law(frame) * (1 + 0.01 * generator(1, "noise").uniform(-1, 1, len(frame)))
    return frame


def tables_by(law: Callable[[pd.DataFrame], Any]) -> Frames:
    """The figure's tables."""
    frame = runs(law)
    return {RUNS: frame, CORRELATIONS: profile.correlations(frame), "epulsar-profile/knee": profile.knee(frame)}


def by_output(frame: pd.DataFrame) -> Any:
    """Flat up to 5,000 messages a second, but in order, then steep."""
    return 2.0 + frame.out_rps / 1e4 + np.maximum(0, frame.out_rps - 5_000) ** 1.2 / 100


def law(change: Callable[[pd.DataFrame], Any]) -> Callable[[Frames], Frames]:
    """A perturbation: the same design under another law."""
    return lambda found: tables_by(change)


CASES = [
    Case("E12", lambda: tables_by(by_output), {
        "messages taken decide": law(lambda frame: 2.0 + frame.in_rps / 100 + frame.out_rps / 1e4),
        "bytes decide": law(lambda frame: 2.0 + frame.out_bps / 1e4),
        "the size decides": law(lambda frame: frame.size_bytes.astype(float) + frame.out_rps / 1e3),
        "the fan-out decides": law(lambda frame: 10.0 * frame.consumers + frame.out_rps / 1e4),
        "the fewer, the slower": law(lambda frame: 1e5 / frame.out_rps),
        "no knee": law(lambda frame: 2.0 + frame.out_rps / 5e4),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


@pytest.mark.parametrize(
    ("perturbation", "wanted"),
    [
        ("messages taken decide", Judgement.DIRECTION_ONLY),  # the paper did not sweep their sum
        ("the size decides", Judgement.CONTRADICTED),
        ("no knee", Judgement.CONTRADICTED),
        ("the fewer, the slower", Judgement.CONTRADICTED),
    ],
)
def test_what_the_spoiled_tables_say(perturbation: str, wanted: Judgement) -> None:
    assert verdict("E12", CASES[0].perturbations[perturbation](CASES[0].tables())) is wanted


def test_without_its_heaviest_point_nothing_is_said_of_a_knee() -> None:
    found = CASES[0].tables()
    found[RUNS] = found[RUNS].drop(index=found[RUNS].out_rps.idxmax())
    result = judge(claim_called("E12"), found)
    assert result.judgement is Judgement.UNDECIDED and "16,000 messages out a second in repetition 0" in result.problem


def test_without_live_runs_it_is_not_run() -> None:
    found = judge(claim_called("E12"), {"epulsar-fig7/migrations": pd.DataFrame()})
    assert found.judgement is Judgement.NOT_RUN and found.problem == "needs mininet or local"


def test_correlations_are_of_ranks() -> None:
    found = profile.correlations(runs(lambda frame: np.exp(frame.out_rps / 1e3)))
    rho = found.groupby("parameter").rho.mean()
    assert set(rho.index) == set(profile.PARAMETERS) and rho.out_rps > 0.97  # two points share a rate
    assert rho.topics == pytest.approx(0, abs=0.25)


def test_a_parameter_that_does_not_vary_has_none() -> None:
    found = profile.correlations(runs(by_output).assign(size_bytes=100))
    assert found[found.parameter == "size_bytes"].rho.isna().all()
    assert found[found.parameter != "size_bytes"].rho.notna().all()


def test_a_repetition_that_lost_much_of_the_design_has_none() -> None:
    frame = runs(by_output)
    between = frame[~frame.out_rps.isin(profile.ENDS_RPS)]
    few = frame.drop(between[between.repetition == 0].index).drop(between[between.repetition == 1].index[:3])
    rho = profile.correlations(few).groupby("repetition").rho
    assert rho.count().to_dict() == {0: 0, 1: len(profile.PARAMETERS), 2: len(profile.PARAMETERS)}
    found = judge(claim_called("E12"), {RUNS: few, CORRELATIONS: profile.correlations(few)})
    assert found.judgement is Judgement.UNDECIDED and not found.problem, "two repetitions are not enough"


def test_the_knee_is_the_largest_rate_below_twice_the_idle_latency() -> None:
    frame = runs(by_output)
    (found,) = profile.knee(frame).itertuples()
    rates = sorted(set(frame.out_rps))
    fine = [rate for rate in rates if by_output(pd.DataFrame({"out_rps": [rate]})).iloc[0] < 2 * 2.03]
    assert found.idle_p95_ms == pytest.approx(2.03, rel=0.02)
    assert found.knee_rps == fine[-1] == 4_000 and found.most_rps == 16_000


def test_no_knee_within_the_design() -> None:
    (found,) = profile.knee(runs(lambda frame: np.full(len(frame), 2.0))).itertuples()
    assert found.knee_rps == found.most_rps == 16_000


def test_the_design_tells_parameters_apart() -> None:
    """What the paper varies is dealt out over rates and fan-outs, and each level comes as often as the others."""
    columns = dict(zip(("topics", "producers", "consumers", "size"), zip(*profile.DESIGN, strict=True), strict=False))
    columns["in"] = tuple(point[-1] for point in profile.DESIGN)
    columns["out"] = tuple(point[-1] * point[2] for point in profile.DESIGN)
    for one, other in combinations(columns, 2):
        rho = spearmanr(columns[one], columns[other]).statistic
        assert abs(rho) <= 0.21 or {one, other} <= {"in", "out", "consumers"}, (one, other)
    for name, values in columns.items():
        counts = [values.count(value) for value in set(values)]
        assert name == "out" or len(set(counts)) == 1


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_the_grid_is_sound_and_short(scale: Any) -> None:
    found = profile.EXPERIMENT.runs(scale, {}, 1)
    check_all(found)
    assert len({run.to_json() for run in found}) == len(found)
    assert campaign_seconds(found, 1) < 1_200
