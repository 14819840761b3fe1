"""Claims on network coordinates (E1, E2, E13): published tables hold, spoiled ones do not; grids and drawings."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.verdicts import Judgement
from harness.experiment import SCALES
from harness.run import asked_of, check_point, resolve
from paper_figs import load_figure
from paper_figs.drawing import GREY
from paper_figs.epulsar import fig3, proxies
from tests.paper_figs.tables import (
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

ERRORS, RUNS = "epulsar-fig3/errors", "epulsar-proxies/runs"
KEYS = ["epulsar-fig3", "epulsar-proxies"]


def star_tables() -> Frames:
    """2 ms at 50 ms and any count, 4 % of every round trip at 16; reads after one and ten minutes."""
    rows = [(nodes, 50.0) for nodes in (2, 8, 16, 32, 128)] + [(16, rtt_ms) for rtt_ms in (10.0, 20.0, 100.0, 200.0)]
    points = [
        {"nodes": nodes, "rtt_ms": rtt_ms, "at_s": at_s, "mean_ms": share * rtt_ms, "max_ms": 4 * share * rtt_ms}
        for nodes, rtt_ms in rows for at_s, share in ((60.0, 0.1), (600.0, 0.04))
    ]  # fmt: skip
    frame = repeated(points, ("mean_ms", "max_ms"))
    frame["median_ms"], frame["p95_ms"] = 0.8 * frame.mean_ms, 2.5 * frame.mean_ms
    return {ERRORS: frame.assign(percent=100 * frame.mean_ms / frame.rtt_ms)}


def proxy_tables() -> Frames:
    """Of 16 clients and others: 10 ms off while mobile in the cluster, else half a millisecond."""
    points = []
    for clients, handover_s in ((16, 0.0), (16, 60.0), (16, 240.0), (4, 60.0)):
        for proxied in (False, True):
            wild = handover_s > 0 and not proxied
            points.append({
                "proxied": proxied, "clients": clients, "handover_s": handover_s, "mobile": handover_s > 0,
                "still": 600.0, "error_ms": 10.0 if wild else 0.5, "shift_ms_per_s": 1.0 if wild else 0.1,
            })  # fmt: skip
    return {RUNS: repeated(points, ("error_ms", "shift_ms_per_s"))}


def on(key: str, change: Any, *values: Any, **where: Any) -> Any:
    return lambda tables: {**tables, key: change(tables[key], *values, **where)}


def rising(frame: pd.DataFrame) -> pd.DataFrame:
    """The error grows with the number of nodes, below the bound."""
    return frame.assign(mean_ms=frame.mean_ms * np.log2(frame.nodes) / 5)


def only_worst(frame: pd.DataFrame) -> pd.DataFrame:
    """As if the worst pair were the one that is meant."""
    return frame.assign(mean_ms=frame.max_ms)


SETTLED = {"at_s": 600.0}
CASES = [
    Case("E1", star_tables, {
        "twice as far off": on(ERRORS, scaled, "mean_ms", 2.0),
        "far off with 128 nodes": on(ERRORS, scaled, "mean_ms", 2.0, nodes=128),
        "grows with the nodes": on(ERRORS, rising),
        "read too early": on(ERRORS, swapped, "at_s", 60.0, 600.0),
        "the worst pair": on(ERRORS, only_worst),
    }),
    Case("E2", star_tables, {
        "8 % of 20 ms": on(ERRORS, scaled, "percent", 2.0, rtt_ms=20.0),
        "falls with the round trip": on(ERRORS, reversed_over, "rtt_ms"),
        "less at 200 ms than at 100": on(ERRORS, scaled, "mean_ms", 0.4, rtt_ms=200.0),
        "read too early": on(ERRORS, swapped, "at_s", 60.0, 600.0),
    }),
    Case("E13", proxy_tables, {
        "proxies are the unstable ones": on(RUNS, swapped, "proxied", False, True),
        "standing is as bad as moving": on(RUNS, scaled, "error_ms", 20.0, proxied=False, handover_s=0.0),
        "static agents do not move": on(RUNS, scaled, "shift_ms_per_s", 0.1, proxied=False, handover_s=60.0),
        "movement shows behind proxies": on(RUNS, scaled, "error_ms", 1.3, proxied=True, handover_s=60.0),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_a_far_too_large_error_contradicts() -> None:
    case = Case("E1", star_tables, {"twice": on(ERRORS, scaled, "mean_ms", 2.0)},
                spoiled=frozenset({Judgement.CONTRADICTED}))  # fmt: skip
    check_spoiled(case, "twice")


# --- grids and drawings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_point_can_be_run_and_is_there_once(key: str, scale: Any) -> None:
    specs = load_figure(key).experiment.points(scale, {})
    assert len({spec.to_json() for spec in specs}) == len(specs) >= 3
    for spec in specs:
        check_point(resolve(spec))


@pytest.mark.parametrize("key", KEYS)
def test_small_runs_are_few_and_short(key: str) -> None:
    specs = load_figure(key).experiment.points(SCALES["small"], {})
    assert len(specs) <= 4
    for spec in specs:
        agents = asked_of(resolve(spec))[1].locating
        assert agents.rounds == 180 and len(agents.nodes) <= 10


def test_what_is_read_last_within_ten_minutes_counts() -> None:
    rows = [(8, 180.0), (16, 300.0), (16, 600.0), (16, 3600.0)]
    found = pd.DataFrame([{"nodes": n, "rtt_ms": 50.0, "repetition": 0, "at_s": at_s} for n, at_s in rows])
    assert fig3.settled(found).at_s.tolist() == [180.0, 600.0]


def test_fig3_draws_the_bounds_beside_the_errors() -> None:
    errors = star_tables()[ERRORS]
    shares = pd.DataFrame([
        {"nodes": nodes, "repetition": n, "share": k / 10, "error_ms": 0.6 * k}
        for nodes in (16, 32) for n in range(2) for k in range(11)
    ])  # fmt: skip
    drawing = fig3.draw({"errors": errors, "shares": shares})
    star, counts, rtts, percents, time, pairs = drawing.axes
    assert not star.axison
    for panel in (counts, rtts, percents, time, pairs):
        (bound,) = [line for line in panel.lines if line.get_color() == GREY]
        assert bound.get_linestyle() == "--"
    texts = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert texts == [*(look.label for look in fig3.LOOKS.values()), "published: below 3.5 ms, below 6 %"]
    means = next(line for line in counts.lines if line.get_color() == fig3.LOOKS["mean_ms"].colour)
    assert np.allclose(means.get_xdata(), [2, 8, 16, 32, 128])
    assert np.allclose(means.get_ydata(), 2.0, rtol=0.02)


def test_proxies_are_drawn_beside_the_cluster() -> None:
    runs = proxy_tables()[RUNS]
    curves = pd.concat(
        [runs[(runs.clients == 16) & (runs.handover_s < 100)].assign(at_s=at_s) for at_s in (595.0, 600.0, 605.0)]
    )
    drawing = proxies.draw({"runs": runs, "curves": curves})
    over_time, movement, handovers, clients = drawing.axes
    texts = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert texts == [*(look.label for look in proxies.SIDES.values()), "clients begin to move"]
    medians = [line for line in over_time.lines if line.get_linewidth() > 1]
    assert [line.get_color() for line in medians] == [look.colour for look in proxies.SIDES.values()]
    assert np.allclose(medians[0].get_ydata(), 10.0, rtol=0.02) and len(movement.lines) == len(over_time.lines)
    assert [text.get_text() for text in handovers.get_xticklabels()] == ["60", "240"]
    assert [text.get_text() for text in clients.get_xticklabels()] == ["4", "16"]


@pytest.mark.parametrize("count", [16, 64])
def test_a_sweep_of_one_point_says_that_it_was_not_run(count: int) -> None:
    runs = proxy_tables()[RUNS]
    runs = runs[(runs.clients == 16) & (runs.handover_s < 100)].assign(clients=count)
    *_, handovers, clients = proxies.draw({"runs": runs, "curves": runs.assign(at_s=600.0)}).axes
    for panel in (handovers, clients):
        assert [text.get_text() for text in panel.texts] == ["not run"] and not panel.axison


@pytest.mark.parametrize("module", [fig3, proxies], ids=["fig3", "proxies"])
def test_without_runs_nothing_is_drawn_and_nothing_breaks(module: Any) -> None:
    empty: dict[str, Frames] = {
        "fig3": {"errors": star_tables()[ERRORS].iloc[:0], "shares": pd.DataFrame(columns=["nodes", "share"])},
        "proxies": {"runs": proxy_tables()[RUNS].iloc[:0], "curves": proxy_tables()[RUNS].iloc[:0].assign(at_s=0.0)},
    }
    module.draw(empty[module.__name__.rpartition(".")[2]])
