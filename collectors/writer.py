"""Run folders: written aside, made durable, and renamed when whole.

    runs/<id>/            a finished run: manifest.json and one Parquet file a table
    runs/<id>.failed/     a run that failed: manifest.json with its error
    runs/<id>.damaged/    a run that is not as it was written (``collectors.integrity``)
    runs/<id>.partial-…/  being written, or left behind by a process that was killed (``collectors.partials``)

The same data gives the same Parquet bytes: fixed compression, no metadata, no clock.  Logs of live
runs are taken over, long ones without their middle.
"""

import json
import os
import shutil
import traceback
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from collectors.integrity import FILES, is_whole
from collectors.partials import partial_of
from collectors.rows import with_typed_samples
from collectors.schema import HISTOGRAMS, LOGS, MANIFEST, OF_REAL_NUMBERS, TABLES
from core.digests import DIGEST, digest_of, sealed
from core.errors import HarnessError, MachineError
from core.records import Columns, Json

FAILED, DAMAGED = ".failed", ".damaged"
LOG_BYTES = 1 << 20  # of one process' log at most (ours): half from its beginning, half from its end


def write_run(
    folder: Path,
    tables: Mapping[str, pa.Table | Columns],
    manifest: Mapping[str, object],
    logs: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Write a finished run to ``folder``, whole or not at all.

    ``tables``: name in ``collectors.schema.TABLES`` -> Arrow table or columns; columns that are not
    given are null, tables without rows are not written.  ``samples`` are sorted out (``collectors.rows``).
    ``logs``: file name -> text (``read_logs``), written to ``logs/``.  A record of an earlier failure of the run
    is removed.  A whole folder that is there already holds the same run, and stays; a damaged one is set aside.
    SystemFault for a sample of no metric; MachineError where the disk is full or ``folder`` cannot be written.
    """
    typed = {name: _typed(name, data) for name, data in with_typed_samples(tables).items()}

    def fill(partial: Path) -> None:
        rows = {f"{name}.parquet": table.num_rows for name, table in typed.items() if table.num_rows}
        for name in rows:
            _write_table(partial / name, typed[Path(name).stem])
        _write_logs(partial, logs)
        files = {name: {**_described(partial / name), "rows": count} for name, count in rows.items()}
        files |= {f"{LOGS}/{name}": _described(partial / LOGS / name) for name in logs}
        _write_json(partial / MANIFEST, {**manifest, FILES: files})

    _write_aside(folder, fill)
    shutil.rmtree(failed_folder(folder), ignore_errors=True)


def record_failure(folder: Path, spec_json: bytes | str, error: BaseException) -> Path:
    """Keep the error of the run that should have become ``folder``; returns ``<folder>.failed``.

    Errors of the tree in ``core.errors`` explain themselves; all others are kept with their traceback.
    An error that has an attribute ``logs`` (as for ``write_run``) leaves these, too; where it speaks of its ``folder``,
    in which they were and which goes, it speaks of where they are now.
    """
    failed = failed_folder(folder)
    if gone := getattr(error, "folder", None):
        error.args = tuple(str(word).replace(str(gone), str(failed)) for word in error.args)
    manifest = {
        "run_id": folder.name,
        "spec": json.loads(spec_json),
        "outcome": "failed",
        "error_type": type(error).__name__,
        "error": str(error),
    }
    if not isinstance(error, HarnessError):
        manifest["traceback"] = "".join(traceback.format_exception(error))
    shutil.rmtree(failed, ignore_errors=True)

    def fill(partial: Path) -> None:
        _write_logs(partial, getattr(error, "logs", {}))
        _write_json(partial / MANIFEST, manifest)

    _write_aside(failed, fill)
    return failed


def failed_folder(folder: Path) -> Path:
    """Where the failure of the run ``folder`` is recorded."""
    return folder.with_name(folder.name + FAILED)


def set_aside(folder: Path) -> Path:
    """Keep a damaged run under another name, where nothing reads it; returns that."""
    names = (f"{folder.name}{DAMAGED}{number or ''}" for number in count())
    aside = next(path for path in map(folder.with_name, names) if not path.exists())
    folder.rename(aside)
    return aside


def _typed(name: str, data: pa.Table | Columns) -> pa.Table:
    """``data`` with exactly the columns and types of table ``name``."""
    schema = TABLES[name]
    unknown = set(data.column_names if isinstance(data, pa.Table) else data) - set(schema.names)
    assert not unknown, f"table {name} has no column {', '.join(sorted(unknown))}"
    if isinstance(data, pa.Table):
        data = {column: data.column(column) for column in data.column_names}
    length = len(next(iter(data.values()))) if data else 0
    columns = [
        _typed_column(data[field.name], field.type) if field.name in data else pa.nulls(length, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _typed_column(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return values.cast(kind) if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, type=kind)


def _write_aside(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write into a folder beside ``folder``, then rename it; on any error nothing is left."""
    partial = partial_of(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        fill(partial)
        _sync_folder(partial)
        if folder.exists() and not is_whole(folder):
            set_aside(folder)
        if not folder.exists():
            _rename(partial, folder)
            _sync_folder(folder.parent)
    except OSError as error:
        fix = "free disk space there, or write elsewhere (--out)"
        raise MachineError(f"cannot write {folder}: {error.strerror or error}", fix) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _rename(partial: Path, folder: Path) -> None:
    """Rename, unless another process has just finished the same run: then its folder stays."""
    try:
        partial.rename(folder)
    except OSError:
        if not is_whole(folder):
            raise


def _write_table(path: Path, table: pa.Table) -> None:
    # Python's own file: its errors are plain OSErrors, and it can be synced.
    with path.open("xb") as file:
        split = _encodings(path.stem, table.schema)
        others = [name for name in table.column_names if name not in split]
        pq.write_table(
            table, file, compression="zstd", store_schema=False, use_dictionary=others, column_encoding=split or None,
            write_page_checksum=True,
        )  # fmt: skip
        _sync(file)


def _encodings(name: str, schema: pa.Schema) -> dict[str, str]:
    """Of the columns that a dictionary makes no smaller: real numbers that hardly repeat, and buckets in order."""
    if name in OF_REAL_NUMBERS:
        return {field.name: "BYTE_STREAM_SPLIT" for field in schema if pa.types.is_floating(field.type)}
    if name in HISTOGRAMS:
        return {field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_integer(field.type)}
    return {}


def read_logs(folder: Path) -> dict[str, bytes]:
    """The files in ``folder`` by name, at most ``LOG_BYTES`` of each; empty ones say nothing, folders below neither."""
    texts = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file():
            with path.open("rb") as file:
                texts[path.name] = _without_middle(file)
    return {name: text for name, text in texts.items() if text}


def _write_logs(partial: Path, logs: Mapping[str, bytes]) -> None:
    if not logs:
        return
    (partial / LOGS).mkdir()
    for name, text in sorted(logs.items()):
        with (partial / LOGS / name).open("xb") as file:
            file.write(text)
            _sync(file)
    _sync_folder(partial / LOGS)


def _without_middle(file: IO[bytes]) -> bytes:
    """All of a file of at most ``LOG_BYTES``; else whole lines from both ends, and a line that counts the rest."""
    size, half = os.fstat(file.fileno()).st_size, LOG_BYTES // 2
    if size <= LOG_BYTES:
        return file.read(LOG_BYTES)
    head = file.read(half)
    head = head[: head.rfind(b"\n") + 1] or head + b"\n"
    file.seek(size - half)
    tail = file.read(half)
    tail = tail[tail.find(b"\n") + 1 :]
    return head + b"[%d bytes left out here]\n" % (size - len(head) - len(tail)) + tail


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    with path.open("x") as file:
        json.dump(sealed(content), file, indent=2, sort_keys=True)
        file.write("\n")
        _sync(file)


def _described(path: Path) -> Json:
    """What the manifest says of a file."""
    data = path.read_bytes()
    return {"bytes": len(data), DIGEST: digest_of(data)}


def _sync(file: IO[bytes] | IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the folder's entries durable: a rename alone may be lost with the power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
