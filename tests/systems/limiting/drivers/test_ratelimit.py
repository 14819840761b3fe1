"""ratelimit: what it is told, what it cannot say, what its answers mean; and the real one with a real Redis."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import SECOND_NS
from systems.limiting.deployed import HttpAnswer, Quota, quota_of
from systems.limiting.drivers.ratelimit import DRIVER, UNITS, Config
from tests.live import needs
from tests.systems.limiting.drivers.on_loopback import around_a_crash, keeps_its_word, median_wait_ns, on_paper

A_SECOND = Quota(3, Fraction(1))
LIMIT = {"requestsPerUnit": 3, "unit": "SECOND"}


def answer(status: int, code: str, **said: object) -> HttpAnswer:
    """As it says it."""
    overall = {"overallCode": code, "statuses": [{"code": code, **said}]}
    return HttpAnswer(status, json.dumps(overall).encode())


def test_it_is_told_its_limit_its_redis_and_three_ports_of_its_own() -> None:
    config = Config(30, "0.5", cache=True, pool=4)
    redis, *services = DRIVER.servers(on_paper(), quota_of(config), config)
    assert redis.command[0] == "redis-server" and redis.node == "n1"
    assert [each.node for each in services] == ["n1", "n2", "n3"]
    told = services[2].environment
    assert (told["REDIS_URL"], told["REDIS_AUTH"], told["REDIS_POOL_SIZE"]) == ("10.0.0.1:6379", "word", "4")
    assert len({told[name] for name in ("PORT", "GRPC_PORT", "DEBUG_PORT")}) == 3
    assert {told[name] for name in ("HOST", "GRPC_HOST", "DEBUG_HOST")} == {"127.0.0.1"}
    assert (told["RUNTIME_ROOT"], told["LOCAL_CACHE_SIZE_IN_BYTES"]) == ("/ratelimit-n3", "1048576")
    (limits,) = services[2].files.values()
    assert "unit: minute, requests_per_unit: 30" in limits
    assert "word" not in str((services[2].command, limits)), "the secret is on no command line"
    assert len(DRIVER.entry(on_paper(), "n2", quota_of(config), config).greeting) == 4


@pytest.mark.parametrize(
    ("count", "period", "nearest"),
    [(300, 1000, "capacity = 300, rate = 1/12"), (20, Fraction(1, 2), "rate = 20"), (7, 90, "rate = 7/60")],
)
def test_periods_that_are_no_unit_are_refused_with_the_nearest(count: int, period: Fraction, nearest: str) -> None:
    with pytest.raises(SpecError, match=f"cannot say {count} in .* counts by second, minute, .*{nearest}$"):
        DRIVER.check(Quota(count, Fraction(period)), Config(), ["n1"])


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_can_be_said(unit: str) -> None:
    config = Config(5, str(Fraction(5, UNITS[unit])))
    service = DRIVER.servers(on_paper(), quota_of(config), config)[1]
    assert f"unit: {unit}, requests_per_unit: 5}}" in "".join(service.files.values())


def test_an_answer_admits_or_rejects_where_it_names_the_limit() -> None:
    assert DRIVER.verdict(answer(200, "OK", currentLimit=LIMIT, limitRemaining=2)) is True
    assert DRIVER.verdict(answer(429, "OVER_LIMIT", currentLimit=LIMIT)) is False
    assert DRIVER.verdict(answer(200, "OK")) is None, "it knows no limit for what was asked"
    assert DRIVER.verdict(answer(200, "OVER_LIMIT", currentLimit=LIMIT)) is None
    assert DRIVER.verdict(answer(400, "OK", currentLimit=LIMIT)) is None
    assert DRIVER.verdict(answer(500, "UNKNOWN", currentLimit=LIMIT)) is None


@given(st.sampled_from([200, 429, 400, 500]), st.one_of(st.binary(), st.text().map(str.encode)))
def test_garbage_is_no_verdict(status: int, body: bytes) -> None:
    assert DRIVER.verdict(HttpAnswer(status, body)) is None


_values = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.sampled_from([200, 429]), st.fixed_dictionaries({"overallCode": _values, "statuses": _values}))
def test_odd_json_is_no_verdict(status: int, said: object) -> None:
    assert DRIVER.verdict(HttpAnswer(status, json.dumps(said).encode())) is None
    assert DRIVER.verdict(HttpAnswer(status, b"[" * 100_000)) is None


@given(st.text(st.characters(exclude_characters="\\")), st.integers(1, 2**31 - 1))
def test_a_question_is_json_that_can_be_read_as_utf8(user: str, cost: int) -> None:
    body = json.loads(DRIVER.ask(user, cost, A_SECOND, Config()).partition(b"\r\n\r\n")[2])
    assert body["hitsAddend"] == cost
    assert body["descriptors"][0]["entries"][0]["value"].encode() == b"u:" + user.encode(errors="backslashreplace")


def test_no_user_is_one_of_those_that_greet() -> None:
    (greeting,) = DRIVER.entry(on_paper(), "n2", A_SECOND, Config(pool=1)).greeting
    assert greeting != DRIVER.ask("ratebed:n2:0", 1, A_SECOND, Config()) and b'"ratebed:n2:0"' in greeting


def test_who_is_silent_is_named() -> None:
    answers = {"n1/redis": b"+OK\r\n+PONG\r\n", "n1/ratelimit": b"HTTP/1.1 200 OK\r\n\r\nOK", "n2/ratelimit": b""}
    assert DRIVER.ready(on_paper(), answers) == "no answer of n2/ratelimit"
    unhealthy = {"n1/redis": b"-NOAUTH", "n1/ratelimit": b"HTTP/1.1 500 Internal Server Error\r\n\r\n"}
    assert DRIVER.ready(on_paper(), unhealthy) == "no answer of n1/redis, n1/ratelimit"


# --- live ------------------------------------------------------------------------------------------------------------


@needs("ratelimit")
@pytest.mark.slow
@pytest.mark.parametrize("cache", [False, True])
def test_the_real_one_keeps_its_word(tmp_path: Path, cache: bool) -> None:
    keeps_its_word(DRIVER, tmp_path, capacity=6, rate="6", server="n2", cache=cache)


@needs("ratelimit")
@pytest.mark.slow
@pytest.mark.parametrize("crashed", ["n1", "n2"])  # its own service; Redis
def test_a_node_that_gets_no_verdict_decides_alone(tmp_path: Path, crashed: str) -> None:
    """Where Redis is gone, services answer 400 or not at all."""
    users = [f"u{i}" for i in range(120)]
    options = {"capacity": 3, "rate": "3", "server": "n2", "timeout": "3s", "on_failure": "closed"}
    before, after = around_a_crash("ratelimit", tmp_path, crashed, users, **options)
    assert {each.decision for each in before} == {"admit"} and {each.decision for each in after} == {"reject"}
    assert median_wait_ns(after) < 4 * SECOND_NS, "none waits for more than the time-out"
