"""Trace files: publisher, instant[, size, group] from CSV, Parquet, or the ULB library's sensor logs.

Nothing is dropped: a line that cannot be read is a SpecError with file, line, field and the fix.
Only blank lines are passed over.  ``.gz`` files are recognised by their first bytes.
"""

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter

import numpy as np

from core.errors import SpecError
from core.reading import reading
from core.records import Int32, Int64
from workloads.text_columns import (
    INSTANT_LIMIT_NS,
    check_rows,
    find_columns,
    instant_ns,
    lines_of,
    open_bytes,
    whole_number,
)

ROLES = ("publisher", "instant", "size", "group")
OPTIONAL_ROLES = ("size", "group")

# A decimal comma trades places with the dot, which is then no number's: "1.163" stays unread.
_COMMA = str.maketrans(",.", ".,")

Columns = dict[str, Sequence[object]]


@dataclass(frozen=True)
class TraceFormat:
    """How a trace file is written; ``columns`` maps roles to header names or 0-based positions."""

    columns: Mapping[str, str | int]
    instant_unit: str = "s"
    separator: str = ","
    decimal: str = "."
    header: bool = True


@dataclass(frozen=True)
class TraceRows:
    """A trace in canonical order (instant, then publisher), n rows.

    ``publisher`` indexes ``names``, ``group`` (if the trace has groups) is a number per name, int32
    (names,); ``size_bytes`` is None where the trace has no sizes.
    """

    at_ns: Int64
    publisher: Int32
    names: tuple[str, ...]
    group: Int32 | None = None
    size_bytes: Int32 | None = None


class _Source:
    """A file being read: makes errors that say where and how to mend it."""

    def __init__(self, path: str, lines: Sequence[int] | range, word: str = "line"):
        self.path, self.lines, self.word = path, lines, word

    def error(self, row: int, field: str, value: object, what: str, fix: str) -> SpecError:
        """An error about one field of a row."""
        return SpecError(f"{self.path}, {self.word} {self.lines[row]}, {field} {value!r}: {what}", fix)


def read_trace(path: str, kind: str, form: TraceFormat, row_limit: int = 0) -> TraceRows:
    """The rows of a file of ``kind`` csv | parquet | ulb-wsn; a ``row_limit`` above 0 takes the first rows only."""
    with reading(path, "give a readable trace file"):
        columns, source = _READERS[kind](path, form, row_limit)
        if len(columns["instant"]) == 0:
            raise SpecError(f"{path}: no messages in it", "give a trace with at least two rows")
        unit = "ms" if kind == "ulb-wsn" else form.instant_unit
        return _rows(columns, source, unit, "." if kind == "ulb-wsn" else form.decimal)


# --- files to columns of text --------------------------------------------------------------------


def _numbered(path: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that is not blank; a separator of " " is any white space."""
    with open_bytes(path) as raw:
        if separator == " ":
            for number, line in enumerate(lines_of(raw), 1):
                if fields := line.removeprefix(BOM_UTF8 if number == 1 else b"").split():
                    yield number, [field.decode("utf-8", "surrogateescape") for field in fields]
            return
        text = (
            line.decode("utf-8-sig" if number == 0 else "utf-8", "surrogateescape")
            for number, line in enumerate(lines_of(raw))
        )
        reader = csv.reader(text, delimiter=separator, strict=True)
        try:
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    yield reader.line_num, row
        except csv.Error as error:
            raise SpecError(f"{path}, line {reader.line_num}: {error}", "check quotes and the separator") from error


def _read_csv(path: str, form: TraceFormat, row_limit: int) -> tuple[Columns, _Source]:
    """The wanted columns of a CSV file, as text."""
    numbered = _numbered(path, form.separator)
    first = next(numbered, None)
    if first is None:
        raise SpecError(f"{path}: the file is empty", "give a trace with at least two rows")
    form = replace(form, header=_has_header(form, first[1]))
    width, wanted = len(first[1]), _find_columns(path, form, first[1])
    pick = itemgetter(*wanted.values())
    lines, picked = [], []
    if not form.header:
        numbered = chain([first], numbered)
    for line, fields in numbered:
        if len(fields) != width:
            fix = "mend the line, or check separator, decimal and quotes"
            raise SpecError(f"{path}, line {line}: {len(fields)} fields instead of {width}", fix)
        lines.append(line)
        picked.append(pick(fields))
        if len(picked) == row_limit:
            break
    columns = zip(*picked, strict=True) if picked else ((),) * len(wanted)
    return dict(zip(wanted, columns, strict=True)), _Source(path, lines)


def _has_header(form: TraceFormat, fields: list[str]) -> bool:
    """Whether the first line names columns: as was said, unless all are given by number, and it is a message."""
    numbers = [str(column) for column in form.columns.values()]
    if not form.header or "instant" not in form.columns or not all(text.isdecimal() for text in numbers):
        return form.header
    at = int(form.columns["instant"])
    return at >= len(fields) or _instant_ns(fields[at], form.instant_unit, form.decimal) is None


def _find_columns(path: str, form: TraceFormat, fields: list[str]) -> dict[str, int]:
    """Position of each role's column in a file whose first line has these fields."""
    names = [field.strip() for field in fields] if form.header else []
    return find_columns(path, form.columns, names, len(fields), ROLES, OPTIONAL_ROLES)


def _read_parquet(path: str, form: TraceFormat, row_limit: int) -> tuple[Columns, _Source]:
    """The wanted columns of a Parquet file, in their own types; timestamps as integer nanoseconds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open(path, "rb") as raw:
            file = pq.ParquetFile(raw)
            check_rows(path, file.metadata.num_rows)
            names = file.schema_arrow.names
            wanted = _find_columns(path, TraceFormat(form.columns), names)
            table = file.read(columns=[names[position] for position in wanted.values()])
    except pa.ArrowException as error:
        raise SpecError(f"{path}: not a whole Parquet file ({error})", "check format and file") from error
    if row_limit:
        table = table.slice(0, row_limit)
    source = _Source(path, range(1, len(table) + 1), "row")
    columns: Columns = {}
    for role, position in wanted.items():
        column = table.column(names[position])
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise source.error(row, role, None, "missing", "fill it in or drop the row")
        if pa.types.is_timestamp(column.type):
            with reading(f"{path}, {role}", "give instants between 1678 and 2262"):
                columns[role] = column.cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy()
        else:
            columns[role] = column.to_pylist()
    return columns, source


# ULB library deployments, 2006: the fields by number of columns.  The publisher's ReadMe names packet and
# sequence the other way round; the files count packets from 0 within each sequence.
ULB_FIELDS = {
    9: ("timestamp", "node", "sequence", "int_temp", "int_voltage", "humidity", "temperature", "PAR", "TSR"),
    7: ("timestamp", "packet", "sequence", "node", "heard_node", "lqi", "rssi"),
}
_ULB_NUMBER = re.compile(rb"-?\d+(,\d+)?")
_ULB_PATTERN = {
    "timestamp": re.compile(rb"\d{1,18}"),
    "node": re.compile(rb"\d+"),
    "sequence": re.compile(rb"\d+|\d{1,3}(\xa0\d{3})+"),  # "1\xa0000": byte A0 parts the thousands
}


def _read_ulb_wsn(path: str, form: TraceFormat, row_limit: int) -> tuple[Columns, _Source]:
    """Readings (9 columns) or neighbour reports (7) of the ULB library's motes, as they were published.

    White-space columns, decimal commas, carriage returns, and byte A0 within sequence numbers above
    999.  A message's publisher is the node that sent it, its instant the stamp in ms.
    """
    lines, stamps, nodes = [], [], []
    width = 0
    with open_bytes(path) as raw:
        for number, line in enumerate(lines_of(raw), 1):
            values = line.split()  # bytes: A0 is no white space here
            if not values:
                continue
            width = width or len(values)
            if width not in ULB_FIELDS or len(values) != width:
                wanted = f"{width}" if width in ULB_FIELDS else "9 (readings) or 7 (neighbour reports)"
                raise SpecError(f"{path}, line {number}: {len(values)} fields instead of {wanted}", "mend the line")
            for name, value in zip(ULB_FIELDS[width], values, strict=True):
                if not _ULB_PATTERN.get(name, _ULB_NUMBER).fullmatch(value):
                    shown = value.decode("latin-1")
                    what = f"{path}, line {number}, {name} {shown!r}: not a number of that file's kind"
                    raise SpecError(what, "mend the line, or use format=csv with columns")
            lines.append(number)
            stamps.append(values[0].decode())
            nodes.append(values[ULB_FIELDS[width].index("node")].decode())
            if len(lines) == row_limit:
                break
    return {"publisher": nodes, "instant": stamps}, _Source(path, lines)


_READERS: dict[str, Callable[[str, TraceFormat, int], tuple[Columns, _Source]]] = {
    "csv": _read_csv,
    "parquet": _read_parquet,
    "ulb-wsn": _read_ulb_wsn,
}
FORMATS = tuple(_READERS)


# --- columns to numbers --------------------------------------------------------------------------


def _rows(columns: Columns, source: _Source, unit: str, decimal: str) -> TraceRows:
    """Columns as arrays, sorted by (instant, publisher); rows equal in both keep the file's order."""
    at_ns = _instants(columns["instant"], source, unit, decimal)
    names, publisher = _number_names(columns["publisher"], source, "publisher")
    order = np.lexsort((publisher, at_ns))
    size = _sizes(columns["size"], source)[order] if "size" in columns else None
    group = _groups(columns["group"], source, publisher, len(names)) if "group" in columns else None
    return TraceRows(at_ns[order], publisher[order], names, group, size)


def _instants(values: Sequence[object], source: _Source, unit: str, decimal: str) -> Int64:
    """Instants in nanoseconds; digits below a nanosecond are cut off."""
    if isinstance(values, np.ndarray):
        return values
    instants = []
    for row, value in enumerate(values):
        at_ns = _instant_ns(value, unit, decimal)
        if at_ns is None or abs(at_ns) >= INSTANT_LIMIT_NS:
            what = "beyond 146 years" if at_ns is not None else "not an instant" if unit == "iso" else "not a number"
            fix = f"mend it, or check instant_unit={unit!r}, decimal and columns"
            raise source.error(row, "instant", value, what, fix)
        instants.append(at_ns)
    return np.array(instants, np.int64)


def _instant_ns(value: object, unit: str, decimal: str) -> int | None:
    text = str(value).strip()
    if decimal == "," and unit != "iso":
        text = text.translate(_COMMA)
    return instant_ns(text, unit)


def _number_names(values: Sequence[object], source: _Source, field: str) -> tuple[tuple[str, ...], Int32]:
    """Distinct names, numbers in numeric order before text, and the index of each row's name."""
    texts = [str(value).strip() for value in values]
    distinct = set(texts)
    if "" in distinct:
        raise source.error(texts.index(""), field, "", "empty", "name it")
    names = sorted(
        distinct, key=lambda name: (0, int(name), name) if name.isdecimal() and len(name) < 40 else (1, 0, name)
    )
    index = {name: number for number, name in enumerate(names)}
    return tuple(names), np.fromiter((index[text] for text in texts), np.int32, len(texts))


def _sizes(values: Sequence[object], source: _Source) -> Int32:
    """Sizes in bytes."""
    sizes = np.empty(len(values), np.int32)
    for row, value in enumerate(values):
        size = whole_number(str(value).strip())
        if size is None or not 0 <= size < 2**31:
            raise source.error(row, "size", value, "not a number of bytes", "give a whole number, 0 or more")
        sizes[row] = size
    return sizes


def _groups(values: Sequence[object], source: _Source, publisher: Int32, publisher_count: int) -> Int32:
    """The group of each publisher, numbered in the order of their names; a publisher is in one group only."""
    _, group = _number_names(values, source, "group")
    of_publisher = np.full(publisher_count, -1, np.int32)
    of_publisher[publisher[::-1]] = group[::-1]  # the first row of a publisher decides
    wrong = np.flatnonzero(of_publisher[publisher] != group)
    if len(wrong):
        row = int(wrong[0])
        raise source.error(row, "group", values[row], "its publisher had another group before", "give it one group")
    return of_publisher
