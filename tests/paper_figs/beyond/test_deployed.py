"""Deployed limiters over a WAN: grids, claims, tables by hand, drawings of what there is."""

import math
from collections.abc import Iterator
from dataclasses import replace as changed

import pandas as pd
import pytest
from msgspec.structs import replace

from analysis.verdicts import Judgement, judge
from harness.estimate import campaign_seconds
from harness.experiment import SCALES
from harness.run import asked_of, execute, resolve
from paper_figs import load_figure
from paper_figs.beyond import contenders, deployed, deployed_seconds, grants
from paper_figs.beyond.contenders import CONTENDERS, FAST, SLOW, TWIN_OF
from paper_figs.beyond.wan import VIRTUAL
from paper_figs.series import value_of
from systems.limiting.deployed import Driver
from systems.loader import declared, load_system
from tests.paper_figs.beyond.deployed_tables import deployed_tables, seconds_table
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, chosen, parametrised, scaled

KEYS = ("deployed", "deployed-minute", "deployed-seconds")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


# --- grids ---------------------------------------------------------------------------------------


def test_all_are_offered_the_same_and_have_the_same_limit():
    for scale in SCALES.values():
        for regime, key in ((FAST, "deployed"), (SLOW, "deployed-minute")):
            specs = load_figure(key).experiment.points(scale, {})
            assert len({str(sorted(spec.workload_options.items())) for spec in specs}) == 1
            assert {(spec.system_options["capacity"], spec.system_options["rate"]) for spec in specs} == {
                (regime.count, regime.limit["rate"])
            }
            assert [spec.topology_options.get("delay") for spec in specs if spec.testbed == VIRTUAL] == ["0ms"]


def test_every_point_is_one_that_the_study_takes():
    for key in KEYS:
        for spec in load_figure(key).experiment.points(SCALES["quick"], {}):
            asked_of(resolve(spec))


def test_seconds_are_of_the_runs_of_deployed():
    one, other = (load_figure(key).experiment.runs(SCALES["quick"], {}, 7) for key in ("deployed", "deployed-seconds"))
    assert one == other


def test_the_fast_regime_takes_less_than_twenty_five_minutes_at_quick_scale():
    specs = load_figure("deployed").experiment.runs(SCALES["quick"], {}, 1)
    assert campaign_seconds(specs, 2) < 25 * 60


def test_contracts_are_those_of_the_drivers_and_twins_promise_what_servers_do():
    for who in CONTENDERS.values():
        system = load_system(who.system)
        driver = declared(system, ":DRIVER") if ":DRIVER" in system.servers else None
        if driver is not None:
            assert isinstance(driver, Driver) and driver.contract == who.contract, who.system
    for server, twin in TWIN_OF.items():
        assert CONTENDERS[server].contract == CONTENDERS[twin].contract
        assert CONTENDERS[server].is_windowed == CONTENDERS[twin].is_windowed
        assert CONTENDERS[server].look.colour == CONTENDERS[twin].look.colour


def test_a_run_is_told_by_its_options():
    for name, who in CONTENDERS.items():
        spec = contenders.point(name, FAST, SCALES["quick"])
        told = {key: value_of(text) for key, text in spec.factors().items()}
        assert contenders.name_of(spec.system, told) == name, who
    assert len({who.look.label for who in CONTENDERS.values()}) == len(CONTENDERS)


def test_keys_of_fewer_factors_and_shapes_are_offered_the_same():
    fewer = changed(FAST, factors=(2, 5), shapes=("even",))
    few, all_ = (
        resolve(contenders.point("static-split", regime, SCALES["quick"], testbed=VIRTUAL)).schedule.requests(
            [f"n{i}" for i in range(1, 6)], 20 * 10**9
        )
        for regime in (fewer, FAST)
    )
    for node, offered in few.items():
        wanted = [(each.at_ns, each.user) for each in all_[node] if each.user in ("even-2x-1", "even-5x-1")]
        assert [(each.at_ns, each.user) for each in offered] == wanted and wanted
    assert {group[0] for group in contenders.groups_of(fewer)} == {"even-2x-1", "even-5x-1"}


# --- claims --------------------------------------------------------------------------------------


def on(table, change, /, *arguments, **where):
    """A perturbation of one table."""
    return lambda found: {**found, table: change(found[table], *arguments, **where)}


def put(frame, column, value, **where):
    """``value`` in the rows with these values."""
    found = frame.copy()
    found.loc[chosen(frame, where), column] = value
    return found


GROUPS, RUNS, CITIES, SLOW_GROUPS = "deployed/groups", "deployed/runs", "deployed/cities", "deployed-minute/groups"
EVEN5 = {"shape": "even", "factor": 5.0}
CASES = [
    Case("D1", deployed_tables, {
        "peers that add": on(GROUPS, put, "decided_excess_share", 0.4, name="haproxy", **EVEN5),
        "the other counter holds": on(GROUPS, put, "decided_excess_share", 0.4, name="haproxy, all", **EVEN5),
        "nothing is limited": on(GROUPS, put, "granted_ratio", 5.0, name="haproxy", **EVEN5),
    }),
    Case("D2", deployed_tables, {
        "a cache that lets two windows through": on(GROUPS, put, "decided_excess_share", 1.8, name="ratelimit, cache",
                                                    shape="moving", factor=2.0),
        "a store that admits little": on(GROUPS, put, "granted_ratio", 0.1, name="redis-gcra", factor=5.0),
        "nginx without its split": on(GROUPS, put, "decided_excess_share", 15.0, name="nginx", factor=5.0),
    }),
    Case("D3", deployed_tables, {
        "a split that follows its load": on(GROUPS, put, "granted_ratio", 0.97, name="static-split", shape="skewed"),
    }),
    Case("D4", deployed_tables, {
        "a third city is slow": on(CITIES, scaled, "p50_ms", 1.2, city="Singapore"),
        "one answers from a cache": on(CITIES, put, "p50_ms", 2.0, city="Sydney"),
    }),
    Case("D5", deployed_tables, {
        "its total is wrong, too": on(GROUPS, scaled, "granted_ratio", 2.0, name="haproxy", **EVEN5),
        "no second is wrong": on(GROUPS, put, "decided_window_share", 1.1, name="haproxy", **EVEN5),
    }),
    Case("D6", deployed_tables, {
        "rejected ones are not counted": on(GROUPS, put, "granted_ratio", 0.95, name="haproxy, all", factor=2.0),
        "nobody is admitted": on(GROUPS, put, "granted_ratio", 0.0, name="haproxy, all", factor=2.0),
    }),
    Case("D7", deployed_tables, {"peers are as cheap": on(RUNS, put, "wire_bytes_per_request", 250.0, name="haproxy")}),
    Case("D8", deployed_tables, {
        "the store is near": on(RUNS, put, "p50_ns", 2e6, name="redis-gcra"),
        "peers wait for each other": on(RUNS, put, "p50_ns", 9e7, name="haproxy"),
    }),
    Case("D9", deployed_tables, {
        "they let through in the slow regime, too": on(SLOW_GROUPS, scaled, "granted_ratio", 2.0, name="haproxy",
                                                       factor=10.0),
        "nobody is admitted": on(SLOW_GROUPS, put, "granted_ratio", 0.0, name="haproxy", factor=10.0),
        "and exceed": on(SLOW_GROUPS, scaled, "decided_excess_share", 20.0, name="haproxy", factor=10.0),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_tables_as_hoped_for_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_perturbed_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_has_a_case_and_waits_for_its_figure():
    assert {claim.id for claim in deployed.CLAIMS} == {case.claim for case in CASES}
    assert {judge(claim, {"srtm-fig4/runs": None}).judgement for claim in deployed.CLAIMS} == {Judgement.NOT_RUN}


def test_who_was_not_run_leaves_its_claims_undecided():
    tables = deployed_tables()
    left = {name: frame[frame.name != "haproxy"] for name, frame in tables.items()}
    verdicts = {claim.id: judge(claim, left).judgement for claim in deployed.CLAIMS}
    undecided = {name for name, verdict in verdicts.items() if verdict is Judgement.UNDECIDED}
    assert undecided == {"D1", "D5", "D7", "D8", "D9"}


def test_a_page_shows_configurations_of_who_is_in_it_and_speaks_of_nobody_else():
    left_out = {f"{CONTENDERS[name].look.label}: configuration" for name in ("bucket4j", "ratelimit, cache")}
    assert left_out <= deployed.FIGURE.texts().keys() and not left_out & deployed.MINUTE.texts().keys()
    assert {"bucket4j", "ratelimit, cache"} <= {*SLOW.left_out}
    assert "ratelimit with its cache" in deployed.FIGURE.notes
    assert "ratelimit with its cache" not in deployed.MINUTE.notes


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.long
def test_tables_of_runs_in_virtual_time(spark, tmp_path):
    """Twins and ours on the five cities: each run under its name, each group once, the oracle right by definition."""
    from analysis.tables import load

    regime = changed(FAST, duration="5s")
    names = ("static-split", "overwrite", "overwrite, all", "fixed-window, cache")
    specs = [contenders.oracle(regime, SCALES["quick"])]
    specs += [contenders.point(name, regime, SCALES["quick"], testbed=VIRTUAL) for name in names]
    for number, spec in enumerate(specs):
        execute(replace(spec, seed=3), f"run{number}", tmp_path / f"run{number}")
    data = load(spark, sorted(tmp_path.iterdir()))
    found = grants.tables(regime, data)
    assert sorted(found["runs"].name) == sorted(names)
    groups = found["groups"].set_index(["name", "shape", "factor"])
    assert groups.index.is_unique and len(groups) == len(names) * 3 * 4
    assert (groups.offered_count > 0).all() and (groups.granted_ratio > 0).all()
    assert groups.loc[("overwrite", "even", 5.0)].decided_excess_share > 2
    assert groups.loc[("static-split", "skewed", 2.0)].granted_ratio < 0.8
    assert groups.loc[("fixed-window, cache", "even", 5.0)].contract == "fixed-window"
    seconds = grants.seconds_of(data, regime)
    assert (seconds["count"] == 1).all() and (seconds.low == -math.inf).all()
    at_5 = seconds[(seconds.name == "overwrite") & (seconds["shape"] == "even") & (seconds.factor == 5)]
    assert list(at_5.t_s) == sorted(at_5.t_s) and at_5.offered_rps[:-1].mean() == pytest.approx(100, rel=0.2)
    cities = found["cities"].set_index(["name", "city"])
    assert (
        cities.loc[("fixed-window, cache", "London")].p50_ms <= cities.loc[("fixed-window, cache", "London")].rtt_ms + 1
    )


# --- drawings ------------------------------------------------------------------------------------


def of_figure(tables: Frames, key: str) -> Frames:
    return {name.partition("/")[2]: frame for name, frame in tables.items() if name.startswith(f"{key}/")}


@pytest.mark.slow
def test_drawings_show_who_there_is(tmp_path):
    tables = deployed_tables()
    few = {
        name: frame[frame.name.isin(("nginx", "static-split"))]
        for name, frame in tables.items()
        if "cities" not in name
    }
    for key, found in (("deployed", tables), ("deployed-minute", tables), ("deployed", few)):
        drawing = load_figure(key).draw(of_figure(found, key))
        panels = drawing.axes
        assert len(panels) == 8
        shown = [text.get_text() for text in panels[0].get_yticklabels()]
        wanted = [CONTENDERS[name].look.label for name in grants.NAMES if name in set(found["deployed/runs"].name)]
        assert shown == wanted
        drawing.savefig(tmp_path / "drawn.png")


@pytest.mark.slow
def test_seconds_have_a_panel_a_limiter(tmp_path):
    seconds = seconds_table()
    drawing = deployed_seconds.draw({"seconds": seconds})
    titles = [axes.get_title(loc="left") for axes in drawing.axes if axes.axison]
    assert titles == [CONTENDERS[name].look.label for name in grants.NAMES]
    (band, _) = drawing.axes[0].collections
    assert band.get_paths()[0].get_extents().y0 >= 0, "nothing is admitted less than never"
    deployed_seconds.draw({"seconds": seconds[seconds.name == "nginx"]}).savefig(tmp_path / "drawn.png")
    empty: pd.DataFrame = seconds[:0]
    deployed_seconds.draw({"seconds": empty}).savefig(tmp_path / "empty.png")
