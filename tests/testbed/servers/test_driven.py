"""The processes of a deployed limiter: started in order, found missing or ended, killed beside a node, private."""

import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.errors import MachineError, SpecError
from systems.limiting.deployed import Cluster, DeployedConfig, Driver, Entry, Process, Quota
from systems.loader import load_system
from testbed.faults import Restart, ServerCrash
from testbed.hosts.local import LocalSite
from testbed.hosts.site import Site
from testbed.hosts.state import start_time
from testbed.nodes.fleet import NodeFleet
from testbed.servers.driven import Driven
from testbed.servers.server import Placing, ServerGroup
from testbed.topologies.topology import mesh
from tests.testbed.servers.given import SECRET, deployed_on, serving

NAMES = ["n1", "n2", "n3"]
TOY = Path(__file__).parents[3] / "docs" / "examples" / "toy_limiter.py"

# Says when it has begun, and when it listens: where it is told of a place to meet, once three have come there.
CLOCK = """
import contextlib, os, pathlib, socket, sys, time
begun_ns = time.monotonic_ns()
if sys.argv[2]:
    meeting = pathlib.Path(sys.argv[2])
    (meeting / str(os.getpid())).touch()
    while len(list(meeting.iterdir())) < 3:
        time.sleep(0.01)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    listening_ns = time.monotonic_ns()
    while True:
        with listening.accept()[0] as connection, contextlib.suppress(OSError):  # who asked may wait no more
            connection.recv(99)
            connection.sendall(f"{begun_ns} {listening_ns} {os.environ.get('WORD')}\\n".encode())
"""
Told = dict[str, list[str]]  # of a process by node and name: the words above


@dataclass(frozen=True)
class Config(DeployedConfig):
    """Options of the clocks."""


class Clocks(Driver):
    """See ``Driver``."""

    key, summary, config = "clocks", "what is told when", Config
    programs: Mapping[str, str] = {"python3": "apt-get install python3"}

    def __init__(
        self,
        *names: str,
        at: Sequence[str] = NAMES,
        command: Callable[[str, int], tuple[str, ...]] | None = None,
        missing: str = "",
        meeting: Path | None = None,
    ):
        self.names, self.at, self.command, self.missing, self.meeting = names, at, command, missing, meeting
        self.told: Told = {}
        self.ports: list[int] = []

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        return [self._clock(cluster, node, name) for name in self.names for node in self.at]

    def _clock(self, cluster: Cluster, node: str, name: str) -> Process:
        port, file = cluster.port_of(node, name, 80), f"{cluster.folder_of(node, name)}/clock.py"
        assert port == cluster.port_of(node, name, 80) != cluster.port_of(node, name, 81)
        self.ports += [port, cluster.port_of(node, name, 81)]
        place = str(self.meeting) if self.meeting and name == "first" else ""
        command = "python3", file, str(port), place
        files = {"clock.py": CLOCK, "deeper/secret": cluster.secret}
        words = self.command(file, port) if self.command else command
        return Process(node, name, words, port, b"?", b"\n", files, {"WORD": f"of-{node}"})

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return Entry(cluster.addresses[node], cluster.port_of(node, self.names[-1], 80), (b"hello",))

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        self.told = {name: answer.decode().split() for name, answer in answers.items()}
        return self.missing or ", ".join(name for name, words in self.told.items() if not words)

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        raise NotImplementedError

    def verdict(self, answer: Any) -> bool | None:
        raise NotImplementedError


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with LocalSite(mesh("three", NAMES, 0), tmp_path / "run", tmp_path) as site:
        yield site


def pids(site: Site) -> dict[str, int]:
    return dict(site.processes)


# --- started ---------------------------------------------------------------------------------------------------------


def test_those_of_one_name_start_at_once_and_the_next_when_they_answer(site: Site, tmp_path: Path) -> None:
    (tmp_path / "meeting").mkdir()
    driver = Clocks("first", "second", meeting=tmp_path / "meeting")
    with serving(site, driver) as servers:
        assert sorted(pids(site)) == [f"{name}-{node}" for name in ("first", "second") for node in NAMES]
        assert [node for node, _ in servers.processes] == NAMES * 2
        begun, listening = ({name: int(told[at]) for name, told in driver.told.items()} for at in (0, 1))
        firsts, seconds = ([f"{node}/{name}" for node in NAMES] for name in ("first", "second"))
        assert max(begun[name] for name in firsts) < min(listening[name] for name in firsts)
        assert max(listening[name] for name in firsts) < min(begun[name] for name in seconds)
        assert driver.told["n2/first"][2] == "of-n2", "its environment"
        at = servers.reached_from("n3")
        assert at.greeting == (b"hello",) and at == servers.reached_from("n3") != servers.reached_from("n1")
    assert not site.processes and len(set(driver.ports)) == len(driver.ports) == 12


def test_its_secret_is_in_files_for_its_user_alone_and_on_no_command_line(site: Site) -> None:
    with serving(site, Clocks("only")):
        for name, pid in site.processes:
            file = site.folder / name / "deeper" / "secret"
            assert file.read_text() == SECRET and stat.S_IMODE(file.stat().st_mode) == 0o600
            assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text()
            assert SECRET not in (site.folder / "logs" / f"{name}.log").read_text()
        assert len(site.processes) == 3


@contextmanager
def failing(
    site: Site, driver: Driver, start_s: float = 60.0, ready_s: float = 60.0
) -> Iterator[Callable[[], MachineError]]:
    """Starts one that does not get ready, and gives the error: so long it may take to answer, and then to be ready."""
    servers: Any = Driven(driver, start_s).deploy(site, Placing(NAMES, "n1", SECRET, Config()))

    def error() -> MachineError:
        try:
            servers.start(NAMES)
            servers._start_s = ready_s
            servers.wait()
        except MachineError as error:
            return error
        pytest.fail("it is ready")

    yield error
    servers.stop()
    assert not site.processes


def test_a_program_that_is_not_there_is_named_with_its_fix(site: Site) -> None:
    driver = Clocks("only", command=lambda file, port: ("limiterd", str(port)))
    driver.programs = {"python3": "apt-get install python3", "limiterd": "apt-get install limiter"}
    with failing(site, driver) as error:
        said = error()
        assert said.what == "n1 has no limiterd" and said.fix == "apt-get install limiter"
    capability = Driven(driver).capability
    assert not capability.find() and (capability.what, capability.fix) == ("clocks", "apt-get install limiter")
    assert Driven(driver).programs == ("python3", "limiterd")
    there = Driven(Clocks()).capability
    assert there.find() and there.fix == "apt-get install python3"


def test_one_that_ends_before_it_answers_is_named(site: Site) -> None:
    with failing(site, Clocks("only", command=lambda file, port: ("python3", "-c", "raise SystemExit(3)"))) as error:
        said = error()
        assert said.what == "only-n1 has ended (code 3) before it answered" and "only-n1.log" in said.fix


def test_one_that_ends_before_all_are_ready_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Clocks("only")

    def ready(*told: Any) -> str:
        site.agents["only-n2"].process.kill()
        return "a while"

    monkeypatch.setattr(driver, "ready", ready)
    with failing(site, driver) as error:
        assert error().what == "only-n2 has ended (code -9)"


def test_those_that_do_not_get_ready_say_what_is_missing(site: Site) -> None:
    with failing(site, Clocks("only", missing="n2 knows nobody"), ready_s=0.3) as error:
        assert error().what == "clocks is not ready: n2 knows nobody"
    with failing(site, Clocks("only", command=lambda file, port: ("sleep", "60")), 0.3) as error:
        assert error().what == "only-n1 does not answer within 0.3 s"


# --- killed ----------------------------------------------------------------------------------------------------------


def test_a_crash_takes_those_beside_the_node_and_they_come_back_where_they_were(site: Site) -> None:
    driver = Clocks("first", "second")
    with serving(site, driver) as servers:
        before, places = pids(site), [servers.reached_from(node) for node in NAMES]
        servers.kill("n2")
        assert pids(site) == {name: pid for name, pid in before.items() if not name.endswith("-n2")}
        assert not start_time(before["first-n2"])
        driver.missing = "n2"
        servers.wait()  # of what is down nobody expects that it is ready
        servers.kill("n3")
        servers.start(["n2"])
        servers.wait()
        driver.missing = ""
        servers.start(["n3"])
        servers.wait()
        after = pids(site)
        assert after.keys() == before.keys() and after["first-n1"] == before["first-n1"]
        assert after["first-n2"] != before["first-n2"]
        assert [servers.reached_from(node) for node in NAMES] == places


def test_a_crash_of_a_node_without_servers_leaves_them_to_be_ready(site: Site) -> None:
    driver = Clocks("only", at=["n1"])
    servers: ServerGroup = deployed_on(site, driver)
    try:
        servers.start(NAMES)
        servers.kill("n2")
        assert list(pids(site)) == ["only-n1"]
        driver.told = {}
        servers.wait()
        assert driver.told
    finally:
        servers.stop()


def test_stopped_twice_is_stopped(site: Site) -> None:
    with serving(site, Clocks("only")) as servers:
        servers.stop()
        assert not site.processes


# --- with their nodes ------------------------------------------------------------------------------------------------


def test_servers_crash_only_where_some_stand(site: Site) -> None:
    system = load_system("redis-gcra")
    fleet = NodeFleet(site, system, system.config(server="n2"), 1)
    fleet.check_server_crash(ServerCrash(0, "n2"))
    said = "no process of a server stands beside n1; they stand beside n2: crash those of one of these nodes"
    with pytest.raises(SpecError, match=said):
        fleet.check_server_crash(ServerCrash(0, "n1"))
    assert not site.processes, "known before anything is started"


@pytest.mark.slow
def test_servers_die_alone_or_with_their_node_and_come_back_with_it(site: Site) -> None:
    system, restart = load_system(f"{TOY}:SYSTEM"), Restart(0, "n2")
    fleet = NodeFleet(site, system, system.config(), 1)
    try:
        fleet.start([restart])
        fleet.connect()
        fleet.go(time.time_ns(), {})
        before = pids(site)
        assert {f"{kind}-{node}" for kind in ("toy", "node") for node in NAMES} <= before.keys()
        assert len({fleet._introduction(node)["around"]["servers"]["toy"]["port"] for node in NAMES}) == 3

        fleet.crash_servers("n1")
        assert before.keys() - pids(site).keys() == {"toy-n1"} and fleet.lost_servers() == ()
        fleet.crash("n2")
        assert before.keys() - pids(site).keys() == {"toy-n1", "toy-n2", "node-n2"}
        fleet.restart(restart)
        assert before.keys() - pids(site).keys() == {"toy-n1", "node-n2"} and fleet.lives_count("n2") == 2
        assert pids(site)["toy-n2"] != before["toy-n2"] and pids(site)["toy-n3"] == before["toy-n3"]
        assert fleet.lost_servers() == (), "all that is told happened"

        site.agents["toy-n3"].process.kill()
        site.agents["toy-n3"].process.wait()
        assert fleet.lost_servers() == ("toy-n3",)
        fleet.crash_servers("n3")
        assert fleet.lost_servers() == ("toy-n3",), "a crash does not excuse an end before it"
        fleet.check()
    finally:
        fleet.stop()
    assert not site.processes
