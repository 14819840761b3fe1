"""What readers of recorded text files share: opening them, finding columns, exact instants."""

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO

from core.errors import SpecError
from workloads.api import require

UNIT_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}  # decimal digits from the unit to nanoseconds
INSTANT_UNITS = (*UNIT_DIGITS, "iso")
INSTANT_LIMIT_NS = 2**62  # instants are below it, on either side of 1970

# Ours: what a small file may stand for, so that none fills the memory.
LINE_BYTES = 1 << 20  # of a line
ROWS = 10_000_000  # of a Parquet file, or one for each of its bytes
UNPACKED_BYTES, UNPACKED_RATIO = 16 << 20, 100  # of a gzip file, or so many times its size; logs have 5 to 50

_NUMBER = re.compile(r"([+-]?)(\d{1,40})(?:\.(\d*))?([eE][+-]?\d{1,3})?", re.ASCII)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def open_bytes(path: str) -> IO[bytes]:
    """The file's bytes, decompressed where its first bytes say that it is gzip."""
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return BufferedReader(_Unpacked(path), 1 << 16) if compressed else open(path, "rb")  # type: ignore[type-var]


class _Unpacked(RawIOBase):
    """The bytes of a gzip file; SpecError where they are too many for its size."""

    def __init__(self, path: str):
        self._path, self._file = path, gzip.GzipFile(path)
        self._most = max(UNPACKED_BYTES, UNPACKED_RATIO * Path(path).stat().st_size)

    def readable(self) -> bool:
        """As a buffer asks."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Fill a buffer; how many bytes there were."""
        count = self._file.readinto(buffer)
        if self._file.tell() > self._most:
            raise SpecError(
                f"{self._path}: more than {self._most >> 20} MiB once unpacked", "if it is right, unpack it"
            )
        return count

    def close(self) -> None:
        """And the file."""
        self._file.close()
        super().close()


def lines_of(raw: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, with their ends; ValueError for one that is too long."""
    readline = raw.readline
    while line := readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            raise ValueError(f"a line of more than {LINE_BYTES >> 20} MiB")
        yield line


def check_rows(path: str, count: int) -> None:
    """SpecError for a Parquet file of too many rows for its size: each is an object to its readers."""
    most = max(ROWS, Path(path).stat().st_size)
    if count > most:
        raise SpecError(f"{path}: {count:,} rows", f"give at most {most:,}")


def column_map(columns: Mapping[str, str | int] | str, roles: Sequence[str]) -> dict[str, str | int]:
    """Option ``columns`` as a map from role to column, also where it was written as ``"role=column,..."``."""
    if isinstance(columns, str):
        pairs = [part.partition("=") for part in columns.split(",") if part.strip()]
        for role, equals, name in pairs:
            require(bool(equals and name.strip()), "columns", columns, f"{role!r}: write role=column")
        names: dict[str, str | int] = {role.strip(): name.strip() for role, _, name in pairs}
    else:
        names = dict(columns)
    for role in names:
        require(role in roles, "columns", columns, f"{role!r} is none of {', '.join(roles)}")
    return names


def find_columns(
    path: str,
    columns: Mapping[str, str | int],
    names: Sequence[str],
    width: int,
    roles: Sequence[str],
    optional: Sequence[str],
) -> dict[str, int]:
    """Position of each role's column: by header name, by 0-based number, or by the role's own name.

    ``names``: the header's, none where there is no header; ``width``: fields of a line.  SpecError for a
    role whose column is not there, unless it is an ``optional`` one that ``columns`` does not mention.
    """
    indices: dict[str, int] = {}
    for role in roles:
        wanted = columns.get(role, role)
        if isinstance(wanted, str) and wanted in names:
            indices[role] = names.index(wanted)
        elif str(wanted).isascii() and str(wanted).isdigit() and int(wanted) < width:
            indices[role] = int(wanted)
        elif role in columns or role not in optional:
            seen = f"the header has {', '.join(names)}" if names else f"{width} columns, no header"
            fix = f"map {role} to a column, columns={{{role!r}: NAME or 0-based number}}"
            raise SpecError(f"{path}: no column {wanted!r} for {role} ({seen})", fix)
    return indices


def instant_ns(text: str, unit: str) -> int | None:
    """Nanoseconds of an instant in ``unit``, one of INSTANT_UNITS; None where it is none."""
    return iso_ns(text) if unit == "iso" else scaled_int(text, UNIT_DIGITS[unit])


def scaled_int(text: str, digits: int) -> int | None:
    """A decimal number times 10^digits, exactly, cut to an integer; None where it is not one."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups()
    if exponent:
        return int(Decimal(text).scaleb(digits))
    fraction = (fraction or "")[:digits]
    value: int = int(whole) * 10**digits + (int(fraction) * 10 ** (digits - len(fraction)) if fraction else 0)
    return -value if sign == "-" else value


def whole_number(text: str) -> int | None:
    """A number without a fraction; None where it is not one."""
    value = scaled_int(text, UNIT_DIGITS["s"])
    return None if value is None or value % 10 ** UNIT_DIGITS["s"] else value // 10 ** UNIT_DIGITS["s"]


def iso_ns(text: str) -> int | None:
    """Nanoseconds since 1970 of ``2006-11-13T17:13:22.015Z``; without a zone it is UTC."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    whole, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(whole + ("+00:00" if zone in (None, "Z") else zone))
    except ValueError:
        return None
    past = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (past.days * 86_400 + past.seconds) * 10**9 + int((fraction or "")[:9].ljust(9, "0"))
