"""Tables, drawn: every cell in its column, shades behind theirs."""

from matplotlib import pyplot

from paper_figs import drawing
from paper_figs.sheets import draw_table


def test_cells_stand_in_their_columns_and_rows_below_each_other() -> None:
    sheet, [axes] = drawing.panels(1, 1)
    draw_table(axes, ("", "one", "two"), (("a", "1", "2"), ("b", "3", "4")), (2, 1, 1), "title", (0,), {(1, 2): 0.5})
    place = {text.get_text(): text.get_position() for text in axes.texts}
    assert place["one"][0] == place["1"][0] == place["3"][0] < place["2"][0] == place["4"][0]
    assert place["one"][1] > place["1"][1] == place["2"][1] > place["3"][1]
    assert place["a"][0] == place["b"][0] == 0.0 and axes.get_title(loc="left") == "title"
    (shade,) = axes.collections
    (left, low), (right, high) = shade.get_paths()[0].get_extents().get_points()
    assert left < place["4"][0] < right and low < place["4"][1] < high
    assert not low < place["2"][1] < high and not left < place["3"][0] < right
    pyplot.close(sheet)
