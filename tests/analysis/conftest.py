"""Spark frames made of columns, for all tests of the analysis."""

import pyarrow as pa
import pytest

from collectors.schema import TABLES


@pytest.fixture
def frame_of(spark):
    """A Spark frame of a table from columns; columns that are not given are null."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def build(name, columns):
        schema, length = TABLES[name], len(next(iter(columns.values())))
        arrays = [
            pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(length, field.type)
            for field in schema
        ]
        return spark.createDataFrame(pa.table(arrays, schema=schema), from_arrow_schema(schema))

    return build
