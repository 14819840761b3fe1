"""The suite that deployed limiters must pass: a sound one does, and each canary breaks the rule that it is for."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from core.errors import MachineError, SystemFault
from core.units import MILLISECOND_NS
from systems.limiting.deployed import (
    LOOPBACK,
    Cluster,
    DeployedConfig,
    Driver,
    Entry,
    Process,
    Quota,
    http,
)
from systems.limiting.drivers import haproxy, redis_gcra
from systems.loader import declared, load_system
from systems.parts.drivers import counts_requests
from testbed.hosts.local import LocalSite
from testbed.hosts.mininet.site import MininetSite
from testbed.servers.driver_check import _Trial, check_driver, check_errors
from testbed.topologies.topology import mesh
from tests.live import needs
from tests.processes import freeze

pytestmark = pytest.mark.slow

TOY = Path(__file__).parents[3] / "docs" / "examples" / "toy_limiter.py"
NETWORK = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
NAMES = ["n1", "n2", "n3"]

# Fixed windows, counted by the first node's process, which the others ask; argv[5] says what is wrong with it.
LIMITER = """
import http.server, json, pathlib, socket, subprocess, sys, time, urllib.error, urllib.request
port, limit, seconds, first, habit, last, shared = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:]
counts, begun = {}, {}

def count(user):
    key = f"{user} {int(time.time() / seconds)}" if habit != "once" else user
    if habit == "lasting":
        key = f"{user} {int((time.time() - begun.setdefault(user, time.time())) / (20 * seconds))}"
    file = pathlib.Path(shared)
    known = json.loads(file.read_text()) if habit == "by file" and file.exists() else counts
    known[key] = known.get(key, 0) + 1
    if habit == "by file":
        file.write_text(json.dumps(known))
    return 200 if (known[key] <= limit or habit == "generous") and habit != "stingy" else 503 if habit == "odd" else 429

def status_of(path):
    if habit in ("lonely", "by file") and path == "/met":
        return 200
    if first and habit not in ("lonely", "by file"):
        try:
            return urllib.request.urlopen(f"http://{first}{path}", timeout=3).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 503 if path == "/met" or habit != "trusting" else count(path)
    return 200 if path == "/met" else count(path)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/survivor") and habit == "mute":
            return self.connection.shutdown(socket.SHUT_RDWR)
        if self.path.startswith("/survivor") and habit == "slow" or self.path == "/survivor0" and habit == "hesitates":
            host, _, number = last.partition(":")
            try:
                socket.create_connection((host, int(number)), 3).close()
            except OSError:
                time.sleep(1.5)
        self.send_response(status_of(self.path))
        self.send_header("Content-Length", "0")
        self.end_headers()

if habit == "leaves":
    subprocess.Popen(["sleep", "60"], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
http.server.ThreadingHTTPServer.daemon_threads = True
http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
"""
PORT = 8080
SLOW = "2"  # the rate of a limit that does not come back while a busy machine asks for all of it


@dataclass(frozen=True)
class Config(DeployedConfig):
    """A limit that is soon back."""

    capacity: int = 6
    rate: str = "12"


class Windows(Driver):
    """See ``Driver``."""

    key, summary, config = "windows", "as sound as its habit", Config
    programs, contract = {"python3": "apt-get install python3"}, "fixed-window"

    def __init__(self, habit: str = "sound"):
        self.habit = habit

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        first, last = (cluster.at(node, self.key, PORT) for node in (cluster.nodes[0], cluster.nodes[-1]))
        shared = f"{cluster.folder_of(cluster.nodes[0], self.key)}/shared"
        processes = []
        for node in cluster.nodes:
            port, file = cluster.port_of(node, self.key, PORT), f"{cluster.folder_of(node, self.key)}/limiter.py"
            asks = "" if node == cluster.nodes[0] else first
            words = (str(port), str(quota.count), str(float(quota.period)), asks, self.habit, last, shared)
            command, files = ("python3", file, *words), {"limiter.py": LIMITER}
            processes.append(Process(node, self.key, command, port, http("/met"), b"\r\n\r\n", files))
        return processes

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return Entry(LOOPBACK, cluster.port_of(node, self.key, PORT), (http("/met"),))

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        alone = [name for name, answer in answers.items() if not answer.startswith(b"HTTP/1.1 200")]
        return "" if self.habit == "trusting" else ", ".join(alone)

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        counts_requests(self.key, cost)
        return http(f"/{user}")

    def verdict(self, answer: Any) -> bool | None:
        return {(200, b""): True, (429, b""): False}.get(answer)


class TakesErrors(Windows):
    """See ``Windows``."""

    def verdict(self, answer: Any) -> bool | None:
        return bool(answer.status == 200)


class Raises(Windows):
    """See ``Windows``."""

    def verdict(self, answer: Any) -> bool | None:
        return {200: True, 429: False}[answer.status]


class ReadsNoBody(Windows):
    """See ``Windows``."""

    def verdict(self, answer: Any) -> bool | None:
        return {200: True, 429: False}.get(answer.status)


class ReadsAny(Windows):
    """See ``Windows``."""

    wire = "resp"

    def verdict(self, answer: Any) -> bool | None:
        return bool(answer)


def check(driver: Driver, folder: Path, **options: Any) -> None:
    with LocalSite(mesh("three", NAMES, 0), folder / "run", folder) as site:
        check_driver(driver, site, NAMES, driver.config(**options))


@pytest.mark.parametrize("habit", ["sound", "hesitates"])
def test_a_sound_driver_passes(tmp_path: Path, habit: str) -> None:
    check(Windows(habit), tmp_path)


@pytest.mark.parametrize(
    ("driver", "fault"),
    [
        (TakesErrors(), r"verdict\(HttpAnswer\(status=100, .*\) is False"),
        (Raises(), r"verdict\(HttpAnswer\(status=100, .*\) raises KeyError\(100\)"),
        (ReadsNoBody(), r"verdict\(HttpAnswer\(status=200, body=b'.*'\)\) is True"),
        (ReadsAny(), r"verdict\(ReplyError\('ERR'\)\) is True"),
    ],
)
def test_a_driver_that_takes_an_error_for_a_verdict_is_caught(driver: Driver, fault: str) -> None:
    with pytest.raises(SystemFault, match=fault):
        check_errors(driver)
    check_errors(Windows())


@pytest.mark.parametrize(
    ("habit", "fault"),
    [
        ("generous", r"windows admits 12 of 12 at once .*; its limit is 6 in 3 s, of which 6 at this node"),
        ("stingy", "windows admits 0 of 12 at once"),
        ("once", "windows admits 0 of 12 a period later"),
        ("lasting", "windows admits 0 of 12 a period later"),
        ("odd", "windows answers HttpAnswer.status=503.*that is no verdict"),
        ("lonely", "windows: n2 knows nothing of n1"),
        ("trusting", r"windows: no node knows another, and all call themselves ready; ask in ready\(\)"),
        ("slow", r"windows: after a crash elsewhere an answer took \d+\.\d s"),
        ("mute", "windows gives no answer to n1: it hangs up"),
        ("leaves", r"windows: still running: \d+, \d+"),
    ],
)
def test_a_canary_is_caught(tmp_path: Path, habit: str, fault: str) -> None:
    with pytest.raises(SystemFault, match=fault):
        check(Windows(habit), tmp_path, rate=SLOW if habit in ("generous", "lonely") else "12")


class TakesAllForOne(Windows):
    """See ``Windows``."""

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        return http(f"/{user}")


def test_who_takes_a_request_of_cost_2_for_one_is_caught(tmp_path: Path) -> None:
    with pytest.raises(SystemFault, match=r"windows admits 6 of 6 requests of cost 2; its limit is 6 in 3 s"):
        check(TakesAllForOne(), tmp_path, rate=SLOW)


class Split(Windows):
    """See ``Windows``."""

    contract = "split"


class EachForItself(Windows):
    """See ``Windows``."""

    coordinates = False


def test_nodes_that_each_grant_the_whole_limit_are_caught(tmp_path: Path) -> None:
    with pytest.raises(SystemFault, match="windows: its processes tell each other nothing, and its contract is fixed"):
        check(EachForItself(), tmp_path)


def test_the_driver_of_the_tutorial_keeps_its_word(tmp_path: Path) -> None:
    driver = declared(load_system(str(TOY)), ":DRIVER")
    assert isinstance(driver, Driver)
    check(driver, tmp_path, capacity=12, rate="12")


def test_a_share_that_is_the_whole_is_caught(tmp_path: Path) -> None:
    with pytest.raises(SystemFault, match=r"windows admits 4 of 4 at once .*of which 2 at this node"):
        check(Split(), tmp_path, rate=SLOW)


@needs(*NETWORK)
def test_who_knows_of_others_without_a_byte_is_caught_where_there_are_links(tmp_path: Path) -> None:
    topology = mesh("three", NAMES, 2 * MILLISECOND_NS)
    with MininetSite(topology, tmp_path / "run", tmp_path) as site:
        check_driver(Windows(), site, NAMES, Config())
        with pytest.raises(SystemFault, match="windows: no byte has left a host"):
            check_driver(Windows("by file"), site, NAMES, Config())


@needs("haproxy", "redis-gcra", *NETWORK)
@pytest.mark.parametrize(
    ("driver", "rate"), [(redis_gcra.DRIVER, "12"), (haproxy.DRIVER, "6")], ids=["redis", "haproxy"]
)
def test_drivers_keep_their_word_over_links(tmp_path: Path, driver: Driver, rate: str) -> None:
    with MininetSite(mesh("three", NAMES, 5 * MILLISECOND_NS), tmp_path / "run", tmp_path) as site:
        check_driver(driver, site, NAMES, driver.config(capacity=6, rate=rate))


def test_a_machine_too_slow_to_say_whether_nodes_know_each_other_is_no_fault_of_theirs(tmp_path: Path) -> None:
    """A period shorter than its questions take: the limit is back before the second node is asked."""
    with LocalSite(mesh("three", NAMES, 0), tmp_path / "run", tmp_path) as site:
        trial = _Trial(Windows("lonely"), site, NAMES, Config(rate="12000"))
        with trial.running(trial.driver) as servers, pytest.raises(MachineError, match=r"within 0\.0005 s, 5 times"):
            trial.tells_others(servers, between_hosts=False)


class StandsStill(haproxy.HAProxy):
    """Its processes stand still for a while, soon after the first 12 verdicts."""

    def __init__(self) -> None:
        self.given, self.pids, self.stall = 0, list[int](), Timer(0.1, self._stand_still)

    def verdict(self, answer: Any) -> bool | None:
        self.given += 1
        if self.given == 12:
            self.stall.start()
        return super().verdict(answer)

    def _stand_still(self) -> None:
        for pid in self.pids:
            freeze(pid)
        time.sleep(2.5)  # of the 3 s until the second look
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


@needs("haproxy")
def test_a_server_that_stood_still_with_its_clock_keeps_its_word_later(tmp_path: Path) -> None:
    """HAProxy 2.6 leaves that out of its clock, so its period ends later than by ours."""
    driver = StandsStill()
    with LocalSite(mesh("three", NAMES, 0), tmp_path / "run", tmp_path) as site:
        trial = _Trial(driver, site, NAMES, driver.config(capacity=6, rate="6", counter="all"))
        with trial.running(driver) as servers:
            driver.pids = [process.pid for _, process in servers.processes]
            try:
                trial.admits_its_limit(servers)
            finally:
                driver.stall.join()
    assert driver.given > 24, "it stood still for nothing"
