"""What the limiters are offered: windows of a log, limits, and what is said of a broken log."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import SpecError
from paper_figs.beyond import plane
from paper_figs.beyond.load import REFILLS, THRESHOLD, Load, loads_of
from workloads import load
from workloads.auto_limit import centrally_admitted

NASA = Path(__file__).parents[4] / "shared" / "data" / "nasa-http-1995" / "nasa_19950801.tsv.gz"
HEADER = "user,instant\n"


def options(**changed: Any) -> dict[str, Any]:
    """The figure's options, as the command line gives them."""
    given = {name.replace("_", "-"): value for name, value in changed.items()}
    defaults = {option.name: option.default for option in plane.OPTIONS}
    assert given.keys() <= defaults.keys()
    return {**defaults, **given}


def written(folder: Path, text: str) -> str:
    path = folder / "log.csv"
    path.write_text(text)
    return str(path)


def columns_of(found: Load) -> Any:
    workload = load(found.workload)
    return workload.make(workload.configure(found.options), 1).columns()


def bursty(folder: Path) -> str:
    """Half an hour with a request a second, ten a second in the minute from 20:00 on."""
    instants = sorted([*range(1800), *(1200 + i / 10 for i in range(600))])
    return written(folder, HEADER + "".join(f"u{int(at * 10) % 7},{at}\n" for at in instants))


def load_of(options: dict[str, Any], nodes: int) -> Load:
    """The usual one."""
    return loads_of(options, nodes)[0]


def test_without_a_log_loads_are_synthetic_and_steady() -> None:
    loads = loads_of(options(), 8)
    assert {each.workload for each in loads} == {"requests"} and len({each.capacity for each in loads}) == 3
    assert [each.options["users"] for each in loads].count(1) == 1, "one aggregate"
    for each in loads:
        assert float(each.rate) * each.span_s / each.capacity >= 3 and each.duration == f"{each.span_s}s"
    (given,) = loads_of(options(limit="15,0.5"), 8)
    assert (given.capacity, given.rate, given.span_s) == (15, "0.5", 30 * REFILLS)


def test_the_busiest_window_is_found(tmp_path: Path) -> None:
    found = load_of(options(log=bursty(tmp_path), duration="1min"), 4)
    assert found.options["start"] == "1200s"
    assert len(columns_of(found).at_ns) == 660
    later = load_of(options(log=bursty(tmp_path), duration="1min", start="5min"), 4)
    assert len(columns_of(later).at_ns) == 60
    everything = load_of(options(log=bursty(tmp_path), duration="all", speed=2.0), 4)
    at_ns = columns_of(everything).at_ns
    assert len(at_ns) == 2400 and at_ns[-1] == 1799 * 10**9 // 2
    assert columns_of(load_of(options(log=bursty(tmp_path), duration="3h"), 4)).at_ns[-1] == 1799 * 10**9


def test_limit_auto_is_of_what_is_run(tmp_path: Path) -> None:
    path = bursty(tmp_path)
    for more in ({}, {"duration": "1min"}, {"speed": 10.0}):
        found = load_of(options(log=path, **more), 4)
        admitted = centrally_admitted(*columns_of(found)[:3], found.capacity, found.rate)
        assert abs((1 - admitted.mean()) - 0.05) < 0.02, more
    limited = load_of(options(log=path, limit="20, 0.02"), 4)
    assert (limited.capacity, limited.rate) == (20, "0.02")


@pytest.mark.parametrize("text", ["20", "x,1", "0,1", "20,0", "20,1/0", "20,", "-3,1", "automatic"])
def test_a_limit_that_is_none(text: str) -> None:
    with pytest.raises(SpecError, match="--limit"):
        load_of(options(limit=text), 8)


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (HEADER + "a,1\nb\n", {}, "line 3: 1 fields instead of 2"),
        (HEADER + "a,1\nb,soon\n", {}, "line 3, instant 'soon'"),
        (HEADER + "a,2\nb,1\n", {}, "line 3, instant: 1 s before the line before it; time goes backwards"),
        (HEADER + "a,2\n", {"columns": "user=who"}, "no column 'who' for user"),
        (HEADER + "a,2\n", {"columns": "who=user"}, "'who' is none of"),
        (HEADER + "a,2\n", {"start": "1h"}, "no requests from 1h on"),
        (HEADER + "a,2\n", {"duration": "long"}, "--duration 'long'"),
        ("", {}, "the file is empty"),
    ],
)
def test_a_broken_log_is_reported_before_anything_runs(tmp_path: Path, text: str, more: dict, said: str) -> None:
    with pytest.raises(SpecError) as error:
        load_of(options(log=written(tmp_path, text), **more), 8)
    assert said in str(error.value)


def test_a_log_that_is_not_there() -> None:
    with pytest.raises(SpecError, match=r"--log .*nowhere\.csv: No such file"):
        load_of(options(log="nowhere.csv"), 8)


def test_an_edited_log_is_read_anew(tmp_path: Path) -> None:
    lines = "".join(f"a,{i}\n" for i in range(50))
    first = load_of(options(log=written(tmp_path, HEADER + lines)), 2)
    again = load_of(options(log=written(tmp_path, HEADER + lines)), 2)
    edited = load_of(options(log=written(tmp_path, HEADER + lines.replace("a", "b", 25))), 2)
    assert first == again and edited.capacity < first.capacity


def test_a_threshold_is_derived_where_users_allow_it(tmp_path: Path) -> None:
    regular = HEADER + "".join(f"u{i % 4},{i / 4}\n" for i in range(240))  # each of four users once a second
    found = load_of(options(log=written(tmp_path, regular), limit="100,0.1"), 4)
    assert found.threshold == "1000ms"  # 24 gaps of 1 s over windows of 25, rounded
    lonely = HEADER + "a,1\nb,2\nc,3\n"
    assert load_of(options(log=written(tmp_path, lonely), limit="10,1"), 2).threshold == THRESHOLD


@pytest.mark.skipif(not NASA.is_file(), reason="the real logs are not beside the checkout")
def test_the_real_log_has_a_limit_of_its_own() -> None:
    found = load_of(options(log=str(NASA)), 8)
    columns = columns_of(found)
    assert found.options["spread"] is True and len(columns.at_ns) > 800
    rejected = 1 - centrally_admitted(*columns[:3], found.capacity, found.rate).mean()
    assert np.isclose(rejected, 0.05, atol=0.01)


def test_services_logs_are_read_as_they_are(tmp_path: Path) -> None:
    access = "".join(f'10.0.0.{at % 3} - - [10/Oct/2023:13:{at // 60:02d}:{at % 60:02d} +0000] "GET / HTTP/1.1" 200 5\n'
                     for at in range(300))  # fmt: skip
    iso = "time,client\n" + "".join(f"2023-10-10T13:{at // 60:02d}:{at % 60:02d}Z,k{at % 3}\n" for at in range(300))
    for text, columns in ((access, ""), (iso, ""), (iso.replace("time", "when"), "time=when,user=client")):
        found = load_of(options(log=written(tmp_path, text), columns=columns, limit="5,0.1"), 4)
        assert found.workload == "service-log" and len(columns_of(found).at_ns) == 300
    plain = HEADER + "a,1\na,2\n"
    assert load_of(options(log=written(tmp_path, plain), limit="5,0.1"), 4).workload == "request-log"


def test_columns_are_named_as_the_command_line_has_them(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--columns user=NAME"):
        load_of(options(log=written(tmp_path, "who,when\na,1\nb,2\n")), 4)
