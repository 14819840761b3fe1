"""Curves that a user read off a paper's picture: ``--published FIGURE=FILE.csv``, kept in ``out/published/``.

The papers' texts that this project was made from have no pictures, so no curve comes with it.  A file has a header and
the columns x, y, series, and, if it is known how far y may be off by reading it, ``error`` in y's unit.  Further
columns say under which conditions: ``arrivals``, say, where a figure has a panel a kind.  Where x, y and these bear the
names of columns of one of the figure's tables, ``runs`` before others, our mean stands beside each value: of rows that
are repetitions of one another, never of several conditions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.report import charts
from analysis.report.contents import Digitised
from core.errors import SpecError
from core.reading import reading
from core.writing import replace_file
from paper_figs import load_figure

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "published"
SERIES, ERROR = "series", "error"
_FIX = "give a CSV with a header and the columns x, y, series and, if known, error"
RUNS = "runs"  # a figure's table with a row a run


def keep(out: Path, words: Sequence[str]) -> None:
    """Take ``FIGURE=FILE`` into ``out``, after a look at the file; SpecError for what cannot be drawn."""
    read = []
    for word in words:
        key, equals, name = word.partition("=")
        if not equals or not name:
            raise SpecError(f"--published {word!r}", "write FIGURE=FILE, as in srtm-fig7=fig7.csv")
        figure = load_figure(key)
        frame_of(Path(name))
        read.append((figure.key, Path(name)))
    for key, path in read:
        replace_file(out / FOLDER / key / path.name, path.read_bytes())


def curves_of(out: Path, key: str, tables: "dict[str, pd.DataFrame]") -> list[Digitised]:
    """The curves kept for a figure, beside what its tables have at the same places."""
    return [_beside(path, tables) for path in sorted((out / FOLDER / key).glob("*"))]


def frame_of(path: Path) -> "pd.DataFrame":
    """x, y, conditions, series and error, checked; SpecError names what is wrong."""
    import pandas as pd

    with reading(str(path), _FIX):
        frame = pd.read_csv(path)
        names = [str(name) for name in frame.columns]
        axes = [name for name in names if name not in (SERIES, ERROR)]
        if SERIES not in names or len(axes) < 2:
            raise SpecError(f"{path} has the columns {', '.join(names)[:100]}", _FIX)
        for name in [*axes[:2], *[ERROR] * (ERROR in names)]:
            numbers = pd.to_numeric(frame[name], errors="coerce")
            _refuse(path, f"{name} is no number", numbers.isna() & (frame[name].notna() if name == ERROR else True))
            frame[name] = numbers
        for name in axes[2:]:
            _refuse(path, f"{name} is empty", frame[name].isna())
        if frame.empty:
            raise SpecError(f"{path} has no values", _FIX)
        if ERROR not in names:
            frame[ERROR] = float("nan")
        return frame[[*axes, SERIES, ERROR]].astype({SERIES: str})


def _refuse(path: Path, what: str, rows: "pd.Series") -> None:
    if rows.any():
        raise SpecError(f"{path}, line {int(rows.to_numpy().argmax()) + 2}: {what}", _FIX)


def _beside(path: Path, tables: "dict[str, pd.DataFrame]") -> Digitised:
    frame = frame_of(path)
    x, y, *conditions = (str(name) for name in frame.columns if name not in (SERIES, ERROR))
    table, why = _table_of([x, y, *conditions], tables)
    ours = [float("nan")] * len(frame)
    if table:
        ours, why = _means(frame, [x, y, *conditions], table, tables[table])
    rows = frame.assign(ours=ours)
    rows["apart"] = rows["ours"] - rows[y]
    return Digitised(path.name, x, y, rows, table, conditions, why)


def _table_of(columns: Sequence[str], tables: "dict[str, pd.DataFrame]") -> tuple[str, str]:
    """The table that has these columns, ``RUNS`` before others; or "" and why there is none."""
    names = [name for name, table in tables.items() if {*columns} <= {*table.columns}]
    if RUNS in names or len(names) == 1:
        return (RUNS if RUNS in names else names[0]), ""
    having = f"Several tables, {', '.join(names)}, have" if names else "No table of the figure has"
    return "", f"{having} the columns {', '.join(columns)}: nothing of ours stands beside these values."


def _means(frame: "pd.DataFrame", columns: Sequence[str], name: str, table: "pd.DataFrame") -> tuple[list[float], str]:
    """For each row of a curve our mean of y, of rows with its series, x and conditions (``columns``: x, y, these).

    Missing where such rows are of several conditions all the same, or are not there; and why.
    """
    import pandas as pd

    x, y, *conditions = columns
    system = next((each for each in charts.SERIES if each in table and each not in columns), "")
    telling = [each for each in charts.columns_of(table)[1] if each not in (*columns, system)]
    means, differing, mixed, absent = [], set[str](), 0, 0
    for row in frame.to_dict("records"):
        there = table[table[system].astype(str) == row[SERIES]] if system else table
        for column in (x, *conditions):
            there = there[_equal(there[column], row[column])]
        several = _differing(there, telling)
        differing.update(several)
        mixed, absent = mixed + bool(several), absent + there.empty
        means.append(float("nan") if several else float(pd.to_numeric(there[y], errors="coerce").mean()))
    told = ", ".join(sorted(differing, key=telling.index))
    compared = f" (series is compared with {system})" if system else ""
    reasons = {
        f"where rows of {name} differ in {told}: columns of these names in the file say which are meant": mixed,
        f"for which {name} has no row{compared}": absent,
    }
    missing = [f"{count} of {len(means)} values, {reason}." for reason, count in reasons.items() if count]
    return means, f"Ours is missing: {' '.join(missing)}" if missing else ""


def _equal(column: "pd.Series", value: object) -> "pd.Series":
    import numpy as np
    import pandas as pd

    if isinstance(value, int | float) and not isinstance(value, bool):
        return np.isclose(pd.to_numeric(column, errors="coerce"), value)
    return column.astype(str) == str(value)


def _differing(rows: "pd.DataFrame", telling: Sequence[str]) -> list[str]:
    """The columns that tell rows of several conditions apart; repetitions of one differ in nothing but results."""
    if "repetition" in rows and rows["repetition"].is_unique:
        return []
    return [name for name in telling if rows[name].map(str).nunique() > 1]
