"""Figs. 7 to 9, Table I, TB Adaptor, trace: grids, tables from decisions, drawings without an empty axis."""

import gzip
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import t_interval
from core.errors import SpecError
from harness.experiment import SCALES
from harness.run import resolve
from paper_figs import load_figure
from paper_figs.series import plain
from paper_figs.srtm import adaptor, groups, table1, trace
from paper_figs.srtm.p99 import STRIPS, p99_sheet, summary
from paper_figs.style import style_of
from tests.paper_figs.srtm.test_claims_of_searches import KEYS, fig7_runs, fig8_runs, fig9_runs, table1_searches
from tests.paper_figs.tables import ends_of

NO_TRACE = {option.name: option.default for option in trace.OPTIONS}


@pytest.mark.parametrize("key", KEYS)
def test_every_point_is_a_run_that_can_be_made(key: str) -> None:
    for scale in SCALES.values():
        specs = load_figure(key).experiment.points(scale, {})
        assert len({spec.to_json() for spec in specs}) == len(specs) > 0
    for spec in specs:
        resolve(spec)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_figures_share_their_runs(scale: Any) -> None:
    grids = {key: {spec.to_json() for spec in load_figure(key).experiment.points(scale, {})} for key in KEYS}
    literal = {
        spec.to_json()
        for spec in groups.fig7_points(scale, {})
        if (spec.workload, spec.study_options["envelope"]) == ("poisson", "profiled")
    }
    assert grids["srtm-fig7"] - literal < grids["srtm-fig8"] and not literal & grids["srtm-fig8"]
    assert literal < grids["srtm-fig7"] and (literal or scale.name == "small")
    assert grids["srtm-table1"] < grids["srtm-fig7"]
    if scale.name != "tiny":  # spread 0: two systems, at small of one kind of arrivals, otherwise of two
        assert len(grids["srtm-fig9"] & grids["srtm-fig7"]) == (2 if scale.name == "small" else 4)


def test_forced_runs_are_those_with_srtms_number_of_brokers() -> None:
    point = {"arrivals": "poisson", "group_size": 10}
    rows = [
        {**point, "repetition": n, "system": system, "forced_count": forced, "broker_count": count, "p99_ms": 1.0}
        for n, taken in enumerate((2, 4))
        for system, forced, count in [("srtm", None, taken), ("max-min", None, 1)]
        + [("max-min", k, k) for k in range(1, 7)]
    ]
    found = groups.chosen(pd.DataFrame(rows))
    forced = found[found.system == groups.FORCED]
    assert list(forced.repetition) == [0, 1]
    assert list(forced.broker_count) == [2, 4]
    assert len(found) == 6


def test_factors_become_numbers_and_truth_values() -> None:
    frame = pd.DataFrame({"size": ["5", "10"], "enabled": ["true", "false"], "spread": ["2ms", None]})
    found = plain(frame, ["size", "enabled", "spread"])
    assert list(found["size"]) == [5, 10]
    assert list(found.enabled) == [True, False]
    assert found.spread[0] == "2ms" and pd.isna(found.spread[1])


# --- Table I ---------------------------------------------------------------------------------------

SEARCH = [  # iteration, round, publishers of brokers 1 to 3
    (1, 1, (100, 0, 0)), (1, 2, (50, 0, 0)), (1, 3, (75, 0, 0)),
    (2, 4, (50, 50, 0)), (2, 5, (50, 25, 0)),
    (3, 6, (50, 25, 25)),
]  # fmt: skip


def decisions(spark: Any, search: list[tuple[int, int, tuple[int, ...]]]) -> Any:
    """The decisions of one search, and the final rows of its judged minute."""
    rows = [
        {"run_id": "a", "kind": "trial", "iteration": iteration, "round": number, "broker": broker,
         "publisher_count": count, "duration_ns": 60 * 10**9, "seen_topic_p99_ns": 10**6}
        for iteration, number, counts in search
        for broker, count in enumerate(counts)
    ]  # fmt: skip
    final = [{**row, "kind": "final", "iteration": 0, "round": 0, "publisher_count": 999} for row in rows[:3]]
    return spark.createDataFrame(pd.DataFrame(rows + final))


def test_a_search_is_counted_by_iteration(spark: Any) -> None:
    found = decisions(spark, SEARCH)
    steps = table1.iterations(found)
    by_iteration = steps.toPandas().sort_values("iteration")
    assert list(by_iteration.round_count) == [3, 2, 1]
    assert list(by_iteration.reach) == [1, 2, 3]
    row = table1.searches(found, steps).toPandas().iloc[0]
    assert (row.round_count, row.iteration_count, row.last_round_count, row.first_reach) == (6, 3, 1, 1)
    assert row.search_s == pytest.approx(6 * 62.2)
    assert (row.moved_back_count, row.reach_step) == (0, 1)


@pytest.mark.parametrize(("last", "back"), [
    ((53, 25, 22), 3), ((50, 26, 24), 1), ((49, 25, 26), 0), ((51, 27, 22), 3),
])  # fmt: skip
def test_publishers_that_move_back_are_seen(spark: Any, last: tuple[int, ...], back: int) -> None:
    # Each broker ended the iteration before with 50 and 25; that the first one tried 75 there does not count.
    found = table1.moved_back(decisions(spark, [*SEARCH[:-1], (3, 6, last)]))
    assert found.toPandas().moved_back_count[0] == back


def test_a_broker_that_never_searched_is_an_earlier_one_too(spark: Any) -> None:
    search = [(1, 1, (100, 0, 0)), (1, 2, (50, 0, 0)), (2, 3, (50, 20, 30)), (2, 4, (25, 20, 30)), (3, 5, (25, 45, 30))]
    assert table1.moved_back(decisions(spark, search)).toPandas().moved_back_count[0] == 25


def test_a_broker_that_was_left_empty_is_an_earlier_one_too(spark: Any) -> None:
    search = [(1, 1, (100, 0, 0)), (1, 2, (0, 0, 0)), (2, 3, (10, 90, 0))]
    assert table1.moved_back(decisions(spark, search)).toPandas().moved_back_count[0] == 10


def test_the_first_publishers_of_a_new_broker_do_not_move_back(spark: Any) -> None:
    search = [(1, 1, (100, 0, 0)), (1, 2, (40, 0, 0)), (2, 3, (40, 60, 0)), (2, 4, (40, 30, 0)), (3, 5, (40, 30, 30))]
    assert table1.moved_back(decisions(spark, search)).toPandas().moved_back_count[0] == 0


def test_two_brokers_at_once_are_seen(spark: Any) -> None:
    found = decisions(spark, [SEARCH[0], (2, 2, (50, 25, 25))])
    assert table1.searches(found, table1.iterations(found)).toPandas().reach_step[0] == 2


# --- trace -----------------------------------------------------------------------------------------


def test_without_a_trace_the_figure_is_skipped() -> None:
    assert trace.points(SCALES["quick"], NO_TRACE) == []
    assert "--trace FILE" in trace.skip_reason(NO_TRACE)


@pytest.mark.parametrize(("content", "kind"), [
    (b"1163438041250 20 1 21,21 2,81 51,53 22,08 20 28\r\n", "ulb-wsn"),
    (b"1163438002000 0 0 16 13 8 234\r\n", "ulb-wsn"),
    (b"publisher,instant\na,1.5\nb,2.5\n", "csv"),
    (b"1,2\n", "csv"),
    (b"PAR1 and the rest", "parquet"),
    (b"", "csv"),
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_formats_by_their_looks(tmp_path: Path, content: bytes, kind: str, packed: bool) -> None:
    if packed and kind == "parquet":
        pytest.skip("Parquet is packed inside")
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert trace.looks_like(str(path)) == kind


def test_columns_of_what_is_read_as_ulb_wsn_are_not_dropped(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("1163438002000 0 0 16 13 8 234\n")
    with pytest.raises(SpecError, match=r"--columns, and .* is read as ulb-wsn"):
        trace.points(SCALES["quick"], {**NO_TRACE, "trace": str(path), "columns": "publisher=3,instant=0"})


def test_an_unreadable_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no-such-file"):
        trace.points(SCALES["quick"], {**NO_TRACE, "trace": str(tmp_path / "no-such-file")})


def test_a_csv_with_semicolons_and_decimal_commas_can_be_run(tmp_path: Path) -> None:
    path = tmp_path / "messages.csv"
    path.write_text("".join(f"s{n % 3};{n},25\n" for n in range(30)))
    options = {**NO_TRACE, "trace": str(path), "columns": "publisher=0,instant=1", "separator": ";", "decimal": ",",
               "header": "no"}  # fmt: skip
    schedule = resolve(trace.points(SCALES["quick"], options)[0]).schedule
    assert schedule.names == ("s0", "s1", "s2") and schedule.row_count == 30


def test_a_tab_can_be_named_and_header_is_yes_or_no() -> None:
    assert trace.csv_options({**NO_TRACE, "separator": "tab"})["separator"] == "\t"
    with pytest.raises(SpecError, match="header"):
        trace.csv_options({**NO_TRACE, "header": "maybe"})


def test_a_csv_with_a_column_map_can_be_run(tmp_path: Path) -> None:
    path = tmp_path / "messages.csv"
    path.write_text("when,who\n" + "".join(f"{n * 100},s{n % 3}\n" for n in range(30)))
    options = {**NO_TRACE, "trace": str(path), "columns": "publisher=who,instant=when", "instant-unit": "ms"}
    specs = trace.points(SCALES["quick"], options)
    assert [spec.system for spec in specs] == list(trace.SYSTEMS)
    assert resolve(specs[0]).schedule.population.count == 3 * 53


# --- drawings --------------------------------------------------------------------------------------


def with_strips(runs: pd.DataFrame) -> pd.DataFrame:
    """What is drawn in the strips below, too."""
    return runs.assign(residual_rps=3e5, violation_s=60.0, round_count=3)


def drawn(figure: Any, tables: dict[str, pd.DataFrame]) -> None:
    """The drawing has something on every axis."""
    from matplotlib import pyplot

    drawing = figure.draw(tables)
    assert all(axes.has_data() for axes in drawing.axes)
    drawing.canvas.draw()
    pyplot.close(drawing)


DRAWN = [(groups.FIG7, fig7_runs), (groups.FIG8, fig8_runs), (groups.FIG9, fig9_runs)]


@pytest.mark.parametrize(("figure", "tables"), DRAWN)
def test_p99_is_drawn(figure: Any, tables: Any) -> None:
    (runs,) = tables().values()
    rows = with_strips(runs)
    drawn(figure, {"runs": rows, "literal_runs": rows[rows.arrivals == "poisson"]})


@pytest.mark.parametrize(("figure", "tables"), DRAWN)
@pytest.mark.parametrize(("column", "value"), [("system", "srtm"), ("arrivals", "periodic"), ("arrivals", "poisson")])
def test_what_is_there_is_drawn(figure: Any, tables: Any, column: str, value: str) -> None:
    from matplotlib import pyplot

    (runs,) = tables().values()
    rows = with_strips(runs[runs[column] != value])
    drawing = figure.draw({"runs": rows, "literal_runs": rows[rows.arrivals == "poisson"]})
    panels = [axes for axes in drawing.axes if axes.get_title(loc="left")]
    assert len(panels) == len(set(rows.arrivals)) + ("poisson" in set(rows.arrivals))
    assert len(drawing.axes) == len(panels) * (1 + len(STRIPS)) and all(axes.has_data() for axes in drawing.axes)
    looks = [style_of(system) for system in set(rows.system)]
    for axes in panels:
        assert {look.colour for look in looks} <= {line.get_color() for line in axes.lines if len(line.get_xdata())}
    (legend,) = drawing.legends
    assert {look.label for look in looks} <= {text.get_text() for text in legend.texts}
    drawing.canvas.draw()
    pyplot.close(drawing)


@pytest.mark.parametrize("missing", ["srtm", ""])
def test_a_foreign_system_is_drawn_beside_the_figures_own(missing: str) -> None:
    from matplotlib import pyplot

    runs = fig9_runs()["srtm-fig9/runs"]
    more = runs[runs.system == "max-min"].assign(system="mine.py:SYSTEM")
    drawing = groups.FIG9.draw({"runs": with_strips(pd.concat([runs[runs.system != missing], more]))})
    (legend,) = drawing.legends
    assert "mine.py:SYSTEM" in {text.get_text() for text in legend.texts}
    pyplot.close(drawing)


@pytest.mark.parametrize("more", [{}, {"highest_ms": 1.5}, {"tail_beside": 0.3}])
def test_infinite_p99s_are_told_at_the_upper_edge(more: dict[str, float]) -> None:
    from matplotlib import pyplot

    runs = with_strips(fig9_runs()["srtm-fig9/runs"])
    runs = runs[runs.arrivals == "poisson"].copy()
    some = (runs.system == "srtm") & (runs.spread_ms == 16.0) & (runs.repetition < 2)
    runs.loc[some | (runs.system == "max-min") & (runs.spread_ms == 0.0), "p99_ms"] = inf
    drawing, [panel] = p99_sheet([("", runs)], groups.SYSTEMS, "spread_ms", "", **more)
    said = {text.get_text(): (text.xy, text.get_ha()) for text in panel.texts if "inf" in text.get_text()}
    assert said == {"inf (2 of 5)": ((16.0, 1.0), "right"), "inf (5 of 5)": ((0.0, 1.0), "left")}
    drawing.canvas.draw()
    pyplot.close(drawing)


def test_of_an_infinite_mean_there_is_no_spread() -> None:
    systems, p99 = ["lb", "lb", "conc", "srtm", "srtm"], [1.0, inf, 2.0, 3.0, 5.0]
    runs = with_strips(pd.DataFrame({"system": systems, "p99_ms": p99, "broker_count": 2, "slo_ms": 1.0}))
    over = summary(runs, ["system"]).set_index("system")
    assert over["mean"].tolist() == [inf, 2.0, 4.0] and over["count"].tolist() == [2, 1, 2]
    assert over["std"].isna().tolist() == [True, False, False]
    assert (over["std"]["conc"], over["std"]["srtm"]) == (0.0, pytest.approx(2**0.5))


def test_the_table_is_drawn() -> None:
    searches = table1_searches()["srtm-table1/searches"]
    steps = [
        {"arrivals": row.arrivals, "group_size": row.group_size, "iteration": k, "round_count": count}
        for row in searches.itertuples()
        for k, count in enumerate(table1.TABLE_1[row.group_size][0], start=1)
    ]
    drawn(table1.FIGURE, {"iterations": pd.DataFrame(steps), "searches": searches})


def test_the_adaptor_is_drawn() -> None:
    cases = [(share, enabled) for share in adaptor.SHARES for enabled in (True, False)]
    p99 = [
        {"share": share, "enabled": enabled, "middle_s": t, "mean": 3.0, "low": -1.0, "high": 4.0}
        for share, enabled in cases
        for t in (2.5, 7.5)
    ]
    rates = [
        {"share": share, "enabled": enabled, "broker": broker, "at_s": t, "message_rate_rps": 5e3,
         "bucket_rate_rps": 5.5e3, "topic_rate_rps": 11e3}
        for share, enabled in cases
        for broker in adaptor.BROKERS
        for t in (1.0, 2.0)
    ]  # fmt: skip
    drawn(adaptor.FIGURE, {"p99": pd.DataFrame(p99), "rates": pd.DataFrame(rates)})


def test_the_trace_is_drawn() -> None:
    runs = [
        {"system": system, "repetition": n, "p99_ms": 1.0 + n, "broker_count": 2} for system in trace.SYSTEMS
        for n in range(2)
    ]  # fmt: skip
    wraps = pd.DataFrame({"mean": [80.0], "max": [81.0]})
    drawn(trace.FIGURE, {"runs": with_strips(pd.DataFrame(runs)), "wraps": wraps})


def test_rates_under_the_adaptor_have_the_intervals_of_their_repetitions() -> None:
    share = adaptor.SHARES[0]
    p99 = pd.DataFrame(
        [[share, True, 2.5, 3.0, 2.0, 4.0]], columns=["share", "enabled", "middle_s", "mean", "low", "high"]
    )
    rates = [
        {"share": share, "enabled": True, "broker": broker, "at_s": t, "message_rate_rps": 5e3 + 100 * n,
         "bucket_rate_rps": 6e3 + 100 * n, "topic_rate_rps": 11e3}
        for broker in adaptor.BROKERS
        for t in (1.0, 2.0)
        for n in range(3)
    ]  # fmt: skip
    drawing = adaptor.FIGURE.draw({"p99": p99, "rates": pd.DataFrame(rates)})
    ends = [pair for axes in drawing.axes for pair in ends_of(axes)]
    for middle in (5.0, 6.0):
        told = t_interval([middle, middle + 0.1, middle + 0.2])
        assert sum(pair == pytest.approx((told.low, told.high)) for pair in ends) == len(adaptor.BROKERS)
