"""The node that asks a deployed limiter: verdicts, errors, time-outs; and limits as such limiters say them."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS
from systems.api import Actuate, Arrival, Decide, Delivery, Message, Report, Sample, SetTimer, Start, Timer

from systems.api import UnexpectedEvent, Verdict  # isort: skip
from systems.limiting.deployed import (
    Answered,
    Ask,
    Cluster,
    DeployedConfig,
    Driver,
    Entry,
    HttpAnswer,
    Process,
    Quota,
    deployed,
    http,
    quota_of,
    whole,
)
from systems.parts.limit import limit_of

MS = MILLISECOND_NS


@dataclass(frozen=True)
class Config(DeployedConfig):
    """Options of the limiter below."""

    timeout: str = "100ms"


class Plain(Driver):
    """See ``Driver``."""

    key, summary, config, programs = "plain", "says yes or no", Config, {"plain": "get it"}

    def check(self, quota: Quota, config: Any, nodes: Any) -> None:
        whole(self.key, quota, {"second": 1, "minute": 60})

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        return []

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return Entry("127.0.0.1", 1)

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        return ""

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        return http(f"/{user}?n={cost}&of={quota.count}")

    def verdict(self, answer: Any) -> bool | None:
        return {200: True, 429: False}.get(answer.status)


DRIVER = Plain()
SYSTEM = deployed(DRIVER)
YES, NO, ERROR = HttpAnswer(200, b""), HttpAnswer(429, b""), HttpAnswer(503, b"")
UNANSWERED = Sample("error_answer_count", 1.0)


def node_of(**options: Any) -> Any:
    assert SYSTEM.nodes is not None
    return SYSTEM.nodes(["n1", "n2"], Config(**{"capacity": 20, "rate": "20", **options}), 1)["n2"]


def test_a_node_asks_and_decides_as_it_is_told() -> None:
    node = node_of()
    assert node.handle(Start(None), 0) == [] and node.idle() and node.state_bytes() == 0
    effects = node.handle(Arrival(Request(5, "u", 10, 2)), 10)
    assert effects == [Actuate(Ask(5, http("/u?n=2&of=20"))), SetTimer("timeout", 100 * MS + 10)]
    assert node.handle(Arrival(Request(6, "u", 20)), 20) == [Actuate(Ask(6, http("/u?n=1&of=20")))]
    assert not node.idle() and node.state_bytes() == 32
    assert node.handle(Report(Answered(6, NO)), 30) == [Decide(6, Verdict.REJECT)]
    assert node.handle(Report(Answered(5, YES)), 31) == [Decide(5, Verdict.ADMIT)]
    assert node.idle() and node.state_bytes() == 0


@pytest.mark.parametrize(("on_failure", "alone"), [("open", Verdict.ADMIT), ("closed", Verdict.REJECT)])
@pytest.mark.parametrize("answer", [ERROR, None], ids=["error", "broken"])
def test_no_answer_is_a_decision_alone_which_is_counted(on_failure: str, alone: Verdict, answer: Any) -> None:
    node = node_of(on_failure=on_failure)
    for number in range(3):
        node.handle(Arrival(Request(number, "u", 0)), 0)
    assert node.handle(Report(Answered(1, answer)), 5 * MS) == [Decide(1, alone, unanswered=True), UNANSWERED]
    late = node.handle(Timer("timeout", 100 * MS), 100 * MS)
    assert late == [Decide(0, alone, True), Decide(2, alone, True), Actuate(Ask(0, b"")), Actuate(Ask(2, b""))]
    late = [effect for number in range(3) for effect in node.handle(Report(Answered(number, answer)), 101 * MS)]
    assert late == [], "who has decided is not told again, and counts nothing twice"
    assert node.handle(Report(Answered(0, YES)), 102 * MS) == [] and node.idle()


def test_what_is_not_for_it_is_refused() -> None:
    with pytest.raises(UnexpectedEvent):
        node_of().handle(Delivery("n1", Message()), 0)
    with pytest.raises(UnexpectedEvent):
        node_of().handle(Report(YES), 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"server": "n9"}, "plain: server = 'n9'"),
        ({"on_failure": "ajar"}, "plain: on_failure = 'ajar'"),
        ({"timeout": "soon"}, "plain: timeout = 'soon'"),
        ({"rate": "-1"}, "rate = '-1'"),
        ({"rate": "3"}, "plain cannot say 20 in 6.66667 s: it counts by second, minute"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_the_limiters_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        node_of(**options)
    assert said in str(caught.value)


def test_the_system_says_where_its_server_is_and_how_long_it_waits() -> None:
    assert SYSTEM.beside(Config(server="n2")) == "n2" and SYSTEM.timeout_ns(Config()) == 100 * MS
    assert (SYSTEM.key, SYSTEM.servers, SYSTEM.plane) == ("plain", (":DRIVER",), "testbed.servers.asking:http_plane")


@given(st.integers(1, 10**6), st.fractions(Fraction(1, 100), 10**4, max_denominator=100))
def test_a_limit_is_so_many_in_a_period(count: int, rate: Fraction) -> None:
    quota = quota_of(Config(count, str(rate)))
    assert quota.count / quota.period == rate == limit_of(count, str(rate)).rate_rps
    assert str(Quota(20, Fraction(1, 2))) == "20 in 0.5 s"


@given(st.integers(1, 10**4), st.fractions(Fraction(1, 100), 10**6, max_denominator=100))
def test_a_period_without_a_name_is_refused_with_one_that_has_one(count: int, period: Fraction) -> None:
    names = {"second": 1, "minute": 60, "day": 86_400}
    if period in names.values():
        assert names[whole("plain", Quota(count, period), names)] == period
        return
    with pytest.raises(SpecError, match="counts by second, minute, day") as caught:
        whole("plain", Quota(count, period), names)
    capacity, _, rate = caught.value.fix.partition("capacity = ")[2].partition(", rate = ")
    nearest = int(capacity) / Fraction(rate)
    assert capacity == str(count) and whole("plain", Quota(count, nearest), names)
    assert all(max(nearest / period, period / nearest) <= max(its / period, period / its) for its in names.values())
