"""DST's figures with runs: claims on tables as published and spoiled, the grid, and what the drawings show."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.container import ErrorbarContainer

from analysis.tables import load
from analysis.verdicts import Judgement, judge
from harness.experiment import SCALES, Reading
from harness.experiment import repeated as repeated_runs
from harness.run import check_point, execute, resolve
from paper_figs import drawing, load_figure
from paper_figs.dst import fig5, fig7, iterated, loads
from paper_figs.dst.readings import BELOW_ZERO, CURVE
from systems.parts.throttling_graphs import graph_named, laplacian, placements
from systems.parts.water_filling import divide
from tests.paper_figs.tables import (
    REPETITIONS,
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

RUNS, LAGS, DRAWN = "dst-fig5/overthrottling", "dst-fig5/reaction", "dst-fig5/drawn"
CLIENTS, SERVERS = "dst-fig7/clients", "dst-fig7/servers"


def fig5_tables() -> Frames:
    """Published percentages under every load, no links at 15 %; the centre later by a round trip."""
    long = {"dst-1": 6.2, "dst-2": 2.8, "dst-2@301": 2.8, "none": 15.0, "centralised": 0.6}
    points = [
        {"who": who, "load": load, "trouble": "", "overthrottling_percent": percent}
        for load, (who, percent) in product(("ar1", "iid", "log"), long.items())
    ]
    short = {"none": 0.7, "late 100ms": 1.3, "late 200ms": 1.7}
    points += [
        {"who": "centralised", "load": "ar1", "trouble": trouble, "overthrottling_percent": percent}
        for trouble, percent in short.items()
    ]
    lags = [
        ("centralised", "none", 1),
        ("centralised", "late 100ms", 2),
        ("centralised", "late 200ms", 3),
        ("dst-1", "late 100ms, latest", 1),
    ]
    reactions = [{"who": who, "trouble": trouble, "lag_cycles": float(lag)} for who, trouble, lag in lags]
    draws = [{"who": who, "draw": draw, "overthrottling_percent": long[who]} for who in fig5.LOOKS for draw in range(4)]
    return {
        RUNS: repeated(points, ("overthrottling_percent",)),
        DRAWN: repeated(draws, ("overthrottling_percent",), noise=0.2),
        LAGS: repeated(reactions, ()),
    }


def fig7_tables(level: str = "water-filling") -> Frames:
    """Three servers of 20 clients, one of which has room for all, under both algorithms."""
    clients, servers = [], []
    for repetition in range(REPETITIONS):
        rng = np.random.default_rng(repetition)
        for server, part in (("n1", 0.4), ("n2", 0.8), ("n3", 1.5)):
            demand = rng.exponential(10.0, 20)
            for rule in ("equal-ratio", "water-filling"):
                name = {"rule": rule, "repetition": repetition, "server": server}
                limit = part * demand.sum()
                admitted = divide(level if rule == "water-filling" else rule, demand, limit)
                servers.append({**name, "limit": limit, "demand": demand.sum(), "admitted": min(limit, demand.sum())})
                clients += [
                    {**name, "client": place, "demand": asked, "admitted": given}
                    for place, (asked, given) in enumerate(zip(demand, admitted, strict=True))
                ]
    return {CLIENTS: pd.DataFrame(clients), SERVERS: pd.DataFrame(servers)}


def on(name: str, change: Any, *arguments: Any, **where: Any) -> Any:
    """A perturbation of the one table called ``name``."""
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


CASES = [
    Case("S6", fig5_tables, {
        "graphs swapped": on(DRAWN, swapped, "who", "dst-1", "dst-2"),
        "no difference": on(DRAWN, scaled, "overthrottling_percent", 6.2 / 2.8, who="dst-2"),
    }, published=Judgement.DIRECTION_ONLY),
    Case("S13", fig5_tables, {
        "graphs swapped": on(RUNS, swapped, "who", "dst-1", "dst-2"),
        "no links are best under the log": on(RUNS, scaled, "overthrottling_percent", 0.1, who="none", load="log"),
        "placed elsewhere it is worse": on(RUNS, scaled, "overthrottling_percent", 3.0, who="dst-2@301", load="ar1"),
    }),
    Case("S19", fig5_tables, {
        "delays swapped": on(LAGS, swapped, "trouble", "late 100ms", "late 200ms"),
        "a distributed server waits, too": on(LAGS, scaled, "lag_cycles", 2.0, who="dst-1"),
        "being late costs nothing": on(RUNS, scaled, "overthrottling_percent", 0.3, who="centralised",
                                       trouble="late 200ms"),
    }),
    Case("S14", fig7_tables, {
        "Algorithm 2 as printed": lambda found: fig7_tables("printed"),
        "rules swapped": on(CLIENTS, swapped, "rule", "equal-ratio", "water-filling"),
        "one client gets more": on(CLIENTS, scaled, "admitted", 1.01, client=7),
        "nobody is throttled": on(SERVERS, scaled, "limit", 100.0),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_where_limits_follow_at_no_lag_nobody_says_how_late_they_are() -> None:
    found = fig5_tables()
    lost = found[LAGS].trouble.eq("late 100ms") & found[LAGS].repetition.eq(1)
    found[LAGS] = found[LAGS].assign(lag_cycles=found[LAGS].lag_cycles.mask(lost))
    result = judge(claim_called("S19"), found)
    assert result.judgement is Judgement.UNDECIDED and "a lag at which limits follow demand" in result.problem


# --- drawing ----------------------------------------------------------------------------------------------


def test_each_marker_of_over_throttling_by_load_has_an_interval() -> None:
    runs = fig5_tables()[RUNS]
    elsewhere = runs[runs.who == "dst-2@301"]
    runs = pd.concat([runs, *(elsewhere.assign(who=f"dst-2@{number}") for number in (59, 178, 420))])
    sheet, [axes] = drawing.panels(1, 1)
    fig5._draw_loads(axes, runs)
    bars = [bar for bar in axes.containers if isinstance(bar, ErrorbarContainer)]
    drawn = [len(bar.lines[0].get_xdata()) for bar in bars if len(bar.lines[2][0].get_segments())]
    assert sum(drawn) == 4 * 3 + 4, "four contenders under three loads, and the tree at four other places"
    crosses = {line.get_marker() for line in axes.lines} - {bar.lines[0].get_marker() for bar in bars}
    assert "x" in crosses and fig5.ELSEWHERE.marker not in crosses
    places = [
        x for bar in bars if bar.lines[0].get_markerfacecolor() == drawing.WHITE for x in bar.lines[0].get_xdata()
    ]
    assert len(set(places)) == 4, "side by side"
    pyplot.close(sheet)


# --- grids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["dst-fig5", "dst-fig7"])
@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_point_can_be_run_and_is_there_once(key: str, scale: Any, tmp_path: Any) -> None:
    log = tmp_path / "log.csv"
    log.write_text("TIMESTAMP,x\n2023-11-16 18:00:01,1\n2023-11-16 18:00:03,1\n")
    experiment = load_figure(key).experiment
    for options in ({"log": None}, {"log": str(log)}) if experiment.options else ({},):
        specs = experiment.points(scale, options)
        assert len({spec.to_json() for spec in specs}) == len(specs) > 3
        for spec in specs:
            check_point(resolve(spec))


@pytest.mark.parametrize("reading", [CURVE, BELOW_ZERO], ids=lambda reading: str(reading.name))
def test_a_reading_leaves_the_runs_of_record_alone(reading: Reading) -> None:
    usual, *others = (fig5.points(SCALES["quick"], {reading.name: value}) for value in reading.values)
    assert usual == fig5.points(SCALES["quick"], {})
    for specs in others:
        assert specs != usual
        for spec in specs:
            check_point(resolve(spec))


def test_the_many_loads_are_those_of_the_reading(spark: Any, tmp_path: Any) -> None:
    from collectors.writer import write_run

    run = {"run_id": ["r"], "seed": [7], "repetition": [0]}
    write_run(tmp_path / "r", {"runs": run}, {"run_id": "r"})
    long = pd.DataFrame({"load": ["ar1", "iid", "ar1"], "trouble": ["", "", "crash"], "clamp": ["none"] * 3})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig5, "loads", partial(iterated.loads, draws=2, cycles=40))
        both, increments, clamped = (
            fig5.drawn(runs, load(spark, [tmp_path / "r"]))
            for runs in (long, long[1:], long.assign(clamp=["links"] * 3))
        )
    assert set(both.load) == set(clamped.load) == {"ar1"} and set(increments.load) == {"iid"}
    assert len(both) == 4 and (both.overthrottling_percent >= 0).all()


def test_placements_that_are_drawn_exist() -> None:
    names = {spec.system_options.get("graph", "") for spec in fig5.points(SCALES["paper"], {"log": None})}
    numbers = [int(name.removeprefix(fig5.PLACED)) for name in names if name.startswith(fig5.PLACED)]
    assert len(numbers) == 4 and max(numbers) < len(placements())


def test_each_trouble_has_a_name_of_its_own() -> None:
    specs = fig5.points(SCALES["quick"], {"log": None})
    rows = []
    for spec in specs:
        factors = {
            "graph": "system.graph",
            "pairing": "system.pairing",
            "delay": "topology.delay",
            "phi": "workload.phi",
        }
        found = {column: spec.factors().get(name) for column, name in factors.items()}
        faults = spec.study_options.get("faults")
        cycles, load = spec.study_options["cycles"], spec.workload_options["kind"]
        rows.append({"system": spec.system, "load": load, "faults": faults, "cycles": cycles, **found})
    named = fig5.named(pd.DataFrame(rows))
    key = list(zip(named.who, named.load, named.trouble, strict=True))
    assert len(set(key)) == len(key)
    assert set(named.trouble) == {"", *fig5.TROUBLES, "late 200ms"}
    assert set(named.load) == set(loads.LOADS) - {"log"}


# --- how late limits follow demand ------------------------------------------------------------------------


def test_the_lag_is_found_where_there_is_one() -> None:
    rng = np.random.default_rng(1)
    demand = rng.uniform(0, 200, (80, 10))
    shares = 1000 * demand / demand.sum(axis=1, keepdims=True)
    for lag in (1, 3):
        limit = np.vstack([np.full((lag, 10), 100.0), shares[:-lag]])
        assert loads._centralised(demand, limit) == lag
    assert np.isnan(loads._centralised(demand, np.full((80, 10), 100.0)))
    weights = np.diag(np.diag(laplacian(graph_named("dst-1")))) - laplacian(graph_named("dst-1"))
    for own, neighbours in ((0, 0), (0, 1), (1, 1), (2, 2)):
        limit = np.full((80, 10), 100.0)
        for k in range(2, 79):
            p, q = (demand[k - late] - limit[k - late] for late in (own, neighbours))
            limit[k + 1] = limit[k] + 0.02 * (p * weights.sum(axis=1) - weights @ q)
        assert loads._graph(demand, limit, "dst-1") == own + 1
    assert np.isnan(loads._graph(demand, rng.uniform(0, 200, (80, 10)), "dst-1"))


# --- many loads at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["dst-1", "dst-2"])
def test_the_first_drawn_load_is_that_of_the_run(graph: str, tmp_path: Any, spark: Any) -> None:
    """By the law in matrices it is throttled as by the nodes; the other draws are other loads."""
    (spec,) = repeated_runs([loads.point({"kind": "ar1"}, graph, cycles=60)], 1, 7)
    execute(spec, "run", tmp_path / "run")
    data = load(spark, [tmp_path / "run"])
    (by_nodes,) = loads.overthrottling(data, loads.totals(data)).overthrottling_percent
    demands = iterated.loads(spec.seed, draws=3, cycles=60, kind="ar1")
    percents = iterated.overthrottling_percent(demands, iterated.limits_of(graph, demands))
    assert percents[0] == pytest.approx(by_nodes, rel=1e-9)
    assert len(set(np.round(percents, 6))) == 3


# --- drawings ---------------------------------------------------------------------------------------------


def test_fig7_draws_the_level_and_says_who_is_cut() -> None:
    found = fig7_tables()
    for name in ("equal-amount", "printed"):
        for key in (CLIENTS, SERVERS):
            part = found[key][found[key].rule == "water-filling"].assign(rule=name)
            found[key] = pd.concat([found[key], part])
    drawing = fig7.draw({name.partition("/")[2]: frame for name, frame in found.items()})
    panel = drawing.axes[1]
    texts = [text.get_text() for text in panel.texts]
    assert any(text.startswith("level") for text in texts) and any("limit" in text for text in texts)
    assert len(panel.patches) == 40
    tops = [bar.get_height() for bar in panel.patches[:20]]
    assert tops == sorted(tops)


def test_fig5_draws_what_is_there() -> None:
    found = fig5_tables()
    runs = found[RUNS]
    rng = np.random.default_rng(1)
    curves = [
        {"who": who, "load": "ar1", "trouble": trouble, "cycle": cycle, "demand": rng.uniform(8e3, 12e3), "limit": 1e4,
         "admitted": 8e3}
        for who, trouble in (("dst-1", ""), ("dst-2", ""), ("dst-1", "crash"))
        for cycle in range(20)
    ]  # fmt: skip
    drawing = fig5.draw({"overthrottling": runs, "curves": pd.DataFrame(curves), "reaction": found[LAGS]})
    first, loads_panel, sums, late = drawing.axes
    assert len(first.lines) == 4
    assert [label.get_text().replace("\n", " ") for label in loads_panel.get_xticklabels()] == [
        fig5.LOADS[load] for load in ("ar1", "iid", "log")
    ]
    assert [text.get_text() for text in sums.get_legend().texts] == ["crash of a server"] and len(sums.lines) == 1
    assert [label.get_text() for label in late.get_yticklabels()] == [
        "CST: ideal",
        "CST: 100 ms late",
        "CST: 200 ms late",
    ]
