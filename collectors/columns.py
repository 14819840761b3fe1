"""How a table is described: its columns with their types and meanings, and what a row is."""

from typing import NamedTuple

import pyarrow as pa

TEXT, WHOLE, SMALL, REAL = pa.string(), pa.int64(), pa.int32(), pa.float64()
TEXTS, NAMED_TEXTS = pa.list_(pa.string()), pa.map_(pa.string(), pa.string())


class Column(NamedTuple):
    """A column: its name ends in its unit; an empty meaning says that the name tells all."""

    name: str
    kind: pa.DataType
    meaning: str = ""


class Table(NamedTuple):
    """A table: what a row is, and its columns without ``run_id``, which all tables start with."""

    row: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """As Arrow has it."""
        return pa.schema([("run_id", TEXT), *((column.name, column.kind) for column in self.columns)])


def table(row: str, *columns: tuple[str, pa.DataType, str] | tuple[str, pa.DataType]) -> Table:
    """A table of columns (name, type) or (name, type, meaning)."""
    return Table(row, tuple(Column(*column) for column in columns))
