"""Containers for real: as root, with a daemon of our own."""

import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from core.errors import MachineError, SpecError
from core.units import MILLISECOND_NS
from testbed.hosts.agent import Agent
from testbed.hosts.capabilities import tool
from testbed.hosts.cleaning import marked_processes, remove_left
from testbed.hosts.docker import container, image
from testbed.hosts.docker.daemon import CHOICE, PRIVATE, RUNNING, PrivateDaemon, running_daemon, use_daemon
from testbed.hosts.docker.site import DockerSite
from testbed.hosts.groups import groups_of
from testbed.hosts.places import Place
from testbed.hosts.private import host_settings
from testbed.hosts.site import Program, explained
from testbed.hosts.state import read_state, start_time
from testbed.topologies.topology import load_topology
from tests.live import needs

pytestmark = [
    pytest.mark.slow,
    needs(
        *("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue", "docker-sdk", "dockerd"),
        "runc",
    ),
]
Make = Callable[..., DockerSite]
CONTAINERD = Path("/run/containerd/containerd.sock")

AGENT = """
import os, time
from testbed.hosts.agent import serve

held = []

def burn(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass

def take(megabytes):
    for _ in range(megabytes):
        held.append(b"x" * 1_000_000)

serve({
    "burn": burn, "take": take,
    "where": lambda: {"pid": os.getpid(), "self": os.readlink("/proc/self"), "root": sorted(os.listdir("/")),
                      "hostname": os.uname().nodename, "policy": os.sched_getscheduler(0)},
})
"""
COMMAND = [sys.executable, "-c", AGENT]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Builds sites, and takes them down."""
    with ExitStack() as stack:

        def build(name: str = "star", options: dict[str, Any] | None = None, **more: Any) -> DockerSite:
            state = tmp_path / "state"
            state.mkdir(exist_ok=True)
            site = DockerSite(load_topology(name, more or {"nodes": 1}), tmp_path / "run", state, **(options or {}))
            return stack.enter_context(site)

        yield build


def start(site: DockerSite, host: str, **more: Any) -> Agent:
    """An agent that is ready."""
    agent = site.start(host, Program(f"agent-{host}", COMMAND, **more))
    agent.ready()
    return agent


def server_image(path: Path) -> Path:
    """An image with nothing in it but a program and what that needs: no Python, and no shell where one expects it."""
    shell, sleep = os.path.realpath(tool("dash") or "/bin/sh"), tool("sleep") or "/bin/sleep"
    words = subprocess.check_output(["ldd", shell, sleep], text=True).split()
    libraries = {word for word in words if word.startswith("/") and not word.endswith(":")}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, place in [*((name, name) for name in sorted(libraries)), (shell, "bin/server"), (sleep, "bin/sleep")]:
            tar.add(os.path.realpath(name), place)
    client = use_daemon(PRIVATE).client
    client.api.import_image_from_data(layer.getvalue(), repository="server", tag="1")
    with path.open("wb") as file:
        file.writelines(client.images.get("server:1").save(named=True))
    return path


# --- agents in containers --------------------------------------------------------------------------------


def test_agents_are_in_the_container_and_keep_their_ids(make: Make) -> None:
    site = make(nodes=2, delay="5ms")
    agent = start(site, "n1", cores=[0])
    found = agent.ask("where")
    assert found["pid"] == agent.pid == int(found["self"]) and found["hostname"] == "n1"
    assert {"media", "mnt", "srv"}.isdisjoint(found["root"])  # the files are the image's
    place = Path(f"/proc/{agent.pid}/ns/net").readlink()
    assert place == Path(f"/proc/{site.containers['n1'].pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    assert agent.pid in [thing["pid"] for thing in marked_processes(site.state.token)]
    assert os.sched_getaffinity(agent.pid) == {0}
    load = site.start("n2", Program("load", COMMAND, fifo_priority=5))
    load.ready()
    assert load.ask("where")["policy"] == os.SCHED_FIFO  # which no limited group permits
    measures = site.verify()
    assert len(measures) == 6 and not any(found.problem for found in measures)
    assert all(found.measured_p05_ns > 4 * MILLISECOND_NS for found in measures)
    agent.process.send_signal(signal.SIGKILL)
    assert agent.process.wait(60) == -signal.SIGKILL


def test_kinds_of_hosts_are_mixed(make: Make, tmp_path: Path) -> None:
    """A namespace, a container of ours, and one of a server that nobody has changed, all reach each other."""
    archive = server_image(tmp_path / "server.tar")
    server = "echo up; exec sleep 600"
    site = make(
        nodes=2,
        delay="3ms",
        options={
            "hub.kind": "mininet",
            "n2.image": str(archive),
            "n2.command": f"/bin/server -c '{server}'",
            "n2.cpus": 0.5,
        },
    )
    assert set(site.containers) == {"n1", "n2"} and not site.containers["n2"].is_ours
    assert len(site.verify()) == 6
    agent = start(site, "n2")  # there is no Python in it
    found = agent.ask("where")
    assert found["hostname"] == "n2" and found["root"] == sorted(os.listdir("/")) and found["pid"] == agent.pid
    groups, theirs = groups_of(agent.pid), groups_of(site.containers["n2"].pid)
    for of in (groups, theirs):
        of.pop("cpuset", None)  # an agent stays pinned to its cores
    assert groups == theirs != {}
    assert Path(f"/proc/{agent.pid}/ns/net").readlink() == Path(f"/proc/{site.containers['n2'].pid}/ns/net").readlink()
    log = site.folder / "logs" / "container-n2.log"
    until_s = time.monotonic() + 60
    while (not log.exists() or "up" not in log.read_text()) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert log.read_text() == "up\n"
    hub = start(site, "hub")
    assert hub.ask("where")["hostname"] == os.uname().nodename


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image": "nobody/has:this"}, "no image nobody/has:this.*docker save"),
        ({"n1.command": "no-such-program"}, "no container for host n1.*no-such-program"),
        ({"n1.command": "sh -c 'echo alas; exit 3'"}, r"host n1 has ended at once \(code 3\): alas"),
        ({"hub.cpus": 4096}, "no container for host hub"),
    ],
)
def test_hosts_that_cannot_be_say_so_and_leave_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], text: str
) -> None:
    if "ended at once" in text:
        monkeypatch.setattr(container, "SETTLE_S", 5.0)  # a busy daemon hears late of the end
    with pytest.raises(MachineError, match=text):
        make(options=options)
    assert use_daemon(PRIVATE).client.containers.list(all=True) == []
    assert list((tmp_path / "state").iterdir()) == []


def test_an_archive_that_is_not_there(make: Make) -> None:
    with pytest.raises(SpecError, match=r"no image nowhere\.tar"):
        make(options={"image": "nowhere.tar"})


# --- limits ----------------------------------------------------------------------------------------------


def test_a_limit_of_processors_holds_within_5_percent(make: Make) -> None:
    """In one of a few spans: in another somebody else of this machine takes it away, or a sample comes late."""
    limit = 0.1  # far below what a busy machine of two cores has for each
    wanted = pytest.approx(limit, rel=0.05)
    site = make(options={"n1.cpus": limit})
    agent = start(site, "n1")
    statistics = use_daemon(PRIVATE).client.containers.list(filters={"name": "n1"})[0].stats(stream=True, decode=True)

    def used() -> tuple[float, float]:
        """Seconds of a processor, and when that was."""
        found = next(statistics)
        at = datetime.fromisoformat(found["read"][:26])
        return found["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9, at.timestamp()

    agent.ask("burn", seconds=1)  # what it had saved up
    shares: list[float] = []
    while len(shares) < 5 and wanted not in shares:
        agent.post("burn", seconds=7)
        used()
        cpu_s, at_s = used()
        later_cpu_s, later_at_s = [used() for _ in range(4)][-1]
        agent.answer()
        shares.append((later_cpu_s - cpu_s) / (later_at_s - at_s))
    assert wanted in shares and median(shares) < 1.05 * limit, shares
    counts = {(host, metric): value for host, metric, value in [*site.usage(), *site.counters()]}
    assert counts["n1", "container_throttled_ns"] > 10**9 and counts["n1", "container_cpu_limit"] == limit
    assert counts["hub", "container_throttled_ns"] == 0


def test_a_container_over_its_memory_is_killed_and_the_run_says_so(make: Make) -> None:
    site = make(options={"n1.memory": "64MB"})
    agent, other = start(site, "n1"), start(site, "hub")
    agent.ask("take", megabytes=10)
    unknown = MachineError("it does not answer")
    assert site.explained(unknown) is unknown
    assert not any(metric == "out_of_memory_count" for _, metric, _ in site.counters())
    with (
        pytest.raises(MachineError, match=r"host n1 was over its memory limit of 64MB and was killed \(agent agent-n1"),
        explained(site),
    ):
        agent.ask("take", megabytes=100)
    assert agent.process.wait(60) == -signal.SIGKILL
    until_s = time.monotonic() + 60
    while site.containers["n1"].alive and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not site.containers["n1"].alive and site.containers["hub"].alive
    assert other.ask("where")["hostname"] == "hub"
    rows = [row for row in site.counters() if row[1] in ("out_of_memory_count", "container_memory_limit_bytes")]
    assert sorted(rows) == [("n1", "container_memory_limit_bytes", 64e6), ("n1", "out_of_memory_count", 1.0)]


# --- the image -------------------------------------------------------------------------------------------


def test_the_image_is_made_once_of_what_is_here(make: Make) -> None:
    client = use_daemon(PRIVATE).client
    tag = image.node_image(client)
    assert tag == f"ratebed/node:{image.key()}" and client.images.get(tag).labels == {
        image.CODE_LABEL: image.code_key()
    }
    made = client.images.get(tag).attrs["Created"]
    assert image.node_image(client) == tag and client.images.get(tag).attrs["Created"] == made
    said = client.containers.run(
        tag,
        [sys.executable, "-c", "import numba, kazoo, testbed.nodes.host; print('fine')"],
        remove=True,
        network_mode="none",
    )
    assert said == b"fine\n"


def test_another_state_of_the_code_is_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.code_key()
    image.code_key.cache_clear()
    monkeypatch.setattr("testbed.hosts.docker.image.FOLDERS", ("core",))
    assert image.code_key() != before
    image.code_key.cache_clear()


# --- the end ---------------------------------------------------------------------------------------------

OWNER = """
import sys, time
from pathlib import Path
from testbed.hosts.groups import groups_of
from testbed.hosts.docker.daemon import use_daemon
from testbed.hosts.docker.site import DockerSite
from testbed.hosts.site import Program
from testbed.topologies.topology import load_topology
site = DockerSite(load_topology("star", {"nodes": 1}), Path(sys.argv[1]), owns_folder=True)
site.start("n1", Program("sleeper", ["/bin/sh", "-c", "exec sleep 1000"]))
print(site._daemon.url.removeprefix("unix://"), site.containers["n1"].pid, flush=True)
time.sleep(100)
"""


def test_nothing_is_left_of_a_killed_owner_once_it_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("RATEBED_STATE", str(state))
    before = host_settings()
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    url, pid = owner.stdout.readline().split()
    tokens = [read_state(path).token for path in state.iterdir()]
    assert len(tokens) == 2 and len({found["pid"] for token in tokens for found in marked_processes(token)}) >= 6
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert start_time(int(pid))  # nobody has ended it
    found = remove_left(state)
    assert not found.stuck and any("dockerd" in what for what in found.removed)
    assert not any(marked_processes(token) for token in tokens) and not start_time(int(pid))
    assert not Path(url).parent.exists() and not (tmp_path / "run").exists() and list(state.iterdir()) == []
    assert host_settings() == before
    assert not [path for token in tokens for path in Path("/sys/fs/cgroup").glob(f"*/*{token}*")]


def test_of_a_running_daemon_exactly_the_containers_of_the_killed_run_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = use_daemon(PRIVATE)  # as if it were the machine's
    tag = image.node_image(daemon.client)
    other = daemon.client.containers.run(tag, name="ratebed-other", detach=True, network_mode="none")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("RATEBED_STATE", str(state))
    monkeypatch.setenv("DOCKER_HOST", daemon.url)
    monkeypatch.setenv(CHOICE, RUNNING)
    words = [sys.executable, "-c", OWNER, str(tmp_path / "run")]
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None and owner.stdout.readline()
    assert len(daemon.client.containers.list()) == 3
    owner.kill()
    owner.wait()
    owner.stdout.close()
    found = remove_left(state)
    assert not found.stuck and sum(what.startswith("container ratebed-r") for what in found.removed) == 2
    assert [one.name for one in daemon.client.containers.list(all=True)] == ["ratebed-other"]
    assert list(state.iterdir()) == []
    other.remove(force=True)


@pytest.mark.skipif(CONTAINERD.exists(), reason="this machine has a containerd of its own")
def test_a_containerd_of_the_machine_s_is_not_used() -> None:
    """It would look for the containers' files among its own mounts, which ours are not."""
    CONTAINERD.parent.mkdir(exist_ok=True)
    before = sorted(CONTAINERD.parent.rglob("*"))
    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(CONTAINERD))
            private = PrivateDaemon()
            try:
                tag = image.node_image(private.daemon.client)
                said = private.daemon.client.containers.run(tag, ["env"], network_mode="none", remove=True)
                assert b"PATH=" in said
            finally:
                private.close()
    finally:
        CONTAINERD.unlink()
    assert sorted(CONTAINERD.parent.rglob("*")) == before


def test_a_running_daemon_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(MachineError, match=r"no Docker daemon answers at unix.*nobody\.sock.*--docker-daemon private"):
        running_daemon()


def test_a_testbed_has_its_options_for_its_sites() -> None:
    from testbed.hosts.places import DOCKER

    topology = load_topology("star", {"nodes": 1})
    place = DOCKER.with_options({"cpus": 0.5}, topology)
    assert isinstance(place, Place) and DOCKER.options == {}
    with place.site(topology, 1) as site:
        assert isinstance(site, DockerSite) and site.wishes["n1"].cpus == 0.5
        until_s = time.monotonic() + 60
        while not site.usage() and time.monotonic() < until_s:
            time.sleep(0.05)
        assert {metric for _, metric, _ in site.usage()} >= {"container_cpu_ns", "container_memory_bytes"}
