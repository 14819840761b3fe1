"""Figures 7, 8 and 9 of ePulsar: claims on tables as published and spoiled; excursions; grids that fit together."""

from collections.abc import Callable
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.placement import COUNTS
from analysis.tables import load
from analysis.verdicts import Judgement, judge, t_interval
from collectors.writer import write_run
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import SCALES, Reading
from harness.run import check_all
from paper_figs import load_figure
from paper_figs.epulsar import fig7
from paper_figs.epulsar.readings import CITY_DELAYS, GATEWAY, HALF, PLACE, PRINTED, SUMS
from paper_figs.epulsar.windows import Excursion, ends_after, excursions, starts_at, windows
from studies.tables import columns
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    ends_of,
    parametrised,
    repeated,
    reversed_over,
    scaled,
    verdict,
)

FIG7, FIG8, FIG9 = "epulsar-fig7/migrations", "epulsar-fig8/runs", "epulsar-fig9/runs"
KEYS = ("epulsar-fig7", "epulsar-fig8", "epulsar-fig9")


def fig7_tables() -> Frames:
    """Downtimes of one and two round trips; migrations that wait less, the more run at a time."""
    points = [
        {"metric": fig7.DOWNTIME, "system": system, "wan_ms": wan_ms, "topics": 128, "executors": executors,
         "p50_ms": trips * 2 * wan_ms + 3.0}
        for wan_ms in (10.0, 40.0, 80.0) for system, executors, trips in (("pulsar", 1, 2), ("epulsar", 16, 1))
    ]  # fmt: skip
    points += [
        {"metric": fig7.WITH_WAIT, "system": system, "wan_ms": 40.0, "topics": topics, "executors": executors,
         "p50_ms": 160.0 * (1 + topics / executors / 2)}
        for topics, (system, executors) in product((16, 128), (("pulsar", 1), ("epulsar", 1), ("epulsar", 16)))
    ]  # fmt: skip
    frame = repeated(points, ("p50_ms",))
    frame["count"] = frame.topics
    frame.loc[frame.system == "pulsar", "p50_ms"] *= 1.05
    return {FIG7: frame}


def fig8_tables() -> Frames:
    """Drones: 95 % of the time in the bound; excursions from a handover to a migration."""
    rows = {"epulsar": (0.95, 1.0, 1.0), "pulsar": (0.2, float("nan"), float("nan"))}
    points = [
        {"system": system, "in_bound": share, "begun_at_handover": begun, "ended_by_migration": ended}
        for system, (share, begun, ended) in rows.items()
    ]
    return {FIG8: repeated(points, ("in_bound",))}


def fig9_tables() -> Frames:
    """The game: hardly anything out of the bound under ePulsar, much under Pulsar, which moves nothing."""
    rows = {"pulsar": (0.6, 0.0), "epulsar": (0.997, 9.0)}
    points = [
        {
            "system": system,
            "in_bound": share,
            "messages_in_bound": share,
            "moves_per_minute": moves,
            "ended_by_change": 1.0,
        }
        for system, (share, moves) in rows.items()
    ]
    return {FIG9: repeated(points, ("in_bound", "messages_in_bound"), noise=0.001)}


def on(name: str, change: Callable[..., pd.DataFrame], *arguments: Any, **where: Any) -> Callable[[Frames], Frames]:
    """A perturbation of the table called ``name``."""
    return lambda found: {name: change(found[name], *arguments, **where)}


OF_DOWNTIME, OF_WAIT, OURS = {"metric": fig7.DOWNTIME}, {"metric": fig7.WITH_WAIT}, {"system": "epulsar"}
CASES = [
    Case("E8", fig7_tables, {
        "Pulsar as fast": on(FIG7, scaled, "p50_ms", 0.4, system="pulsar", **OF_DOWNTIME),
        "no gain": on(FIG7, scaled, "p50_ms", 2.2, **OURS, **OF_DOWNTIME),
        "lower, but hardly": on(FIG7, scaled, "p50_ms", 1.9, **OURS, **OF_DOWNTIME),
        "the gain shrinks": on(FIG7, reversed_over, "wan_ms"),
    }),
    Case("E9", fig7_tables, {
        "executors do nothing": on(FIG7, scaled, "p50_ms", 20.0, executors=16, **OF_WAIT),
        "Pulsar is as fast": on(FIG7, scaled, "p50_ms", 0.05, system="pulsar", **OF_WAIT),
    }),
    Case("E10", fig8_tables, {
        "out of the bound": on(FIG8, scaled, "in_bound", 0.4, **OURS),
        "excursions for no reason": on(FIG8, scaled, "begun_at_handover", 0.5, **OURS),
        "excursions that go on": on(FIG8, scaled, "ended_by_migration", 0.5, **OURS),
    }),
    Case("E11", fig9_tables, {
        "late seconds": on(FIG9, scaled, "in_bound", 0.9, **OURS),
        "late messages": on(FIG9, scaled, "messages_in_bound", 0.95, **OURS),
        "seconds that stay late": on(FIG9, scaled, "ended_by_change", 0.8, **OURS),
        "Pulsar is as good": on(FIG9, scaled, "in_bound", 1.67, system="pulsar"),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


ON_PULSAR = [  # what clients feel and what moves take, in both of their ways: what is spoiled, and the verdict
    ("E8", fig7.DOWNTIME, fig7.GAP, Judgement.CONTRADICTED),
    ("E8", fig7.GAP, fig7.DOWNTIME, Judgement.DIRECTION_ONLY),
    ("E9", fig7.WITH_WAIT, fig7.MIGRATION, Judgement.CONTRADICTED),
    ("E9", fig7.MIGRATION, fig7.WITH_WAIT, Judgement.DIRECTION_ONLY),
]


@pytest.mark.parametrize(("claim", "spoiled", "kept", "judgement"), ON_PULSAR)
def test_on_a_real_pulsar_both_measures_have_to_say_it(
    claim: str, spoiled: str, kept: str, judgement: Judgement
) -> None:
    one, other = (fig7.DOWNTIME, fig7.GAP) if claim == "E8" else (fig7.WITH_WAIT, fig7.MIGRATION)
    frame = fig7_tables()[FIG7]
    whole = pd.concat([frame, frame[frame.metric == one].assign(metric=other)], ignore_index=True)
    if claim == "E9":  # there is a gap wherever there is a real Pulsar
        whole = pd.concat([whole, frame[frame.metric == fig7.DOWNTIME].assign(metric=fig7.GAP)], ignore_index=True)
    whole = whole.assign(testbed="mininet", landed_count=whole.topics)
    assert verdict(claim, {FIG7: whole}) is Judgement.REPRODUCED
    of_model = judge(claim_called(claim), {FIG7: whole.assign(testbed="virtual")})
    assert of_model.judgement is Judgement.UNDECIDED and "its model was fitted" in of_model.problem
    refused = whole.assign(landed_count=whole.landed_count.mask(whole.executors == 16, whole.topics - 1))
    of_few = judge(claim_called(claim), {FIG7: refused})
    assert of_few.judgement is Judgement.UNDECIDED and "127 of 128 moves landed" in of_few.problem
    much = scaled(whole, "p50_ms", 30.0, metric=spoiled, system="epulsar", executors=16)
    assert (much[much.metric == kept].p50_ms == whole[whole.metric == kept].p50_ms).all()
    assert verdict(claim, {FIG7: much}) is judgement


@pytest.mark.parametrize("claim", ["E8", "E9"])
def test_on_our_brokers_too_all_moves_have_to_end(claim: str) -> None:
    frame = fig7_tables()[FIG7]
    ended = frame.assign(count=frame.topics.mask(frame.system == "pulsar", frame.topics - 1))
    result = judge(claim_called(claim), {FIG7: ended})
    assert result.judgement is Judgement.UNDECIDED and "127 of 128 moves" in result.problem


def test_where_nothing_moves_the_game_decides_nothing() -> None:
    tables = fig9_tables()
    tables[FIG9] = scaled(tables[FIG9], "moves_per_minute", 0.1, **OURS)
    result = judge(claim_called("E11"), tables)
    assert result.judgement is Judgement.UNDECIDED and "migration a minute" in result.problem


def test_a_system_that_is_pulsar_cannot_win_the_game() -> None:
    """What Pulsar does, with migrations that change nothing, under ePulsar's name: in the bound, and yet no better."""
    tables = fig9_tables()
    frame = tables[FIG9]
    both = frame[frame.system == "epulsar"]
    tables[FIG9] = pd.concat([both, both.assign(system="pulsar")], ignore_index=True)
    assert verdict("E11", tables) is Judgement.CONTRADICTED


READINGS = [
    ("epulsar-fig8", SUMS, PRINTED, {"epulsar"}),
    ("epulsar-fig8", PLACE, GATEWAY, {"epulsar"}),
    ("epulsar-fig9", SUMS, PRINTED, {"epulsar"}),
    ("epulsar-fig9", CITY_DELAYS, HALF, {"pulsar", "epulsar"}),
]


@pytest.mark.parametrize(("key", "reading", "value", "concerned"), READINGS)
def test_a_reading_changes_what_it_is_about_alone(key: str, reading: Reading, value: str, concerned: set[str]) -> None:
    experiment = load_figure(key).experiment
    assert reading in experiment.options
    given = {option.name: option.default for option in experiment.options}
    usual = experiment.points(SCALES["quick"], given)
    read = experiment.points(SCALES["quick"], {**given, reading.name: value})
    check_all(read)
    assert {spec.system for spec, before in zip(read, usual, strict=True) if spec != before} == concerned


@pytest.mark.parametrize(("key", "scale"), list(product(KEYS, SCALES)))
def test_every_point_fits_together(key: str, scale: str) -> None:
    experiment = load_figure(key).experiment
    check_all(experiment.points(SCALES[scale], {option.name: option.default for option in experiment.options}))


@pytest.mark.slow
def test_windows_have_their_latencies_in_ms_and_none_where_nobody_got_a_message(tmp_path: Path, spark: Any) -> None:
    counts = {name: [4, 2] for name in COUNTS} | {"lost_count": [0, 2]}
    windows_ = {"run_id": ["r"] * 2, "at_ns": [SECOND_NS, 2 * SECOND_NS], "topic": ["topic-1"] * 2, **counts}
    buckets = [(10_000_000, 10_000_001, 3), (50_000_000, 50_000_001, 1)]  # of width 1: exact
    latency: dict[str, Any] = {"run_id": ["r"] * 2, "at_ns": [SECOND_NS] * 2, "topic": ["topic-1"] * 2}
    latency |= {name: [row[i] for row in buckets] for i, name in enumerate(("low_ns", "high_ns", "count"))}
    write_run(tmp_path / "r", {"topic_windows": windows_, "topic_latency": latency}, {"run_id": "r"})
    found = windows(load(spark, [tmp_path / "r"]))
    columns = ["run_id", "topic", "second", "message_count", "lost_count", "mean_ms", "max_ms"]
    assert found[columns].values.tolist() == [
        ["r", "topic-1", 1, 4.0, 0.0, 20.0, 50.0], ["r", "topic-1", 2, 2.0, 2.0, 0.0, 0.0],
    ]  # fmt: skip


@pytest.mark.slow
def test_a_move_s_downtimes_are_those_around_it(tmp_path: Path, spark: Any) -> None:
    """Another topic's lookups cut both clients off in between; our own broker tells of no REST."""
    steps = [("topic-1", "request", 100, 400), ("topic-2", "request", 900, 1000), ("topic-1", "release", 790, 880)]
    away = [
        ("c1", "topic-1", "producer", 150, 170), ("c1", "topic-1", "producer", 200, 900),
        ("c1", "topic-2", "producer", 210, 260), ("c1", "topic-2", "producer", 850, 910),
        ("c2", "topic-1", "producer", 390, 400),
    ]  # fmt: skip
    tables = {
        "move_steps": columns(("topic", "step", "start_ns", "end_ns"), [(*row[:2], *in_ns(row[2:])) for row in steps]),
        "downtimes": columns(
            ("client", "topic", "role", "start_ns", "end_ns"), [(*row[:3], *in_ns(row[3:])) for row in away]
        ),
    }
    for table in tables.values():
        table["run_id"] = ["real"] * len(table["topic"])
    samples = {"run_id": ["ours"], "at_ns": [9], "node": ["c1"], "metric": [fig7.DOWNTIME], "value": [20e6]}
    write_run(tmp_path / "real", tables, {"run_id": "real"})
    write_run(tmp_path / "ours", {"samples": samples}, {"run_id": "ours"})
    data = load(spark, [tmp_path / "real", tmp_path / "ours"])
    found = fig7._downtimes(data.table("downtimes"), data.table("move_steps")).toPandas()
    spans = {name: sorted(part.value / MILLISECOND_NS) for name, part in found.groupby("run_id")}
    assert spans == {"real": [10, 60, 700]} and set(found.metric) == {fig7.DOWNTIME}


def in_ns(span_ms: tuple[int, ...]) -> list[int]:
    return [at_ms * MILLISECOND_NS for at_ms in span_ms]


def test_excursions_are_seconds_in_a_row() -> None:
    late = [(20, 0.0), (21, 3.0), (22, 1.0), (23, 0.0), (25, 1.0), (27, 1.0), (28, 0.0), (29, 5.0)]
    assert excursions(late, 30) == [Excursion(21, 23), Excursion(25, 26), Excursion(27, 28)]  # the last is cut off
    assert excursions(late, 40)[-1] == Excursion(29, 30)  # the topic fell silent: there is nothing late after it
    assert excursions([(second, 1.0) for second in range(15, 30)], 30) == [Excursion(15, inf)], "it never ended"
    assert excursions([], 10) == []


def test_what_begins_and_ends_an_excursion() -> None:
    one = Excursion(21, 26)
    assert starts_at(one, [19.5]) and starts_at(one, [21.9]) and not starts_at(one, [18.9, 22.0])
    assert ends_after(one, [21.5], []) and ends_after(one, [25.9], []) and not ends_after(one, [20.9, 26.1], [])
    assert not ends_after(Excursion(21, 22), [20.9], []), "what was before it does not end it"
    assert not ends_after(Excursion(21, inf), [21.5, 29.9], []), "what comes to no end is ended by nobody"
    assert ends_after(one, [], [25.0]) and not ends_after(one, [], [21.5])  # its own handover does not end it


def test_the_drawn_lines_of_the_game_are_those_of_the_area_of_interest() -> None:
    from paper_figs.epulsar.fig9 import SHOWN, _in_interest

    changes = pd.DataFrame([
        {"run_id": "r", "kind": kind, "at_s": at_s, "client": client, "topic": topic, "role": "consumer"}
        for kind, at_s, client, topic in (
            ("joined", 0.0, SHOWN, "avatar-2"), ("joined", 0.0, "avatar-3", "avatar-2"),
            ("left", 3.0, SHOWN, "avatar-2"), ("joined", 5.0, SHOWN, "avatar-2"),
        )
    ])  # fmt: skip
    seconds = product(("avatar-2", "avatar-4"), range(8))
    every = pd.DataFrame([{"run_id": "r", "topic": topic, "second": n, "max_ms": 1.0 * n} for topic, n in seconds])
    found = _in_interest(every, changes, "r")
    assert list(zip(found.topic, found.spell, found.second, strict=True)) == [
        ("avatar-2", spell, second) for spell, second in ((0, 0), (0, 1), (0, 2), (1, 5), (1, 6), (1, 7))
    ]


def test_the_worst_client_s_downtime_has_an_interval() -> None:
    frame = fig7_tables()[FIG7]
    drawing = load_figure("epulsar-fig7").draw(
        {"migrations": frame.assign(largest_ms=500.0 + frame.repetition, testbed="virtual")}
    )
    told = t_interval([500.0, 501.0, 502.0, 503.0, 504.0])
    ends = [pair for axes in drawing.axes for pair in ends_of(axes)]
    assert sum(pair == pytest.approx((told.low, told.high)) for pair in ends) == 2, "of either system"
