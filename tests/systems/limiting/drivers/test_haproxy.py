"""haproxy: what it is told, what it cannot say, what its answers mean; and real ones, on loopback."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import SECOND_NS
from systems.limiting.deployed import HttpAnswer, Quota, quota_of
from systems.limiting.drivers.haproxy import DRIVER, LONGEST, Config
from tests.live import needs
from tests.systems.limiting.drivers.on_loopback import around_a_crash, keeps_its_word, median_wait_ns, on_paper


def told(config: Config) -> list[str]:
    """The lines of the second node's settings."""
    text = DRIVER.servers(on_paper(), quota_of(config), config)[1].files["haproxy.cfg"]
    return [line.strip() for line in text.splitlines()]


def test_each_knows_all_as_peers_and_counts_admitted_requests() -> None:
    lines = told(Config(20, "20"))
    assert [line for line in lines if line.startswith("peer ")] == [f"peer n{i} 10.0.0.{i}:10000" for i in (1, 2, 3)]
    assert "stick-table type string len 64 size 2m expire 10s peers nodes store gpc0,gpc0_rate(1000)" in lines
    deny = lines.index("http-request return status 429 if { sc_gpc0_rate(0) ge 20 }")
    assert lines[deny + 1 : deny + 3] == ["http-request sc-inc-gpc0(0)", "http-request return status 200"]
    process = DRIVER.servers(on_paper(), quota_of(Config()), Config())[1]
    assert process.command == ("haproxy", "-db", "-L", "n2", "-f", "/haproxy-n2/haproxy.cfg")


def test_it_may_count_all_requests() -> None:
    lines = told(Config(100, "5/3", counter="all"))
    assert "stick-table type string len 64 size 2m expire 120s peers nodes store http_req_rate(60000)" in lines
    assert "http-request return status 429 if { sc_http_req_rate(0) gt 100 }" in lines
    assert not any("sc-inc" in line for line in lines)
    with pytest.raises(SpecError, match="counter = 'some'"):
        DRIVER.check(Quota(1, Fraction(1)), Config(counter="some"), ["n1"])


@given(st.integers(1, 10**4), st.fractions(Fraction(1, 10**5), 10**5, max_denominator=10**6))
def test_a_period_is_so_many_milliseconds_or_refused_with_the_nearest(count: int, period: Fraction) -> None:
    if (period * 1000).denominator == 1:
        DRIVER.check(Quota(count, period), Config(), ["n1"])
        return
    with pytest.raises(SpecError, match="it counts by whole milliseconds") as caught:
        DRIVER.check(Quota(count, period), Config(), ["n1"])
    nearest = count / Fraction(caught.value.fix.rpartition(" = ")[2])
    assert abs(nearest - period) <= Fraction(1, 2000) or period < Fraction(1, 1000)


@given(st.integers(1, 10**4), st.fractions(Fraction(1, 100), 100, max_denominator=10**4))
@example(30, Fraction(30004, 10**4))
def test_what_it_advises_it_takes(capacity: int, rate: Fraction) -> None:
    config = Config(capacity, str(rate))
    try:
        DRIVER.check(quota_of(config), config, ["n1"])
    except SpecError as refused:
        advised = Config(capacity, refused.fix.rpartition(" = ")[2])
        DRIVER.check(quota_of(advised), advised, ["n1"])


def test_all_are_connected_to_all_before_it_is_ready() -> None:
    peers = b"  peer n1 state=EST\n  peer n2 state=NONE\n  peer n3 state=EST\n\n"
    state = b"0x1: [0] id=nodes disabled=0 flags=0x68b3 resync_timeout=4s\n" + peers
    answers = {f"{name}/haproxy": state for name in ("n1", "n2", "n3")}
    assert DRIVER.ready(on_paper(), answers) == ""
    lonely = answers | {"n2/haproxy": state.replace(b"n3 state=EST", b"n3 state=CONN")}
    assert DRIVER.ready(on_paper(), lonely) == "n2/haproxy has met 1 of 2 peers for good"
    assert DRIVER.ready(on_paper(), lonely | {"n3/haproxy": b""}) == "n3/haproxy has met 0 of 2 peers for good"
    learning = answers | {"n3/haproxy": state.replace(b"0x68b3", b"0x6891")}
    assert DRIVER.ready(on_paper(), learning) == "n3/haproxy has met 0 of 2 peers for good"
    assert DRIVER.ready(on_paper("n1"), {"n1/haproxy": b""}) == "", "who is alone has nobody to meet"


@given(st.sampled_from((200, 429)) | st.integers(100, 599), st.just(b"") | st.binary(max_size=9))
def test_what_is_no_verdict_is_none(status: int, body: bytes) -> None:
    known = {200: True, 429: False} if not body else {}
    assert DRIVER.verdict(HttpAnswer(status, body)) == known.get(status)


@given(st.text())
def test_a_user_is_one_parameter(user: str) -> None:
    line = DRIVER.ask(user, 1, Quota(1, Fraction(1)), Config()).partition(b"\r\n")[0]
    assert line.startswith(b"GET /?u=") and line.count(b" ") == 2 and line.count(b"=") == 1 and b"&" not in line


def key(user: str) -> bytes:
    """By which HAProxy counts a user: what its table keeps of the parameter."""
    path = DRIVER.ask(user, 1, Quota(1, Fraction(1)), Config()).split()[1]
    return path.removeprefix(b"/?u=")[:LONGEST]


def test_users_whose_long_names_begin_alike_are_told_apart() -> None:
    assert key("u" * LONGEST) == b"u" * LONGEST, "as it is, as far as it fits"
    users = ["u" * LONGEST, "u" * (LONGEST + 1), "u" * (LONGEST + 2), "\xe9" * 11, "\xe9" * 12]  # six characters an e
    digest = key("u" * (LONGEST + 1)).decode()
    assert len(digest) == 33 and len({key(user) for user in (*users, digest, digest[1:])}) == len(users) + 2


@given(st.text(), st.text())
def test_users_are_told_apart(one: str, other: str) -> None:
    assert (key(one) == key(other)) == (one == other)


def test_costs_are_refused() -> None:
    with pytest.raises(SpecError, match=r"haproxy counts requests, not what they cost \(2\)"):
        DRIVER.ask("u", 2, Quota(3, Fraction(1)), Config())


@needs("haproxy")
@pytest.mark.slow
@pytest.mark.parametrize("counter", ["admitted", "all"])
def test_the_real_one_keeps_its_word(tmp_path: Path, counter: str) -> None:
    keeps_its_word(DRIVER, tmp_path, capacity=6, rate="6", counter=counter)


@needs("haproxy")
@pytest.mark.slow
def test_those_that_live_decide_on(tmp_path: Path) -> None:
    before, after = around_a_crash("haproxy", tmp_path, "n2", ["u"], capacity=5, rate="5", timeout="2s")
    assert median_wait_ns(after) < SECOND_NS, "no time-out"
    assert {each.decision for each in (*before, *after)} == {"admit", "reject"}
