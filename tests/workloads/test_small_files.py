"""A small file may stand for much: whatever it unpacks to, its reader stays within the limits of an input."""

import gzip
import io
import resource
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from tests.fuzz.parsers import PARSERS
from tests.fuzz.worker import INPUT_BYTES, judged, warm_up
from workloads.text_columns import LINE_BYTES, UNPACKED_BYTES, lines_of, open_bytes


@pytest.fixture
def within(request, tmp_path):
    """A parser that is warm, and the memory of an input."""
    warm_up(request.param, tmp_path)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + INPUT_BYTES, before[1]))
    yield request.param
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    "within", ["log", "service-log", "curve", "trace-csv", "trace-ulb", "towers", "delays"], indirect=True
)
def test_a_line_of_a_gibibyte_is_refused(within, tmp_path):
    line = gzip.compress(b"a" * (1 << 24)) * 64  # a file of gzip may have parts
    assert len(line) < 1_100_000 and judged(within, line, tmp_path) == ""
    with pytest.raises(SpecError, match="more than"):
        PARSERS[within].read(line, tmp_path)


@pytest.mark.parametrize("within", ["service-log", "trace-parquet"], indirect=True)
def test_millions_of_equal_rows_are_refused(within, tmp_path):
    content = io.BytesIO()
    rows = pa.table({name: pa.repeat(1, 4_000_000) for name in ("ts", "user", "status", "publisher", "instant")})
    with pq.ParquetWriter(content, rows.schema) as writer:
        for _ in range(5):
            writer.write_table(rows)
    assert len(content.getvalue()) < 500_000 and judged(within, content.getvalue(), tmp_path) == ""
    with pytest.raises(SpecError, match="20,000,000 rows; give at most 10,000,000"):
        PARSERS[within].read(content.getvalue(), tmp_path)


def test_what_unpacks_to_more_than_a_log_would_is_refused(tmp_path):
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"a,1\n" * (UNPACKED_BYTES >> 2)))
    with open_bytes(str(path)) as raw:
        assert sum(1 for _ in lines_of(raw)) == UNPACKED_BYTES >> 2
    path.write_bytes(gzip.compress(b"a,1\n" * ((UNPACKED_BYTES >> 2) + 1)))
    with pytest.raises(SpecError, match=r"log.gz: more than 16 MiB once unpacked"), open_bytes(str(path)) as raw:
        sum(1 for _ in lines_of(raw))


@pytest.mark.parametrize("line", [b"a" * (LINE_BYTES - 1) + b"\n", b"a" * LINE_BYTES])
def test_a_line_of_a_mebibyte_is_read(line):
    assert next(lines_of(io.BytesIO(line + b"b" * line.endswith(b"\n")))) == line
    with pytest.raises(ValueError, match="1 MiB"):
        list(lines_of(io.BytesIO(b"a" + line)))
