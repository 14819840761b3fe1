"""Claims about the broker's process (SRTM V-B, V-C): tables as the paper says reproduce them, spoiled ones do not."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge
from harness.experiment import SCALES
from harness.run import check_all
from paper_figs.srtm import gc, timestamps, wan
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
    verdict,
)

MOST = max(timestamps.CONNECTIONS)


def stamp_runs() -> Frames:
    """The error grows with the connections; stamps at reading delay conformant messages, the kernel's do not."""
    points = []
    for connections, stamps in product(timestamps.CONNECTIONS, timestamps.STAMPS):
        late_us = 0.5 * connections
        delays = {"stamp_error": late_us, "undue_delay": late_us if stamps == "read" else 0.02 * late_us,
                  "undue_delay_kernel": 0.02 * late_us, "undue_delay_read": late_us}  # fmt: skip
        rates = {timestamps.EACH_RPS, timestamps.TOTAL_RPS / connections}
        points += [
            {"metric": metric, "stamps": stamps, "connections": connections, "rate_rps": rate, "mean_us": delay,
             "p50_us": delay, "p99_us": 10 * delay, "delayed_share": 0.1}
            for rate, (metric, delay) in product(sorted(rates), delays.items())
        ]  # fmt: skip
    return {"srtm-timestamps/runs": repeated(points, ("mean_us", "p50_us", "p99_us"))}


def gc_runs() -> Frames:
    """Collecting as Go does: twice the p99 of the others, at the higher load."""
    points = [
        {"metric": metric, "load_rps": load, "mode": mode, "p99_ms": p99 * load / 3_000, "p50_ms": 0.1, "p99_9_ms": 9.0}
        for metric, load, (mode, p99) in product(
            gc.METRICS, (3_000.0, 9_000.0), (("default", 2.0), ("friendly", 1.1), ("off", 1.0))
        )
    ]
    return {"srtm-gc/runs": repeated(points)}


def on(name: str, change: Callable[..., pd.DataFrame], *arguments: Any, **where: Any) -> Callable[[Frames], Frames]:
    """A perturbation of the one table called ``name``."""
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


def of_the_total(frame: pd.DataFrame) -> pd.DataFrame:
    """At the same rate in all, the connections change nothing."""
    found = frame.copy()
    same = timestamps.series_of(found, "total").index.difference(timestamps.series_of(found, "each").index)
    found.loc[same, "p99_us"] = 1_500.0
    return found


def falling(frame: pd.DataFrame) -> pd.DataFrame:
    """The fewer connections, the larger the error."""
    return frame.assign(p99_us=1e6 / frame.p99_us)


CASES = [
    Case("R19", stamp_runs, {
        "stamps swapped": on("srtm-timestamps/runs", swapped, "stamps", "kernel", "read"),
        "kernel stamps leave half": on("srtm-timestamps/runs", scaled, "mean_us", 25.0, metric="undue_delay_kernel",
                                       stamps="read", connections=MOST),
        "the broker by kernel stamps is no better": on("srtm-timestamps/runs", scaled, "mean_us", 60.0,
                                                       metric="undue_delay", stamps="kernel"),
        "no other on the same messages": on("srtm-timestamps/runs", scaled, "mean_us", 60.0,
                                            metric="undue_delay_kernel", stamps="read"),
    }),
    Case("R25", stamp_runs, {
        "it falls": on("srtm-timestamps/runs", falling),
        "only with the load": on("srtm-timestamps/runs", of_the_total),
        "not at the most": on("srtm-timestamps/runs", scaled, "p99_us", 0.05, connections=MOST),
    }),
    Case("R24", gc_runs, {
        "modes swapped": on("srtm-gc/runs", swapped, "mode", "default", "off"),
        "friendly as bad": on("srtm-gc/runs", scaled, "p99_ms", 2.0, mode="friendly"),
        "not in the ingress": on("srtm-gc/runs", scaled, "p99_ms", 0.4, mode="default", metric="ingress_time"),
        "not to the subscriber": on("srtm-gc/runs", scaled, "p99_ms", 0.4, mode="default", metric="broker_time"),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


@pytest.mark.parametrize(
    ("claim", "perturbation", "wanted"),
    [
        ("R19", "no other on the same messages", Judgement.CONTRADICTED),
        ("R19", "kernel stamps leave half", Judgement.DIRECTION_ONLY),
        ("R25", "it falls", Judgement.CONTRADICTED),
        ("R25", "only with the load", Judgement.DIRECTION_ONLY),
        ("R24", "modes swapped", Judgement.CONTRADICTED),
        ("R24", "not to the subscriber", Judgement.DIRECTION_ONLY),
    ],
)
def test_what_the_spoiled_tables_say(claim: str, perturbation: str, wanted: Judgement) -> None:
    case = next(case for case in CASES if case.claim == claim)
    assert verdict(claim, case.perturbations[perturbation](case.tables())) is wanted


@pytest.mark.parametrize("claim", ["R19", "R24", "R25"])
def test_without_live_runs_they_are_not_run(claim: str) -> None:
    found = judge(claim_called(claim), {"srtm-fig4/runs": pd.DataFrame()})
    assert found.judgement is Judgement.NOT_RUN and found.problem == "needs mininet or local"


def test_a_pause_is_the_mean_of_all_collections_not_of_runs() -> None:
    runs = pd.DataFrame({"gc_cycle_count": [1, 9, 0], "pause_sum_ms": [2.0, 1.0, 0.0]})
    assert gc.pause_text(runs) == "0.30" and gc.pause_text(runs[2:]) == "0"


@pytest.mark.slow
def test_memory_is_that_of_the_broker_alone(spark: Any) -> None:
    counters = {"gc_cycle_count": 3, "gc_pause_sum_ns": 5, "gc_cpu_ns": 7, "message_count": 11}
    held = {"harness": 900, "publish-p1": 800, "broker-broker1": 40, "": 1_000}
    processes = [{"run_id": "a", "node": node, "rss_bytes": most - less} for node, most in held.items()
                 for less in (9, 0, 5)]  # fmt: skip
    brokers = [{"run_id": "a", "node": "broker1", **counters}]
    (found,) = gc.of_brokers(*map(spark.createDataFrame, (brokers, processes))).collect()
    assert found.asDict() == {"run_id": "a", **counters, "rss_bytes": 40}


def test_one_number_of_connections_shows_no_growth() -> None:
    found = stamp_runs()["srtm-timestamps/runs"]
    alone = judge(claim_called("R25"), {"srtm-timestamps/runs": found[found.connections == MOST]})
    assert alone.judgement is Judgement.UNDECIDED


@pytest.mark.parametrize("figure", [timestamps, gc, wan])
@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_grids_are_sound_and_take_less_than_twenty_minutes(figure: Any, scale: Any) -> None:
    from harness.estimate import campaign_seconds

    runs = figure.EXPERIMENT.runs(scale, {}, 1)
    check_all(runs)
    assert len({run.to_json() for run in runs}) == len(runs)
    if scale.name != "paper":
        assert campaign_seconds(runs, 1) < 1_200
