"""nginx: what it is told, what it cannot say, what its answers mean; and the real one, on loopback."""

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import SECOND_NS
from systems.limiting.deployed import HttpAnswer, Quota, quota_of
from systems.limiting.drivers.nginx import DRIVER, Config, share
from tests.live import needs
from tests.systems.limiting.drivers.on_loopback import around_a_crash, keeps_its_word, median_wait_ns, on_paper

NAMED = re.compile(r"capacity = (\d+), rate = (\S+)")


def told(capacity: int, rate: str, *names: str) -> str:
    """The settings of the first node."""
    config = Config(capacity, rate)
    return DRIVER.servers(on_paper(*names), quota_of(config), config)[0].files["nginx.conf"]


def test_each_node_has_its_share_of_the_limit() -> None:
    assert "rate=4r/s;" in told(20, "20", "n1", "n2", "n3", "n4", "n5")
    assert "limit_req zone=users burst=3 nodelay;" in told(20, "20", "n1", "n2", "n3", "n4", "n5")
    assert "rate=6r/m;" in told(30, "0.5", "n1", "n2", "n3", "n4", "n5")
    assert "limit_req zone=users;" in told(3, "3"), "it takes no burst of 0"
    assert 'pid "/nginx-n1/pid"' in told(3, "3") and "{" not in told(3, "3").partition("events")[0]


def test_what_is_no_share_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"cannot say 10 in 1 s at 4 nodes.* capacity = 8, rate = 10$"):
        DRIVER.check(Quota(10, Fraction(1)), Config(), ["n1", "n2", "n3", "n4"])
    with pytest.raises(SpecError, match=r"capacity = 20, rate = 1/4$"):  # 4 a minute would be 66 thousandths a second
        DRIVER.check(Quota(20, Fraction(60)), Config(), ["n1", "n2", "n3", "n4", "n5"])


@given(st.integers(1, 500), st.fractions(Fraction(1, 100), 5000, max_denominator=100), st.integers(1, 9))
def test_a_share_is_exact_or_the_nearest_is_one(count: int, period: Fraction, node_count: int) -> None:
    quota = Quota(count, period)
    try:
        burst, rate = share(quota, node_count)
    except SpecError as error:
        named = NAMED.search(error.fix)
        assert named
        capacity = int(named[1])
        burst, rate = share(Quota(capacity, capacity / Fraction(named[2])), node_count)
        quota = Quota(capacity, capacity / Fraction(named[2]))
    number, unit = re.fullmatch(r"(\d+)r/([sm])", rate).groups()  # type: ignore[union-attr]
    thousandths = int(number) * 1000 // {"s": 1, "m": 60}[unit]  # as nginx counts
    assert burst * node_count == quota.count
    assert Fraction(thousandths, 1000) * node_count == quota.count / quota.period


@given(st.sampled_from((200, 429)) | st.integers(100, 599), st.sampled_from((b"", b"yes")) | st.binary(max_size=9))
def test_what_is_no_verdict_is_none(status: int, body: bytes) -> None:
    expected = {429: False}.get(status) if (status, body) != (200, b"yes") else True
    assert DRIVER.verdict(HttpAnswer(status, body)) is expected


@given(st.text(st.characters()), st.text(st.characters()))
def test_users_are_told_apart_in_a_line(one: str, other: str) -> None:
    quota = Quota(3, Fraction(1))
    asked, asked_other = (DRIVER.ask(user, 1, quota, Config()) for user in (one, other))
    assert (asked == asked_other) == (one == other)
    assert re.match(rb"GET /\?u=-[!-~]* HTTP/1.1\r\n", asked), "and none is empty, which is not counted"


def test_costs_are_refused() -> None:
    with pytest.raises(SpecError, match=r"not what they cost \(2\)"):
        DRIVER.ask("u", 2, Quota(3, Fraction(1)), Config())


def test_who_is_silent_is_named() -> None:
    answers = {"n1/nginx": b"HTTP/1.1 200 OK\r\n\r\nhealthy", "n2/nginx": b""}
    assert DRIVER.ready(on_paper(), answers) == "no answer of n2/nginx"


# --- live ------------------------------------------------------------------------------------------------------------


@needs("nginx")
@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "rate"), [(9, "9"), (3, "3"), (6, "3")])
def test_the_real_one_keeps_its_word(tmp_path: Path, capacity: int, rate: str) -> None:
    keeps_its_word(DRIVER, tmp_path, capacity=capacity, rate=rate)


@needs("nginx")
@pytest.mark.slow
@pytest.mark.parametrize(("on_failure", "decision"), [("open", "admit"), ("closed", "reject")])
def test_a_node_whose_nginx_is_killed_decides_alone(tmp_path: Path, on_failure: str, decision: str) -> None:
    users = ["u"] if on_failure == "open" else [f"u{i}" for i in range(120)]
    options = {"capacity": 3, "rate": "3", "on_failure": on_failure, "timeout": "2s"}
    before, after = around_a_crash("nginx", tmp_path, "n1", users, **options)
    assert {each.decision for each in after} == {decision}
    counts = Counter(each.decision for each in before)  # one token at once, and one a second
    assert (1 <= counts["admit"] <= 5 and counts["reject"] > 0) if on_failure == "open" else counts.keys() == {"admit"}
    assert median_wait_ns(after) < SECOND_NS, "no time-out"
