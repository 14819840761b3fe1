"""Curves that a user read off a paper's picture: ``--published FIGURE=FILE.csv``, kept in ``out/published/``.

The papers' texts that this project was made from have no pictures, so no curve comes with it.  A file has a header and
the columns x, y, series, and, if it is known how far y may be off by reading it, ``error`` in y's unit.  Where x and
y bear the names of columns of one of the figure's tables, our mean stands beside each value.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
_SYSTEMS = ("system", "name", "variant", "policy")


def keep(out: Path, words: Sequence[str]) -> None:
    """Take ``FIGURE=FILE`` into ``out``, after a look at the file; SpecError for what cannot be drawn."""
    read = []
    for word in words:
        key, equals, name = word.partition("=")
        if not equals or not name:
            raise SpecError(f"--published {word!r}", "write FIGURE=FILE, as in srtm-fig7=fig7.csv")
        load_figure(key)
        frame_of(Path(name))
        read.append((key, Path(name)))
    for key, path in read:
        replace_file(out / FOLDER / key / path.name, path.read_bytes())


def curves_of(out: Path, key: str, tables: "dict[str, pd.DataFrame]") -> list[Digitised]:
    """The curves kept for a figure, beside what its tables have at the same places."""
    return [_beside(path, tables) for path in sorted((out / FOLDER / key).glob("*"))]


def frame_of(path: Path) -> "pd.DataFrame":
    """x, y, series and error, checked; SpecError names what is wrong."""
    import pandas as pd

    with reading(str(path), _FIX):
        frame = pd.read_csv(path)
        names = [str(name) for name in frame.columns]
        axes = [name for name in names if name not in (SERIES, ERROR)]
        if SERIES not in names or len(axes) != 2:
            raise SpecError(f"{path} has the columns {', '.join(names)[:100]}", _FIX)
        for name in [*axes, *[ERROR] * (ERROR in names)]:
            numbers = pd.to_numeric(frame[name], errors="coerce")
            bad = numbers.isna() & (frame[name].notna() if name == ERROR else True)
            if bad.any():
                line = int(bad.to_numpy().argmax()) + 2
                raise SpecError(f"{path}, line {line}: {name} is no number", _FIX)
            frame[name] = numbers
        if frame.empty:
            raise SpecError(f"{path} has no values", _FIX)
        if ERROR not in names:
            frame[ERROR] = float("nan")
        return frame[[*axes, SERIES, ERROR]].astype({SERIES: str})


def _beside(path: Path, tables: "dict[str, pd.DataFrame]") -> Digitised:
    import numpy as np
    import pandas as pd

    frame = frame_of(path)
    x, y = str(frame.columns[0]), str(frame.columns[1])
    fitting = [name for name, table in tables.items() if {x, y} <= {*table.columns}]
    ours = frame[y] * float("nan")
    if fitting:
        table = tables[fitting[0]]
        system = next((name for name in _SYSTEMS if name in table), "")
        for n, row in enumerate(frame.to_dict("records")):
            same = np.isclose(pd.to_numeric(table[x], errors="coerce"), row[x])
            there = table[same & (table[system].astype(str) == row[SERIES] if system else True)]
            ours.iloc[n] = pd.to_numeric(there[y], errors="coerce").mean()
    rows = frame.assign(ours=ours, apart=ours - frame[y])
    return Digitised(path.name, x, y, rows, fitting[0] if fitting else "")
