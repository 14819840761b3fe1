"""What the table store holds against what run folders do, row by row."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from collectors.schema import TABLES
from collectors.store.log import read_log


def assert_holds(root: Path, folders: Sequence[Path], tables: Iterable[str] = ("runs", "samples")) -> None:
    """The store in ``root`` has the rows of these runs, each once, and no others."""
    for table in tables:
        assert stored(root, table).equals(of_folders(folders, table)), table


def stored(root: Path, table: str) -> pa.Table:
    """What a reader of the store finds."""
    files = [file for part in read_log(root).parts.values() for file in part.files if file.table == table]
    return _joined(table, [root / file.path for file in files])


def of_folders(folders: Sequence[Path], table: str) -> pa.Table:
    """What a reader of the folders finds, of runs that have such a table."""
    return _joined(table, [path for folder in folders if (path := folder / f"{table}.parquet").is_file()])


def _joined(table: str, paths: Iterable[Path]) -> pa.Table:
    schema = TABLES[table]
    rows = [pq.ParquetFile(path, page_checksum_verification=True).read().cast(schema) for path in paths]
    return pa.concat_tables([schema.empty_table(), *rows]).sort_by("run_id")
