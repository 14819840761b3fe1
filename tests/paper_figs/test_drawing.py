"""The one hand that draws: intervals, axes in plain numbers, keys that nobody can take for data."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Interval, half_width, t_interval
from paper_figs import drawing, keys
from paper_figs.intervals import geometric, interval_table, intervals_of, whiskers
from paper_figs.style import Style, looks_of, neutral, series

ONE, OTHER = series("one", 0, "o"), series("other", 1, "s", "--")
LOOKS = {"one": ONE, "other": OTHER}
SAMPLES = {("one", 1): [1.0, 2.0, 3.0], ("one", 2): [4.0, 5.0, 9.0], ("other", 1): [2.0, 2.0, 2.0]}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def frame() -> pd.DataFrame:
    rows = [
        {"who": who, "x": x, "repetition": n, "value": value}
        for (who, x), values in SAMPLES.items()
        for n, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def whisker_ends(axes: Any) -> set[tuple[float, float]]:
    """Low and high of all upright error bars, to six places."""
    segments = [segment for collection in axes.collections for segment in collection.get_segments()]
    return {(round(float(low), 6), round(float(high), 6)) for (_, low), (_, high) in segments if low == low}


def expected_ends() -> set[tuple[float, float]]:
    intervals = [t_interval(values) for values in SAMPLES.values()]
    return {(round(interval.low, 6), round(interval.high, 6)) for interval in intervals}


def test_titles_are_lettered_where_there_are_several() -> None:
    _, panels = drawing.panels(1, 2, ("left", "right"))
    assert [panel.get_title(loc="left") for panel in panels] == ["(a) left", "(b) right"]
    _, (panel,) = drawing.panels(1, 1, ("alone",))
    assert panel.get_title(loc="left") == "alone"


@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_lines_go_through_means_with_t_intervals(apart: float) -> None:
    _, (axes,) = drawing.panels(1, 1)
    drawing.mean_lines(axes, frame(), "x", "value", "who", LOOKS, apart_points=apart)
    lines: list[Any] = [line for line in axes.lines if line.get_linestyle() in ("-", "--")]
    assert [list(line.get_ydata()) for line in lines] == [[2.0, 6.0], [2.0]]
    assert whisker_ends(axes) == expected_ends()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("", "")  # figures name their axes


@pytest.mark.parametrize("kind", ["linear", "log", "symlog"])
def test_an_axis_does_not_change_what_a_mean_is(kind: str) -> None:
    """The mean of values of which logarithms have another one; a whisker that reaches 1 is whole, one to 0 is cut."""
    values = {1: (0.95, 1.05, 1.1, 1.02, 1.3), 2: (0.2, 0.3, 3.0), 3: (0.0, 0.1, 10.0)}
    rows = [{"who": "one", "x": x, "value": value} for x, several in values.items() for value in several]
    _, (axes,) = drawing.panels(1, 1)
    axes.set_yscale(kind)
    drawing.mean_lines(axes, pd.DataFrame(rows), "x", "value", "who", LOOKS)
    (line,) = [line for line in axes.lines if line.get_linestyle() in ("-", "--")]
    assert list(line.get_ydata()) == pytest.approx([1.084, 3.5 / 3, 10.1 / 3])
    found = [t_interval(several) for several in values.values()]
    lows = [point.low if kind != "log" or point.low > 0 else 0.05 * point.mean for point in found]
    expected = {(round(low, 6), round(point.high, 6)) for low, point in zip(lows, found, strict=True)}
    assert whisker_ends(axes) == expected


def test_geometric_means_where_they_are_asked_for() -> None:
    _, (axes,) = drawing.panels(1, 1)
    drawing.mean_lines(axes, frame(), "x", "value", "who", LOOKS, measure=geometric)
    (line, *_) = [line for line in axes.lines if line.get_linestyle() in ("-", "--")]
    assert line.get_ydata()[0] == pytest.approx(geometric(list(SAMPLES["one", 1])).mean)


def test_lines_apart_do_not_lie_on_each_other() -> None:
    sheet, (axes,) = drawing.panels(1, 1)
    drawing.mean_lines(axes, frame(), "x", "value", "who", LOOKS, apart_points=4)
    sheet.canvas.draw()
    lines = [line for line in axes.lines if line.get_linestyle() in ("-", "--")]
    one, other = (line.get_transform().transform((1.0, 2.0))[0] for line in lines)
    assert other - one == pytest.approx(4 * sheet.dpi / 72)


def test_points_stand_beside_each_other_with_t_intervals() -> None:
    _, (axes,) = drawing.panels(1, 1)
    drawing.mean_points(axes, frame(), "x", "value", "who", LOOKS, (1, 2), dodge=0.4)
    drawing.categories(axes, ["first", "second"])
    lines: list[Any] = list(axes.lines)
    places = sorted({round(float(x), 6) for line in lines for x in line.get_xdata()})
    assert places == [-0.1, 0.1, 0.9]
    assert whisker_ends(axes) == expected_ends()


def test_bars_have_the_colours_of_their_looks_and_their_means() -> None:
    _, (axes,) = drawing.panels(1, 1)
    drawing.mean_bars(axes, frame(), "x", "value", "who", LOOKS, (1, 2))
    from matplotlib.colors import to_rgba

    bars: list[Any] = list(axes.patches)
    heights = {(bar.get_height(), bar.get_facecolor()) for bar in bars if bar.get_height() == bar.get_height()}
    assert heights == {(2.0, to_rgba(ONE.colour)), (6.0, to_rgba(ONE.colour)), (2.0, to_rgba(OTHER.colour))}


@pytest.mark.parametrize("lying", [False, True])
def test_parts_are_stacked_from_where_they_begin(lying: bool) -> None:
    sheet, (axes,) = drawing.panels(1, 1)
    parts = [drawing.BarPart([1.0, 2.0], ONE), drawing.BarPart([3.0, 4.0], OTHER._replace(is_open=True), 0.5, "//")]
    drawing.stacked_bars(axes, [0, 1], parts, width=0.5, begin=[10.0, 20.0], lying=lying)
    bars: list[Any] = list(axes.patches)
    boxes = [(bar.get_x(), bar.get_width()) if lying else (bar.get_y(), bar.get_height()) for bar in bars]
    assert boxes == [(10.0, 1.0), (20.0, 2.0), (11.0, 3.0), (22.0, 4.0)]
    faces = [(bar.get_hatch(), bar.get_linewidth() > 0) for bar in bars]
    assert faces == [("", False)] * 2 + [("//", True)] * 2
    sheet.canvas.draw()


def test_a_curve_has_the_band_of_its_intervals_and_none_of_one_run() -> None:
    _, (axes, alone) = drawing.panels(1, 2)
    drawing.interval_curve(axes, [0, 1], [2.0, 3.0], [1.0, 2.0], [3.0, 5.0], ONE, stairs=True)
    drawing.interval_curve(alone, [0, 1], [2.0, 3.0], [float("-inf")] * 2, [float("inf")] * 2, ONE)
    (band,), (none,) = axes.collections, alone.collections
    low, high = band.get_paths()[0].get_extents().get_points()
    assert (low.tolist(), high.tolist()) == ([0, 1], [1, 5]) and not none.get_paths()
    assert [list(line.get_ydata()) for line in (*axes.lines, *alone.lines)] == [[2.0, 3.0]] * 2


def test_a_table_of_intervals_has_those_of_its_samples() -> None:
    parts = frame()[frame().who == "one"].groupby("x").value
    rows = interval_table(["x"], [((x,), list(values)) for x, values in parts])
    for interval, values in zip(intervals_of(rows, 10), ([1.0, 2.0, 3.0], [4.0, 5.0, 9.0]), strict=True):
        wanted = t_interval([10 * value for value in values])
        assert (interval.low, interval.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


def test_of_one_repetition_there_is_no_interval() -> None:
    lone = intervals_of(interval_table(["x"], [((0,), [3.0])]))
    assert half_width(1) == 0.0
    for one in (*lone, geometric([3.0])):
        assert pd.isna(whiskers([one])).all() and pd.isna(whiskers([one], is_log=True)).all()


def test_a_log_axis_cuts_whiskers_that_reach_zero_and_no_others() -> None:
    wide, narrow = Interval(10.0, -5.0, 25.0, 5), Interval(10.0, 8.0, 12.0, 5)
    assert whiskers([wide, narrow], is_log=True).tolist() == [[9.5, 2.0], [15.0, 2.0]]
    assert whiskers([wide, narrow]).tolist() == [[15.0, 2.0], [15.0, 2.0]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1000.0, "1,000"), (0.05, "0.05"), (200_000.0, "200,000"), (1e-6, "0.000001"), (0.0, "0"), (10.0, "10")],
)
def test_numbers_are_plain(value: float, text: str) -> None:
    assert drawing.plain(value) == text


def test_log_axes_have_plain_numbers_at_their_steps() -> None:
    sheet, (axes,) = drawing.panels(1, 1)
    drawing.log_axis(axes)
    drawing.marks(axes, [1, 2], [30, 3000], ONE)
    sheet.canvas.draw()
    texts = [tick.get_text() for tick in axes.get_yticklabels()]
    assert {"50", "100", "200", "500", "1,000", "2,000"} <= set(texts)


@pytest.mark.parametrize(("most", "crowded"), [(1e2, False), (1e9, True)])
def test_a_log_axis_of_many_decades_names_these_alone(most: float, crowded: bool) -> None:
    sheet, (axes,) = drawing.panels(1, 1)
    drawing.log_axis(axes)
    drawing.marks(axes, [1, 2], [1, most], ONE)
    sheet.canvas.draw()
    named = [tick for tick in axes.get_yticklabels() if tick.get_text()]
    assert {"1", "10", "100"} <= {tick.get_text() for tick in named}
    assert ("20" in {tick.get_text() for tick in named}) == (not crowded)
    boxes = [tick.get_window_extent() for tick in named]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def keyed(above_all: bool) -> Any:
    """A panel full of data up to its upper edge, with a key of every kind."""
    entries = [keys.key(ONE), keys.key(OTHER, line=False), keys.bar_key(neutral("area")), keys.published_key()]
    entries.append(keys.rule_key("a bound"))
    sheet, (axes, _) = drawing.panels(1, 2, ("with a key", "without"))
    drawing.published(axes, [0, 1, 2], [1, 2, 3])
    if above_all:
        keys.legend_above(sheet, entries)
    else:
        keys.key_above(axes, entries, columns=2)
    sheet.canvas.draw()
    return sheet


@pytest.mark.parametrize("above_all", [True, False])
def test_no_mark_of_a_key_lies_among_data(above_all: bool) -> None:
    sheet = keyed(above_all)
    (legend,) = sheet.legends if above_all else [sheet.axes[0].get_legend()]
    frame_of_legend = legend.get_window_extent()
    for axes in sheet.axes:
        assert not frame_of_legend.overlaps(axes.get_window_extent())
        title = axes.title if axes.title.get_text() else axes._left_title
        assert not frame_of_legend.overlaps(title.get_window_extent())


def test_open_and_filled_markers_are_told_apart() -> None:
    look = neutral("x", is_open=True)
    assert drawing.marker_of(look)["markerfacecolor"] == drawing.WHITE
    assert drawing.marker_of(look._replace(is_open=False))["markerfacecolor"] == look.colour


def test_a_panel_with_nothing_to_show_is_a_sentence() -> None:
    _, (axes,) = drawing.panels(1, 1)
    drawing.sentence(axes, "nobody rejects anything")
    assert not axes.axison and [text.get_text() for text in axes.texts] == ["nobody rejects anything"]


def test_systems_keep_their_looks() -> None:
    assert looks_of(("counter", "new"))["counter"] == Style("counter", "#E69F00", "o", "--")
    assert looks_of(("counter", "new"))["new"].label == "new"
