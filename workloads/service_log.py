"""Logs of services in operation: who asked when, where, and what the answer was.

Formats find themselves: the common and combined logs of nginx and Apache, JSON lines, text with a header (tab, comma,
semicolon), Parquet; gzip or not.  So do columns, by the names that logs usually give them (``USUAL``), and stamps: ISO
8601, seconds to nanoseconds since 1970, ``10/Oct/2000:13:55:36 -0700``, ``Oct 10 13:55:36``.  Services write a line
when a request ends, so that lines are out of order: they are sorted by their stamps.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.digests import digest_of
from core.errors import SpecError
from core.reading import reading
from core.records import Int32, Int64
from workloads.log_formats import BadRow, rows_of
from workloads.log_stamps import LogClock, kind_of

ROLES = TIME, USER, NODE, VERDICT = "time", "user", "node", "verdict"
USUAL = {  # names of columns in logs, without case; the first that is there
    TIME: (
        "time",
        "timestamp",
        "@timestamp",
        "ts",
        "instant",
        "datetime",
        "date",
        "msec",
        "time_iso8601",
        "time_local",
    ),
    USER: ("user", "user_id", "client", "api_key", "key", "remote_addr", "client_ip", "ip", "remote_host", "host"),
    NODE: ("node", "server", "instance", "hostname", "pod", "region"),
    VERDICT: (
        "verdict",
        "decision",
        "status",
        "status_code",
        "code",
        "response_code",
        "response",
        "admitted",
        "allowed",
    ),
}
REJECTED = (  # verdicts, in lower case
    "429", "reject", "rejected", "deny", "denied", "limited", "over_limit", "resource_exhausted", "false", "0",
)  # fmt: skip
_STATUSES = ("status", "status_code", "code", "response_code", "response")  # 0: nobody answered, or of gRPC all is well

_WHOLE = re.compile(r"(\d+)\.0+")
_ROTATED = re.compile(r"(\.\d+|-\d{8})?(\.gz)?$")  # what logrotate puts after a log's name


@dataclass(frozen=True)
class ServiceLog:
    """A log of n requests in the order of their stamps.

    ``at_ns``: since 1970; ``user`` and ``node`` index ``users`` and ``nodes``; ``admitted``: None where nobody looked.
    ``units_ns``: of the stamps of each node in each file, a power of ten.  ``from_ns``, ``until_ns``: the span in which
    all nodes' files speak, parts of one log taken together; there is none where ``from_ns`` is not before ``until_ns``.
    ``skipped``: lines left out, by reason; ``notes``: what was done to it; ``columns``: of the first file, by role.
    """

    at_ns: Int64
    user: Int32
    node: Int32
    admitted: NDArray[np.bool_] | None
    users: tuple[str, ...]
    nodes: tuple[str, ...]
    units_ns: tuple[int, ...]
    from_ns: int
    until_ns: int
    skipped: Mapping[str, int]
    notes: tuple[str, ...]
    columns: Mapping[str, str]

    @property
    def unit_ns(self) -> int:
        """Of the coarsest stamps."""
        return max(self.units_ns)


@dataclass(frozen=True)
class LogQuery:
    """What to read.

    ``columns``: role to the name of a column, of JSON also ``request.client``; ``pattern``: a regular expression whose
    first group, or all of it, is the user in that column's text; ``rejected``: verdicts that are rejections.
    """

    columns: Mapping[str, str]
    pattern: str = ""
    rejected: Sequence[str] = REJECTED
    verdicts: bool = True
    skip_bad: bool = False


def read_service_log(paths: Sequence[str], wanted: LogQuery) -> ServiceLog:
    """All files as one log; each is a node's, unless a column says who was asked, or it is a part of one (``_logs``).

    SpecError with file and line for a row that is no request, unless such rows are to be passed over.
    """
    users, nodes = dict[str, int](), dict[str, int]()
    skipped, notes = Counter[str](), list[str]()
    columns: tuple[list[int], ...] = ([], [], [], [])
    column_of = dict[str, str]()
    units_ns = list[int]()
    files = dict[str, Int64]()  # the stamps of each
    read = dict[object, str]()  # the path of each file, and of the rows of each
    near: tuple[int, int] | None = None  # the span of the last file whose stamps have no year
    for path in paths:
        begin = len(columns[0])
        with reading(path, "give a readable log file"):
            _refuse_twice(read, (os.stat(path).st_dev, os.stat(path).st_ino), path)
            names, clock, requests = _opened(path, wanted, skipped, notes, near)
            for at_ns, user, node, admitted in requests:
                row = at_ns, users.setdefault(user, len(users)), nodes.setdefault(node, len(nodes)), int(admitted)
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
        column_of = column_of or names
        if len(columns[0]) > begin:
            rows = [np.array(column[begin:], np.int64) for column in columns]
            files[path] = rows[0]
            rows[2] *= NODE in names  # else it is the file
            units_ns += _units_ns(rows[0], rows[2])
            _refuse_twice(read, digest_of(np.concatenate(rows).tobytes()), path)
            near = _span(rows[0]) if clock.has_no_year else near
    at, user_of, node_of, verdict_of = (np.array(column, np.int64) for column in columns)
    if not len(at):
        why = "".join(f" ({count:,} lines: {reason})" for reason, count in skipped.items())
        raise SpecError(f"{', '.join(paths)}: no requests in it{why}", "give a log with at least one request")
    if late := sum(int((its < np.maximum.accumulate(its)).sum()) for its in files.values()):
        notes.append(f"{late:,} of {len(at):,} lines came after later ones: sorted by their stamps")
    order = np.argsort(at, kind="stable")
    logs = _logs({path: _span(its) for path, its in files.items()})
    begins, ends = zip(*(_span(np.concatenate([files[path] for path in parts])) for parts in logs), strict=True)
    names_of = _names_of(logs)
    labels = [names_of.get(node, node) for node in nodes]
    nodes = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    node_of = np.array([nodes[label] for label in labels])[node_of]
    return ServiceLog(
        at[order],
        user_of[order].astype(np.int32),
        node_of[order].astype(np.int32),
        verdict_of[order].astype(bool) if wanted.verdicts else None,
        tuple(users),
        tuple(nodes),
        tuple(units_ns),
        max(begins),
        min(ends),
        dict(sorted(skipped.items())),
        tuple(dict.fromkeys(notes)),
        column_of,
    )


def _refuse_twice(read: dict[object, str], what: object, path: str) -> None:
    """SpecError where another path led to ``what`` already: each request would count twice."""
    if what in read:
        fix = "give each file once; if two nodes had the same requests, name these by a column: --columns node=NAME"
        raise SpecError(f"{path}: the same requests as {read[what]}", fix)
    read[what] = path


def _span(at_ns: Int64) -> tuple[int, int]:
    return int(at_ns.min()), int(at_ns.max())


def _logs(span_of: Mapping[str, tuple[int, int]]) -> list[list[str]]:
    """Which files are parts of one log: all that follow one another, or those of one log's rotation that do."""

    def follow(paths: Iterable[str]) -> bool:
        spans = sorted(span_of[path] for path in paths)
        return all(before[1] <= after[0] for before, after in pairwise(spans))

    if follow(span_of):
        return [list(span_of)]
    rotated = defaultdict[str, list[str]](list)
    for path in span_of:
        rotated[_ROTATED.sub("", os.path.abspath(path))].append(path)
    return [parts for paths in rotated.values() for parts in ([paths] if follow(paths) else [[path] for path in paths])]


def _names_of(logs: Sequence[Sequence[str]]) -> dict[str, str]:
    """What the node of each file is called: by the name of its log's first, by its path where others have that, too."""
    count = Counter(Path(first).name for first, *_ in logs)
    return {path: name if count[name := Path(parts[0]).name] == 1 else parts[0] for parts in logs for path in parts}


def _opened(
    path: str, wanted: LogQuery, skipped: Counter[str], notes: list[str], near: tuple[int, int] | None
) -> tuple[dict[str, str], LogClock, Iterator[tuple[int, str, str, bool]]]:
    """A file's columns by role, as its first row has them, what reads its stamps, and its requests.

    What is no request may be passed over; ``near``: see ``LogClock``.
    """
    rows = rows_of(path)
    why: SpecError | None = None
    for first in rows:
        try:
            names = _columns(path, first[1], wanted)
            clock = LogClock(path, _field(first[1], names[TIME]), near)
        except SpecError as error:
            if not wanted.skip_bad:
                raise
            why = why or error
            skipped["before the first request"] += 1
            continue
        notes += clock.notes
        return names, clock, _requests(path, chain([first], rows), names, clock, wanted, skipped)
    raise why or SpecError(f"{path}: the file is empty", "give a log with at least one request")


def _requests(
    path: str,
    rows: Iterable[tuple[int, dict[str, Any]]],
    names: Mapping[str, str],
    clock: LogClock,
    wanted: LogQuery,
    skipped: Counter[str],
) -> Iterator[tuple[int, str, str, bool]]:
    """Stamp, user, node (the file, if no column names it), whether it was admitted (True where nobody asks)."""
    pattern, rejected = _pattern(wanted.pattern), {word.strip().lower() for word in wanted.rejected}
    if wanted.rejected == REJECTED and names.get(VERDICT, "").rpartition(".")[2].lower() in _STATUSES:
        rejected.discard("0")
    for number, row in rows:
        try:
            at_ns, user = clock.at_ns(_field(row, names[TIME])), _user(_field(row, names[USER]), pattern)
            node = _node(row, names[NODE]) if NODE in names else path
            verdict = _verdict(_field(row, names[VERDICT])) if wanted.verdicts else "-"
            if verdict in ("", "none", "nan"):
                raise BadRow("no verdict: empty")
        except BadRow as bad:
            if not wanted.skip_bad:
                fix = "mend it, name the columns (--columns time=…,user=…), or skip such lines with --skip-bad"
                raise SpecError(f"{path}, line {number}: {bad}", fix) from None
            skipped[str(bad).partition(":")[0]] += 1
            continue
        yield at_ns, user, node, verdict not in rejected


def finds_itself(path: str) -> bool:
    """Whether time and user are found in a file without a word on its columns."""
    with reading(path, "give a readable log file"):
        try:
            first = next(rows_of(path), None)
            return first is not None and bool(_columns(path, first[1], LogQuery({}, verdicts=False)))
        except SpecError:
            return False


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SpecError(f"pattern {text!r}: {error}", "give a regular expression of Python's") from None


def _units_ns(at_ns: Int64, node: Int64) -> list[int]:
    """Of each node's stamps in a file: those who write it may cut theirs in different ways."""
    order = np.argsort(node, kind="stable")
    return [_unit_ns(its) for its in np.split(at_ns[order], np.flatnonzero(np.diff(node[order])) + 1)]


def _unit_ns(at_ns: Int64) -> int:
    """The largest power of ten, up to a second, that divides all stamps."""
    units: list[int] = [10**power for power in range(9, -1, -1)]
    return next(unit for unit in units if not (at_ns % unit).any())


# --- fields --------------------------------------------------------------------------------------


def _field(row: Mapping[str, Any], name: str) -> Any:
    """A field, in JSON also one of an object; BadRow where there is none."""
    if name in row:
        return row[name]
    at: Any = row
    for part in name.split("."):
        if not isinstance(at, Mapping) or part not in at:
            raise BadRow(f"no field {name!r}" if row else "it cannot be read as the lines before it")
        at = at[part]
    return at


def _columns(path: str, row: Mapping[str, Any], wanted: LogQuery) -> dict[str, str]:
    """The column of each role, as asked or as usual; SpecError where there is none."""
    lower = {name.lower(): name for name, field in row.items() if not _is_nested(field)}
    column_of = dict(wanted.columns)
    for role in ROLES:
        usual = [lower[name] for name in USUAL[role] if name in lower]
        if role == TIME:
            usual.sort(key=lambda name: not kind_of(row[name]))  # how long it took may be called so, too
        if usual:
            column_of.setdefault(role, usual[0])
        if role not in column_of and role != NODE and (role != VERDICT or wanted.verdicts):
            raise SpecError(f"{path}: no column for the {role} ({_said(row)})", f"say --columns {role}=NAME")
        if role in wanted.columns:
            try:
                _field(row, column_of[role])
            except BadRow:
                there = f"{path}: no column {column_of[role]!r} for the {role} ({_said(row)})"
                raise SpecError(there, f"say --columns {role}=NAME") from None
    return column_of


def _node(row: Mapping[str, Any], name: str) -> str:
    """Who decided; "-" where a row does not say so, with or without the field."""
    try:
        field = _field(row, name)
    except BadRow:
        return "-"
    return _text(field) or "-"


def _is_nested(field: Any) -> bool:
    return isinstance(field, dict | list)


def _said(row: Mapping[str, Any]) -> str:
    """The names of a row's columns, on one short line."""
    names = ascii(", ".join(row))[1:-1]
    return f"there are {names[:120]}{'…' * (len(names) > 120)}" if row else "its first line cannot be read"


def _text(field: Any) -> str:
    """A field's text.  A column in which something is missing may be of floats: 429.0 is 429, and NaN nothing."""
    if _is_nested(field):
        raise BadRow("an object in the place of a text: name what is in it, as in user=client.ip")
    if field is None or field != field:
        return ""
    text = str(int(field)) if isinstance(field, float) and field.is_integer() else str(field).strip()
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()  # JSON may have half a letter


def _verdict(field: Any) -> str:
    text = _text(field).lower()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _user(field: Any, pattern: re.Pattern[str]) -> str:
    text = _text(field)
    match = pattern.search(text)
    if match is None:
        raise BadRow(f"no user: the pattern is not in {text[:60]!r}")
    user = text if not pattern.pattern else str(match.group(1 if pattern.groups else 0) or "")
    if not user:
        raise BadRow("no user: empty")
    return user
