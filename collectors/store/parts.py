"""The files of a part: written from run folders or from other parts, one run after the other, in little memory.

A part's tables are files of at most some ``FILE_BYTES``, sorted by run id and cut into row groups and pages, so that
who wants few of the runs reads little of them.  They have page checksums, and a digest in the catalogue.
"""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from secrets import token_hex
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collectors.integrity import FILES, Damage, verified
from collectors.schema import SCHEMA_VERSION, TABLES
from collectors.store.hadoop import GONE, HadoopPath, Place, make_durable, sha256_of
from collectors.store.log import KeptRun, StoredFile, StoredPart
from core.digests import DIGEST, digest_of
from core.records import Json

FILE_BYTES = 192 << 20  # a file that has come so far is ended; with its last row group it stays below 256 MiB
GROUP_ROWS, GROUP_BYTES = 1 << 18, 64 << 20  # of a row group at most, in memory
GROUPS, GROUP_ROWS_LEAST = 8, 1_000  # several in a file, so that all cores have something to read
PAGE_ROWS = 4_000
_BATCH_ROWS = 1 << 16

RunRows = tuple[str, pa.Table]  # a run and its rows of one table


class FromFolders:
    """Finished runs as a source of rows: each is as it was written, else ``Damage``.

    ``read`` says so and gives the manifest: ``verified``, or ``check_run`` where nobody asks twice.
    """

    def __init__(self, folders: Iterable[Path], read: Callable[[Path], Json] = verified):
        self.folders = sorted(folders, key=lambda folder: folder.name)
        manifests = [(folder.name, read(folder)) for folder in self.folders]
        self._entries = {run_id: entry_of(manifest) for run_id, manifest in manifests}
        self._tables: defaultdict[str, dict[str, Mapping[str, int | str]]] = defaultdict(dict)  # table -> run -> file
        for run_id, manifest in manifests:
            for name, written in manifest[FILES].items():
                if name.endswith(".parquet"):
                    self._tables[name.removesuffix(".parquet")][run_id] = written

    def rows(self, table: str) -> Iterator[RunRows]:
        """The rows of each run that has any, by run id."""
        files = self._tables.get(table, {})
        for folder in self.folders:
            if (written := files.get(folder.name)) is not None:
                yield folder.name, _read_folder(folder, table, written)

    def row_count(self, table: str) -> int:
        """Of all runs."""
        return sum(int(written["rows"]) for written in self._tables.get(table, {}).values())

    def runs(self) -> dict[str, KeptRun]:
        """The catalogue's entries."""
        return self._entries


class FromPart(NamedTuple):
    """Some runs of a part as a source of rows; its files have been verified."""

    root: Place
    part: StoredPart
    wanted: Collection[str]

    def rows(self, table: str) -> Iterator[RunRows]:
        """The rows of each run that has any, by run id."""
        for file in self.part.files:
            if file.table == table:
                yield from _pieces(self.root / file.path, self.wanted)

    def row_count(self, table: str) -> int:
        """At most so many."""
        return sum(file.rows for file in self.part.files if file.table == table)

    def runs(self) -> dict[str, KeptRun]:
        """The catalogue's entries."""
        return {run_id: self.part.runs[run_id] for run_id in self.wanted}


Source = FromFolders | FromPart


def entry_of(manifest: Json) -> KeptRun:
    """What the catalogue has of a run with this manifest."""
    return KeptRun(manifest[DIGEST], str(manifest.get("code_hash", ""))[:16])


def write_part(root: Place, name: str, sources: Sequence[Source]) -> StoredPart:
    """Write the files of a part with all runs of ``sources``; nothing refers to them until it is in the log.

    Their names are this attempt's own: one before it may have been killed, or still be writing.
    ``Damage`` where a run is not as it was written; OSError where the files cannot be written.
    """
    attempt = f"{name}-{token_hex(4)}"
    runs = {run_id: kept for source in sources for run_id, kept in source.runs().items()}
    files: list[StoredFile] = []
    for table in TABLES:
        rows = sum(source.row_count(table) for source in sources)
        if rows:
            merged = heapq.merge(*(source.rows(table) for source in sources), key=itemgetter(0))
            files += _write_table(root, attempt, table, merged, rows)
    return StoredPart(name, SCHEMA_VERSION, dict(sorted(runs.items())), tuple(files))


def damage_of(root: Place, file: StoredFile) -> str:
    """What is wrong with a file of the store; empty where it is as it was written.  Read once a command.

    OSError where that cannot be told just now.
    """
    path = root / file.path
    try:
        state = path.stat()
        if state.st_size != file.bytes:
            return f"has {state.st_size} bytes, {file.bytes} were written"
        if _digest_once(path, state.st_ino, state.st_mtime_ns) != file.digest:
            return "is not as it was written"
    except OSError as error:
        if error.errno not in GONE:
            raise
        return str(error.strerror)
    return ""


@cache
def _digest_once(path: Place, inode: int, written_at_ns: int) -> str:
    return sha256_of(path)


def _read_folder(folder: Path, table: str, written: Mapping[str, object]) -> pa.Table:
    data = (folder / f"{table}.parquet").read_bytes()
    if digest_of(data) != written[DIGEST]:
        raise Damage(folder, f"{table}.parquet is not as it was written")
    return _typed(pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False), table)


def _typed(rows: pa.Table, table: str) -> pa.Table:
    return rows if rows.schema.equals(TABLES[table]) else rows.cast(TABLES[table])


def _pieces(path: Place, wanted: Collection[str]) -> Iterator[RunRows]:
    """The rows of wanted runs in a file, piece by piece: a run may have several, one after the other."""
    with pq.ParquetFile(path.open("rb") if isinstance(path, HadoopPath) else path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            ends = pc.run_end_encode(batch.column("run_id"))
            begin = 0
            for run_id, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
                if run_id in wanted:
                    yield run_id, pa.Table.from_batches([batch.slice(begin, end - begin)])
                begin = end


class _Digesting:
    """A file that is written once, from its beginning to its end, and hashed on the way."""

    def __init__(self, file: IO[bytes]):
        self.file, self.sha, self.bytes, self.closed = file, hashlib.sha256(), 0, False

    def write(self, data: bytes) -> int:
        """As a file has it."""
        view = memoryview(data).cast("B")
        self.sha.update(view)
        self.bytes += len(view)
        self.file.write(view)
        return len(view)

    def flush(self) -> None:
        """As a file has it."""

    def tell(self) -> int:
        """As a file has it."""
        return self.bytes

    def close(self) -> None:
        """Whoever opened the file closes it."""
        self.closed = True


def _write_table(
    root: Place, attempt: str, table: str, rows: Iterable[RunRows], row_count: int
) -> Iterator[StoredFile]:
    """Write the rows into as many files as they need."""
    groups = _groups(rows, min(GROUP_ROWS, max(GROUP_ROWS_LEAST, row_count // GROUPS)))
    group = next(groups, None)
    number = 0
    while group is not None:
        path = f"{table}/{attempt}_{number}.parquet"
        (root / table).mkdir(parents=True, exist_ok=True)
        with (root / path).open("xb") as file:
            sink, count, first = _Digesting(file), 0, group[0]["run_id"][0].as_py()
            with _writer(sink, TABLES[table]) as writer:
                while group is not None and sink.bytes < FILE_BYTES:
                    count += sum(piece.num_rows for piece in group)
                    writer.write_table(pa.concat_tables(group), row_group_size=2 * GROUP_ROWS)
                    last = group[-1]["run_id"][-1].as_py()
                    group = next(groups, None)
            make_durable(file)
        yield StoredFile(table, path, sink.bytes, sink.sha.hexdigest(), count, first, last)
        number += 1


def _groups(rows: Iterable[RunRows], group_rows: int) -> Iterator[list[pa.Table]]:
    """The rows, so many at a time that they are a row group: of whole runs, but where one run alone is too much.

    A reader's task has whole groups.  So it adds up a run's numbers in the run's own order, whatever is in the file.
    """
    waiting: list[pa.Table] = []
    count = size = 0
    last = ""
    for run_id, table in rows:
        for begin in range(0, table.num_rows, GROUP_ROWS):
            is_full = count >= group_rows or size >= GROUP_BYTES
            if (is_full and run_id != last) or count >= GROUP_ROWS or size >= 2 * GROUP_BYTES:
                yield waiting
                waiting, count, size = [], 0, 0
            piece = table.slice(begin, GROUP_ROWS)
            waiting.append(piece)
            count, size, last = count + piece.num_rows, size + piece.nbytes, run_id
    if waiting:
        yield waiting


def _writer(sink: _Digesting, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink, schema, compression="zstd", store_schema=False, write_page_checksum=True, write_page_index=True,
        max_rows_per_page=PAGE_ROWS,
    )  # fmt: skip
