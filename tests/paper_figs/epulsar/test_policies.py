"""The studies of placement policies: claims on tables as published and spoiled, grids, tables, drawings."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.tables import load
from analysis.verdicts import Judgement, judge
from core.errors import SpecError
from harness.experiment import SCALES, Reading
from harness.experiment import repeated as repeated_runs
from harness.run import check_all, execute
from paper_figs import load_figure
from paper_figs.epulsar import fig4, fig5
from paper_figs.epulsar.readings import CITY_DELAYS, GATEWAY, HALF, PING, PLACE, PRINTED, SUMS
from studies.inputs import inputs_of
from studies.policies.study import POLICIES
from testbed.topologies.topology import load_topology
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    parametrised,
    repeated,
    scaled,
    swapped,
)

FIG4, FIG5 = "epulsar-fig4/runs", "epulsar-fig5/runs"
HOWS = ("estimated", "printed", "true")
KEYS = ("epulsar-fig4", "epulsar-fig5")


def fig4_tables() -> Frames:
    """As the paper says: Pulsar is worst, the others nearly alike; violations grow with the cities from none on."""
    worst = {"pulsar": 95.0, "all-pairs": 60.0, "epulsar": 63.0, "optimal": 59.0}
    violations = {"pulsar": 0.4, "all-pairs": 0.1, "epulsar": 0.11, "optimal": 0.1}
    points = [
        {
            "cities": cities, "policy": policy,
            **{f"{how}_{what}_ms": worst[policy] * (1 + cities / 100)
               for how, what in product(("estimated", "true"), ("worst", "worst_max"))},
            **{f"{how}_violation_ratio": 0.0 if cities == 2 else violations[policy] for how in HOWS},
        }
        for cities, policy in product((2, 8, 20), POLICIES)
    ]  # fmt: skip
    return {FIG4: repeated(points, tuple(name for name in points[0] if name.endswith(("_ms", "_ratio"))))}


def fig5_tables() -> Frames:
    """ePulsar well below 40 ms, and nobody above, as far as 20 ms of access delay; at 24 everybody."""
    grid = [*((zones, 8.0) for zones in (2, 8, 32)), (16, 0.0), (16, 8.0), (16, 24.0)]
    points = [
        {
            "zones": zones, "access_ms": access_ms, "policy": policy, "feasible_ratio": 0.0,
            **{f"{how}_{what}_ms": 50.0 if policy == "pulsar" else 20.0
               for how, what in product(("estimated", "true"), ("worst", "worst_max"))},
            **{f"{how}_violation_ratio": 1.0 if access_ms > 20 else 0.8 if policy == "pulsar" else 0.0 for how in HOWS},
        }
        for (zones, access_ms), policy in product(grid, POLICIES)
    ]  # fmt: skip
    return {FIG5: repeated(points, ("estimated_worst_max_ms",))}


def on(name: str, change: Any, *arguments: Any, **where: Any) -> Any:
    """A perturbation of the one table called ``name``."""
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


def violating(found: Frames, policy: str = "epulsar") -> Frames:
    """One pair in a thousand is above the bound, at one number of zones."""
    frame = found[FIG5].copy()
    frame.loc[(frame.zones == 32) & (frame.policy == policy), "estimated_violation_ratio"] = 0.001
    return {**found, FIG5: frame}


CASES = [
    Case("E4", fig4_tables, {
        "pulsar and epulsar swapped": on(FIG4, swapped, "policy", "pulsar", "epulsar"),
        "pulsar as good as all-pairs at 8 cities": on(
            FIG4, scaled, "estimated_worst_max_ms", 60 / 95, policy="pulsar", cities=8
        ),
        "in truth pulsar is best at 20 cities": on(FIG4, scaled, "true_worst_max_ms", 0.5, policy="pulsar", cities=20),
        "epulsar far from all-pairs": on(FIG4, scaled, "estimated_worst_max_ms", 1.2, policy="epulsar", cities=20),
    }),
    Case("E5", fig4_tables, {
        "pulsar and all-pairs swapped": on(FIG4, swapped, "policy", "pulsar", "all-pairs"),
        "pulsar violates as little at 8 cities": on(
            FIG4, scaled, "true_violation_ratio", 0.25, policy="pulsar", cities=8
        ),
        "epulsar far from all-pairs": on(FIG4, scaled, "true_violation_ratio", 1.7, policy="epulsar", cities=20),
        "everybody places as pulsar does": on(FIG4, scaled, "true_violation_ratio", 0.275, policy="pulsar"),
    }),
    Case("E6", fig5_tables, {
        "epulsar violates at one number of zones": violating,
        "pulsar and epulsar swapped": on(FIG5, swapped, "policy", "pulsar", "epulsar"),
        "pulsar violates nothing either": on(FIG5, scaled, "true_violation_ratio", 0.0, policy="pulsar", zones=8),
        "epulsar's worst is above the bound at 32 zones": on(
            FIG5, scaled, "estimated_worst_max_ms", 2.1, policy="epulsar", zones=32
        ),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_where_nobody_violates_there_is_no_verdict_on_violations() -> None:
    tables = fig4_tables()
    tables[FIG4]["true_violation_ratio"] = 0.0  # whatever the estimates say
    assert judge(claim_called("E5"), tables).judgement is Judgement.UNDECIDED


# --- grids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_every_point_is_a_run_that_can_be_made(key: str) -> None:
    for scale in SCALES.values():
        specs = load_figure(key).experiment.points(scale, {"latency-table": None})
        assert len({spec.to_json() for spec in specs}) == len(specs) > 0
    check_all(specs)


def test_cities_are_a_ping_apart_or_half_of_it() -> None:
    points = load_figure("epulsar-fig4").experiment.points
    whole, halved = (points(SCALES["quick"], {CITY_DELAYS.name: reading}) for reading in (PING, HALF))
    assert whole == points(SCALES["quick"], {})
    for one, half in zip(whole, halved, strict=True):
        ways = [load_topology(spec.topology, spec.topology_options).path("broker1", "broker2") for spec in (one, half)]
        assert ways[0].one_way_delay_ns == 2 * ways[1].one_way_delay_ns > 0


def test_a_latency_table_gives_cities_and_delays(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    lines = [f"{a},{b},{10 * (i + j)}" for i, a in enumerate(PLACES) for j, b in enumerate(PLACES) if a < b]
    table.write_text("\n".join(lines))
    specs = fig4.points(SCALES["quick"], {"latency-table": str(table)})
    assert [spec.topology_options["cities"] for spec in specs] == [
        ["Chicago", "Boston"],
        ["Chicago", "Boston", "Denver"],
    ]
    assert all(inputs_of(spec) == [str(table)] for spec in specs)
    check_all(specs)
    table.write_text("Oslo,Lima,200\nLima,Rome,150\nRome,Oslo,30")  # none of the shipped ones: all of its own
    specs = fig4.points(SCALES["quick"], {"latency-table": str(table)})
    assert specs[-1].topology_options["cities"] == ["Oslo", "Lima", "Rome"]
    check_all(specs)


def test_a_matrix_without_names_gives_sites(tmp_path: Path) -> None:
    table = tmp_path / "rtt.txt"
    table.write_text("\n".join(" ".join(str(10 * abs(i - j)) for j in range(3)) for i in range(3)))
    specs = fig4.points(SCALES["quick"], {"latency-table": str(table)})
    assert [(spec.topology, spec.topology_options["sites"]) for spec in specs] == [
        ("matrix-sites", 2),
        ("matrix-sites", 3),
    ]
    assert all(spec.study_options["access"] == "5ms" for spec in specs)
    check_all(specs)
    points = pd.DataFrame({"cities": [None, 8, ["Rome", "Oslo"]], "sites": [3, None, None]})
    assert list(fig4.counted(points)) == [3, 8, 2]


PLACES = ("Oslo", "Boston", "Denver", "Chicago")


def test_a_table_of_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        fig4.points(SCALES["quick"], {"latency-table": str(tmp_path / "none.csv")})


# --- drawings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name", "wanted"), [(fig4, FIG4, [7, 7, 3, 3]), (fig5, FIG5, [7, 7, 3] * 2)], ids=KEYS
)
def test_drawings_have_a_curve_a_policy(module: Any, name: str, wanted: list[int]) -> None:
    """Estimates of three, the truth of four; of feasible brokers and of what is printed three."""
    tables = fig4_tables() if name == FIG4 else fig5_tables()
    drawing = module.draw({"runs": tables[name]})
    lines = [
        sum(len(line.get_xdata()) > 2 and line.get_linestyle() != "None" for line in panel.get_lines())
        for panel in drawing.axes
    ]
    assert lines == wanted
    empty = pd.DataFrame({column: tables[name][column][:0] for column in tables[name]})
    module.draw({"runs": empty})


def test_a_sweep_ends_where_something_fails() -> None:
    found = fig5.limits(fig5_tables()[FIG5]).set_index(["policy", "sweep"]).value
    assert found["epulsar", "access_ms"] == 24.0 and np.isnan(found["epulsar", "zones"])
    assert found["pulsar", "zones"] == 2.0 and found["pulsar", "access_ms"] == 0.0


@pytest.mark.parametrize(("reading", "value"), [(PLACE, GATEWAY), (SUMS, PRINTED)])
def test_a_reading_of_the_zones_leaves_those_of_record_alone(reading: Reading, value: str) -> None:
    usual = fig5.points(SCALES["quick"], {})
    assert fig5.points(SCALES["quick"], {reading.name: reading.default}) == usual
    read = fig5.points(SCALES["quick"], {reading.name: value})
    assert len(read) == len(usual) and not any(spec in usual for spec in read)
    check_all(read)


# --- tables -----------------------------------------------------------------------------------------------


def test_sparks_tables_are_those_of_pandas(spark: Any, tmp_path: Path) -> None:
    specs = repeated_runs(fig5.points(SCALES["tiny"], {})[:2], 2, 1)
    for number, spec in enumerate(specs):
        execute(spec, f"run{number}", tmp_path / f"run{number}")
    found = fig5.tables(load(spark, sorted(tmp_path.iterdir())))
    assert len(found["runs"]) == len(specs) * len(POLICIES) and len(found["estimates"]) == len(specs)
    for number, spec in enumerate(specs):
        policies = pd.read_parquet(tmp_path / f"run{number}" / "policies.parquet")
        pairs = pd.read_parquet(tmp_path / f"run{number}" / "coordinates.parquet")
        ratio = (pairs.estimated_rtt_ns - pairs.true_rtt_ns).abs() / pairs.true_rtt_ns
        both_ways = [*ratio, *ratio]
        where = {"zones": spec.topology_options["sites"], "repetition": spec.repetition}
        estimates = found["estimates"]
        one = estimates[(estimates[list(where)] == pd.Series(where)).all(axis=1)].iloc[0]
        assert one.median_error_ratio == pytest.approx(np.median(both_ways))
        assert one.p90_error_ratio == pytest.approx(np.quantile(both_ways, 0.9))
        mine = found["runs"]
        mine = mine[(mine.zones == where["zones"]) & (mine.repetition == spec.repetition)]
        for row in mine.itertuples():
            wide = policies[policies.policy == row.policy]
            wanted = {
                "estimated_worst_ms": wide.estimated_worst_ns.mean() / 1e6,
                "estimated_worst_max_ms": wide.estimated_worst_ns.max() / 1e6,
                "true_worst_ms": wide.true_worst_ns.mean() / 1e6,
                "true_worst_max_ms": wide.true_worst_ns.max() / 1e6,
                "violating_ratio": (wide.estimated_violation_ratio > 0).mean(),
            } | {name: wide[name].mean() for name in wide if name.endswith("_ratio")}
            assert {name: getattr(row, name) for name in wanted} == pytest.approx(wanted)
