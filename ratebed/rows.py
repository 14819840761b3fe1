"""Results of points as a table of text: what all share stands above, what tells them apart in columns with units."""

from collections.abc import Mapping, Sequence

from core.records import Row
from studies.spec import AXES, RunSpec

_OF_RUNS = ("repetition", "run_id", "outcome", "validity")
_TIMES = ("p50_ns", "p95_ns", "p99_ns", "mean_ns")


def told(rows: Sequence[Row], specs: Mapping[str, RunSpec]) -> list[str]:
    """Lines of the table of ``produce.summarise``'s rows; ``specs``: by run id."""
    if not rows:
        return []
    points = {run_id: _point(specs[run_id]) for run_id in dict.fromkeys(str(row["run_id"]) for row in rows)}
    names = list(dict.fromkeys(name for point in points.values() for name in point))
    values = {name: {point.get(name, "") for point in points.values()} for name in names}
    apart = [name for name in names if len(values[name]) > 1]
    shared = [f"{name} = {values[name].pop()}" for name in names if name not in apart]
    shown = [name for name in rows[0] if name not in (*AXES, *_OF_RUNS, "variant")]
    head = [*(name.partition(".")[2] or name for name in apart), *_OF_RUNS, *map(_headed, shown)]
    places = {run_id: tuple(point.get(name, "") for name in apart) for run_id, point in points.items()}
    order = {place: number for number, place in enumerate(dict.fromkeys(places[i] for i in specs if i in places))}
    body = []
    for row in sorted(rows, key=lambda row: (order[places[str(row["run_id"])]], row["repetition"])):
        point = points[str(row["run_id"])]
        cells = [*(point.get(name, "") for name in apart), *(str(row[name]) for name in _OF_RUNS)]
        body.append([*cells, *(_cell(name, row.get(name)) for name in shown)])
    return [", ".join(shared), *columns(head, body)]


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as what is in them, numbers to the right."""
    wide = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    right = [all(_is_number(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, wide, right, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _point(spec: RunSpec) -> dict[str, str]:
    return {axis: str(getattr(spec, axis)) for axis in AXES} | spec.factors()


def _headed(name: str) -> str:
    return f"{name.removesuffix('_ns')} (ms)" if name in _TIMES else name


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in _TIMES and isinstance(value, int | float):
        return f"{value / 1e6:.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(cell: str) -> bool:
    return not cell or cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdigit()
