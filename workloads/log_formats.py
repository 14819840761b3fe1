"""Rows of logs in the formats that services write, by the names of their columns.

The common and combined logs of nginx and Apache, JSON lines, text with a header, Parquet; gzip or not.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from core.errors import SpecError
from workloads.log_reader import text_lines
from workloads.text_columns import check_rows, open_bytes

_ACCESS = re.compile(
    r'(\S+) (\S+) (\S+) \[([^]]+)] "((?:[^"\\]|\\.)*)" (\d{3}) (\S+)(?: "((?:[^"\\]|\\.)*)" "(.*)")?.*'
)
_ACCESS_NAMES = ("host", "ident", "authuser", "time", "request", "status", "bytes", "referer", "agent")


class Nanoseconds(int):
    """Since 1970; no number whose unit is to be guessed."""


class BadRow(Exception):
    """Why a row is no request, and the field that shows it."""


def rows_of(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and fields of each row, as its format has them; an unreadable row has none."""
    with open_bytes(path) as raw:
        magic = raw.read(4)
    if magic == b"PAR1":
        yield from _parquet_rows(path)
        return
    with open_bytes(path) as raw:
        lines = text_lines(raw)
        head = list(islice(lines, 2))  # of what was cut off somewhere the first line is torn
        if any(text.lstrip().startswith("{") for _, text in head):
            yield from ((number, _json(text)) for number, text in chain(head, lines))
        elif any(_ACCESS.fullmatch(text) for _, text in head):
            yield from ((number, _access(text)) for number, text in chain(head, lines))
        elif head:
            yield from _delimited(path, head[0][1], chain(head[1:], lines))


def _json(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _access(text: str) -> dict[str, Any]:
    match = _ACCESS.fullmatch(text)
    return dict(zip(_ACCESS_NAMES, match.groups(), strict=True)) if match else {}


def _delimited(path: str, header: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    mark = next((mark for mark in "\t,;" if mark in header), None)
    if mark is None:
        raise SpecError(f"{path}, line 1: {header[:60]!r} is no log that is known", "see docs/audit.md for formats")
    names = [name.strip() for name in next(csv.reader([header], delimiter=mark))]
    for number, text in lines:
        fields = next(csv.reader([text], delimiter=mark))
        yield number, dict(zip(names, fields, strict=True)) if len(fields) == len(names) else {}


def _parquet_rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        check_rows(path, file.metadata.num_rows)
        number = 0
        for batch in file.iter_batches():
            columns = []
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if pa.types.is_timestamp(column.type):
                    since = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64()).to_pylist()
                    columns.append((name, [None if at_ns is None else Nanoseconds(at_ns) for at_ns in since]))
                else:
                    columns.append((name, column.to_pylist()))
            for at in range(batch.num_rows):
                number += 1
                yield number, {name: values[at] for name, values in columns}
    except pa.ArrowException as error:
        raise SpecError(
            f"{path}: {str(error).splitlines()[0]}", "give a Parquet file with stamps of 1678 to 2262"
        ) from None
