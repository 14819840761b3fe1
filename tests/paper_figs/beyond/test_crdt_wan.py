"""Limiters over five cities: grids, claims, drawings of what there is; one point of each figure for real."""

from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace

from analysis.spark import session
from analysis.tables import load
from analysis.verdicts import Interval, Judgement, judge
from harness.estimate import campaign_seconds
from harness.experiment import LIVE_REPETITIONS, SCALES, repeated
from harness.run import execute
from paper_figs.beyond import crdt_wan, redis_wan, wan
from studies.inputs import run_id
from tests.live import needs
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    chosen,
    parametrised,
    scaled,
)
from tests.paper_figs.tables import repeated as rows_of

FIGURES = {"crdt-wan": crdt_wan.FIGURE, "redis-wan": redis_wan.FIGURE}


# --- grids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", FIGURES)
def test_a_command_takes_less_than_a_quarter_of_an_hour_and_at_full_scale_less_than_twenty_minutes(key):
    for scale, minutes in (("tiny", 1), ("small", 15), ("quick", 15), ("paper", 20)):
        specs = FIGURES[key].experiment.runs(SCALES[scale], {}, seed=1)
        assert campaign_seconds(specs, 2) < 60 * minutes, scale
    assert len({spec.repetition for spec in FIGURES[key].experiment.runs(SCALES["small"], {}, seed=1)}) == 3


def test_every_limiter_has_a_twin_of_the_same_seed_and_requests_and_redis_has_its_model():
    for scale in SCALES.values():
        specs = crdt_wan.EXPERIMENT.runs(scale, {}, seed=1)
        sides = [
            sorted(replace(spec, testbed="").to_json() for spec in specs if spec.testbed == testbed)
            for testbed in ("mininet", "virtual")
        ]
        assert sides[0] and set(sides[0]) < set(sides[1])
        (oracle,) = {replace(spec, seed=0, repetition=0).to_json() for spec in specs if spec.topology == "full-mesh"}
        assert b'"delay":"0ms"' in oracle and len(sides[1]) - len(sides[0]) == len({spec.repetition for spec in specs})
        found = redis_wan.points(scale, {})
        assert [spec.testbed for spec in found if spec.system == "redis-gcra"] == ["mininet"]
        assert {spec.testbed for spec in found if spec.system == "centralised"} == {"mininet", "virtual"}
        loads = {(spec.workload, str(spec.workload_options), str(spec.study_options)) for spec in [*specs, *found]}
        assert len(loads) == 1, "all are offered the same"


# --- claims --------------------------------------------------------------------------------------


def crdt_tables() -> Frames:
    """Equal replicas, totals within 1 %, 2 % of the decisions flipped."""
    names = wan.NAMES
    runs = [{"name": name, "testbed": testbed, "replica_count": 5.0, "replica_entry_count": 900.0,
             "replica_gap_count": 0.0} for name in names for testbed in ("virtual", "mininet")]  # fmt: skip
    flips = [{"name": name, "flipped_share": 0.02, "admitted_ratio": 1.01} for name in names]
    return {"crdt-wan/runs": rows_of(runs, ()), "crdt-wan/flips": rows_of(flips, ("flipped_share", "admitted_ratio"))}


def redis_tables() -> Frames:
    """Redis is as fast as its model, and decides as it does but for one in a hundred."""
    runs = [{"name": name, "testbed": testbed, "p50_ms": 200.0}
            for name, testbed in redis_wan.SERIES]  # fmt: skip
    flips = [{"pair": pair, "flipped_share": 0.01} for pair, *_ in redis_wan.PAIRS]
    return {"redis-wan/runs": rows_of(runs, ("p50_ms",)), "redis-wan/flips": rows_of(flips, ("flipped_share",))}


def on(table, change, /, *arguments, **where):
    """A perturbation of one table."""
    return lambda found: {**found, table: change(found[table], *arguments, **where)}


def put(frame, column, value, **where):
    """``value`` in the rows with these values."""
    found = frame.copy()
    found.loc[chosen(frame, where), column] = value
    return found


CASES = [
    Case("W1", crdt_tables, {
        "an element is missing in one run": on("crdt-wan/runs", put, "replica_gap_count", 1.0, name="queue",
                                               testbed="mininet", repetition=2),
        "replicas are equal because they are empty": on("crdt-wan/runs", put, "replica_entry_count", 0.0,
                                                        name="counter", testbed="mininet"),
    }),
    Case("W2", crdt_tables, {
        "one admits 7 % more": on("crdt-wan/flips", put, "admitted_ratio", 1.07, name="queue+F+L"),
        "one admits 7 % less": on("crdt-wan/flips", put, "admitted_ratio", 0.93, name="counter"),
    }),
    Case("W3", crdt_tables, {"one flips 8 %": on("crdt-wan/flips", scaled, "flipped_share", 4.0, name="queue")}),
    Case("W4", redis_tables, {"a tenth differs": on("redis-wan/flips", scaled, "flipped_share", 10.0)}),
    Case("W5", redis_tables, {
        "Redis is slow": on("redis-wan/runs", scaled, "p50_ms", 1.5, name="redis-gcra"),
        "Redis is too fast": on("redis-wan/runs", scaled, "p50_ms", 0.5, name="redis-gcra"),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_tables_as_hoped_for_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_perturbed_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_a_limiter_that_was_not_run_leaves_its_claims_undecided() -> None:
    left = {name: frame[frame.name != "queue"] for name, frame in crdt_tables().items()}
    assert {judge(claim, left).judgement for claim in crdt_wan.CLAIMS} == {Judgement.UNDECIDED}


def test_every_claim_has_a_case_and_waits_for_its_figure():
    claims = [*crdt_wan.CLAIMS, *redis_wan.CLAIMS]
    assert {claim.id for claim in claims} == {case.claim for case in CASES}
    assert {judge(claim, {"srtm-fig4/runs": None}).judgement for claim in claims} == {Judgement.NOT_RUN}


# --- tables and drawings -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
@needs("root", "mininet", "redis-gcra")
def test_one_point_of_each_figure_for_real(tmp_path: Path):
    """Counter and Redis on three hosts for three seconds, beside virtual time: tables, drawings."""
    specs = [*crdt_wan.points(SCALES["tiny"], {}), *redis_wan.points(SCALES["tiny"], {})]
    shorter = [
        replace(spec, study_options={"duration": "4s", "compare_replicas": True})
        for spec in repeated(specs, 1, seed=1)
        if spec.testbed == "virtual" or spec.system in ("crdt-counter", "redis-gcra")
    ]
    folders = {}
    for spec in shorter:
        folder = tmp_path / run_id(spec, "")
        if not folder.exists():
            execute(spec, run_id(spec, ""), folder)
        folders[run_id(spec, "")] = folder
    data = load(session("local[2]"), list(folders.values()))
    found = crdt_wan.tables(data)
    runs = found["runs"].set_index(["name", "testbed"])
    live, model = runs.loc[("counter", "mininet")], runs.loc[("counter", "virtual")]
    assert live.lost_count == 0 and live.offered_count == model.offered_count > 20
    assert live.replica_count == 3 and live.replica_entry_count > 0 and live.replica_gap_count == 0
    assert 0.3 < live.bytes_per_request / model.bytes_per_request < 3, "the nodes' messages, not the interface's bytes"
    (pair,) = found["flips"].to_dict("records")
    assert pair["name"] == "counter" and pair["decided_count"] == live.offered_count
    assert pair["flipped_low"] <= pair["flipped_share"] <= pair["flipped_high"]
    assert len(crdt_wan.draw(found).axes) == 6
    found = redis_wan.tables(data)
    redis = found["runs"].set_index("name").loc["redis-gcra"]
    assert redis.lost_count == 0 and redis.bytes_per_request > 0
    cities = found["cities"].set_index(["name", "city"])
    assert (cities.loc["redis-gcra"].beyond_ms > 0).all(), "faster than light"
    assert set(found["flips"].pair) == {"Redis, virtual model"}, "the emulated model was not run"
    assert len(redis_wan.draw(found).axes) == 4


def test_gaps_have_the_intervals_of_their_repetitions(tmp_path: Path, spark):
    """In virtual time, three repetitions of the counter beside the oracle."""
    tiny = [spec for spec in crdt_wan.points(SCALES["tiny"], {}) if spec.testbed == "virtual"]
    specs = [spec for spec in repeated(tiny, 3, seed=1) if spec.system in ("centralised", "crdt-counter")]
    for number, spec in enumerate(specs):
        execute(spec, f"run{number}", tmp_path / f"run{number}")
    found = crdt_wan.gaps_of(load(spark, sorted(tmp_path.iterdir())))
    assert set(zip(found.name, found.testbed, found["count"], strict=True)) == {("counter", "virtual", 3)}
    differ = found[found.high > found.low]
    assert len(differ) and (differ.low < differ["mean"]).all() and (differ["mean"] < differ.high).all()


def wan_tables() -> Frames:
    """Three limiters on both testbeds, gaps of a minute with intervals of a request either way."""
    points = [{"name": name, "testbed": testbed} for name in wan.NAMES for testbed in ("virtual", "mininet")]
    shares = {"false_admit_share": 0.01, "false_reject_share": 0.01, "error_share": 0.02, "bytes_per_request": 90.0}
    rest = {"convergence_s": 1.0, "replica_count": 5.0, "replica_gap_count": 0.0}
    gaps = [{**point, "t_s": float(t_s), "mean": float(n), "low": n - 1.0, "high": n + 1.0, "count": 3}
            for n, point in enumerate(points) for t_s in range(60)]  # fmt: skip
    flips = pd.DataFrame(columns=["name", "flipped_share", "flipped_low", "flipped_high"])
    latency = pd.DataFrame(columns=["name", "testbed", "value_ms", "share"])
    runs = rows_of([{**point, **shares, **rest} for point in points], ("convergence_s",))
    return {"runs": runs, "gaps": pd.DataFrame(gaps), "flips": flips, "latency": latency}


def test_each_curve_of_gaps_has_error_bars():
    panel = crdt_wan.draw(wan_tables()).axes[0]
    bars = [segment for bars in panel.collections for segment in bars.get_segments()]
    middles = [float((low + high) / 2) for (_, low), (_, high) in bars]
    assert sorted(set(middles)) == list(range(6)), "a limiter and a testbed each"
    assert {float(high - low) for (_, low), (_, high) in bars} == {2.0}
    assert len({float(at) for (at, _), _ in bars}) == len(bars) > 30, "none at another's instant"


def test_the_interval_of_flips_is_over_repetitions_and_of_one_run_wilson_s():
    assert LIVE_REPETITIONS["small"] >= wan.FEWEST
    both = pd.DataFrame({"flipped_share": [0.02, 0.04], "flipped_low": 0.01, "flipped_high": 0.05})
    share = wan.flipped(both)
    assert (share.mean, share.low) == (pytest.approx(0.03), 0.0) and share.high > 0.1, "two runs say little"
    assert wan.flipped(both[:1]) == Interval(0.02, 0.01, 0.05, 1)
