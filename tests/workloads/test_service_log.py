"""Logs of services: every format says the same of the same requests; stamps of every kind; what is wrong is named."""

import gzip
import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from workloads.service_log import LogQuery, read_service_log

BEGIN_S = 1_709_208_000  # 2024-02-29 12:00 UTC
ROWS = [(BEGIN_S + at, f"10.0.0.{at % 3}", 429 if at % 4 == 1 else 200) for at in range(12)]


def moment(at_s):
    return datetime.fromtimestamp(at_s, UTC)


def access(at_s, user, status, tail=' "-" "curl/8.5 \\"x\\""'):
    return f'{user} - alice [{moment(at_s):%d/%b/%Y:%H:%M:%S} +0000] "GET /?key=k{user[-1]} HTTP/1.1" {status} 12{tail}'


def file(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def read(folder, text, name="a.log", **wanted):
    return read_service_log([file(folder, name, text)], LogQuery(wanted.pop("columns", {}), **wanted))


def parquet(folder):
    columns = {
        "timestamp": pa.array([at * 1000 for at, _, _ in ROWS], pa.timestamp("ms", "Europe/Berlin")),
        "client_ip": [user for _, user, _ in ROWS],
        "status": [status for *_, status in ROWS],
    }
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return (folder / "t.parquet").read_bytes()


WRITTEN = {
    "combined": lambda _: "\n".join(access(*row) for row in ROWS),
    "common": lambda _: "\n".join(access(*row, tail="") for row in ROWS),
    "combined, gzip": lambda _: gzip.compress("\n".join(access(*row) for row in ROWS).encode()),
    "JSON lines": lambda _: "\n".join(
        json.dumps({"ts": at, "msg": "x", "remote_addr": user, "status": status}) for at, user, status in ROWS
    ),
    "CSV, ISO": lambda _: "\n".join(
        ["Time,User,Status", *(f"{moment(at):%Y-%m-%dT%H:%M:%SZ},{user},{status}" for at, user, status in ROWS)]
    ),
    "CSV, ISO elsewhere": lambda _: "\n".join(
        ["when;User;Status", *(f"{moment(at + 7200):%Y-%m-%d %H:%M:%S}+02:00;{u};{s}" for at, u, s in ROWS)]
    ).replace("when", "datetime"),
    "tabs, milliseconds": lambda _: "\n".join(
        ["ts\tuser\tverdict", *(f"{at}000\t{u}\t{'Rejected' if s == 429 else 'ok'}" for at, u, s in ROWS)]
    ),
    "nanoseconds": lambda _: "\n".join(["ts,user,code", *(f"{at}000000000,{u},{s}" for at, u, s in ROWS)]),
    "Parquet": parquet,
}


@pytest.mark.parametrize("form", WRITTEN)
def test_every_format_says_the_same(form, tmp_path):
    log = read(tmp_path, WRITTEN[form](tmp_path))
    assert (log.at_ns // SECOND_NS).tolist() == [at for at, _, _ in ROWS]
    assert [log.users[user] for user in log.user] == [user for _, user, _ in ROWS]
    assert log.admitted.tolist() == [status != 429 for *_, status in ROWS]
    assert (log.unit_ns, log.from_ns, log.until_ns) == (SECOND_NS, ROWS[0][0] * SECOND_NS, ROWS[-1][0] * SECOND_NS)
    assert not log.notes and not log.skipped


def test_stamps_without_a_year_go_over_new_year_and_a_leap_day(tmp_path):
    stamps = "Dec 31 23:59:59", "Jan  1 00:00:01", "Dec 31 23:59:58", "Feb 29 12:00:00"
    log = read(tmp_path, "date\tuser\tstatus\n" + "\n".join(f"{stamp}\ta\t200" for stamp in stamps[:3]))
    assert np.diff(log.at_ns).tolist() == [SECOND_NS, 2 * SECOND_NS] and "no year" in log.notes[0]
    read(tmp_path, f"date\tuser\tstatus\n{stamps[3]}\ta\t200")


def test_stamps_without_a_year_go_over_new_year_into_a_leap_day(tmp_path):
    stamps = "Dec 31 23:59:59", "Feb 28 10:00:00", "Feb 29 12:00:00", "Mar  1 00:00:00"
    for first in (0, 1, 2):
        log = read(tmp_path, "date\tuser\tstatus\n" + "".join(f"{stamp}\t{stamp}\t200\n" for stamp in stamps[first:]))
        assert [log.users[user] for user in log.user] == list(stamps[first:])
        days = (60 * 86_400 + 1, 38 * 3600, 12 * 3600)[first]
        assert log.at_ns[-1] - log.at_ns[0] == days * SECOND_NS
    back = read(tmp_path, "date\tuser\tstatus\nMar  1 00:00:01\ta\t200\nFeb 29 23:59:59\ta\t200\n")
    assert back.at_ns[-1] - back.at_ns[0] == 2 * SECOND_NS


def test_files_without_a_year_are_put_next_to_each_other(tmp_path):
    def log(name, *stamps):
        return file(tmp_path, name, "date\tuser\tstatus\n" + "".join(f"{stamp}\ta\t200\n" for stamp in stamps))

    a = log("a", "Dec 31 23:50:00", "Jan  1 00:10:00")
    b = log("b", "Jan  1 00:00:03", "Jan  1 00:09:00")
    for paths in ([a, b], [b, a]):
        both = read_service_log(paths, LogQuery({}))
        assert np.diff(both.at_ns).tolist() == [603 * SECOND_NS, 537 * SECOND_NS, 60 * SECOND_NS]
        assert sorted(both.nodes) == ["a", "b"]
    months = [moment(BEGIN_S - day * 86_400) for day in range(75, 400, 30)]  # the latest file first
    rotated = [log(f"l.{number}", *(f"{at:%b} {day} 12:00:00" for day in (5, 25))) for number, at in enumerate(months)]
    whole = read_service_log(rotated, LogQuery({}))
    assert whole.nodes == ("l.0",) and whole.at_ns[-1] - whole.at_ns[0] < 366 * 86_400 * SECOND_NS


def test_lines_out_of_order_are_sorted_and_counted(tmp_path):
    rows = f"{BEGIN_S + 3}.5,a,200\n{BEGIN_S + 1}.25,b,429\n{BEGIN_S + 2},c,200\n"
    log = read(tmp_path, f"ts,user,status\n{rows}")
    assert (log.at_ns - BEGIN_S * SECOND_NS).tolist() == [1_250_000_000, 2 * SECOND_NS, 3_500_000_000]
    assert [log.users[user] for user in log.user] == ["b", "c", "a"] and log.admitted.tolist() == [False, True, True]
    assert log.notes == ("2 of 3 lines came after later ones: sorted by their stamps",)
    assert log.unit_ns == 10_000_000


def test_users_by_a_pattern_and_fields_of_objects(tmp_path):
    text = "\n".join(access(*row) for row in ROWS)
    log = read(tmp_path, text, columns={"user": "request"}, pattern=r"key=(\w+)")
    assert set(log.users) == {"k0", "k1", "k2"}
    assert set(read(tmp_path, text, columns={"user": "request"}, pattern=r"k\d").users) == {"k0", "k1", "k2"}
    row = json.dumps({"time": "2024-02-29T12:00:00Z", "req": {"who": "me", "by": {"pod": 7}}, "code": 200})
    log = read(tmp_path, row, columns={"user": "req.who", "node": "req.by.pod"})
    assert (log.users, log.nodes) == (("me",), ("7",))


def test_a_node_may_be_unknown_and_a_user_half_a_letter(tmp_path):
    rows = [{"ts": 1, "user": "a", "region": "eu"}, {"ts": 2, "user": "b"}, {"ts": 3, "user": "\ud800", "region": None}]
    log = read(tmp_path, "\n".join(map(json.dumps, rows)), verdicts=False)
    assert log.users == ("a", "b", "\\ud800") and log.nodes == ("eu", "-") and log.node.tolist() == [0, 1, 1]


def test_files_are_nodes_or_parts_of_one(tmp_path):
    def log(name, stamps):
        return file(tmp_path, name, "ts,user,status\n" + "".join(f"{BEGIN_S + at},a,200\n" for at in stamps))

    def span_s(log):
        return log.from_ns / SECOND_NS - BEGIN_S, log.until_ns / SECOND_NS - BEGIN_S

    both = read_service_log([log("n1.csv", (1, 5, 9)), log("n2.csv", (3, 12))], LogQuery({}))
    assert both.nodes == ("n1.csv", "n2.csv") and both.node.tolist() == [0, 1, 0, 0, 1]
    assert span_s(both) == (3, 9)
    assert not both.notes  # each is in order
    rotated = read_service_log([log("l", (5, 9)), log("l.1", (1, 5))], LogQuery({}))
    assert span_s(rotated) == (1, 9)
    assert rotated.nodes == ("l",) and rotated.node.tolist() == [0] * 4 and not rotated.notes
    folders = [tmp_path / name for name in "ab"]
    for folder, at in zip(folders, ((1, 5), (3, 12)), strict=True):
        folder.mkdir()
        log(f"{folder.name}/l", at)
    alike = read_service_log([str(folder / "l") for folder in folders], LogQuery({}))
    assert alike.nodes == tuple(str(folder / "l") for folder in folders)


def test_a_log_that_is_given_twice_is_refused(tmp_path):
    text = "ts,user,status\n" + "".join(f"{at},{user},{status}\n" for at, user, status in ROWS)
    log, packed = file(tmp_path, "a.log", text), file(tmp_path, "a.log.gz", gzip.compress(text.encode()))
    (tmp_path / "link").symlink_to(log)
    for other in (log, str(tmp_path / "link"), packed):
        with pytest.raises(SpecError, match=r"the same requests as .*a\.log; give each file once"):
            read_service_log([log, other], LogQuery({}))
    nodes = [
        file(tmp_path, name, text.replace("\n", f",{name}\n").replace(f"status,{name}", "status,node"))
        for name in ("n1", "n2")
    ]
    assert len(read_service_log(nodes, LogQuery({})).at_ns) == 2 * len(ROWS)


def test_the_coarsest_stamps_say_how_exact_a_log_is(tmp_path):
    seconds = file(tmp_path, "n1.csv", "ts,user,status\n1,a,200\n2,a,200\n")
    finer = file(tmp_path, "n2.csv", "ts,user,status\n1.250,a,200\n1.5,a,200\n")
    log = read_service_log([seconds, finer], LogQuery({}))
    assert log.units_ns == (SECOND_NS, SECOND_NS // 100) and log.unit_ns == SECOND_NS


def test_nodes_of_one_file_have_stamps_of_their_own(tmp_path):
    def log(name, *rows):
        return file(tmp_path, name, "ts,user,node,status\n" + "".join(f"{at},a,{node},200\n" for at, node in rows))

    coarse, fine = [("1", "n1"), ("2", "n1")], [("1.250", "n2"), ("1.500", "n2")]
    split = read_service_log([log("n1.csv", *coarse), log("n2.csv", *fine)], LogQuery({}))
    for merged in ([*coarse, *fine], [fine[0], *coarse, fine[1]]):
        assert sorted(read_service_log([log("all.csv", *merged)], LogQuery({})).units_ns) == sorted(split.units_ns)
    assert split.unit_ns == SECOND_NS


def test_numbers_that_are_no_times_are_seconds_which_is_said(tmp_path):
    log = read(tmp_path, "time,user\n" + "".join(f"{at},a\n" for at in (0, 12, 40, 600_000)), verdicts=False)
    assert log.at_ns[-1] == 600_000 * SECOND_NS
    assert log.notes == ("its stamps are no times of 1973 or later: taken as seconds",)
    log = read(tmp_path, f"Time,timestamp,user,status\n0.003,{BEGIN_S},a,200\n0.25,{BEGIN_S + 1},a,200\n")
    assert log.columns["time"] == "timestamp" and not log.notes


def test_objects_are_no_users_and_columns_that_were_found_are_named(tmp_path):
    row = {"ts": 1, "client": {"ip": "1.2.3.4", "port": 5}, "remote_addr": "1.2.3.4", "response": {"status": 429}}
    text = json.dumps({**row, "status": 429})
    log = read(tmp_path, text)
    assert log.columns == {"time": "ts", "user": "remote_addr", "verdict": "status"} and not log.admitted.any()
    with pytest.raises(SpecError, match="no column for the verdict"):
        read(tmp_path, json.dumps(row))
    with pytest.raises(SpecError, match=r"an object in the place of a text: .* user=client\.ip"):
        read(tmp_path, text, columns={"user": "client"})
    assert read(tmp_path, text, columns={"user": "client.ip"}).users == ("1.2.3.4",)


def test_stamps_of_parquet_have_a_unit_whenever_they_are(tmp_path):
    hour_ns = 3600 * SECOND_NS
    columns = {"ts": pa.array([50 * hour_ns, 51 * hour_ns], pa.timestamp("ns")), "user": ["a", "a"]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    log = read_service_log([str(tmp_path / "t.parquet")], LogQuery({}, verdicts=False))
    assert log.at_ns.tolist() == [50 * hour_ns, 51 * hour_ns]


@pytest.mark.parametrize(
    "first", ['{"ts": 1, "msg": "started"}', '0.0.1 - - [29/Feb/2024:12:00:00 +0000] "GET /a,b;c HTTP/1.1" 20', "{"]
)
def test_a_torn_first_line_can_be_passed_over(first, tmp_path):
    later = access(*ROWS[1]) if first.startswith("0") else json.dumps({"ts": 2, "user": "a", "status": 200})
    log = read(tmp_path, f"{first}\n{later}\n", skip_bad=True)
    assert len(log.at_ns) == 1 and log.skipped == {"before the first request": 1}
    with pytest.raises(SpecError):
        read(tmp_path, f"{first}\n{later}\n")
    with pytest.raises(SpecError, match="no column"):
        read(tmp_path, f"{first}\n" if first.startswith("{") else '{"msg": "x"}\n', skip_bad=True)


def test_verdicts_of_ones_own_and_none(tmp_path):
    text = "ts,user,status\n1,a,503\n2,a,429\n"
    assert read(tmp_path, text, rejected=("503",)).admitted.tolist() == [False, True]
    assert read(tmp_path, "ts,user\n1,a\n", verdicts=False).admitted is None
    floats = '{"ts": 1, "user": "a", "status": 429.0}\n{"ts": 2, "user": 7.0, "status": 200.0}\n'
    assert read(tmp_path, floats, "a.jsonl").admitted.tolist() == [False, True]
    assert read(tmp_path, "ts,user,status\n1,a,429.0\n3,c,200.00\n").admitted.tolist() == [False, True]
    yes = "ts,user,{}\n1,a,0\n2,b,1\n"
    assert read(tmp_path, yes.format("allowed")).admitted.tolist() == [False, True]
    assert read(tmp_path, yes.format("response_code")).admitted.tolist() == [True, True]  # the client has gone
    assert read(tmp_path, yes.format("code"), rejected=("0",)).admitted.tolist() == [False, True]


WRONG = {
    "empty": ("", {}, "the file is empty"),
    "prose": ("hello\n", {}, "no log that is known"),
    "no user": ("ts,status\n1,200\n", {}, "no column for the user (there are ts, status); say --columns user=NAME"),
    "no such column": ("ts,user,status\n1,a,200\n", {"columns": {"user": "who"}}, "no column 'who' for the user"),
    "no verdict": ("ts,user\n1,a\n", {}, "no column for the verdict"),
    "an empty verdict": ("ts,user,status\n1,a,\n", {}, "line 2: no verdict: empty"),
    "a verdict that is no number": ("ts,user,status\n1,a,nan\n", {}, "line 2: no verdict: empty"),
    "another kind of stamp": ("ts,user,status\n1,a,200\n2024-01-01T00:00:00Z,a,200\n", {}, "line 3: no stamp"),
    "no stamp": ("ts,user,status\nsoon,a,200\n", {}, "'soon' is no stamp that is known"),
    "far away": ("ts,user,status\n1,a,200\n1e30,a,200\n", {}, "line 3: no stamp"),
    "too few fields": ("ts,user,status\n1,a,200\n2,a\n", {}, "line 3: it cannot be read as the lines before it"),
    "broken JSON": ('{"ts":1,"user":"a","status":200}\n{"ts":2\n', {}, "line 2: it cannot be read"),
    "a bad pattern": ("ts,user,status\n1,a,200\n", {"pattern": "("}, "give a regular expression"),
    "nobody by the pattern": ("ts,user,status\n1,a,200\n", {"pattern": "z"}, "line 2: no user: the pattern is not in"),
    "an unreadable first line": ("{\n", {}, "its first line cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name, tmp_path):
    text, wanted, told = WRONG[name]
    with pytest.raises(SpecError) as error:
        read(tmp_path, text, **wanted)
    assert told in str(error.value)


def test_bad_lines_are_passed_over_if_asked_for(tmp_path):
    text = "ts,user,status\n1,a,200\nsoon,a,200\n2,,429\n3,a\n4,a,429\n"
    log = read(tmp_path, text, skip_bad=True)
    assert log.at_ns.tolist() == [SECOND_NS, 4 * SECOND_NS]
    assert dict(log.skipped) == {"it cannot be read as the lines before it": 1, "no stamp": 1, "no user": 1}
    with pytest.raises(SpecError, match="1 lines: no user"):
        read(tmp_path, "ts,user,status\n1,a,200\n", pattern="z", skip_bad=True)
