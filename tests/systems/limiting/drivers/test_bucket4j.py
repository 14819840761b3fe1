"""bucket4j: what its driver says; live, what real members of a grid decide, together and when one is gone."""

import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import MachineError, SpecError
from core.units import SECOND_NS
from systems.limiting.deployed import Cluster, HttpAnswer, Process, Quota, quota_of
from systems.limiting.drivers.bucket4j import DRIVER, GREETINGS, Bucket4j, Config
from systems.loader import load_system
from testbed.hosts.local import LocalSite
from testbed.servers.driven import Driven
from testbed.servers.driver_check import check_driver
from testbed.servers.server import Placing, ServerGroup
from testbed.topologies.topology import mesh
from tests.live import needs
from tests.studies.limiting.given import run_requests_live
from workloads.requests import poisson_requests

NODES = ["n1", "n2", "n3"]
CLUSTER = Cluster({name: f"10.0.0.{number}" for number, name in enumerate(NODES, 1)}, "n1", "s3cret")
ADMITTED, REJECTED = 200, 429


def told(**options: Any) -> Process:
    """The second member, as the driver has it."""
    config = Config(**options)
    return DRIVER.servers(CLUSTER, quota_of(config), config)[1]


def missing(**said: str) -> str:
    """What is missing where members say this, each after a head of HTTP."""
    answers = {f"{node}/bucket4j": f"HTTP/1.1 200 OK\r\n\r\n{text}".encode() for node, text in said.items()}
    return DRIVER.ready(CLUSTER, answers)


# --- texts -----------------------------------------------------------------------------------------------------------


def test_a_member_knows_all_addresses_and_its_own() -> None:
    member = told(capacity=300, rate="0.3", backups=2, timeout="1500us")
    text = member.files["hazelcast.yaml"]
    assert "member-list: ['10.0.0.1:5701', '10.0.0.2:5701', '10.0.0.3:5701']" in text
    assert 'interfaces: ["10.0.0.2"]' in text and "port: {port: 5701, auto-increment: false}" in text
    assert "multicast: {enabled: false}" in text and "backup-count: 2" in text
    assert 'cluster-name: "s3cret"' in text and "s3cret" not in " ".join(member.command)
    # 3 tokens come back in 10 s; the member gives up after the node.
    told_words = ("/bucket4j-n2/hazelcast.yaml", "8080", "300", "3", str(10 * SECOND_NS), "2")
    assert member.command == ("bucket4j-member", "Member", *told_words)


@pytest.mark.parametrize(
    ("rate", "tokens", "period_ns"), [("1/3", 1, 3 * SECOND_NS), ("9999.9", 99_999, 10 * SECOND_NS)]
)
def test_a_rate_is_said_exactly(rate: str, tokens: int, period_ns: int) -> None:
    assert told(capacity=7, rate=rate).command[4:7] == ("7", str(tokens), str(period_ns))


def test_a_node_asks_the_member_beside_it() -> None:
    entry = DRIVER.entry(CLUSTER, "n2", Quota(1, quota_of(Config()).period), Config())
    assert (entry.address, entry.port) == ("127.0.0.1", 8080) and len(set(entry.greeting)) == GREETINGS
    users = {DRIVER.ask(f"ratebed:{number}", 1, quota_of(Config()), Config()) for number in range(GREETINGS)}
    assert users.isdisjoint(entry.greeting), "no user is one of those that greet"


@given(st.text(), st.integers(1, 10**6))
def test_a_question_is_one_and_names_its_user(user: str, cost: int) -> None:
    question = DRIVER.ask(user, cost, quota_of(Config()), Config()).decode("ascii")
    assert re.fullmatch(rf"GET /\?u=[\w.~%-]*&n={cost} HTTP/1\.1\r\nHost: ratebed\r\n\r\n", question)
    assert (question == DRIVER.ask("someone", cost, quota_of(Config()), Config()).decode()) == (user == "someone")


@pytest.mark.parametrize(
    ("options", "what"),
    [({"backups": 7}, "backups = 7"), ({"backups": -1}, "give 0 to 6"), ({"rate": "2e9"}, "rate = 1000000000")],
)
def test_what_it_cannot_do_is_refused(options: dict[str, Any], what: str) -> None:
    config = Config(**options)
    with pytest.raises(SpecError, match=what):
        DRIVER.check(quota_of(config), config, NODES)


@given(st.sampled_from((ADMITTED, REJECTED)) | st.integers(0, 999), st.just(b"") | st.binary())
def test_only_two_answers_are_verdicts(status: int, body: bytes) -> None:
    verdict = DRIVER.verdict(HttpAnswer(status, body))
    assert verdict is ({ADMITTED: True, REJECTED: False}.get(status) if body == b"" else None)


def test_ready_is_who_sees_all_and_has_settled() -> None:
    well = '{"members": 3, "settled": true}'
    assert missing(n1=well, n2=well, n3=well) == ""
    alone = well.replace("3", "1")
    assert missing(n1=alone, n2=alone, n3=alone).startswith(f"n1/bucket4j says '{alone}', and not")
    assert missing(n1=well, n2=well.replace("true", "false"), n3=well).startswith("n2/bucket4j says")
    assert missing(n1=well, n2=well, n3="").startswith("n3/bucket4j says ''")
    assert missing(n1=well, n2=well, n3=well.replace("3", "5")).startswith("n3/bucket4j says")


@given(st.binary())
def test_garbage_is_not_ready(said: bytes) -> None:
    assert "\n" not in DRIVER.ready(CLUSTER, dict.fromkeys([f"{node}/bucket4j" for node in NODES], said))
    assert DRIVER.ready(CLUSTER, dict.fromkeys([f"{node}/bucket4j" for node in NODES], said)) != ""


# --- live ------------------------------------------------------------------------------------------------------------


@contextmanager
def grid(folder: Path, nodes: list[str], driver: Driven | None = None, **options: Any) -> Iterator[ServerGroup]:
    """Members that are up, whether or not they have met; gone afterwards, every one."""
    with LocalSite(mesh("some", nodes, 0), folder, folder) as site:
        servers = (driver or Driven(DRIVER)).deploy(site, Placing(nodes, nodes[0], "s3cret", Config(**options)))
        try:
            servers.start(nodes)
            pids = [process.pid for _, process in servers.processes]
            yield servers
        finally:
            servers.stop()
        assert not [pid for pid in pids if psutil.pid_exists(pid)]
        assert "s3cret" not in "".join(log.read_text() for log in (folder / "logs").iterdir())


class Asker:
    """A connection to the member beside a node."""

    def __init__(self, servers: ServerGroup, node: str):
        at = servers.reached_from(node)
        self.connection = HTTPConnection(at.address, at.port, timeout=30)

    def status(self, user: str) -> int:
        """What it says about a request."""
        self.connection.request("GET", f"/?u={user}&n=1")
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


def counted(askers: list[Asker], user: str, count: int) -> tuple[int, float]:
    """How many of ``count`` requests at once over all connections are admitted, and how long that took, in seconds."""
    begun_s = time.monotonic()
    with ThreadPoolExecutor(len(askers)) as pool:
        shares = [
            pool.submit(lambda asker: [asker.status(user) for _ in range(count // len(askers))], asker)
            for asker in askers
        ]
        said = [status for share in shares for status in share.result()]
    assert set(said) <= {ADMITTED, REJECTED} and len(said) == count
    return said.count(ADMITTED), time.monotonic() - begun_s


def warm(askers: list[Asker]) -> None:
    """Java has seen the way of a request."""
    for number in range(GREETINGS):
        for asker in askers:
            asker.status(f"warm{number}")


@needs("bucket4j")
@pytest.mark.slow
def test_members_share_the_bucket_of_a_key(tmp_path: Path) -> None:
    capacity, rate = 10, 4
    with grid(tmp_path, NODES, capacity=capacity, rate=str(rate), timeout="3s") as servers:
        servers.wait()
        of_one, of_all = [Asker(servers, "n1") for _ in range(4)], [Asker(servers, node) for node in [*NODES, "n1"]]
        warm([*of_one, *of_all])
        for askers, user in ((of_one, "one"), (of_all, "all")):
            for turn in ("at once", "a period later"):
                admitted, took_s = counted(askers, user, 2 * capacity)
                assert capacity <= admitted <= capacity + int(rate * took_s), (user, turn, took_s)
                time.sleep(capacity / rate + 0.05)
        # One member takes all, no other has any left.
        begun_s = time.monotonic()
        of_first, _ = counted(of_one, "shared", 2 * capacity)
        of_second, _ = counted([Asker(servers, "n2")], "shared", capacity)
        assert of_first >= capacity and of_first + of_second <= capacity + 1 + rate * (time.monotonic() - begun_s)


@needs("bucket4j")
@pytest.mark.slow
def test_when_one_is_killed_the_others_answer_and_remember(tmp_path: Path) -> None:
    timeout_s = 3.0  # of a question: a busy machine's member may stand still for longer than a second
    with grid(tmp_path, NODES, capacity=1, rate="0.001", timeout=f"{timeout_s}s") as servers:
        servers.wait()
        askers = [Asker(servers, node) for node in ("n1", "n2")]
        warm(askers)
        users = [f"u{number}" for number in range(30)]
        assert [askers[0].status(user) for user in users] == [ADMITTED] * len(users)
        servers.kill("n3")
        begun_s, said = time.monotonic(), {503}
        while time.monotonic() < begun_s + 3 or (503 in said and time.monotonic() < begun_s + 60):
            said.clear()
            for asker, user in zip(askers * len(users), users, strict=False):
                asked_s = time.monotonic()
                said.add(asker.status(user))
                assert time.monotonic() - asked_s < 5 * timeout_s, "whom it waits for, it gives up"
            assert said <= {REJECTED, 503}
        assert [asker.status(user) for asker in askers for user in users] == [REJECTED] * 2 * len(users)
        assert [askers[number % 2].status(f"new{number}") for number in range(30)] == [ADMITTED] * 30
        # The third comes back, and finds the others.
        servers.start(["n3"])
        servers.wait()
        assert [Asker(servers, "n3").status(user) for user in users] == [REJECTED] * len(users)


class Astray(Bucket4j):
    """A driver that tells each member a wrong address of every other."""

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        """As they are to be, each with peers where nobody listens."""
        return [self._astray(process, cluster) for process in super().servers(cluster, quota, config)]

    def _astray(self, process: Process, cluster: Cluster) -> Process:
        text = process.files["hazelcast.yaml"]
        for node in cluster.nodes:
            if node != process.node:
                text = text.replace(f"'{cluster.at(node, self.key, 5701)}'", "'127.99.99.99:5701'")
        return process._replace(files={"hazelcast.yaml": text})


@needs("bucket4j")
@pytest.mark.slow
def test_members_that_have_not_met_are_refused(tmp_path: Path) -> None:
    refused = pytest.raises(MachineError, match=r'n1/bucket4j says .*"members": [01], .* and not .*"members": 3')
    with grid(tmp_path, NODES, Driven(Astray())) as servers, refused:
        servers._start_s = 8.0  # of waiting until they meet: three virtual machines of Java may need longer to start
        servers.wait()


@needs("bucket4j")
@pytest.mark.slow
def test_the_driver_keeps_its_word(tmp_path: Path) -> None:
    with LocalSite(mesh("some", NODES, 0), tmp_path, tmp_path) as site:
        check_driver(DRIVER, site, NODES, Config(capacity=10, rate="5", timeout="2s"))


@needs("bucket4j")
@pytest.mark.slow
def test_a_run_counts_what_members_decide(tmp_path: Path) -> None:
    nodes, load_ns = ["n1", "n2"], 2 * SECOND_NS
    topology, system = mesh("two", nodes, 0), load_system("bucket4j")
    requests: Mapping[str, Any] = poisson_requests(nodes, 2, 30.0, load_ns, 3, sticky=False)
    config = system.config(capacity=5, rate="5", timeout="3s")
    with LocalSite(topology, tmp_path, tmp_path) as site:
        journal = run_requests_live(site, system, config, topology, requests, load_ns, 1, (), drain_ns=4 * SECOND_NS)
    decided = list(journal.requests()["decision"])
    assert set(decided) == {"admit", "reject"} and journal.answers is not None and journal.lost_servers == ()
    unanswered, last_s = journal.answers.unanswered_count, max(journal.requests()["decided_at_ns"]) / SECOND_NS
    # Of two users, each 5 and 5 a second until the last decision; without an answer a node admits.
    assert 20 <= decided.count("admit") <= 2 * (5 + 5 * last_s + 1) + unanswered
    assert unanswered <= 0.05 * journal.answers.decided_count
