"""srtm-sweep: the grid and its samples, claims that flip, what is coloured, tables of real runs, the drawing."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables import load
from analysis.verdicts import Judgement, judge, t_interval
from harness.code_version import id_of
from harness.experiment import RUNS_MAXIMUM, SCALES
from harness.run import execute
from paper_figs.srtm import sweep, sweep_map
from paper_figs.srtm.consistency.runs import carried_out, row_of
from paper_figs.srtm.sweep import OTHERS, SYSTEMS
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, scaled, swapped

KEY = "srtm-sweep/runs"
QUICK = sweep.points(SCALES["quick"], {})
ROOT = 3


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


# --- the grid --------------------------------------------------------------------------------------


def runs_of(scale: str) -> set[bytes]:
    return {spec.to_json() for spec in sweep.EXPERIMENT.runs(SCALES[scale], {}, ROOT)}


def test_the_grid_is_a_hundred_thousand_runs_and_its_samples_are_in_it() -> None:
    tiny, quick, paper = (runs_of(scale) for scale in ("tiny", "quick", "paper"))
    assert (len(tiny), len(quick), len(paper)) == (48, 480, RUNS_MAXIMUM)
    assert tiny < quick < paper
    assert sweep.EXPERIMENT.runs(SCALES["small"], {}, ROOT) == []


def test_each_point_is_there_once_for_every_system_and_seed() -> None:
    specs = sweep.EXPERIMENT.runs(SCALES["paper"], {}, ROOT)
    points = Counter(msgspec.structs.replace(spec, system="").to_json() for spec in specs)
    assert set(points.values()) == {len(SYSTEMS)} and len(points) == 25_000
    assert len({(spec.repetition, spec.seed) for spec in specs}) == sweep.SEEDS


def test_the_grid_stays_what_has_been_run() -> None:
    """It takes hours to run: whoever changes it on purpose changes this, too."""
    grid = b"\n".join(spec.to_json() for spec in sweep.points(SCALES["paper"], {}))
    assert hashlib.sha256(grid).hexdigest()[:16] == "1ef80c4798f95e3c"


def test_what_brokers_carry_is_found_again() -> None:
    for name, loads in OTHERS.items():
        for brokers in sweep.BROKERS:
            carried = loads(brokers)
            assert len(carried) in (0, brokers) and sweep.called(carried or None, brokers) == name
    assert tuple(OTHERS["stairs"](6)) == sweep.STAIRS


# --- claims ----------------------------------------------------------------------------------------


def as_claimed() -> Frames:
    """The quick sample as if all claims held; seeds scatter by a hundredth, the same for all systems."""
    rows = []
    for spec in QUICK:
        workload, brokers = spec.workload_options, int(spec.topology_options["brokers"])
        grouped = workload["group_size"] > 1 and "spread" not in workload
        others = sweep.called(spec.study_options.get("initial_loads_rps"), brokers)
        p99 = {"lb": 4.0 * brokers, "conc": 4.0 if grouped else 0.5, "max-min": 4.0 if grouped else 0.5, "srtm": 0.5}
        if grouped and others == "stairs":
            p99["max-min"] = 2.0
        count = {"lb": brokers, "srtm": 4.0 if grouped else 1.0}.get(spec.system, 1.0)
        column = (spec.workload, workload["batch"], workload["group_size"], 8.0 if "spread" in workload else 0.0)
        point = dict(zip(sweep_map.COLUMNS, column, strict=True))
        rows += [
            {**point, "others": others, "brokers": brokers, "system": spec.system, "repetition": n, "slo_ms": 1.0,
             "p99_ms": p99[spec.system] * (1 + 0.01 * n), "broker_count": count}
            for n in range(5)
        ]  # fmt: skip
    return {KEY: with_slo(pd.DataFrame(rows))}


def with_slo(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(meets=(runs.p99_ms <= 1.05).astype(float))


def changed(found: Frames, value: str, factor: float, **where: Any) -> Frames:
    return {KEY: with_slo(scaled(found[KEY], value, factor, **where))}


def exchanged(found: Frames, one: str, other: str) -> Frames:
    return {KEY: swapped(found[KEY], "system", one, other)}


def copied(found: Frames, system: str, onto: str) -> Frames:
    """Two identical systems under two names."""
    runs = found[KEY]
    twin = runs[runs.system == system].assign(system=onto)
    return {KEY: pd.concat([runs[runs.system != onto], twin], ignore_index=True)}


CASES = (
    Case("M1", as_claimed, {
        "exchanged": lambda found: exchanged(found, "lb", "conc"),
        "identical": lambda found: copied(found, "conc", "lb"),
        "less than double": lambda found: changed(found, "p99_ms", 0.03, system="lb"),
    }),
    Case("M2", as_claimed, {
        "exchanged": lambda found: exchanged(found, "max-min", "conc"),
        "identical": lambda found: copied(found, "conc", "max-min"),
        "even room, too": lambda found: changed(found, "p99_ms", 0.5, system="max-min", others="idle"),
    }),
    Case("M3", as_claimed, {
        "exchanged": lambda found: exchanged(found, "srtm", "max-min"),
        "identical": lambda found: copied(found, "max-min", "srtm"),
        "independent publishers, too": lambda found: changed(found, "p99_ms", 0.5, system="srtm", group_size=1),
    }),
    Case("M4", as_claimed, {
        "exchanged": lambda found: exchanged(found, "srtm", "max-min"),
        "identical": lambda found: copied(found, "max-min", "srtm"),
        "gains as much": lambda found: changed(found, "p99_ms", 0.125, system="srtm", spread_ms=8.0),
    }),
    Case("M5", as_claimed, {
        "exchanged": lambda found: exchanged(found, "srtm", "max-min"),
        "identical": lambda found: copied(found, "max-min", "srtm"),
    }),
    Case("M6", as_claimed, {
        "exchanged": lambda found: exchanged(found, "srtm", "conc"),
        "identical": lambda found: copied(found, "srtm", "max-min"),
        "too slow": lambda found: changed(found, "p99_ms", 9.0, system="srtm"),
    }),
    Case("M7", as_claimed, {
        "exchanged": lambda found: exchanged(found, "lb", "conc"),
        "identical": lambda found: copied(found, "conc", "lb"),
        "Conc, too": lambda found: changed(found, "p99_ms", 1.5, system="conc", brokers=8),
    }),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_what_is_claimed_is_reproduced(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_are_seen(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_claim_without_the_runs_it_is_about_is_undecided(system: str) -> None:
    runs = as_claimed()[KEY]
    verdicts = {claim.id: judge(claim, {KEY: runs[runs.system != system]}) for claim in sweep.CLAIMS}
    assert verdicts["M6"].judgement is Judgement.UNDECIDED
    for result in verdicts.values():
        assert result.judgement is Judgement.REPRODUCED or result.problem.startswith("no data: ")


def test_seeds_without_a_run_are_left_out() -> None:
    runs = as_claimed()[KEY]
    lost = (runs.system == "srtm") & (runs.repetition == 4) & (runs.group_size == 30)
    for claim in sweep.CLAIMS:
        result = judge(claim, {KEY: runs[~lost]})
        assert result.judgement in (Judgement.REPRODUCED, Judgement.UNDECIDED) and not result.problem


# --- what is coloured ------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=20))
def test_a_difference_is_chance_as_its_interval_says(samples: list[list[int]]) -> None:
    values = np.array(samples, float)
    p = sweep_map.chance(values.mean(axis=1), values.std(axis=1, ddof=1), np.full(len(values), 3.0))
    for found, row in zip(p, values, strict=True):
        interval = t_interval(list(row))
        assert 0 <= found <= 1
        assert (found < 0.05) == (interval.low > 0 or interval.high < 0)


def test_one_seed_alone_says_nothing() -> None:
    nothing = np.array([np.nan])
    assert sweep_map.chance(np.array([3.0]), nothing, np.array([1.0])) == [1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_false_discoveries_are_controlled(p: list[float]) -> None:
    """Benjamini and Hochberg, word for word: the k smallest, k the largest with p(k) <= k / m x 5 %."""
    ranked = sorted(p)
    most = max((k for k, value in enumerate(ranked, 1) if value <= k / len(p) * 0.05 * (1 - 1e-12)), default=0)
    least = max((k for k, value in enumerate(ranked, 1) if value <= k / len(p) * 0.05 * (1 + 1e-12)), default=0)
    assert most <= sweep_map.discoveries(np.array(p)).sum() <= least


def test_a_run_that_could_not_be_split_is_infinitely_slow_and_leaves_its_seed_in() -> None:
    runs = as_claimed()[KEY]
    cell = (runs.arrivals == "poisson") & (runs.group_size == 1) & (runs.others == "idle") & (runs.brokers == 4)
    first = cell & (runs.repetition == 0)
    one = runs.assign(p99_ms=runs.p99_ms.mask(first & (runs.system == "lb"), np.inf))
    ratios = sweep_map.doublings_of(one, "conc", "lb")
    assert np.isneginf(ratios).to_numpy().sum() == 1 and not ratios.isna().to_numpy().any()
    assert sweep.means(sweep_map.doublings_of(one, "lb", "conc"))[0] == np.inf
    cells = sweep_map.differences(one)
    struck = cells[np.isinf(cells["mean"])]
    assert len(struck) == 1 and not struck.is_sure.any() and not struck.is_same.any()
    both = runs.assign(p99_ms=runs.p99_ms.mask(first, np.inf))
    assert (sweep_map.doublings_of(both, "conc", "lb")[0] == 0).sum() == 1
    drawn(one)


def test_noise_is_grey_and_what_is_sure_is_coloured() -> None:
    rng = np.random.default_rng(5)
    runs = as_claimed()[KEY]
    noise = np.where(runs.system == "max-min", 2 ** rng.normal(0, 1, len(runs)), 1.0)
    cells = sweep_map.differences(runs.assign(p99_ms=runs.p99_ms * noise))
    conc, mixed = (cells[cells.one == one] for one in ("conc", "max-min"))
    assert conc.is_sure.all() and (conc["mean"] < 0).all()
    assert mixed.is_sure.mean() < 0.2 and not mixed.is_same.any()
    plain = sweep_map.differences(runs)
    assert plain[plain.one == "max-min"].is_same.any()


# --- drawing ---------------------------------------------------------------------------------------


def drawn(runs: pd.DataFrame) -> Any:
    tables = {"runs": runs, "map": sweep_map.differences(runs), "simplest": sweep_map.simplest(runs, SYSTEMS)}
    drawing = sweep_map.draw(tables)
    drawing.canvas.draw()
    return drawing


def test_cells_have_their_numbers_and_colours() -> None:
    runs = as_claimed()[KEY]
    drawing = drawn(runs)
    first = drawing.axes[0]
    assert first.get_title(loc="left").startswith("(a) concentration")
    (image,) = first.images
    assert image.get_array().shape == (3, 8, 4)
    texts = [{text.get_text() for text in axes.texts} for axes in drawing.axes]
    assert texts[0] >= {"-5.0", "-2.0", "idle", "stairs"} and texts[2] >= {"Poisson, batch 10", "group size", "30"}
    simplest = sweep_map.simplest(runs, SYSTEMS).set_index(sweep_map.POINT).system
    assert set(simplest) == {"conc", "srtm"} and simplest["poisson", 10, 30, 0.0, "idle", 4] == "srtm"


@pytest.mark.parametrize("missing", SYSTEMS)
def test_systems_may_be_missing(missing: str) -> None:
    runs = as_claimed()[KEY]
    drawing = drawn(runs[runs.system != missing])
    texts = [text.get_text() for axes in drawing.axes for text in axes.texts]
    assert texts.count("not run") == {"lb": 1, "srtm": 1}.get(missing, 2)


def test_the_whole_grid_has_room_on_a_page() -> None:
    names = [*sweep_map.COLUMNS, *sweep_map.ROWS]
    points = [
        (*load, size, float(spread.removesuffix("ms")), others, brokers)
        for load in sweep.LOADS for size, spread in sweep.GROUPS for others in OTHERS for brokers in sweep.BROKERS
    ]  # fmt: skip
    frame = pd.DataFrame(points, columns=names)
    every = [frame.assign(system=system, repetition=n, p99_ms=1.0 + n + k, broker_count=2, meets=float(k > 1))
             for k, system in enumerate(SYSTEMS) for n in range(2)]  # fmt: skip
    drawing = drawn(pd.concat(every, ignore_index=True))
    width, height = drawing.get_size_inches()
    assert width <= 7.5 and height <= 11
    assert drawing.axes[0].images[0].get_array().shape == (25, 40, 4)


# --- real runs -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tables_are_of_the_runs(spark: Any, tmp_path: Path) -> None:
    wanted = [("idle", 1, "0ms"), ("stairs", 15, "8ms")]
    points = [
        sweep.point(s, "poisson", 10, size, spread, others, 4) for others, size, spread in wanted for s in SYSTEMS
    ]
    specs = {id_of(spec): spec for spec in points}
    for run_id, spec in specs.items():
        execute(spec, run_id, tmp_path / run_id)
    tables = sweep.tables(load(spark, sorted(tmp_path.iterdir())))
    runs = tables["runs"].set_index("run_id")
    assert set(runs.index) == set(specs) and len(tables["simplest"]) == 2 and len(tables["map"]) == 6
    for run_id, spec in specs.items():
        twin, row = row_of(spec, carried_out(spec)), runs.loc[run_id]
        assert row.p99_ms == pytest.approx(twin["p99_ms"], rel=1e-9) and row.broker_count == twin["broker_count"]
        assert row.others == ("stairs" if "initial_loads_rps" in spec.study_options else "idle")
        assert row.spread_ms == twin["spread_ms"] and row.meets == (row.p99_ms <= 1.05)
