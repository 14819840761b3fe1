"""Request logs: every way to write one, what is said of broken lines, windows, spreading; the real logs."""

import gzip
from collections import Counter
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import SECOND_NS
from tests.workloads.common import schedule
from workloads.log_reader import LogFormat, longest_in_order, read_log

DATA = Path(__file__).parents[3] / "shared" / "data"
NASA = DATA / "nasa-http-1995" / "nasa_19950801.tsv.gz"
COLLEGE = DATA / "collegemsg" / "CollegeMsg.txt.gz"
AZURE = DATA / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv.gz"
real = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real logs are not beside the checkout ({DATA.name})")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("log")


def written(folder, text) -> str:
    path = folder / "l.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def read(folder, text, skip_bad=False, **form):
    return read_log(written(folder, text), LogFormat(form.pop("columns", {}), **form), skip_bad)


def log(folder, text, seed=1, **options):
    return schedule("request-log", seed, path=written(folder, text), **options)


# --- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("user,instant,cost\nb,1,3\na,2.5,0\nb,2.5,7\n", {}),
        ("b,1,3\na,2.5,0\n\nb,2.5,7", {"columns": {"user": 0, "instant": 1, "cost": "2"}}),
        ("t;who;n\n1000;b;3\n2500;a;-\n2500;b;7", {"columns": {"user": "who", "instant": "t", "cost": "n"},
                                                   "instant_unit": "ms"}),
        ("b\t1\t3\r\na\t2.5\t0\r\nb\t2.5\t7\r\n", {"columns": {"user": 0, "instant": 1, "cost": 2}, "header": False}),
        (" b  1 \t3\na 2.5 0\nb 2.5 7\n", {"columns": {"user": 0, "instant": 1, "cost": 2}, "separator": " "}),
        ("x|y|z\nb|1|3\na|2.5|0\nb|2.5|7\n", {"columns": {"user": 0, "instant": 1, "cost": 2}, "separator": "|",
                                              "header": True}),
        ('\ufeffuser,instant,cost\n"b",1,"3"\na,2.5,0\nb,"2.5",7\n', {}),
        (gzip.compress(b"user,instant,cost\nb,1,3\na,2.5,0\nb,2.5,7\n", mtime=0), {}),
        ("user,instant,cost\nb,1970-01-01T00:00:01Z,3\na,1970-01-01 00:00:02.5,0\nb,1970-01-01T01:00:02.5+01:00,7\n",
         {"instant_unit": "iso"}),
    ],
)  # fmt: skip
def test_one_log_written_in_many_ways(folder, text, form):
    rows = read(folder, text, **form)
    assert rows.at_ns.tolist() == [SECOND_NS, 2_500_000_000, 2_500_000_000]
    assert [rows.names[index] for index in rows.user] == ["b", "a", "b"] and rows.names == ("b", "a")
    assert rows.cost.tolist() == [3, 0, 7] and rows.skipped == {}


def test_no_cost_column_one_user_and_odd_bytes(folder):
    rows = read(folder, "instant,x\n1,a\n2,b\n", columns={"user": "=everyone"})
    assert rows.cost is None and rows.names == ("everyone",) and rows.user.tolist() == [0, 0]
    rows = read(folder, b"user,instant\n\xff,1\n\xfe,2\n")
    assert rows.names == ("\\xff", "\\xfe")
    rows = read(folder, 'a"b\t1\t"c\n', columns={"user": 0, "instant": 1})
    assert rows.names == ('a"b',), "quotes mean nothing between tabs"


def test_the_two_published_logs_need_no_options(folder):
    nasa = "host\tlogname\ttime\tmethod\turl\tresponse\tbytes\treferer\tuseragent\n"
    nasa += 'a.edu\t-\t807256800\tGET\t/x"y\t200\t1713\t\t\nb.com\t-\t807256801\tGET\t/\t304\t0\t\t\n'
    rows = read(folder, nasa)
    assert rows.names == ("a.edu", "b.com") and rows.cost is None
    assert rows.at_ns.tolist() == [807_256_800 * SECOND_NS, 807_256_801 * SECOND_NS]
    assert read(folder, nasa, columns={"cost": "bytes"}).cost.tolist() == [1713, 0]
    rows = read(folder, "nd nw\n1 2 1082040961\n3 1 1082155839\n")
    assert rows.names == ("1", "3") and rows.at_ns.tolist() == [1_082_040_961 * SECOND_NS, 1_082_155_839 * SECOND_NS]


BY_NUMBER = {"columns": {"user": 0, "instant": "1"}}
BAD = 'user,instant,cost\na,10,1\nb,11\nc,12,1\n,13,1\nd,x,1\nd,14,-2\nd,14,\ne,5,1\n"e,15,1\ne,15,1\nf,1e40,1\n'


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        (BAD, {}, r"l\.txt, line 3: 2 fields instead of 3; mend.*skip_bad"),
        ("user,instant\na,1\n ,2\n", {}, r"line 3, user '': empty; name it"),
        ("user,instant\na,1\n\nb,x7\n", {}, r"line 4, instant 'x7': no instant; .*instant_unit='s'"),
        ("user,instant\na,1163438041250\n", {}, r"line 2, instant .*146 years"),
        ("user,instant,cost\na,1,-2\n", {}, r"line 2, cost '-2': no amount; give a whole number"),
        ("user,instant\na,1\na,3\nb,2.5\n", {}, r"line 4, instant: 0\.5 s before .*backwards; sort the log"),
        ('user,instant\n"a,1\n', {}, r"line 2: a quote that does not end"),
        ('"user,instant\na,1\n', {}, r"line 1: a quote that does not end"),
        ("node,instant\na,1\n", {}, r"no column 'user' for user \(the header has node, instant\); map user"),
        ("user,instant\na,1\n", {"columns": {"cost": "bytes"}}, r"no column 'bytes' for cost"),
        ("a,1\n", {"columns": {"user": 0, "instant": 2}, "header": False}, r"no column 2 for instant \(2 columns, no"),
        ("u1,xx\nu1,1\n", BY_NUMBER, r"line 1, instant 'xx': no instant; .*if line 1 names the columns, give their"),
        ("\nu1,xx\n", {**BY_NUMBER, "header": False}, r"line 2, instant 'xx': no instant; (?!.*header=true)"),
        (",1\nu1,1\n", BY_NUMBER, r"line 1, user '': empty; .*header=true"),
        ("=u,5\n", {"columns": {"user": "=u", "instant": 0}}, r"line 1, instant '=u': no instant"),
        ("1\nu1,1\n", BY_NUMBER, r"no column '1' for instant \(1 columns, no header\)"),
        ("", {}, r"l\.txt: the file is empty"),
        ("user,instant\n", {}, r"l\.txt: no requests"),
        (gzip.compress(b"user,instant\n" + b"1,2\n" * 50, mtime=0)[:-12], {}, r"Compressed file ended"),
    ],
)  # fmt: skip
def test_broken_logs_are_named(folder, text, form, found):
    with pytest.raises(SpecError, match=found):
        read(folder, text, **form)


def test_missing_file_is_named(folder):
    with pytest.raises(SpecError, match="none: No such file"):
        read_log(str(folder / "none"), LogFormat({}))


def test_bad_lines_are_skipped_and_counted_by_reason(folder):
    rows = read(folder, BAD, skip_bad=True)
    assert rows.skipped == {
        "number of fields": 1, "no user": 1, "instant": 2, "cost": 2, "time goes backwards": 1, "open quote": 1,
    }  # fmt: skip
    assert [rows.names[index] for index in rows.user] == ["a", "c", "e"]
    assert rows.at_ns.tolist() == [10 * SECOND_NS, 12 * SECOND_NS, 15 * SECOND_NS]
    with pytest.raises(SpecError, match="no requests"):
        read(folder, "user,instant\na,x\n", skip_bad=True)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("u1,xx", "instant"),
        ("user,instant", "instant"),
        ("u1", "number of fields"),
        ("a b c", "number of fields"),
        ('"u,1', "open quote"),
    ],
)
def test_a_bad_first_line_is_skipped_and_counted_too(folder, first, reason):
    rows = read(folder, f"{first}\nu1,1\nu2,2\n", skip_bad=True, **BY_NUMBER)
    assert rows.skipped == {reason: 1} and rows.names == ("u1", "u2")
    with pytest.raises(SpecError, match="no requests"):
        read(folder, "u1,xx\nu2,\n", skip_bad=True, **BY_NUMBER)
    with pytest.raises(SpecError, match="no column 7"):
        read(folder, "u1,1\nu2,2\n", skip_bad=True, columns={"user": 0, "instant": 7})


def test_one_column_by_name_needs_a_header(folder):
    rows = read(folder, "who,1\na,1\n", columns={"user": "who", "instant": 1})
    assert rows.names == ("a",) and rows.skipped == {}


def test_one_instant_far_ahead_costs_one_line_not_the_rest(folder):
    rows = read(folder, "user,instant\na,1\nb,999999\n" + "".join(f"c,{n}\n" for n in range(2, 50)), skip_bad=True)
    assert rows.skipped == {"time goes backwards": 1} and rows.names == ("a", "c")


@given(st.lists(st.integers(0, 6), max_size=9))
def test_as_few_as_can_be_are_left_out(values):
    kept = longest_in_order(values)
    picked = [values[index] for index in kept]
    assert kept == sorted(set(kept)) and picked == sorted(picked)
    longer = combinations(values, len(kept) + 1)
    assert not any(list(some) == sorted(some) for some in longer)


CELL = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=5)
LINES = st.lists(st.tuples(CELL, st.integers(0, 10**12), st.integers(0, 10**6)), min_size=1, max_size=20)


@given(LINES, st.sampled_from("\t,|"))
def test_what_is_written_is_read(folder, lines, separator):
    lines = [(user, at, cost) for user, at, cost in lines if not set(user) & {'"', separator}]
    lines = sorted(lines, key=lambda line: line[1]) or [("u", 0, 0)]
    text = "".join(separator.join(map(str, line)) + "\n" for line in lines)
    columns = {"user": 0, "instant": 1, "cost": 2}
    rows = read(folder, text, columns=columns, separator=separator, instant_unit="us", header=False)
    found = zip(
        [rows.names[index] for index in rows.user], (rows.at_ns // 1000).tolist(), rows.cost.tolist(), strict=True
    )
    assert list(found) == lines


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_read_or_named(folder, text, skip_bad):
    rows = None
    with suppress(SpecError):
        rows = read(folder, b"a,1,2\n" + text, skip_bad, columns={"user": 0, "instant": 1}, header=False)
    assert rows is not None or not skip_bad, "the first line is a request"
    if rows is not None:
        assert len(rows.at_ns) == len(rows.user) >= 1 and (np.diff(rows.at_ns) >= 0).all()
        assert set(rows.user.tolist()) == set(range(len(rows.names)))


# --- the workload ----------------------------------------------------------------------------------

WHOLE = "user,instant\n" + "".join(f"u{n % 3},{100 + n // 7}\n" for n in range(70))
FINE = "user,instant,cost\na,0.5,100\nb,1.25,250\na,3.5,0\nc,4.75,1000\n"


def test_whole_seconds_are_spread_in_the_order_of_the_file(folder):
    spread = log(folder, WHOLE)
    at_ns, user, cost, names = spread.columns()
    assert spread.was_spread and spread.duration_ns == 10 * SECOND_NS and (cost == 1).all()
    np.testing.assert_array_equal(at_ns // SECOND_NS, np.arange(70) // 7)
    assert [names[index] for index in user] == [f"u{n % 3}" for n in range(70)]
    assert (np.diff(at_ns) >= 0).all() and len(set(at_ns.tolist())) == 70
    assert 0.35 < np.mean(at_ns % SECOND_NS) / SECOND_NS < 0.65
    np.testing.assert_array_equal(at_ns, log(folder, WHOLE).columns().at_ns)
    assert not np.array_equal(at_ns, log(folder, WHOLE, seed=2).columns().at_ns)
    flat = log(folder, WHOLE, spread=False)
    np.testing.assert_array_equal(flat.columns().at_ns, np.arange(70) // 7 * SECOND_NS)
    assert not flat.was_spread and flat.duration_ns == 9 * SECOND_NS + 1


def test_spreading_is_named_by_user(folder):
    alone = log(folder, "user,instant\na,1\na,1\na,9\n").columns()
    other = log(folder, "user,instant\na,1\na,1\nb,5\na,9\n").columns()
    np.testing.assert_array_equal(alone.at_ns, other.at_ns[other.user == other.names.index("a")])


def test_finer_instants_stay(folder):
    found = log(folder, FINE)
    assert not found.was_spread and found.columns().at_ns.tolist() == [0, 750_000_000, 3 * SECOND_NS, 4_250_000_000]
    assert found.duration_ns == 4_250_000_001
    assert log(folder, FINE, columns="cost=cost", cost_per=100).columns().cost.tolist() == [1, 3, 1, 10]


def test_windows_and_speed(folder):
    window = log(folder, FINE, start="500ms", duration="3s", speed=2.0)
    at_ns, user, _, names = window.columns()
    assert at_ns.tolist() == [125_000_000, 1_250_000_000] and window.duration_ns == 1_500_000_000
    assert [names[index] for index in user] == ["b", "a"] and names == ("a", "b")
    whole, cut = log(folder, WHOLE).columns(), log(folder, WHOLE, start="3s").columns()
    np.testing.assert_array_equal(cut.at_ns, whole.at_ns[21:] - 3 * SECOND_NS)
    nodes = log(folder, WHOLE).requests(["x", "y"], 2 * SECOND_NS)
    assert sum(map(len, nodes.values())) == 14


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"path": ""}, "path=''"),
        ({"columns": "who=0"}, "'who' is none of user, instant, cost"),
        ({"columns": "user"}, "write role=column"),
        ({"instant_unit": "min"}, "instant_unit='min'"),
        ({"separator": "||"}, "separator"),
        ({"start": "soon"}, "start='soon'"),
        ({"duration": "0s"}, "duration='0s'"),
        ({"speed": 0.0}, "speed=0.0"),
        ({"speed": 1e-10}, r"speed=1e-10.*64 bits"),
        ({"cost_per": -1.0}, "cost_per=-1.0"),
        ({"placement": "x"}, "placement='x'"),
        ({"start": "1h"}, r"no requests from 1h on \(the log's requests end 4\.25 s after"),
        ({"columns": "cost=cost", "cost_per": 1e-9}, "cost_per=1e-09.*give more"),
    ],
)
def test_impossible_options_are_named(folder, options, found):
    with pytest.raises(SpecError, match=found):
        schedule("request-log", **{"path": written(folder, FINE), **options})


def test_skipped_lines_are_kept_by_the_schedule(folder):
    assert log(folder, FINE + "x,1,2\n", skip_bad=True).skipped == {"time goes backwards": 1}


# --- the real logs ---------------------------------------------------------------------------------


@real
def test_nasa_as_it_is():
    found = schedule("request-log", path=str(NASA))
    at_ns, user, _, names = found.columns()
    assert (len(at_ns), len(names), np.bincount(user).max()) == (30_969, 2_365, 364)
    assert found.duration_ns == (12 * 3600 + 52 * 60 + 1 + 1) * SECOND_NS and found.was_spread
    per_second = Counter(zip(user.tolist(), (at_ns // SECOND_NS).tolist(), strict=True))
    assert max(per_second.values()) == 11 and found.skipped == {}


@real
def test_collegemsg_as_it_is():
    found = schedule("request-log", path=str(COLLEGE), speed=5000.0)
    assert (len(found.columns().at_ns), len(found.columns().names)) == (59_835, 1_350)
    assert found.duration_ns / SECOND_NS == pytest.approx(193.7 * 86_400 / 5000, rel=1e-3)


@real
def test_azure_with_a_column_map():
    options = {"columns": "user==all,instant=TIMESTAMP,cost=ContextTokens", "instant_unit": "iso", "cost_per": 1000}
    found = schedule("request-log", path=str(AZURE), **options)
    assert len(found.columns().at_ns) == 8_819 and found.columns().names == ("all",)
    assert found.columns().at_ns[-1] == 3_435_948_056_000 and found.columns().cost[:3].tolist() == [5, 4, 1]
