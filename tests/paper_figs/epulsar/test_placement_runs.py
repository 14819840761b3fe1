"""Figures of placement in virtual time: claims E7 and E14 as published and spoiled, what is computed, what is drawn."""

import json
import re
from collections.abc import Callable
from itertools import combinations, product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from msgspec.structs import replace

from analysis.tables import load as load_runs
from analysis.verdicts import t_interval
from harness.experiment import SCALES
from harness.run import check_all, execute
from paper_figs import load_figure
from paper_figs.beyond import placement_failure as failure
from paper_figs.beyond import placement_load as load
from paper_figs.epulsar import fig2, fig6, transient
from paper_figs.intervals import in_words
from tests.paper_figs.tables import (
    REPETITIONS,
    Case,
    Frames,
    check_published,
    check_spoiled,
    parametrised,
    repeated,
    reversed_over,
    scaled,
    swapped,
)

RATES = "epulsar-fig6/rates"
CURVES, RECOVERY = "epulsar-transient/curves", "epulsar-transient/recovery"
KEYS = ("epulsar-fig2", "epulsar-fig6", "epulsar-transient", "placement-failure", "placement-load")


def fig6_tables() -> Frames:
    """A constant amount a topic under ePulsar, one a client under AllPairs."""
    grid = product(fig6.TOPICS, fig6.CLIENTS)
    points = [
        {"system": system, "topics": topics, "clients": clients, "kBps": 0.06 + topics * each(clients)}
        for topics, clients in grid
        for system, each in (("epulsar", lambda _: 0.15), ("all-pairs", lambda clients: 0.06 * clients))
    ]
    return {RATES: repeated(points, ("kBps",), noise=0.001)}


def transient_curves(dip: float = 0.5, back_s: int = 20) -> pd.DataFrame:
    """Shares of 1, and of ``1 - dip`` from a disturbance until ``back_s`` after its end."""
    rows = []
    for scenario, repetition in product(transient.DISTURBANCES, range(REPETITIONS)):
        start_s, end_s = transient.DISTURBANCES[scenario].span_s
        for t_s in range(0, transient.END_S, transient.STEP_S):
            low = scenario != transient.CALM and start_s <= t_s < end_s + back_s + 2 * repetition
            share = 1.0 - dip * low
            rows.append([scenario, repetition, t_s, share, share])
    return pd.DataFrame(rows, columns=["scenario", "repetition", "t_s", "best", "in_bound"])


def transient_tables(dip: float = 0.5, back_s: int = 20) -> Frames:
    curves = transient_curves(dip, back_s)
    return {CURVES: curves, RECOVERY: transient.recovery(curves)}


def of(name: str, change: Callable[..., pd.DataFrame], *arguments: Any, **where: Any) -> Callable[[Frames], Frames]:
    """A perturbation of one table."""
    return lambda tables: {**tables, name: change(tables[name], *arguments, **where)}


CASES = (
    Case(
        "E7",
        fig6_tables,
        {
            "systems swapped": of(RATES, swapped, "system", "epulsar", "all-pairs"),
            "over topics the other way round": of(RATES, reversed_over, "topics"),
            "ePulsar grows with clients": of(RATES, scaled, "kBps", 1.5, system="epulsar", clients=16),
            "not linear in topics": of(RATES, scaled, "kBps", 1.5, system="epulsar", topics=16),
            "AllPairs does not grow with clients": lambda tables: {
                RATES: tables[RATES].assign(
                    kBps=np.where(tables[RATES].system == "epulsar", tables[RATES].kBps, 0.5 * tables[RATES].topics)
                )
            },
        },
    ),
    Case(
        "E14",
        transient_tables,
        {
            "nothing happens": lambda _: transient_tables(dip=0.0),
            "it never mends": lambda _: transient_tables(back_s=1000),
            "messages stay late": of(RECOVERY, scaled, "last_in_bound", 0.8, scenario="noise"),
            "the disturbed is the undisturbed": of(CURVES, swapped, "scenario", "cold", "calm"),
        },
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scale", ["tiny", "small", "quick", "paper"])
def test_grids_fit_together(key: str, scale: str) -> None:
    check_all(load_figure(key).experiment.points(SCALES[scale], {}))


def test_recovery_counts_from_the_end_of_the_disturbance() -> None:
    found = transient.recovery(transient_curves(dip=0.25, back_s=20))
    detour = found[found.scenario == "detour"].set_index("repetition")
    assert detour.dip.to_list() == [0.25] * REPETITIONS
    assert detour.back_s.to_list() == [20 + 2 * repetition for repetition in range(REPETITIONS)]
    never = transient.recovery(transient_curves(back_s=1000))
    assert never.back_s.isna().all()
    assert (never["last"] == 0.5).all()


def failing_curves() -> pd.DataFrame:
    """Without a fault all is in time; with one nothing is for 20 s and a message is held up for 8 s."""
    rows = []
    for system, scenario in product(failure.SYSTEMS, failure.FAULTS):
        for t_s in range(0, failure.END_S, failure.STEP_S):
            since_s = t_s - failure.FROM_S
            bad = scenario != failure.NO_FAULT and 0 <= since_s < 20
            held = scenario != failure.NO_FAULT and 0 <= since_s < 8
            rows.append(
                [system, scenario, t_s, 0.0 if bad else 100.0, 100.0 if bad else 0.0, int(held), 100.0, 100.0, 0]
            )
    columns = ["system", "scenario", "t_s", "in_bound", "late", "held", "due", "usual_in_bound", "usual_held"]
    return pd.DataFrame(rows, columns=columns).assign(runs=3, in_bound_half=0.1, came_half=0.05)


def test_runs_are_compared_with_those_of_their_own_repetition() -> None:
    columns = ["system", "scenario", "repetition", "t_s", "pairs", "late", "in_bound", "held"]
    rows = [["epulsar", failure.NO_FAULT, repetition, 30, 10.0, 0.0, 10.0, 0] for repetition in range(3)]
    rows += [["epulsar", "manager", repetition, 30, 10.0, 5.0, 5.0, 1] for repetition in (0, 2)]
    rows += [["epulsar", "site", 3, 30, 10.0, 10.0, 0.0, 1]]
    found = failure.paired(pd.DataFrame(rows, columns=columns)).set_index("scenario")
    assert set(found.index) == {failure.NO_FAULT, "manager"}, "beside nothing there is nothing to compare"
    shares = found[["in_bound", "late", "due", "usual_in_bound", "held", "usual_held"]]
    assert shares.loc["manager"].tolist() == [10, 10, 20, 20, 1, 0]
    assert found[["runs", "in_bound_half", "came_half"]].loc["manager"].tolist() == [2, 0, 0]


def failing_elections() -> pd.DataFrame:
    rows = [["epulsar", "manager", repetition, 6.0] for repetition in range(3)]
    return pd.DataFrame(rows, columns=["system", "scenario", "repetition", "after_s"])


def counted_moves() -> pd.DataFrame:
    """As on Pulsar, of one system: eight moves a run, three with the load manager gone."""
    rows = [["epulsar", "manager", 2], ["epulsar", "manager", 4], ["epulsar", failure.NO_FAULT, 8]]
    return pd.DataFrame(rows, columns=["system", "scenario", "move_count"])


def test_recovery_counts_from_the_fault() -> None:
    found = failure.recovery(failing_curves(), failing_elections(), counted_moves())
    assert (found.held_s == 8).all()
    assert (found.back_s == 20).all()
    assert (found.lost == 1).all() and (found.cost_s == 20).all()
    led = found.set_index(["system", "scenario"]).unled_s
    assert led.loc["epulsar", "manager"] == 6
    assert led.isna().sum() == len(led) - 1
    once = pd.DataFrame([["epulsar", "manager", 3, None]], columns=["system", "scenario", "repetition", "after_s"])
    some = failure.recovery(failing_curves(), pd.concat([failing_elections(), once]), counted_moves())
    assert some.unled_s.isna().all(), "in one run of four nobody is elected"
    moves = found.set_index(["system", "scenario"])[["moves", "usual_moves"]]
    assert moves.loc["epulsar", "manager"].tolist() == [3, 8]
    assert moves.moves.isna().sum() == len(moves) - 1
    assert moves.usual_moves.notna().sum() == len(moves) / 2


def test_who_moves_a_little_later_costs_nothing() -> None:
    curves = failing_curves()
    at = {name: (curves.scenario == "manager") & (curves.t_s == t_s) for name, t_s in (("late", 60), ("early", 62))}
    curves.loc[at["late"], "in_bound"], curves.loc[at["early"], ["in_bound", "usual_in_bound"]] = 50.0, [100.0, 50.0]
    found = failure.recovery(curves, failing_elections(), counted_moves()).set_index("scenario")
    assert (found.loc["manager", "cost_s"] == 20).all() and (found.loc["manager", "back_s"] == 32).all()


@pytest.mark.parametrize("broker", ["ours", "pulsar"])
@pytest.mark.parametrize("scale", SCALES)
def test_every_point_of_a_figure_of_failures_has_a_scenario_of_its_own(broker: str, scale: str) -> None:
    specs = failure.points(SCALES[scale], {"broker": broker})
    options = [spec.study_options for spec in specs]
    names = [failure._named(json.dumps(one["faults"]), str(one.get("broker_session", ""))) for one in options]
    assert set(names) <= {failure.NO_FAULT, *failure.TITLES} and failure.NO_FAULT in names
    assert len({(spec.system, name) for spec, name in zip(specs, names, strict=True)}) == len(specs)


def test_a_fault_lasts_until_it_is_mended() -> None:
    scenarios = ("manager", "store", "cloud", "both managers", "managers cut off", "store cut off")
    assert [failure._ends_s(name) for name in scenarios] == [100, 60, 60, 100, 60, 33]


def test_intervals_are_of_the_shares_of_single_runs() -> None:
    columns = ["system", "scenario", "repetition", "t_s", "pairs", "late", "in_bound", "held"]
    rows = [["epulsar", failure.NO_FAULT, repetition, 30, 10.0, 0.0, 10.0, 0] for repetition in range(3)]
    in_bound, late = (2.0, 4.0, 9.0), (8.0, 1.0, 0.0)
    rows += [["epulsar", "site", n, 30, 10.0, late[n], in_bound[n], 0] for n in range(3)]
    found = failure.paired(pd.DataFrame(rows, columns=columns)).set_index("scenario").loc["site"]
    shares = ([some / 10 for some in in_bound], [(a + b) / 10 for a, b in zip(in_bound, late, strict=True)])
    for column, share in zip(("in_bound_half", "came_half"), shares, strict=True):
        wanted = t_interval(share)
        assert found[column] == pytest.approx((wanted.high - wanted.low) / 2)


def test_failures_are_drawn_with_bands_around_both_edges_that_end_with_the_panel() -> None:
    every = failing_curves()
    told = failure.recovery(every, failing_elections(), counted_moves())
    panel = failure.draw({"curves": every, "recovery": told}).axes[0]
    in_bound, came = (band.get_datalim(panel.transData) for band in panel.collections)
    assert (in_bound.y0, in_bound.y1) == pytest.approx((0, 100)), "it is 0 or 100 %, 10 points either way"
    assert (came.y0, came.y1) == pytest.approx((95, 100))
    assert (in_bound.x0, in_bound.x1) == (0, failure.END_S), "the last step's, too"
    (path,) = panel.collections[0].get_paths()
    bad_s = failure.FROM_S + 1.0
    assert path.contains_point((bad_s, 9.5)) and not path.contains_point((bad_s, 10.5))


def test_of_a_single_repetition_failures_have_no_bands() -> None:
    every = failing_curves().assign(runs=1, in_bound_half=float("nan"), came_half=float("nan"))
    told = failure.recovery(every, failing_elections(), counted_moves())
    for panel in failure.draw({"curves": every, "recovery": told}).axes:
        assert not [path for band in panel.collections for path in band.get_paths()]


def test_rates_of_moves_have_the_intervals_of_their_runs() -> None:
    tables = loaded()
    two = tables["runs"].repetition.map({0: 3, 1: 5})
    panel = load.draw({**tables, "runs": tables["runs"].assign(late_moves=two)}).axes[3]
    wanted = t_interval([60 * moves / (load.END_S / 2) for moves in (3, 5)])
    segments = [segment for one in panel.collections for segment in one.get_segments()]
    assert segments and all(float(segment[1][1]) == pytest.approx(wanted.high) for segment in segments)


def segments_of(panel: Any) -> list[tuple[float, float]]:
    """Lower and upper ends of the upright error bars of a panel."""
    segments = [one for each in panel.collections if isinstance(each, LineCollection) for one in each.get_segments()]
    return [(float(low), float(high)) for (_, low), (_, high) in segments]


def test_cities_moves_and_the_worst_latency_have_the_intervals_of_their_runs() -> None:
    tables = loaded()
    places, runs = tables["places"], tables["runs"]
    near = places.repetition.map({0: 11, 1: 12})
    places = places.assign(topics=near.where(places.city == load.CITIES[0], load.TOPICS - near))
    worst = runs.repetition.map({0: 70.0, 1: 72.0})
    runs = runs.assign(moves=runs.repetition.map({0: 3, 1: 4}), worst_ms=worst)
    axes = load.draw({**tables, "places": places, "runs": runs}).axes
    wanted = t_interval([11, 12])
    ends = [pytest.approx((wanted.low, wanted.high))]  # the other city's end is that of all topics
    assert segments_of(axes[2]) == len(load.LOADS) * len(load.SYSTEMS) * ends
    half = ceil(t_interval([3, 4]).high - 3.5)
    assert [text.get_text() for text in axes[2].texts].count(f"4\n± {half}") == len(load.LOADS) * len(load.SYSTEMS)
    wanted = t_interval([70, 72])
    worst_ends = [ends for ends in segments_of(axes[1]) if ends == pytest.approx((wanted.low, wanted.high))]
    assert len(worst_ends) == len(load.LOADS) * len(load.SYSTEMS)


def test_moves_of_three_resources_with_one_seed_are_one_sample() -> None:
    tables = loaded()
    moved = tables["resources"].assign(moves=tables["resources"].repetition.map({0: 3, 1: 5}))
    drawing = load.draw({**tables, "resources": moved})
    texts = [text.get_text() for text in drawing.axes[7].texts]
    pyplot.close(drawing)
    assert texts.count(f"moves: {in_words(t_interval([3, 5]))}") == 2


def test_a_broker_s_band_ends_where_the_broker_is_full() -> None:
    tables = loaded()
    used = tables["resources"].repetition.map({0: 0.8, 1: 1.0})
    panel = load.draw({**tables, "resources": tables["resources"].assign(used=used)}).axes[7]
    bands = [band.get_datalim(panel.transData) for band in panel.collections]
    assert len(bands) == len(load.SHEDDING) * len(load.RESOURCES)
    assert all((band.y0, band.y1) == pytest.approx((0, 100)) for band in bands), "far wider, of two runs"
    assert panel.get_ylim()[1] > 100


def sequence() -> pd.DataFrame:
    """A migration as ePulsar's, and the same with another name."""
    rows = [
        ("Release", "load manager", "old broker", 0.0, 40.0),
        ("Delete", "old broker", "store", 40.0, 80.0),
        ("Done", "store", "old broker", 81.0, 121.0),
        ("Close", "old broker", "client", 121.0, 144.0),
        ("Acquire", "old broker", "new broker", 121.0, 136.0),
        ("Released", "old broker", "load manager", 121.0, 161.0),
        ("Connect", "client", "new broker", 144.0, 152.0),
        ("Connected", "new broker", "client", 217.0, 225.0),
    ]
    parts = [
        pd.DataFrame(rows, columns=["message", "source", "target", "sent_ms", "got_ms"]).assign(system=system)
        for system in fig2.SYSTEMS
    ]
    arrows = pd.concat(parts, ignore_index=True)
    return arrows.assign(step=[fig2.KINDS[message][0] for message in arrows.message])


def loaded() -> Frames:
    key = ["system", "rule", "bound", "load", "repetition"]
    runs = pd.DataFrame(product(load.SYSTEMS, load.RULES, ("100ms", "65ms"), load.LOADS, range(2)), columns=key)
    runs = runs.assign(in_bound=0.5, mean_ms=50.0, worst_ms=70.0, moves=4, late_moves=0)
    places = runs[key].merge(pd.DataFrame({"city": load.CITIES[:2], "topics": [12, 4]}), how="cross")
    key = ["system", "resource", "repetition", "at_s"]
    resources = pd.DataFrame(product(load.SHEDDING, load.RESOURCES, range(2), (0, 2, 40, 60)), columns=key)
    return {"runs": runs, "places": places, "resources": resources.assign(used=0.9, moves=3)}


def test_runs_with_a_scarce_resource_are_told_from_the_others(tmp_path: Path, spark: Any) -> None:
    specs = load.points(SCALES["quick"], {})
    scarce = [spec for spec in specs if spec.workload_options["topics"] == load.FULL_TOPICS]
    short = [replace(spec, study_options={**spec.study_options, "duration": "8s"}) for spec in scarce[1:]]
    for number, spec in enumerate([scarce[0], *short, specs[0]]):
        execute(spec, f"run{number}", tmp_path / f"run{number}")
    found = load.tables(load_runs(spark, sorted(tmp_path.iterdir())))
    told = found["resources"]
    assert set(zip(told.system, told.resource, strict=True)) == set(product(load.SHEDDING, load.RESOURCES))
    assert (told[told.at_s >= 6].used >= 0.8).all()
    assert told.at_s.max() + load.STEP_S == load.END_S - 1, "in half a step not every broker reports"
    assert len(found["places"]) and set(found["places"]["load"]) == {load.LOADS[0]}


def test_step_numbers_are_drawn(tmp_path: Path) -> None:
    drawing = fig2.draw({"arrows": sequence(), "spans": pd.DataFrame()})
    for axes in drawing.axes:
        texts = [text.get_text() for text in axes.texts]
        assert {"1", "2", "3", "4", "5", "7"} <= set(texts)
        assert "per-topic\nmigration time\n161 ms" in texts
        assert "client downtime\n81 ms" in texts
    drawing.savefig(tmp_path / "drawn.png")


def test_words_at_arrows_do_not_touch() -> None:
    owned = pd.DataFrame(
        [("Create", "new broker", "store", 136.0, 176.0, 6), ("Done", "store", "new broker", 177.0, 217.0, 0)],
        columns=["message", "source", "target", "sent_ms", "got_ms", "step"],
    )
    arrows = pd.concat([sequence(), *(owned.assign(system=system) for system in fig2.SYSTEMS)], ignore_index=True)
    drawing = fig2.draw({"arrows": arrows, "spans": pd.DataFrame()})
    drawing.canvas.draw()
    words = {text for _, text in fig2.KINDS.values()} | set(fig2.OTHERWISE.values())
    for axes in drawing.axes:
        told = [text for text in axes.texts if text.get_text() in words | set("1234567")]
        boxes = {f"{text.get_text()} {n}": text.get_bbox_patch().get_window_extent() for n, text in enumerate(told)}
        assert len(boxes) > 10
        assert not [pair for pair in combinations(boxes, 2) if boxes[pair[0]].overlaps(boxes[pair[1]])]


def told_on_pulsar(system: str, *steps: tuple[str, int, int]) -> list[tuple[str, str, int, int]]:
    """A move that is asked for after 100 ms, answered 500 ms later, and known to the load manager after 640 ms.

    Its producer is away from 400 to 430 ms, as it had been before; then a second move, which took longer.
    """
    rows = [
        (fig2.REQUEST, 100, 600),
        (fig2.MOVED, 60, 640),
        (fig2.AWAY, 400, 430),
        *steps,
    ]
    later = [(what, start_ms + 5000, end_ms + 5001) for what, start_ms, end_ms in rows]
    before = [(fig2.AWAY, 50, 150), (fig2.RELEASE, 5, 95)]
    rows = sorted([*rows, *later, *before], key=lambda row: row[1:])
    return [(system, what, start_ms * 10**6, end_ms * 10**6) for what, start_ms, end_ms in rows]


def test_arrows_of_a_move_on_pulsar_are_what_nodes_brokers_and_clients_wrote_down() -> None:
    logged = (fig2.RELEASE, 110, 230), (fig2.ASSIGN, 230, 380), (fig2.DISCONNECT, 395, 399)
    rows = told_on_pulsar("epulsar", *logged, (fig2.UNLOAD, 110, 385)) + told_on_pulsar("pulsar")
    rows += told_on_pulsar("modelled", (fig2.UNLOAD, 110, 385))
    found = fig2.arrows_on_pulsar(pd.DataFrame(rows, columns=["system", "what", "start_ns", "end_ns"]))
    arrows = {
        key: part.set_index("message")[["sent_ms", "got_ms"]].T.to_dict("list") for key, part in found.groupby("system")
    }
    always = {"Release": [0, 40], "Return": [340, 370], "Released": [540, 580]}
    assert arrows["epulsar"] == {**always, "Fence": [50, 170], "Own": [170, 320], "Close": [335, 340]}
    assert arrows["pulsar"] == {**always, "Close": [340, 340]}
    assert arrows["modelled"] == {**always, "Unload": [50, 325], "Close": [340, 340]}
    drawing = fig2.draw({"arrows": found, "spans": pd.DataFrame()})
    texts = [text.get_text() for axes in drawing.axes for text in axes.texts]
    assert texts.count("client downtime\n30 ms") == 2 and texts.count("fence, name the next") == 1


@pytest.mark.parametrize("scale", ["tiny", "quick", "paper"])
def test_fig6_s_caption_fits_every_scale(scale: str) -> None:
    loads = [spec.workload_options for spec in fig6.points(SCALES[scale], {})]
    most = {"topics": max(load["topics"] for load in loads), "clients": max(load["consumers"] for load in loads) + 1}
    most["repetitions"] = len({run.repetition for run in fig6.EXPERIMENT.runs(SCALES[scale], {}, 1)})
    words = {"two": 2, "three": 3, "five": 5}
    drawn = fig6.NOTES.partition("With two clients")[0] + fig6.NOTES.partition("Error bars")[2]
    said = re.findall(r"\b(\d+|two|three|five) (topics|clients|repetitions)\b", drawn)
    assert all(int(words.get(number, number)) == most[what] for number, what in said), (said, most)


TABLES: dict[str, Callable[[], Frames]] = {
    "epulsar-fig2": lambda: {"arrows": sequence(), "spans": pd.DataFrame()},
    "epulsar-fig6": lambda: {"rates": fig6_tables()[RATES]},
    "epulsar-transient": lambda: {name.partition("/")[2]: frame for name, frame in transient_tables().items()},
    "placement-failure": lambda: {
        "curves": failing_curves(),
        "recovery": failure.recovery(failing_curves(), failing_elections(), counted_moves()),
    },
    "placement-load": loaded,
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("empty", [False, True], ids=["drawn", "empty"])
def test_drawings(key: str, empty: bool, tmp_path: Path) -> None:
    found = {name: frame.iloc[:0] if empty else frame for name, frame in TABLES[key]().items()}
    load_figure(key).draw(found).savefig(tmp_path / "drawn.png")
