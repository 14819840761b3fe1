"""redis-gcra: its nodes alone; its script in a real Redis, against GCRA in integers; live, beside centralised."""

import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from hashlib import sha1
from operator import sub
from pathlib import Path
from typing import Any

import hiredis
import pytest

from core.errors import SpecError
from core.records import Request
from core.seeds import generator
from core.units import SECOND_NS
from studies.limiting.asked import RequestJournal
from systems.api import Actuate, Arrival, Decide, Report, SetTimer, Verdict
from systems.limiting.deployed import Answered, Ask, quota_of, resp
from systems.limiting.drivers.redis_gcra import BEGIN, DRIVER, EXACT, ORIGIN, SCRIPT, SYSTEM, Config, script_limit
from systems.loader import load_system
from systems.parts.limit import Limit, gcra, limit_of
from testbed.faults import Crash, Restart
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import mesh
from tests.live import needs
from tests.studies.limiting.given import run_requests, run_requests_live
from tests.systems.limiting.drivers.on_loopback import keeps_its_word, on_paper
from tests.testbed.servers.given import SECRET, serving, talking
from workloads.requests import poisson_requests

TOPOLOGY = mesh("two", ["n1", "n2"], 0)
LOAD_NS = 3 * SECOND_NS // 2


def requests_of(load_ns: int) -> Mapping[str, Any]:
    return poisson_requests(TOPOLOGY.node_names(), 6, 20.0, load_ns, 3, sticky=False)


# --- the nodes -------------------------------------------------------------------------------------------------------


def test_a_node_asks_for_the_script_by_its_hash() -> None:
    assert SYSTEM.nodes is not None
    node: Any = SYSTEM.nodes(["n1", "n2"], Config(300, "0.3", on_failure="closed"), 1)["n2"]
    effects = node.handle(Arrival(Request(5, "u\ud800", 10, 2)), 10)
    words = ("EVALSHA", sha1(SCRIPT.encode()).hexdigest(), 2, b"u:u\xed\xa0\x80", ORIGIN, 3, 10**7, 300, 2)
    assert effects == [Actuate(Ask(5, hiredis.pack_command(words))), SetTimer("timeout", SECOND_NS + 10)]  # type: ignore[arg-type]
    assert node.handle(Report(Answered(5, 1)), 30) == [Decide(5, Verdict.ADMIT)]


def test_a_user_may_be_called_as_the_origin_is() -> None:
    words = resp("EVALSHA", sha1(SCRIPT.encode()).hexdigest(), 2, f"u:{ORIGIN}", ORIGIN, 3, 10**7, 300, 1)
    assert DRIVER.ask(ORIGIN, 1, quota_of(Config(300, "0.3")), Config(300, "0.3")) == words


@pytest.mark.parametrize(("answer", "verdict"), [(1, True), (0, False), (2, None), (b"1", None), ([1], None)])
def test_one_admits_and_nought_rejects(answer: object, verdict: bool | None) -> None:
    assert DRIVER.verdict(answer) is verdict
    assert DRIVER.verdict(hiredis.ReplyError("NOSCRIPT")) is None


def test_its_secret_is_in_a_file_and_on_no_command_line() -> None:
    (process,) = DRIVER.servers(on_paper(), quota_of(Config()), Config())
    assert process.node == "n1" and "requirepass word\n" in process.files["redis.conf"]
    assert "bind 10.0.0.1 127.0.0.1\n" in process.files["redis.conf"] and "word" not in str(process.command)
    entry = DRIVER.entry(on_paper(), "n3", quota_of(Config()), Config())
    assert (entry.address, entry.port) == ("10.0.0.1", 6379) and entry.greeting[0] == resp("AUTH", "word")
    assert DRIVER.ready(on_paper(), {"n1/redis": b""}) == "Redis does not answer PING"
    assert DRIVER.ready(on_paper(), {"n1/redis": b"+OK\r\n+PONG\r\n"}) == ""


def test_rates_that_a_double_cannot_hold_are_refused() -> None:
    assert script_limit(300, "0.3") == (3, 10**7)
    assert script_limit(3, "1/3") == (1, 3 * 10**6)
    with pytest.raises(SpecError, match=r"rate = '0\.123457'"):
        script_limit(300, "0.123457")
    assert SYSTEM.nodes is not None
    with pytest.raises(SpecError, match="server"):
        SYSTEM.nodes(["n1"], Config(server="n9"), 1)


# --- the script ------------------------------------------------------------------------------------------------------


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Any]:
    """Calls a Redis of our own."""
    with (
        LocalSite(TOPOLOGY, tmp_path, tmp_path) as site,
        serving(site, DRIVER) as servers,
        talking(servers.reached_from("n2")) as call,
    ):
        yield call


@needs("redis-gcra")
@pytest.mark.parametrize(("capacity", "rate"), [(300, "0.3"), (1, "1"), (7, "1/3"), (5, "9999.9"), (40, "123.4")])
def test_the_script_is_exact(redis: Any, capacity: int, rate: str) -> None:
    """With instants given instead of the server's clock, near the end of the longest run, it is GCRA to the tick."""
    assert redis("PING").args[0].startswith("NOAUTH")
    assert redis("AUTH", SECRET) == b"OK"
    assert redis("EVAL", BEGIN, 1, ORIGIN) == b"OK" and redis("EVAL", BEGIN, 1, ORIGIN) is None, "the first one begins"
    origin_s = int(redis("GET", ORIGIN))
    assert abs(origin_s - time.time()) < 60
    script = SCRIPT.replace("redis.call('TIME')", "{ARGV[5], ARGV[6]}")
    script = script.replace("string.format('%.0f', life_ms)", "60000")  # keys would die by the server's clock
    sha = redis("SCRIPT", "LOAD", script)
    per_us, token = script_limit(capacity, rate)
    assert Fraction(per_us * 10**6, token) == limit_of(capacity, rate).rate_rps
    limit, rng, full_at = Limit(capacity, per_us, token), generator(1, rate), {"a": 0, "b": 0}
    now_us, seen = 86_000 * 10**6, set()
    for _ in range(400):
        step = int(rng.integers(0, max(2, 3 * token // per_us)))
        user = "ab"[int(rng.integers(2))]
        if rng.random() < 0.3:  # exactly when a token is back, or a tick before
            due = -(-(full_at[user] - (capacity - 1) * token) // per_us) - int(rng.integers(2))
            step = max(0, due - now_us)
        now_us += step
        cost = int(rng.integers(1, capacity + 2)) if rng.random() < 0.1 else 1
        expected = gcra(now_us * per_us, full_at[user], limit, cost)
        seconds, micros = divmod(now_us, 10**6)
        found = redis("EVALSHA", sha, 2, user, ORIGIN, per_us, token, capacity, cost, origin_s + seconds, micros)
        assert found == (0 if expected is None else 1)
        full_at[user] = full_at[user] if expected is None else expected
        seen.add(found)
        if found:
            assert int(redis("GET", user)) == expected and expected is not None and expected < EXACT
    assert seen == {0, 1}


@needs("redis-gcra")
def test_full_buckets_are_forgotten_by_the_server(redis: Any) -> None:
    redis("AUTH", SECRET), redis("EVAL", BEGIN, 1, ORIGIN)
    arguments = (*script_limit(2, "1"), 2)
    began_s = time.monotonic()
    answers = [redis("EVAL", SCRIPT, 2, "u", ORIGIN, *arguments, 1) for _ in range(3)]
    assert answers == [1, 1, 0] or time.monotonic() - began_s > 0.9, "a token of 1 s is back only on a busy machine"
    assert 1 <= redis("PTTL", "u") <= 2002  # two tokens of 1 s, and up to 2 ms
    time.sleep(2.1)
    assert redis("EXISTS", "u") == 0
    assert redis("EVAL", SCRIPT, 2, "u", ORIGIN, *arguments, 3) == 0  # more than the bucket holds
    assert redis("EXISTS", "u") == 0


# --- the system, live ------------------------------------------------------------------------------------------------


def live(
    folder: Path, key: str, load_ns: int = LOAD_NS, faults: tuple[Any, ...] = (), **options: Any
) -> RequestJournal:
    system, requests = load_system(key), requests_of(load_ns)
    with LocalSite(TOPOLOGY, folder, folder) as site:
        return run_requests_live(
            site, system, system.config(**options), TOPOLOGY, requests, load_ns, 1, faults, drain_ns=3 * SECOND_NS
        )


@needs("redis-gcra")
@pytest.mark.slow
def test_redis_decides_as_the_centralised_limiter_does(tmp_path: Path) -> None:
    options = {"capacity": 5, "rate": "4", "timeout": "3s"}
    found = live(tmp_path, "redis-gcra", **options)
    model = load_system("centralised")
    expected = run_requests(
        model, model.config(**options), TOPOLOGY, requests_of(LOAD_NS), LOAD_NS, 1, drain_ns=SECOND_NS
    )
    assert sorted(found.requests()["node"]) == sorted(expected.requests()["node"])
    assert "lost" not in found.requests()["decision"]
    admitted, asked = (of.requests()["decision"].count("admit") for of in (found, expected))
    rows = found.requests()
    late_ns = max(map(sub, rows["decided_at_ns"], rows["intended_at_ns"]))
    # Meanwhile the six buckets get tokens that the model's do not, or are full and get none.
    assert abs(admitted - asked) <= 0.1 * asked + 6 * 4 * late_ns / SECOND_NS


@needs("redis-gcra")
@pytest.mark.slow
def test_redis_dies_with_its_host_and_comes_back_empty(tmp_path: Path) -> None:
    """Users whose tokens are gone have them again after the restart; meanwhile the other node decides alone."""
    options = {"capacity": 5, "rate": "0.01", "timeout": "1s", "on_failure": "closed"}
    faults = Crash(SECOND_NS, "n1"), Restart(4 * SECOND_NS, "n1")
    journal = live(tmp_path, "redis-gcra", 8 * SECOND_NS, faults, **options)
    (down, _), (up, _) = journal.journal.faults  # on a busy machine both come late
    found = journal.requests()
    rows = list(zip(found["node"], found["intended_at_ns"], found["decision"], strict=True))
    assert {decision for node, at_ns, decision in rows if node == "n2"} == {"admit", "reject"}
    assert "lost" in {decision for node, at_ns, decision in rows if node == "n1" and SECOND_NS < at_ns < up}
    spans = zip(found["node"], found["sent_at_ns"], found["decided_at_ns"], found["decision"], strict=True)
    between = {told for node, sent, decided, told in spans if node == "n2" and down < sent < decided < 4 * SECOND_NS}
    assert between <= {"reject"}, "nobody can have a token of Redis"
    admitted_before = sum(decision == "admit" for _, at_ns, decision in rows if at_ns < down)
    admitted_after = sum(decision == "admit" for _, at_ns, decision in rows if at_ns > up)
    assert admitted_before <= 30 and 1 <= admitted_after <= 30  # 6 users with 5 tokens each, twice


@needs("redis-gcra")
@pytest.mark.slow
def test_the_real_one_keeps_its_word(tmp_path: Path) -> None:
    keeps_its_word(DRIVER, tmp_path, capacity=6, rate="12", server="n2")
