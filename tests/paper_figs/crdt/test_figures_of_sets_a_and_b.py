"""Grids, tables and drawings of the thesis' figures on data sets A and B."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.verdicts import half_width, t_interval
from core.units import SECOND_NS
from harness.experiment import SCALES
from harness.run import check_point, resolve
from paper_figs import load_figure
from paper_figs.crdt import fig5_2, precision, usage
from paper_figs.crdt.published import RATIOS, more
from paper_figs.crdt.runs import _ended_as_zero, counts_of
from paper_figs.crdt.variants import CENTRAL_QUEUE, COUNTER, EXTENSIONS, FL, ORACLE, F
from paper_figs.drawing import panels

KEYS = ("crdt-fig4.6", *(f"crdt-fig5.{n}" for n in range(1, 13)), "crdt-sensitivity", "crdt-nodes")


def grid(key: str, scale: str = "quick") -> set[bytes]:
    return {spec.to_json() for spec in load_figure(key).experiment.points(SCALES[scale], {})}


@pytest.mark.parametrize("key", KEYS)
def test_every_point_is_a_run_that_can_be_made(key: str) -> None:
    for scale in SCALES.values():
        specs = load_figure(key).experiment.points(scale, {})
        assert len({spec.to_json() for spec in specs}) == len(specs) > 0
    small = [spec for spec in specs if spec.workload_options["set"] != "C"]
    for spec in small:
        check_point(resolve(spec))


def test_figures_share_their_runs() -> None:
    for precise, used in ((3, 4), (5, 6), (7, 8), (9, 10), (11, 12)):
        assert grid(f"crdt-fig5.{used}") < grid(f"crdt-fig5.{precise}")
    assert grid("crdt-fig4.6") < grid("crdt-fig5.1") < grid("crdt-fig5.3")
    assert len(grid("crdt-fig5.2") & grid("crdt-fig5.3")) == 1  # the centralised limiter on A
    assert len(grid("crdt-sensitivity") & grid("crdt-fig5.7")) == 3
    assert len(grid("crdt-nodes") & grid("crdt-fig5.7")) == 3


def test_more_has_two_readings_above_one_hundred_percent_only() -> None:
    assert more("", "", "798 %").readings == (7.98, 8.98)
    assert more("", "", "+31 %").readings == (1.31,)
    assert more("", "", "-77 %").value == 0.23


def test_the_nearest_ratio_is_checked_and_the_percentage_in_total() -> None:
    for most, nearest in ((9.1, 8.98), (8.1, 7.98)):
        ratios = [(FL, n, most - n / 10) for n in range(3)] + [(COUNTER, n, 1.0) for n in range(3)]
        runs = pd.DataFrame(ratios, columns=["variant", "repetition", usage.MEMORY])
        (check,), _ = usage.as_published(runs, FL, {usage.MEMORY: more("", "", "798 %")})
        assert check.published == nearest
    rows = [(COUNTER, 0, 0.99, 0.9), (COUNTER, 1, 0.98, 0.92)]
    runs = pd.DataFrame(rows, columns=["variant", "repetition", *precision.READINGS])
    for printed in (0.92, 0.97):
        (check,) = precision.shares_as_published(runs, {COUNTER: printed})
        assert check.label.endswith("(total)")


def test_runs_that_have_ended_count_as_zero_up_to_the_last_of_their_point() -> None:
    point = {"data_set": "A", "capacity": 300, "gossip": "300ms", "choice": "pending"}
    rows = pd.DataFrame(
        [{"variant": COUNTER, **point, "run_id": run, "t_ns": t, "state_bytes": 8.0} for run, t in
         (("a", 0), ("a", 1), ("a", 2), ("b", 0))]
        + [{"variant": FL, **point, "run_id": "c", "t_ns": 7, "state_bytes": 8.0}]
    )  # fmt: skip
    found = _ended_as_zero(rows, ["state_bytes"])
    assert sorted(zip(found.run_id, found.t_ns, found.state_bytes, strict=True)) == [
        ("a", 0, 8.0), ("a", 1, 8.0), ("a", 2, 8.0), ("b", 0, 8.0), ("b", 1, 0.0), ("b", 2, 0.0), ("c", 7, 8.0),
    ]  # fmt: skip


def usage_runs() -> pd.DataFrame:
    """A counter that was at rest before the load ended, a queue that never was, each with a repetition."""
    counter = {
        "variant": COUNTER,
        "converged_at_ns": 20 * SECOND_NS,
        "last_sent_at_ns": None,
        "state_byte_seconds": 2.0,
    }
    queue = {"variant": FL, "converged_at_ns": None, "last_sent_at_ns": 660 * SECOND_NS, "state_byte_seconds": 9.0}
    common = {
        "load_end_ns": 59 * SECOND_NS,
        "end_ns": 660 * SECOND_NS,
        "sent_bytes": 5.0,
        "allocated_byte_seconds": 1.0,
    }
    return pd.DataFrame([{**row, **common, "repetition": n} for row in (counter, queue) for n in (0, 1)])


def test_rest_is_after_the_load_and_at_least_the_cap_where_it_never_came() -> None:
    runs = usage.with_seconds(usage_runs())
    assert list(runs.rest_s) == [59.0, 59.0, 660.0, 660.0]
    assert list(runs.converged) == [True, True, False, False]
    assert list(runs.last_sent_s) == [0.0, 0.0, 660.0, 660.0]


def test_ratios_are_over_the_counter() -> None:
    found = usage.ratios(usage_runs()).set_index("area")["mean"]
    assert found[usage.MEMORY] == 4.5 and found[usage.BANDWIDTH] == 1.0


def test_memory_kept_compares_the_end_of_the_load_with_its_middle() -> None:
    held = [(run, t * SECOND_NS, early if t <= 60 else 2.0) for run, early in (("a", 10.0), ("b", 0.0))
            for t in range(1, 121)]  # fmt: skip
    ends = pd.DataFrame({"run_id": ["a", "b"], "load_end_ns": [100 * SECOND_NS] * 2})
    found = usage.memory_kept(pd.DataFrame(held, columns=["run_id", "t_ns", "state_bytes"]), ends)
    assert found.memory_kept[0] == 0.2 and pd.isna(found.memory_kept[1])  # over nothing


def test_late_admissions(spark: Any) -> None:
    at = [("a", 29, "admit"), ("a", 30, "admit"), ("a", 40, "reject"), ("b", 50, "lost")]
    rows = [(run, second * SECOND_NS, decision) for run, second, decision in at]
    requests = spark.createDataFrame(rows, "run_id string, intended_at_ns long, decision string")
    counts = counts_of(requests, ["run_id"], late_admitted_count=precision.LATE_ADMITTED)
    assert sorted(tuple(row) for row in counts.collect()) == [("a", 1), ("b", 0)]


def curve(variant: str, offered: float, rejected: float) -> list[dict[str, Any]]:
    names = ("rejected_count", "offered_count", "gap_count")
    return [
        {"variant": variant, "capacity": 300, "t_s": float(t),
         **dict(zip(names, (rejected * t / 60, offered * t, 0.0), strict=True)),
         **{f"{name}_std": 1.0 for name in names}}
        for t in range(61)
    ]  # fmt: skip


def precision_tables(rejected: float) -> dict[str, pd.DataFrame]:
    ratio = 0.9 if rejected else None
    rows = [{"variant": variant, "data_set": "B", "capacity": 300, "repetition": n, "rejected_ratio": ratio,
             "area_ratio": ratio, "false_admit_count": rejected, "false_reject_count": 0,
             "excess_tokens": 0.0} for variant in (COUNTER, FL) for n in (0, 1)]  # fmt: skip
    runs = pd.DataFrame(rows)
    curves = [row for variant in (ORACLE, COUNTER, FL) for row in curve(variant, 5.0, rejected)]
    return {"runs": runs, "curves": pd.DataFrame(curves), "share": precision.shares(runs)}


@pytest.mark.parametrize(("rejected", "shown"), [(250.0, True), (12.0, False)])
def test_requests_are_drawn_unless_they_dwarf_the_rejections(rejected: float, shown: bool) -> None:
    curves = load_figure("crdt-fig5.5").draw(precision_tables(rejected)).axes[0]
    assert len(curves.lines) == 3 + shown


def test_panels_without_a_rejection_are_one_sentence() -> None:
    rejections, rest = load_figure("crdt-fig5.5").draw(precision_tables(0.0)).axes
    assert len(rejections.lines) == 4
    assert not rest.axison and "Nobody rejects anything" in rest.texts[0].get_text()


@pytest.mark.parametrize("count", [2, 5])
def test_gaps_have_intervals_however_many_curves_there_are(count: int) -> None:
    variants = EXTENSIONS[:count]
    curves = pd.DataFrame([row for variant in variants for row in curve(variant, 5.0, 100.0)])
    _, [axes] = panels(1, 1)
    precision.draw_gaps(axes, curves, variants, 4)
    half = half_width(4) / 300  # of a standard deviation of 1, in c
    if count == 5:
        bars = [segment for bars in axes.collections for segment in bars.get_segments()]
        assert len({float(at) for (at, _), _ in bars}) == len(bars) > 25, "none at another's instant"
        assert all(float(high) == pytest.approx(half) == -float(low) for (_, low), (_, high) in bars)
    else:
        ends = [band.get_datalim(axes.transData) for band in axes.collections]
        assert len(ends) == 2 and all((box.y0, box.y1) == pytest.approx((-half, half)) for box in ends)


def test_a_single_repetition_s_curves_have_no_intervals() -> None:
    for variants in (EXTENSIONS[:2], EXTENSIONS):
        curves = pd.DataFrame([row for variant in variants for row in curve(variant, 5.0, 100.0)])
        _, [axes] = panels(1, 1)
        precision.draw_gaps(axes, curves, variants, 1)
        drawn = [path for one in axes.collections for path in one.get_paths() if np.isfinite(path.vertices).all()]
        assert len(axes.lines) > len(variants) and not drawn


@pytest.mark.parametrize("count", [1, 4])
def test_usage_over_time_has_intervals_that_end_at_nothing(count: int) -> None:
    tables = usage_tables(2.0, *EXTENSIONS[1 : 1 + count])
    repetitions = tables["runs"].repetition.nunique()
    memory, bandwidth = usage.draw(tables, EXTENSIONS[: 1 + count], {}).axes[:2]
    half = 100 * half_width(repetitions)  # of a standard deviation of 1 byte
    for panel, counter in ((memory, 5.0), (bandwidth, 1.0)):
        ends = [one.get_datalim(panel.transData) for one in panel.collections]
        low, high = max(0.0, 100 - half / counter), 100 + half / counter
        assert len(ends) == 1 + count and (ends[0].y0, ends[0].y1) == pytest.approx((low, high))


def usage_tables(factor: float, *queues: str) -> dict[str, pd.DataFrame]:
    """Queues (queue+F+L, if none are named) that send so many times what the counter sends."""
    queues = queues or (FL,)
    both = usage.with_seconds(usage_runs())
    counter, queue = both[both.variant == COUNTER], both[both.variant == FL]
    runs = pd.concat([counter, *(queue.assign(variant=name) for name in queues)], ignore_index=True)
    runs = runs.assign(users=100, offered_count=1_000, false_admit_share=0.1, false_reject_share=0.0)
    rows = [
        {
            "variant": variant,
            "t_s": float(t),
            "state_bytes": 5.0,
            "sent_bytes": 1.0 if variant == COUNTER else factor,
            "state_bytes_std": 1.0,
            "sent_bytes_std": 1.0,
        }
        for variant in (COUNTER, *queues)
        for t in range(61)
    ]
    return {"runs": runs, "curves": pd.DataFrame(rows), "ratios": usage.ratios(runs)}


@pytest.mark.parametrize("factor", [2.0, 60.0])
def test_usage_is_drawn_on_a_log_axis_where_the_counter_would_be_flat(factor: float) -> None:
    drawing = usage.draw(usage_tables(factor), (COUNTER, FL), RATIOS["B-extreme"])
    assert [panel.get_yscale() for panel in drawing.axes[:2]] == ["linear", "symlog" if factor > 10 else "linear"]


USED = {"5.4": EXTENSIONS[1:], "5.6": (FL,), "5.8": (FL,), "5.10": (FL,), "5.12": (F,), "5.13": (FL,)}


@pytest.mark.parametrize("key", ["5.5", *USED])
def test_no_mark_of_a_key_can_be_read_as_data(key: str) -> None:
    tables = usage_tables(2.0, *USED[key]) if key in USED else precision_tables(250.0)
    drawing = load_figure(f"crdt-fig{key}").draw(tables)
    drawing.canvas.draw()
    keys = [*drawing.legends, *filter(None, (panel.get_legend() for panel in drawing.axes))]
    assert len(keys) >= 2
    boxes = [(one.get_window_extent(), panel.get_window_extent()) for one in keys for panel in drawing.axes]
    assert not any(key_box.overlaps(data_box) for key_box, data_box in boxes)


def test_the_table_of_decisions_names_what_differs() -> None:
    rows = [{"data_set": "D", "variant": variant, "repetition": n, "offered_count": 112, "differing_count": count}
            for variant, count in ((CENTRAL_QUEUE, 0), (fig5_2.PRINTED, 15)) for n in (0, 1)]  # fmt: skip
    curves = [row for variant in (ORACLE, CENTRAL_QUEUE) for row in curve(variant, 5.0, 100.0)]
    drawing = fig5_2.draw({"decisions": pd.DataFrame(rows), "curves": pd.DataFrame(curves)})
    cells = drawing.axes[1].tables[0].get_celld()
    assert [cells[1, column].get_text().get_text() for column in range(3)] == ["112", "0", "15"]


def test_requests_by_user_have_the_intervals_of_both_parts() -> None:
    rows = [
        {"repetition": n, "capacity": 300, "rank": rank, "offered_count": 3_000 + 30 * n, "rejected_count": 1_000}
        for rank in (1, 2)
        for n in range(3)
    ]
    (axes,) = load_figure("crdt-fig4.6").draw({"users": pd.DataFrame(rows)}).axes
    ends = {tuple(round(float(y), 6) for _, y in segment) for one in axes.collections for segment in one.get_segments()}
    wanted = [t_interval([(count + 30 * n) / 300 for n in range(3)]) for count in (2_000, 3_000)]
    assert ends == {(round(each.low, 6), round(each.high, 6)) for each in wanted}
