"""What a figure draws and what its caption says: whoever draws intervals says that they are of 95 %, and nobody else.

What a figure draws is read from its code: the functions of the package that ``draw`` reaches, by name.
"""

import ast
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from paper_figs import FIGURES, drawing, load_figure

PACKAGE = Path(drawing.__file__).parent
DRAW_INTERVALS = {
    drawing.mean_lines, drawing.mean_points, drawing.interval_points, drawing.interval_curve, drawing.mean_bars,
    drawing.interval_bars,
}  # fmt: skip
SAYS = re.compile(r"95 % (?:t-)?intervals?\b")
PRINTS = {"dst-table4"}  # intervals as numbers in a table


def names_of(code: CodeType) -> set[str]:
    """Names that a function uses, those of functions within it too."""
    inner = [names_of(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def functions_of(value: Any) -> Iterator[FunctionType]:
    """The functions that something which is called is made of."""
    if isinstance(value, partial):
        yield from functions_of(value.func)
        for other in (*value.args, *value.keywords.values()):
            yield from functions_of(other)
    elif isinstance(value, FunctionType) and value.__module__.startswith("paper_figs"):
        yield value


def reached(draw: Any) -> set[FunctionType]:
    """The functions of the package that ``draw`` may call."""
    seen: set[FunctionType] = set()
    left = [*functions_of(draw)]
    while left:
        function = left.pop()
        if function in seen:
            continue
        seen.add(function)
        names = names_of(function.__code__)
        values = [function.__globals__.get(name) for name in names]
        values += [getattr(module, name, None) for module in values if isinstance(module, ModuleType) for name in names]
        values += [cell.cell_contents for cell in function.__closure__ or ()]
        left += [one for value in values for one in functions_of(value)]
    return seen


@pytest.mark.parametrize("key", FIGURES)
def test_intervals_are_of_95_percent_and_the_caption_says_so(key: str) -> None:
    figure = load_figure(key)
    draws, says = bool(reached(figure.draw) & DRAW_INTERVALS), bool(SAYS.search(figure.notes))
    if key in PRINTS:
        assert says and not draws, "a table of numbers: not in PRINTS any more?"
    else:
        assert draws == says, f"it draws {'' if draws else 'no '}intervals, and its caption does not"


def test_the_search_finds_them_behind_other_functions() -> None:
    def alone(axes: Any) -> None:
        drawing.curve(axes, [], [], drawing.Style("", "", "", "-"))

    def within(axes: Any) -> None:
        [drawing.interval_points(axes, [], [], drawing.Style("", "", "", "-")) for _ in range(2)]

    alone.__module__ = within.__module__ = "paper_figs.tests"
    assert not reached(alone) & DRAW_INTERVALS
    assert reached(partial(alone, within)) & DRAW_INTERVALS == {drawing.interval_points}


def test_one_hand_draws_bars_and_intervals() -> None:
    """Nobody else stacks bars, or draws error bars or bands of its own but those that are no intervals."""
    others = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "drawing.py" and path.parent == PACKAGE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_stacked = node.func.attr in ("bar", "barh") and {"bottom", "left"} & {
                    one.arg for one in node.keywords
                }
                if is_stacked or node.func.attr in ("errorbar", "fill_between"):
                    others[f"{path.relative_to(PACKAGE)}: {node.func.attr}"] = node.lineno
    allowed = {  # of runs, not of means; shades of a map
        "beyond/serf_model.py: fill_between", "space_time.py: fill_between", "sheets.py: fill_between",
    }  # fmt: skip
    assert set(others) == allowed, others
