"""Tables of measured delays: lines of two places, square matrices with names or without, WonderNetwork's pings."""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Annotated

from core.errors import SpecError
from core.reading import reading
from core.records import Options
from core.registry import InputFiles
from core.units import MILLISECOND_NS
from testbed.topologies.topology import DELAY_MAXIMUM_NS
from workloads.text_columns import open_bytes

HOLES = ("", "-", "nan", "-1")  # of a matrix without names, in any case; and 0 off its diagonal
_BYTES_MAXIMUM = 64 << 20  # of a table, unpacked (ours): ten times WonderNetwork's pings
_HEADER_BYTES = 1 << 16  # what the names of a table's columns are looked for in
_HEADERS = ("ms", "rtt_ms", "one_way_ms")  # of the third column of a table

Delays = dict[tuple[str, str], int]  # (from, to) -> one way, in ns
_Rows = Iterable[tuple[int, list[str]]]  # number and stripped fields of each line that is not blank


def files_with(table: str, options: Options) -> list[str]:
    """The files that ``read_table`` opens: the table, and of servers those that no option names.

    SpecError where it cannot be read, or needs a list of servers and there is none, or several.
    """
    with reading(table, "give a readable CSV file in UTF-8"), open_bytes(table) as file:
        lines = csv.reader(file.read(_HEADER_BYTES).decode("utf-8-sig", "replace").splitlines())
        has_ids = _is_wondernetworks([field.strip() for field in next(filter(any, lines), [])])
    return [table, *([_beside(table)] if has_ids and not options.get("servers") else [])]


TableFile = Annotated[str, InputFiles(files_with)]
ServersFile = Annotated[str, InputFiles()]


def read_table(table: str, servers: str = "") -> Delays:
    """One-way delays in ns by (from, to), out of a CSV file (``.gz`` too).

    Either ``city,city,ms`` lines, where ms is a round trip as ping shows it (a first line may name the
    third column ``ms``, ``rtt_ms``, or ``one_way_ms``, which it then is); or a square matrix, whose first line is
    such a word (or nothing) and the cities, and whose others are a city and its delays to all, blank where
    unknown; or WonderNetwork's pings (columns source, destination and avg among others, the ids of servers), to
    which ``servers`` names the ids (columns id and title; by default the only ``servers*.csv`` beside the table).
    SpecError with file and line.
    """
    rows = _rows(table)
    line, first = next(rows, (1, []))
    if _is_wondernetworks(first):
        return _wondernetwork(table, first, rows, servers)
    if first and first[0] in ("", *_HEADERS):
        return _matrix(table, first, rows)
    last = first[2] if len(first) == 3 else ""
    halves = 1 if last == "one_way_ms" else 2
    lines = rows if last in _HEADERS else chain([(line, first)] if first else [], rows)
    wide = _wide(table, lines, 3, "write city,city,ms")
    return _some(table, {(a, b): _one_way_ns(f"{table}, line {number}", ms, halves) for number, (a, b, ms) in wide})


def _matrix(table: str, header: list[str], rows: _Rows) -> Delays:
    halves = 1 if header[0] == "one_way_ms" else 2
    cities = header[1:]
    if len(cities) < 2 or not all(cities) or len(set(cities)) < len(cities):
        raise SpecError(f"{table}, line 1: cities {', '.join(cities)}", "name two or more, each once")
    delays_ns: Delays = {}
    left = set(cities)
    for number, (source, *texts) in _wide(table, rows, len(header)):
        if source not in left:
            raise SpecError(f"{table}, line {number}: city {source!r}", "begin with each city of line 1, once")
        left.remove(source)
        for target, text in zip(cities, texts, strict=True):
            if text and target != source:
                delays_ns[source, target] = _one_way_ns(f"{table}, line {number}", text, halves)
    return _some(table, delays_ns)


def _is_wondernetworks(header: list[str]) -> bool:
    return {"source", "destination"} <= set(header)


def _wondernetwork(table: str, header: list[str], rows: _Rows, servers: str) -> Delays:
    if "avg" not in header:
        raise SpecError(f"{table}, line 1: no column avg", "give WonderNetwork's pings, or city,city,ms")
    titles = _titles(servers or _beside(table))
    source, target, avg = (header.index(name) for name in ("source", "destination", "avg"))
    delays_ns: Delays = {}
    for number, row in _wide(table, rows, len(header)):
        a, b = titles.get(row[source]), titles.get(row[target])
        if a is not None and b is not None and row[source] != row[target]:
            delays_ns.setdefault((a, b), _one_way_ns(f"{table}, line {number}", row[avg]))
    return delays_ns


def _titles(servers: str) -> dict[str, str]:
    rows = _rows(servers)
    _, header = next(rows, (1, []))
    if not {"id", "title"} <= set(header):
        raise SpecError(f"{servers}, line 1: no columns id and title", "give WonderNetwork's list of servers")
    number_at, title_at = header.index("id"), header.index("title")
    titles: dict[str, str] = {}
    for number, row in rows:
        if len(row) <= max(number_at, title_at):
            raise SpecError(f"{servers}, line {number}: {len(row)} fields", f"the first line has {len(header)}")
        if row[title_at] not in titles.values():
            titles[row[number_at]] = row[title_at]
    return titles


def _beside(table: str) -> str:
    lists = sorted(Path(table).parent.glob("servers*.csv"))
    if len(lists) != 1:
        what = f"{table}: {len(lists)} files servers*.csv beside it"
        raise SpecError(what, "name the list of servers with the option servers")
    return str(lists[0])


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped fields of each line that is not blank."""
    with reading(path, "give a readable CSV file in UTF-8"):
        text = _whole(path).decode("utf-8-sig")
    reader = csv.reader(text.splitlines())
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, [field.strip() for field in row]
    except csv.Error as error:
        raise SpecError(f"{path}, line {reader.line_num}: {error}", "mend that line") from None


def _whole(path: str) -> bytes:
    with open_bytes(path) as file:
        data = file.read(_BYTES_MAXIMUM + 1)
    if len(data) > _BYTES_MAXIMUM:
        raise ValueError(f"more than {_BYTES_MAXIMUM >> 20} MiB")
    return data


def _wide(table: str, rows: _Rows, width: int, fix: str = "") -> _Rows:
    for number, row in rows:
        if len(row) != width:
            raise SpecError(f"{table}, line {number}: {len(row)} fields", fix or f"the first line has {width}")
        yield number, row


def _some(table: str, delays_ns: Delays) -> Delays:
    if not delays_ns:
        raise SpecError(f"{table}: no delays", "write lines of city,city,ms, or of a city and its delays")
    return delays_ns


def _one_way_ns(
    where: str, text: str, halves: int = 2, fix: str = "give milliseconds, 0 or more, below an hour"
) -> int:
    if not (_is_number(text) and 0 <= float(text) <= DELAY_MAXIMUM_NS / MILLISECOND_NS):
        raise SpecError(f"{where}: {text!r}", fix)
    return round(float(text) * MILLISECOND_NS / halves)


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def read_square(table: str) -> tuple[list[str], Delays] | None:
    """Places "1", "2", ... and one-way delays in ns by (from, to), of a square matrix of numbers and nothing else.

    Round trips in ms, a line a row, between tabs, commas or blanks (``.gz`` too).  Not measured: nothing (between tabs
    or commas), ``-``, ``nan``, ``-1``, and 0 off the diagonal.  None for a file whose first line is no row of numbers;
    SpecError with file, line and field for any other that is wrong.
    """
    with reading(table, "give a readable table of delays"):
        lines = _whole(table).decode("utf-8-sig", "backslashreplace").split("\n")
    rows = [(number, line.rstrip("\r")) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        return None
    mark = next((mark for mark in "\t," if mark in rows[0][1]), None)
    fields = [(number, [field.strip() for field in line.split(mark)]) for number, line in rows]
    first = fields[0][1]
    if len(first) < 2 or not any(map(_is_number, first)) or not all(_is_number(t) or _is_hole(t) for t in first):
        return None
    names = [str(n) for n in range(1, len(first) + 1)]
    delays_ns: Delays = {}
    for row, (number, texts) in enumerate(_wide(table, fields, len(names))):
        if row == len(names):
            raise SpecError(f"{table}, line {number}: a row too many", f"a row has {len(names)} fields")
        for column, text in enumerate(texts):
            where, fix = f"{table}, line {number}, field {column + 1}", "give milliseconds, 0 or more, or nan: a hole"
            delay_ns = 0 if _is_hole(text) else _one_way_ns(where, text, fix=fix)
            if delay_ns and column != row:
                delays_ns[names[row], names[column]] = delay_ns
    if len(fields) < len(names):
        raise SpecError(f"{table}: {len(fields)} rows", f"a row has {len(names)} fields: give as many rows")
    return names, delays_ns


def _is_hole(text: str) -> bool:
    return text.lower() in HOLES
