"""Trace files of every kind, and what is said of broken ones."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from workloads.trace_reader import TraceFormat, read_trace

PLAIN = TraceFormat({})


def read_text(tmp_path, text, kind="csv", **form):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(str(path), kind, TraceFormat(form.pop("columns", {}), **form))


def test_csv_is_sorted_and_publishers_are_numbered_in_order(tmp_path):
    rows = read_text(tmp_path, "instant,x,publisher\n3,a,n10\n1.5,b,9\n\n3,c,10\n0.000000001,d,9\n")
    np.testing.assert_array_equal(rows.at_ns, [1, 1_500_000_000, 3_000_000_000, 3_000_000_000])
    assert rows.names == ("9", "10", "n10")
    np.testing.assert_array_equal(rows.publisher, [0, 0, 1, 2])
    assert rows.group is None and rows.size_bytes is None


def test_rows_equal_in_instant_and_publisher_keep_the_files_order(tmp_path):
    rows = read_text(tmp_path, "publisher,instant,size\n2,1,7\n1,1,9\n1,1,8\n1,1,5\n")
    np.testing.assert_array_equal(rows.size_bytes, [9, 8, 5, 7])


@pytest.mark.parametrize(
    ("unit", "text", "at_ns"),
    [
        ("s", "1163438041.250000001", 1_163_438_041_250_000_001),
        ("s", "1.1634380412500E+9", 1_163_438_041_250_000_000),
        ("ms", "1163438041250", 1_163_438_041_250_000_000),
        ("ms", "-0.5", -500_000),
        ("us", "7.1239", 7_123),
        ("ns", "42", 42),
        ("iso", "2006-11-13T17:14:01.250000001Z", 1_163_438_041_250_000_001),
        ("iso", "2006-11-13 18:14:01.25+01:00", 1_163_438_041_250_000_000),
        ("iso", "2006-11-13 17:14:01", 1_163_438_041_000_000_000),
    ],
)
def test_instants_are_exact(tmp_path, unit, text, at_ns):
    rows = read_text(tmp_path, f"publisher,instant\nx,{text}\n", instant_unit=unit)
    assert rows.at_ns.tolist() == [at_ns]


def test_headerless_white_space_and_decimal_commas(tmp_path):
    text = "a  0,5\tz\r\n b 0,25 z\r\n"
    rows = read_text(tmp_path, text, columns={"publisher": 0, "instant": 1}, separator=" ", decimal=",", header=False)
    np.testing.assert_array_equal(rows.at_ns, [250_000_000, 500_000_000])
    assert [rows.names[i] for i in rows.publisher] == ["b", "a"]


@pytest.mark.parametrize("head", ["", "who,when\n", "1,0\n"])
def test_columns_by_number_are_positions_whether_there_is_a_header_or_not(tmp_path, head):
    rows = read_text(tmp_path, f"{head}7,0.5\n8,0.75\n", columns={"publisher": "0", "instant": 1})
    messages = ["1", "7", "8"] if head.startswith("1") else ["7", "8"]
    assert [rows.names[i] for i in rows.publisher] == messages


def test_byte_order_mark_quotes_and_odd_bytes(tmp_path):
    text = b'\xef\xbb\xbf"publisher";"instant";note\r\n"a;b";1;"two\nlines"\r\n\xff;2;\r\n'
    rows = read_text(tmp_path, text, separator=";")
    assert rows.at_ns.tolist() == [10**9, 2 * 10**9] and rows.names[0] == "a;b"
    form = {"columns": {"publisher": 0, "instant": 1}, "header": False}
    rows = read_text(tmp_path, b"\xef\xbb\xbf7 1\n7 2\n", separator=" ", **form)
    assert list(rows.names) == ["7"]


def test_gzip_is_known_by_its_bytes_not_its_name(tmp_path):
    rows = read_text(tmp_path, gzip.compress(b"publisher,instant\n1,2\n"))
    assert rows.at_ns.tolist() == [2 * 10**9]


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        ("publisher,instant\n1,2\n3\n", {}, r"t\.csv, line 3: 1 fields instead of 2; mend"),
        ("publisher,instant\n1,2\n\n3,x7\n", {}, r"t\.csv, line 4, instant 'x7': not a number; .*instant_unit"),
        ('publisher,instant,n\n1,2,"a\nb"\n,4,c\n', {}, r"t\.csv, line 4, publisher '': empty"),
        ("publisher,instant\n1,\n", {}, r"line 2, instant ''"),
        ("publisher,instant\n1,nan\n", {}, r"line 2, instant 'nan'"),
        ("publisher,instant\n1,1_000\n", {}, r"line 2, instant '1_000'"),
        ("publisher,instant\n1,1163438041250\n", {}, r"line 2, instant .*146 years.*instant_unit='s'"),
        ("publisher;instant\n1;1.163\n", {"separator": ";", "decimal": ","}, r"line 2, instant '1\.163'"),
        ("publisher,instant\n1,2006-13-01T00:00:00Z\n", {"instant_unit": "iso"}, r"line 2, instant .*not an instant"),
        ("publisher,instant,size\n1,2,3\n1,2,-3\n", {}, r"line 3, size '-3': not a number of bytes"),
        ("publisher,instant,size\n1,2,\n", {}, r"line 2, size ''"),
        ("publisher,instant,group\n1,2,a\n2,2,a\n1,3,b\n", {}, r"line 4, group 'b': its publisher had another group"),
        ('publisher,instant\n1,"2\n', {}, r"line 2: .*; check quotes"),
        ("node,instant\n1,2\n", {}, r"no column 'publisher' for publisher \(the header has node, instant\); map"),
        ("publisher,instant\n1,2\n", {"columns": {"size": "bytes"}}, r"no column 'bytes' for size"),
        ("1,2\n", {"header": False}, r"no column 'publisher' .*2 columns, no header"),
        ("1,2\n", {"header": False, "columns": {"publisher": 0, "instant": 2}}, r"no column 2 for instant"),
        ("", {}, r"t\.csv: the file is empty"),
        ("publisher,instant\n", {}, r"t\.csv: no messages"),
        (
            gzip.compress(b"publisher,instant\n1,2\n" * 50, mtime=0)[:-12],
            {},
            r"t\.csv: EOFError: Compressed file ended",
        ),
        (b"\x1f\x8b\x00garbage", {}, r"t\.csv: .*give a readable trace file"),
    ],
)
def test_broken_csv_is_named(tmp_path, text, form, found):
    with pytest.raises(SpecError, match=found):
        read_text(tmp_path, text, **form)


def test_missing_file_is_named(tmp_path):
    for kind in ("csv", "parquet", "ulb-wsn"):
        with pytest.raises(SpecError, match="none: No such file"):
            read_trace(str(tmp_path / "none"), kind, PLAIN)


@pytest.mark.parametrize(
    "instants",
    [
        pa.array([3_000_000, 1_000_000], pa.timestamp("us")),
        pa.array([3, 1], pa.int64()),
        pa.array([3.0, 1.0], pa.float64()),
        pa.array(["3.0", "1"], pa.string()),
    ],
    ids=str,
)
def test_parquet_of_any_column_type(tmp_path, instants):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"node": ["b", "a"], "when": instants, "size": [5, 6]}), path)
    rows = read_trace(path, "parquet", TraceFormat({"publisher": "node", "instant": "when"}))
    np.testing.assert_array_equal(rows.at_ns, [10**9, 3 * 10**9])
    np.testing.assert_array_equal(rows.size_bytes, [6, 5])
    assert rows.names == ("a", "b")


def test_broken_parquet_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"publisher": [1, None], "instant": [1, 2]}), path)
    with pytest.raises(SpecError, match=r"t\.parquet, row 2, publisher None: missing"):
        read_trace(str(path), "parquet", PLAIN)
    path.write_bytes(b"publisher,instant\n1,2\n")
    with pytest.raises(SpecError, match=r"t\.parquet: not a whole Parquet file"):
        read_trace(str(path), "parquet", PLAIN)


READING = b"1163438041250 20 999 21,21 2,81 51,53 22,08 20 28\r\n"
LATER = b"1163438041015 4 1\xa0000 21,21 -2,81 51,53 22,08 20 28\r\n\r\n"


def test_ulb_readings_as_they_are(tmp_path):
    rows = read_text(tmp_path, gzip.compress(READING + LATER), kind="ulb-wsn")
    np.testing.assert_array_equal(rows.at_ns, [1_163_438_041_015_000_000, 1_163_438_041_250_000_000])
    assert [rows.names[i] for i in rows.publisher] == ["4", "20"]


def test_ulb_neighbour_reports_are_their_senders(tmp_path):
    rows = read_text(
        tmp_path, b"1163498005781 0 1\xa0000 10 3 241 235\r\n1163498005782 1 7 8 15 -3 235\r\n", kind="ulb-wsn"
    )
    assert rows.names == ("8", "10")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (READING + b"1163438041250 20 1 21,21\r\n", r"t\.csv, line 2: 4 fields instead of 9"),
        (b"1 2 3\n", r"line 1: 3 fields instead of 9 \(readings\) or 7"),
        (READING + LATER + READING.replace(b"20 999", b"n2 999"), r"line 4, node 'n2': not a number"),
        (READING + READING.replace(b"2,81", b"2.81"), r"line 2, int_voltage '2\.81'"),
        (READING.replace(b"999", b"1\xa00"), r"line 1, sequence '1\\xa00'"),
        (READING.replace(b"1163438041250", b"11634,5"), r"line 1, timestamp '11634,5'"),
        (b"\r\n", r"no messages"),
    ],
)
def test_broken_ulb_lines_are_named(tmp_path, text, found):
    with pytest.raises(SpecError, match=found):
        read_text(tmp_path, text, kind="ulb-wsn")
