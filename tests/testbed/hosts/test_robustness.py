"""What goes wrong beside a live run, on loopback: strangers at its ports, processes that stop, no room, Ctrl-C."""

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import MachineError
from core.records import Request
from core.units import SECOND_NS
from harness.executors.local import LocalExecutor
from harness.run import carried_out, resolve
from studies.distribution.asked import DeploymentConfig
from studies.distribution.live import LiveDeployment
from systems.loader import load_system
from testbed.brokers import nsq
from testbed.brokers.brokerd.client import BrokerClient
from testbed.hosts.cleaning import marked_processes
from testbed.hosts.local import LocalSite
from testbed.hosts.lock import machine_lock
from testbed.hosts.loop import Loop
from testbed.hosts.site import Program, python_agent
from testbed.hosts.state import RunState, read_state
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.frames import FrameSocket
from testbed.nodes.links import STRANGERS_MAXIMUM, Doorstep
from testbed.topologies.topology import load_topology
from tests.harness.common import small
from tests.live import needs
from tests.studies.distribution.up import up
from tests.testbed.brokers.with_clients import until
from tests.testbed.nodes.test_host import ask, called

PUBLISHERS = 30
ROUND_NS = 2 * SECOND_NS
SPREAD = (np.arange(PUBLISHERS) % 2).astype(np.int32)
PAIR = load_topology("full-mesh", {"nodes": 2})


@contextmanager
def deployed(**options: Any) -> Iterator[LiveDeployment]:
    """A topic of 300 msg/s on two brokers."""
    point = resolve(
        small(
            testbed="local",
            workload_options={"publishers": PUBLISHERS},
            topology_options={"brokers": 2},
            calibration="small",
            slo="calibrated",
            round="2s",
        )
    )
    config = DeploymentConfig(profile="5s", **options)
    live = up(point, config)
    try:
        yield live
    finally:
        live.close()


@contextmanager
def beside(action: Any) -> Iterator[None]:
    """Something that a thread does meanwhile; what it raises is raised here."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
    assert not thread.is_alive()
    if problems:
        raise problems[0]


def await_load(live: LiveDeployment) -> None:
    """Until some of the load has come to the first broker."""
    its = next(iter(live.brokers_up))
    door = socket.create_connection(("127.0.0.1", its.control_port), 60)
    with closing(BrokerClient(door, live.brokers_up.token)) as client:
        until(lambda: client.stats()["message_count"] > 100, "the load", 120)


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


# --- strangers ---------------------------------------------------------------------------------------


def throw(where: tuple[str, int], content: bytes) -> None:
    with suppress(OSError), socket.create_connection(where, 5) as connection:
        connection.settimeout(0.05)
        connection.sendall(content)
        connection.recv(1 << 16)


@needs("go")
@pytest.mark.slow
def test_garbage_at_all_ports_of_the_brokers_harms_no_run() -> None:
    rng = random.Random(3)
    largest = nsq.HEADER.pack(2**63 - 1, 2**31 - 1, 2**31 - 1, -(2**63)) + b"stranger"
    with deployed() as live:
        ports = [address(port) for its in live.brokers_up for port in (its.ingress, its.nsqd)]
        ports += [("127.0.0.1", its.control_port) for its in live.brokers_up]
        texts = [
            b"GET / HTTP/1.1\r\n\r\n",
            nsq.MAGIC + b"PUB topic\n\xff\xff\xff\xff",
            nsq.MAGIC + b"SUB x\n",
            b"\n{}\n",
        ]
        ended = threading.Event()

        def garbage() -> None:
            half_open = [socket.create_connection(port, 5) for port in ports]
            while not ended.wait(0.01):
                throw(rng.choice(ports), rng.choice([*texts, rng.randbytes(rng.randrange(1, 300))]))
            throw(ports[0], nsq.MAGIC + nsq.pub(live.topic, largest))
            for one in half_open:
                one.close()

        with beside(garbage):
            try:
                live.next_round(SPREAD, ROUND_NS)
            finally:
                ended.set()
        live.next_round(SPREAD, ROUND_NS)
        account = live.findings.account
        assert account is not None
        assert account.delivered_count == account.offered_count > 500
        assert live.brokers_up.lost == live.publishers.lost == live.subscribers.lost == []
        for number in range(2):
            stats = live.brokers_up.stats(number)
            assert stats["panic_count"] == 0
        assert sum(live.brokers_up.stats(number)["error_count"] for number in range(2)) > 0


@pytest.mark.slow
def test_a_crowd_of_strangers_does_not_end_a_node(tmp_path: Path) -> None:
    """More than ``select`` could watch; some of them announce more than there is memory for."""
    system = load_system("static-split")
    with LocalSite(PAIR, tmp_path, tmp_path) as site:
        fleet = NodeFleet(site, system, system.config(), 1)
        fleet.start()
        fleet.connect()
        fleet.go(time.time_ns(), {})
        strangers = []
        for number in range(1_200):
            strangers.append(called(fleet, "n2", *([struct.pack(">I", 1 << 27) + bytes(99)] if number % 3 else [])))
        fleet.check()
        until(lambda: fleet.statuses()["n2"]["garbage_count"] == len(strangers), "their being thrown out", 120)
        for one in strangers:
            one.close()
        assert ask(fleet, "n2", Request(1, "u", 0)).verdict is not None
        fleet.check()
        fleet.stop()


def test_the_door_has_room_again_when_strangers_have_left() -> None:
    loop = Loop()
    guests: list[FrameSocket] = []
    content = json.dumps({"token": "t", "node": "n1"}).encode()
    with socket.create_server(("127.0.0.1", 0), backlog=2 * STRANGERS_MAXIMUM) as listener:
        door = Doorstep(loop, listener, lambda connection, hello: guests.append(connection) is None)
        with beside(loop.run):
            try:
                crowd = [socket.create_connection(listener.getsockname(), 5) for _ in range(STRANGERS_MAXIMUM + 3)]
                until(lambda: door.garbage_count >= 3, "those without room")
                for one in crowd:
                    one.close()
                until(lambda: door.garbage_count == 3 + STRANGERS_MAXIMUM, "the others' leaving")
                with socket.create_connection(listener.getsockname(), 5) as friend:
                    friend.sendall(struct.pack(">I", len(content)) + content)
                    until(lambda: guests, "the friend")
            finally:
                loop.stop()
        assert len(guests) == 1 and door.garbage_count == 3 + STRANGERS_MAXIMUM


def test_garbage_does_not_end_a_link_probe(tmp_path: Path) -> None:
    rng = random.Random(4)
    with LocalSite(PAIR, tmp_path, tmp_path) as site, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        agents = [
            site.start(host, Program(host, python_agent("testbed.trust.link_probe", "127.0.0.1")))
            for host in ("n1", "n2")
        ]
        ports = [agent.ready()["port"] for agent in agents]
        message = struct.Struct("!4sBHIqq")
        for number in range(300):
            forged = message.pack(b"rbLC", number % 4, 7, number, -(2**63), 2**63 - 1)
            stranger.sendto(forged if number % 2 else rng.randbytes(rng.randrange(0, 2000)), ("127.0.0.1", ports[1]))
        answer = agents[0].ask("probe", targets=[["127.0.0.1", ports[1]]], count=20, span_s=0.1, wait_s=10, number=1)
        assert len(answer["results"][0]["there_ns"]) == 20
        assert agents[1].ask("heard", address="127.0.0.1", port=ports[0], number=1)["heard_count"] == 20


@needs("realtime")
def test_what_listens_for_probes_waits_for_nobody(tmp_path: Path) -> None:
    with LocalSite(PAIR, tmp_path, tmp_path) as site:
        agent = site.start("n1", Program("probe", python_agent("testbed.trust.link_probe", "127.0.0.1")))
        agent.ready()
        threads = [int(thread.name) for thread in Path(f"/proc/{agent.pid}/task").iterdir()]
        until(lambda: os.SCHED_FIFO in map(os.sched_getscheduler, threads), "a thread that goes before others")
        assert os.sched_getscheduler(agent.pid) == os.SCHED_OTHER, "what sends has its turn as all do"


# --- processes that stop -------------------------------------------------------------------------------


@needs("go")
@pytest.mark.slow
def test_a_publisher_host_that_stops_is_accounted_for_and_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.brokers.traffic.COLLECT_S", 5.0)
    with deployed() as live:

        def stop() -> None:
            await_load(live)
            live.publishers.agents["publishers1"].process.send_signal(signal.SIGSTOP)

        with beside(stop):
            live.fresh_round(SPREAD, 2 * ROUND_NS)
        account = live.findings.account
        assert account is not None and account.accounted_count == account.offered_count
        assert 0 < account.delivered_count < account.offered_count
        assert account.undelivered_count == account.duplicated_count == account.foreign_count == 0
        fidelity = live.evidence().fidelity
        assert fidelity.validity == "invalid" and "publishers1 was lost" in fidelity.reasons[0]
    assert live.publishers.agents["publishers1"].exit_code == -signal.SIGKILL


@needs("go")
@pytest.mark.slow
def test_a_starved_generator_makes_the_run_invalid() -> None:
    with deployed() as live:

        def starve() -> None:
            await_load(live)
            for agent in live.publishers.agents.values():
                agent.process.send_signal(signal.SIGSTOP)
            time.sleep(2.0)
            for agent in live.publishers.agents.values():
                agent.process.send_signal(signal.SIGCONT)

        with beside(starve):
            live.fresh_round(SPREAD, 2 * ROUND_NS)
        account = live.findings.account
        assert account is not None and account.delivered_count == account.offered_count, "late is not lost"
        fidelity = live.evidence().fidelity
        assert fidelity.validity == "invalid"
        assert any(reason.startswith("1 % of the load was sent") for reason in fidelity.reasons)


@needs("go")
@pytest.mark.slow
def test_a_controller_goes_on_without_a_broker_that_is_killed() -> None:
    point = resolve(
        small(
            system="tb-adaptor",
            workload="shifting",
            workload_options={"publishers": PUBLISHERS, "shift_at": "500ms"},
            topology_options={"brokers": 2},
            testbed="local",
            calibration="small",
            slo="calibrated",
            study="control",
            study_options={
                "duration": "5s",  # what is killed late has something left to refuse
                "window": "1s",
                "profile": "5s",
                "faults": ({"kind": "crash", "at": "800ms", "node": "broker1"},),
            },
        )
    )
    journal = carried_out(point)
    numbers = journal.evidence.fidelity.numbers
    fates = ("not_sent_count", "unacknowledged_count", "undelivered_count", "delivered_count", "duplicated_count")
    assert sum(numbers[fate] for fate in fates) == numbers["offered_count"]
    assert 0 < numbers["delivered_count"] < numbers["offered_count"] and numbers["not_sent_count"] > 0
    assert not any("lost" in reason for reason in journal.evidence.fidelity.reasons), "it was the run's own fault"


# --- no room ---------------------------------------------------------------------------------------------


@needs("go", "root")
@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs: {mounted.stderr.decode().strip()}")
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        with pytest.raises((MachineError, OSError), match="No space left"):
            _rounds(20)
        assert list(place.iterdir()) == []
    finally:
        subprocess.run(["umount", place], check=True)


def _rounds(count: int) -> None:
    with deployed() as live:
        for _ in range(count):
            live.next_round(SPREAD, ROUND_NS // 2)


# --- the command ----------------------------------------------------------------------------------------

POINT = """--system lb --workload poisson --topology srtm-lan --testbed local --set workload.publishers=30
--set topology.brokers=2 --set calibration=small --set slo=calibrated --set study.profile=5s"""


# With a lock of its own: the machine's may be held by somebody's campaign for an hour.
SCRIPT = """
import sys
import harness.executors.local
from ratebed.cli import main
from testbed.hosts.lock import machine_lock
lock = sys.argv.pop(1)
harness.executors.local.machine_lock = lambda: machine_lock(lock)
main()
"""


def words(folder: Path, span: str) -> list[str]:
    """A live run whose round has a length."""
    return [sys.executable, "-c", SCRIPT, f"test{folder}", "run", *POINT.split(), "--set", f"round={span}",
            "--out", str(folder / "out")]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    """What the run leaves behind is below ``folder``."""
    return {**os.environ, "RATEBED_STATE": str(folder / "state"), "TMPDIR": str(folder)}


@contextmanager
def command(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """``ratebed run`` in the middle of its load, and its state file."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    with (folder / "said").open("w") as said:
        running = subprocess.Popen(words(folder, "30s"), env=environment(folder), stdout=said, stderr=said, text=True)
    try:
        until(lambda: running.poll() is not None or any(folder.glob("ratebed-*/load/*.npz")), "the load", 300)
        assert running.poll() is None, (folder / "said").read_text()
        (record,) = state.glob("run-*")
        yield running, record
    finally:
        running.kill()
        running.wait()


@needs("go")
@pytest.mark.slow
def test_an_interrupted_command_leaves_nothing(tmp_path: Path) -> None:
    with command(tmp_path) as (running, record):
        token = read_state(record).token
        assert len(marked_processes(token)) >= 6
        running.send_signal(signal.SIGINT)
        assert running.wait(240) == 130
    assert "interrupted" in (tmp_path / "said").read_text()
    assert marked_processes(token) == [] and not record.exists()
    assert list(tmp_path.glob("ratebed-*")) == []


@needs("go")
@pytest.mark.slow
def test_the_next_campaign_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with command(tmp_path) as (running, record):
        token = read_state(record).token
        (folder,) = tmp_path.glob("ratebed-*")
        running.kill()
        running.wait()
        until(lambda: not marked_processes(token), "the end of its agents")
        assert record.exists() and folder.is_dir()
    monkeypatch.setenv("RATEBED_STATE", str(record.parent))
    monkeypatch.setattr("harness.executors.local.machine_lock", lambda: machine_lock(f"test{tmp_path}"))
    bystander = RunState(record.parent)
    (finished,) = LocalExecutor(1).map([(small(testbed="local", system="nobody"), "id", tmp_path / "runs")])
    assert "nobody" in finished.error
    assert not record.exists() and not folder.exists()
    assert bystander.path.exists(), "the run of a harness that lives"
    bystander.close()
