"""Request logs: user, instant[, cost] from lines of text, one request a line.

Columns are separated by a character or by white space; quotes are read in files of neither tabs nor
white space, and end on their line.  Two published logs are known by their first line and need no
options: NASA's web server (``KNOWN``) and CollegeMsg.  A line that cannot be read is a SpecError with
file, line, field and the fix; with ``skip_bad`` it is passed over and counted by reason.
"""

import csv
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO

import numpy as np

from core.errors import SpecError
from core.reading import reading
from core.records import Int32, Int64
from workloads.text_columns import (
    INSTANT_LIMIT_NS,
    find_columns,
    instant_ns,
    lines_of,
    open_bytes,
    whole_number,
)

ROLES = ("user", "instant", "cost")
CONSTANT = "="  # begins a column that is no column: "=everyone" is one user for all lines

# Why a line was skipped.
FIELDS, QUOTES, USER, INSTANT, COST, ORDER = (
    *("number of fields", "open quote", "no user", "instant", "cost"),
    "time goes backwards",
)


@dataclass(frozen=True)
class LogFormat:
    """How a log is written; ``columns`` maps roles to header names, 0-based positions or ``=constant``.

    ``separator``: one character, " " = any white space, "" = found out from the first line (tab, comma,
    semicolon, white space).  ``header``: None = there is one unless all columns are positions.
    """

    columns: Mapping[str, str | int]
    instant_unit: str = "s"
    separator: str = ""
    header: bool | None = None


@dataclass(frozen=True)
class LogRows:
    """A log in the order of its lines, which is that of time, n rows.

    ``user`` indexes ``names`` (in order of first appearance); ``cost`` (whole numbers, 0 or more) is None
    where the log has none.  ``skipped``: lines left out, by reason.
    """

    at_ns: Int64
    user: Int32
    cost: Int64 | None
    names: tuple[str, ...]
    skipped: dict[str, int]


@dataclass(frozen=True)
class _Layout:
    """Where in a line of ``width`` fields the roles are; ``constant_user`` is "" where there is a column."""

    split: Callable[[str], list[str]]
    width: int
    user: int
    instant: int
    cost: int | None
    unit: str
    constant_user: str = ""


class _BadLine(Exception):
    """A line that is no request: the reason it is counted under, what is wrong with which field, and the fix."""

    def __init__(self, reason: str, what: str, fix: str):
        super().__init__(reason, what, fix)
        self.reason, self.what, self.fix = reason, what, fix

    def error(self, path: str, line: int, hint: str = "") -> SpecError:
        """The same as an error of the file; ``hint``: another way to mend it."""
        fixes = [self.fix, *([hint] if hint else []), "or skip such lines with skip_bad"]
        return SpecError(f"{path}, line {line}{self.what}", ", ".join(fixes))


def _no_requests(path: str) -> SpecError:
    return SpecError(f"{path}: no requests in it", "give a log with at least one line that is a request")


def read_log(path: str, form: LogFormat, skip_bad: bool = False) -> LogRows:
    """The requests of a log file, gzip or not.

    Without ``skip_bad`` the first bad line is a SpecError.  With it, a line whose time goes backwards is bad, too:
    as few lines are left out as it takes to have the others in order.
    """
    skipped: Counter[str] = Counter()
    at_ns: list[int] = []
    users: list[int] = []
    costs: list[int] = []
    numbers: dict[str, int] = {}
    with reading(path, "give a readable log file"), open_bytes(path) as raw:
        lines = text_lines(raw)
        layout, lines = _layout(path, form, lines, skip_bad)
        for number, text in lines:
            try:
                user, instant, cost = _request(layout, text)
                if not skip_bad and at_ns and instant < at_ns[-1]:
                    gap_s = (at_ns[-1] - instant) / 1e9
                    what = f", instant: {gap_s:g} s before the line before it; time goes backwards"
                    raise _BadLine(ORDER, what, "sort the log by time")
            except _BadLine as bad:
                if not skip_bad:
                    raise bad.error(path, number) from None
                skipped[bad.reason] += 1
                continue
            at_ns.append(instant)
            users.append(numbers.setdefault(user, len(numbers)))
            costs.append(cost)
    kept = longest_in_order(at_ns) if skip_bad else range(len(at_ns))
    if dropped := len(at_ns) - len(kept):
        skipped[ORDER] += dropped
    if not kept:
        raise _no_requests(path)
    rows = np.array(kept)
    present, indices = np.unique(np.array(users, np.int32)[rows], return_inverse=True)
    names = tuple(numbers)
    return LogRows(
        np.array(at_ns, np.int64)[rows],
        indices.astype(np.int32),
        None if layout.cost is None else np.array(costs, np.int64)[rows],
        tuple(names[number] for number in present.tolist()),
        dict(sorted(skipped.items())),
    )


def longest_in_order(values: list[int]) -> list[int]:
    """Positions of a longest non-decreasing subsequence; of several, one that ends lowest."""
    tails: list[int] = []  # the lowest last value of a subsequence of each length
    at: list[int] = []  # its position
    before: list[int] = []
    for position, value in enumerate(values):
        length = bisect_right(tails, value)
        before.append(at[length - 1] if length else -1)
        tails[length:length + 1], at[length:length + 1] = [value], [position]  # fmt: skip
    positions = []
    position = at[-1] if at else -1
    while position >= 0:
        positions.append(position)
        position = before[position]
    return positions[::-1]


# --- lines and fields ----------------------------------------------------------------------------


def text_lines(raw: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is not blank; bytes that are no UTF-8 are written in hex, after a backslash."""
    for number, line in enumerate(lines_of(raw), 1):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "backslashreplace").rstrip("\r\n")
        if text.strip():
            yield number, text


def _splitter(separator: str) -> Callable[[str], list[str]]:
    """How a line comes apart."""
    if separator == " ":
        return str.split

    def split(text: str) -> list[str]:
        if separator == "\t" or '"' not in text:
            return text.split(separator)
        try:
            fields: list[str] = next(csv.reader([text], delimiter=separator, strict=True))
        except csv.Error:
            raise _BadLine(QUOTES, ": a quote that does not end", "mend it, or check the separator") from None
        return fields

    return split


def _found_separator(line: str) -> str:
    return next((mark for mark in "\t,;" if mark in line), " ")


def _is_nasa(line: str) -> bool:
    return {"host", "time"} <= set(line.split("\t"))


def _is_collegemsg(line: str) -> bool:
    return line.split() == ["nd", "nw"]


@dataclass(frozen=True)
class _Known:
    """A published log: known by its first line, which is no request; ``width`` 0 = as many fields as that has."""

    matches: Callable[[str], bool]
    form: LogFormat
    width: int = 0


KNOWN = (
    # Internet Traffic Archive, NASA-HTTP, as tab-separated text with a header.
    _Known(_is_nasa, LogFormat({"user": "host", "instant": "time"}, "s", "\t", True)),
    # SNAP's CollegeMsg below a line "nd nw": sender, receiver, UNIX seconds.
    _Known(_is_collegemsg, LogFormat({"user": 0, "instant": 2}, "s", " ", True), width=3),
)


def _layout(
    path: str, form: LogFormat, lines: Iterator[tuple[int, str]], skip_bad: bool
) -> tuple[_Layout, Iterator[tuple[int, str]]]:
    """What the header, or else the first line that is a request, says of all lines; and the lines below a header.

    Without a header the first line has to be a request, unless bad lines are to be skipped.
    """
    first = next(lines, None)
    if first is None:
        raise SpecError(f"{path}: the file is empty", "give a log with at least one line that is a request")
    known = next((known for known in KNOWN if known.matches(first[1])), None)
    columns = dict(form.columns)
    separator, header, width = form.separator, form.header, 0
    if known is not None:
        columns = {**known.form.columns, **columns}
        separator, width = separator or known.form.separator, known.width
        header = known.form.header if header is None else header
    form = replace(form, columns=columns, separator=separator)
    if not (_all_by_number(columns) if header is None else not header):
        try:
            return _layout_of(path, form, first[1], True, width), lines
        except _BadLine as bad:
            raise bad.error(path, first[0]) from None
    seen, too_narrow = [], None
    for number, text in chain([first], lines):
        seen.append((number, text))
        try:
            layout = _layout_of(path, form, text, False, width)
            _request(layout, text)
        except _BadLine as bad:
            if not skip_bad:
                hint = (
                    "" if header is False else f"if line {number} names the columns, give their names, or header=true"
                )
                raise bad.error(path, number, hint) from None
        except SpecError as error:
            if not skip_bad:
                raise
            too_narrow = too_narrow or error
        else:
            return layout, chain(seen, lines)
    raise too_narrow or _no_requests(path)


def _layout_of(path: str, form: LogFormat, line: str, header: bool, width: int) -> _Layout:
    """What a line, a ``header`` or not, says of all others; ``width`` 0 = they have as many fields as this one."""
    split = _splitter(form.separator or _found_separator(line))
    fields = [field.strip() for field in split(line)]
    width = width or len(fields)
    constant = _constant_user(form.columns)
    roles = ROLES[1:] if constant else ROLES
    wanted = {role: form.columns[role] for role in roles if role in form.columns}
    columns = find_columns(path, wanted, fields if header else [], width, roles, ("cost",))
    return _Layout(
        split, width, columns.get("user", -1), columns["instant"], columns.get("cost"), form.instant_unit, constant
    )


def _constant_user(columns: Mapping[str, str | int]) -> str:
    """The user of all lines, "" where there is a column."""
    text = str(columns.get("user", ""))
    return text[1:].strip() if text.startswith(CONSTANT) else ""


def _all_by_number(columns: Mapping[str, str | int]) -> bool:
    """Whether nothing needs a header: every column is given by its number."""
    given = [str(columns.get("instant", ""))]
    given += [] if _constant_user(columns) else [str(columns.get("user", ""))]
    given += [str(columns["cost"])] if "cost" in columns else []
    return all(text.isascii() and text.isdigit() for text in given)


def _request(layout: _Layout, text: str) -> tuple[str, int, int]:
    """User, instant and cost of a line."""
    fields = layout.split(text)
    if len(fields) != layout.width:
        fix = "mend the line, or check separator and quotes"
        raise _BadLine(FIELDS, f": {len(fields)} fields instead of {layout.width}", fix)
    user = layout.constant_user or fields[layout.user].strip()
    if not user:
        raise _BadLine(USER, ", user '': empty", "name it")
    written = fields[layout.instant].strip()
    at_ns = instant_ns(written, layout.unit)
    if at_ns is None or abs(at_ns) >= INSTANT_LIMIT_NS:
        what = "beyond 146 years" if at_ns is not None else "no instant"
        fix = f"mend it, or check instant_unit={layout.unit!r} and columns"
        raise _BadLine(INSTANT, f", instant {written!r}: {what}", fix)
    cost = 1
    if layout.cost is not None:
        written = fields[layout.cost].strip()
        amount = 0 if written == "-" else whole_number(written)  # "-": nothing, in web servers' logs
        if amount is None or not 0 <= amount < 2**53:
            raise _BadLine(COST, f", cost {written!r}: no amount", "give a whole number, 0 or more")
        cost = amount
    return user, at_ns, cost
