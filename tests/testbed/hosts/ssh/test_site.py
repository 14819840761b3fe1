"""Sites on machines with real sshds: agents, links, clocks, what is brought and what is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from core.errors import MachineError, SpecError
from testbed.hosts.agent import Agent
from testbed.hosts.site import Program, python_agent
from testbed.hosts.ssh import keeping
from testbed.hosts.ssh.connection import SshConnection
from testbed.hosts.ssh.host import RemoteHost
from testbed.hosts.ssh.keeping import LOST
from testbed.hosts.ssh.shipping import code_bundle
from testbed.hosts.ssh.site import SshSite
from testbed.hosts.state import all_states
from testbed.topologies.topology import Topology, load_topology
from tests.live import needs
from tests.testbed.brokers.with_clients import until
from tests.testbed.hosts.ssh.lab import DISK, Lab, run

pytestmark = [needs("root", "namespaces", "ip", "sshd", "paramiko"), pytest.mark.slow]
Make = Callable[..., SshSite]
LOST_S = 8.0  # instead of ten: the keepers say something every second
TBF = "rate 100mbit burst 16000 limit 150000"


@pytest.fixture
def make(machines: Lab, tmp_path: Path) -> Iterator[Make]:
    """Builds sites without brokers, and takes them down."""
    with ExitStack() as stack:

        def build(topology: Topology | None = None, *numbers: int, **line: Any) -> SshSite:
            inventory = machines.inventory(tmp_path / "hosts.toml", *(numbers or (1, 2)), **line)
            state = tmp_path / "state"
            state.mkdir(exist_ok=True)
            wanted = topology or load_topology("full-mesh", {"nodes": 2, "delay": "0ms"})
            return stack.enter_context(SshSite(wanted, tmp_path / "run", state, inventory=str(inventory)))

        yield build


def ours(lab: Lab, number: int) -> list[str]:
    """What runs on a machine beside sshd."""
    return [text for text in lab.pids(number).values() if "testbed." in text or "sleep" in text]


def left(lab: Lab) -> set[str]:
    """What runs have left on disks, code and broker aside."""
    return {name for number in (1, 2) for name in lab.files(number) if name.startswith(("run-", "."))}


def probe_on(site: SshSite, host: str) -> Agent:
    """An agent of ours on a host."""
    return site.start(host, Program(f"probe-{host}", python_agent("testbed.trust.link_probe", site.address(host))))


def test_agents_answer_over_the_connection(make: Make, machines: Lab) -> None:
    site = make()
    agents = {host: probe_on(site, host) for host in ("n1", "n2")}
    ready = {host: agent.ready() for host, agent in agents.items()}
    assert all(told["port"] for told in ready.values())
    for number, agent in enumerate(agents.values(), 1):
        assert agent.pid in machines.pids(number) and agent.alive
        assert agent.ask("heard", address="x" * 300_000, port=1, number=0)["heard_count"] == 0
    with pytest.raises(MachineError, match=r"probe-n1, dance: .*no command"):
        agents["n1"].ask("dance")
    assert site.forget("probe-n1") == 0 and not agents["n1"].alive
    agents["n2"].process.kill()
    assert agents["n2"].process.wait(60) == -signal.SIGKILL
    with pytest.raises(MachineError, match="has ended"):
        agents["n2"].ask("heard", address="", port=1, number=0)
    broken = site.start("n1", Program("broken", [sys.executable, "-c", "raise SystemExit('out of luck')"]))
    with pytest.raises(MachineError, match="out of luck"):
        broken.ready()
    with pytest.raises(MachineError, match="h1: cannot start nothing: no-such-program: No such file"):
        site.start("n1", Program("nothing", ["no-such-program"]))
    assert "out of luck" in (site.folder / "logs" / "broken.log").read_text()


def test_what_an_agent_lets_loose_ends_with_it(make: Make, machines: Lab) -> None:
    site = make()
    text = "import subprocess; subprocess.Popen(['sleep', '1000']); input()"
    agent = site.start("n2", Program("loose", [sys.executable, "-c", text]))
    until(lambda: any("sleep" in line for line in ours(machines, 2)), "its child")
    agent.stop()
    until(lambda: not any("sleep" in line for line in ours(machines, 2)), "its child's end")


def test_files_go_there_and_come_back(make: Make, machines: Lab) -> None:
    site = make()
    path = site.folder / "load" / "7.bin"
    path.parent.mkdir()
    content = os.urandom(3_000_000)
    path.write_bytes(content)
    there = site.put("n2", path)
    assert there.startswith(DISK) and there == site.place("n2", path)
    assert not Path(there).exists()  # the machine has a disk of its own
    path.unlink()
    site.fetch("n2", path)
    assert path.read_bytes() == content
    with pytest.raises(MachineError, match=r"h2: .*No such file"):
        site.fetch("n2", path)


def test_code_is_brought_once_and_used(make: Make, machines: Lab) -> None:
    site = make()
    assert code_bundle().name in machines.files(1)
    where = "import testbed, pathlib, sys; print(pathlib.Path(testbed.__file__).parents[1], file=sys.stderr)"
    site.start("n1", Program("where", [sys.executable, "-c", where])).process.wait(60)
    assert f"{DISK}/{code_bundle().name}\n" in (site.folder / "logs" / "where.log").read_text()
    before = site.remote("n1").connection.done(f"stat -c %i {DISK}/{code_bundle().name}")
    site.close()
    again = make()
    assert again.remote("n1").connection.done(f"stat -c %i {DISK}/{code_bundle().name}") == before


def test_paths_are_measured_as_they_are(make: Make) -> None:
    site = make(load_topology("full-mesh", {"nodes": 3, "delay": "20ms"}))
    measures = {(found.source, found.target): found for found in site.verify()}
    assert len(measures) == 6 and not any(found.problem for found in measures.values())
    assert all(found.requested_delay_ns == 20_000_000 for found in measures.values())
    assert all(-2_000_000 < found.measured_p05_ns < 10_000_000 for found in measures.values())
    notes = " ".join(site.notes)
    assert "n1, n3 share the machine h1" in notes and "6 of 6 paths are as the machines have them" in notes


def test_clocks_are_measured_before_and_after(make: Make) -> None:
    site = make()
    rows = {(host, metric): value for host, metric, value in site.counters()}
    for host in ("h1", "h2"):  # namespaces have the host's clock
        doubt_ns = rows[host, "clock_doubt_ns"]
        assert abs(rows[host, "clock_offset_before_ns"]) <= doubt_ns
        assert abs(rows[host, "clock_offset_after_ns"]) <= doubt_ns < 50_000_000


def test_processes_and_machines_are_sampled_there(make: Make) -> None:
    site = make()
    agent = site.start("n1", Program("busy", python_agent("testbed.trust.link_probe", site.address("n1"))))
    agent.ready()
    os.kill(agent.pid, signal.SIGSTOP)  # its machine is a namespace of this one
    time.sleep(1.0)
    os.kill(agent.pid, signal.SIGCONT)
    time.sleep(3.0)  # a look every second
    seen = {its.machine.name: its for its in site.probes()}
    rows = {(node, metric): (at_ns, value) for at_ns, node, metric, value in seen["h1"].samples(epoch_ns=0)}
    now_ns = time.time_ns()  # after the last look, which may come while they are asked for
    assert rows["busy", "rss_bytes"][1] > 1e6 and rows["busy", "cpu_ns"][1] > 0
    assert rows["h1", "core_count"][1] == os.cpu_count() and ("keeper-h1", "rss_bytes") in rows
    assert now_ns - 5e9 < rows["busy", "rss_bytes"][0] < now_ns
    assert rows["busy", "stopped_ns"][1] > 0.2e9
    share = seen["h2"].busy_share(now_ns - 10**9, now_ns)
    assert share is None or 0 <= share <= 1


def test_nothing_but_code_is_left(make: Make, machines: Lab, tmp_path: Path) -> None:
    site = make()
    site.start("n1", Program("one", python_agent("testbed.trust.link_probe", site.address("n1")))).ready()
    assert ours(machines, 1) and left(machines)
    site.close()
    assert not ours(machines, 1) and not ours(machines, 2) and not left(machines)
    assert not list(all_states(tmp_path / "state"))
    connection = SshConnection(machines.machine(1))
    connection.close()


def test_options_and_shared_machines(machines: Lab, tmp_path: Path) -> None:
    from testbed.hosts.ssh.inventory import check_options

    with pytest.raises(SpecError, match="--inventory FILE"):
        check_options({}, load_topology("star"))
    inventory = machines.inventory(tmp_path / "hosts.toml", 1, 2, shape=True)
    with pytest.raises(SpecError, match="paths inside of a machine cannot be shaped"):
        SshSite(load_topology("full-mesh", {"nodes": 3}), tmp_path / "run", tmp_path, inventory=str(inventory))
    many = tmp_path / "many.toml"
    many.write_text(machines.inventory(many, 1).read_text() + "cores = 999\n")
    with pytest.raises(MachineError, match=r"h1: it has \d+ cores, the inventory says 999"):
        SshSite(load_topology("star"), tmp_path / "run", tmp_path, inventory=str(many))


def test_a_host_that_is_cut_off_is_lost_and_the_others_are_not(
    make: Make, machines: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "LOST_S", LOST_S)
    site = make()
    agents = {host: probe_on(site, host) for host in ("n1", "n2")}
    for agent in agents.values():
        agent.ready()
    try:
        machines.cut(2)
        began_s = time.monotonic()
        assert agents["n2"].process.wait(LOST_S + 60) == LOST
        assert time.monotonic() - began_s < LOST_S + 60
        with pytest.raises(MachineError, match=r"has ended .*host h2 is lost: it has said nothing for"):
            agents["n2"].ask("heard", address="", port=1, number=0)
        with pytest.raises(MachineError, match="h2: it is lost"):
            site.fetch("n2", site.folder / "x")
        assert agents["n1"].ask("heard", address="", port=1, number=0)["heard_count"] == 0
        assert ("h2", "alive_count", 0.0) in site.counters()
        assert [seen.machine.name for seen in site.probes()] == ["h1"]
        site.close()
        (state,) = all_states(site.state.path.parent)  # what h2 still has is on record
        assert [thing["name"] for thing in state.things.values()] == ["h2"]
    finally:
        machines.cut(2, on=False)


SCRIPT = """
import sys, time
from pathlib import Path
from testbed.hosts.site import python_agent
from testbed.hosts.site import Program
from testbed.hosts.ssh.site import SshSite
from testbed.topologies.topology import load_topology
topology = load_topology("full-mesh", {"nodes": 2, "delay": "0ms"})
site = SshSite(topology, Path(sys.argv[1]), Path(sys.argv[2]), owns_folder=True, inventory=sys.argv[3])
for host in ("n1", "n2"):
    site.start(host, Program(f"probe-{host}", python_agent("testbed.trust.link_probe", site.address(host)))).ready()
print("up", flush=True)
time.sleep(1000)
"""


def test_a_killed_harness_leaves_nothing(machines: Lab, tmp_path: Path) -> None:
    from testbed.hosts.cleaning import remove_left

    state = tmp_path / "state"
    state.mkdir()
    inventory = machines.inventory(tmp_path / "hosts.toml", 1, 2)
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(state), str(inventory)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None and harness.stdout.readline() == "up\n"
        running = {pid: text for pid, text in machines.pids(1).items() if "ssh.keeper" in text}
        keeper = next(pid for pid, text in running.items() if "python" in text.split()[0])  # not the shell around it
        os.kill(keeper, signal.SIGKILL)  # one keeper cannot clean up by itself
        harness.kill()
    until(lambda: not ours(machines, 2), "the other keeper's end", 120)
    until(lambda: not any(name.startswith("run-") for name in machines.files(2)), "its folder's end")
    assert any(name.startswith("run-") for name in machines.files(1))
    found = remove_left(state)
    assert not found.stuck and any("h1" in line for line in found.removed)
    assert not ours(machines, 1) and not left(machines) and not (tmp_path / "run").exists()
    assert not list(all_states(state))


@pytest.mark.parametrize(
    ("python", "complaint"),
    [
        ("/opt/none/bin/python", r"h1: no Python at /opt/none/bin/python: .*No such file"),
        ("/bin/false", r"h1: no Python at /bin/false"),
        ("none/bin/python", r"h1: no Python at /[^:]*/none/bin/python: "),
    ],
)
def test_no_python_there(make: Make, machines: Lab, python: str, complaint: str) -> None:
    with pytest.raises(MachineError, match=complaint):
        make(None, 1, python=python)
    assert not left(machines)


def test_a_python_without_our_packages(make: Make, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare"))
    with pytest.raises(MachineError, match=r"bare/bin/python has no numpy, msgspec, psutil; install them there"):
        make(None, 1, python=str(tmp_path / "bare" / "bin" / "python"))


def test_no_room_for_the_code(make: Make, machines: Lab) -> None:
    connection = SshConnection(machines.machine(2))
    try:
        connection.done("mkdir /run/small && mount -t tmpfs -o size=64k tmpfs /run/small")
        began_s = time.monotonic()
        with pytest.raises(MachineError, match=r"h2: .*No space left on device; free space in /run/small there"):
            make(None, 2, folder="/run/small")
        assert time.monotonic() - began_s < 120
        assert connection.done("ls -A /run/small") == b""
    finally:
        connection.done("umount /run/small")
        connection.close()


def test_a_keeper_that_hears_nothing_takes_everything_back(machines: Lab) -> None:
    remote = RemoteHost(machines.machine(2))
    remote.ship(None, "silent")
    remote.keep("silent-h2", silence_s=6.0)
    try:
        path = Path(remote.put("load/1", b"x"))
        remote.keeping.start(Program("sleeper", ["sleep", "1000"]), path.parent)
        device = remote.keeping.ask("device", address=machines.address(2))["device"]
        remote.keeping.ask("shape", device=device, lines=[f"qdisc replace dev {device} root tbf {TBF}"])
        assert "tbf" in machines.queues(2)
        with pytest.raises(MachineError, match=r"h2: eth0 has a tbf of somebody else's"):
            remote.keeping.ask("shape", device=device, lines=[])
        machines.cut(2)
        until(lambda: not ours(machines, 2), "the keeper's end", 90)
        assert "tbf" not in machines.queues(2) and not left(machines)
    finally:
        machines.cut(2, on=False)
        remote.connection.close()


def test_a_keeper_that_breaks_says_so_and_leaves_nothing(make: Make, machines: Lab) -> None:
    site = make()
    agent = site.start("n2", Program("sleeper", ["sleep", "1000"]))
    site.remote("n2").keeping.tell("dance")
    assert agent.process.wait(60) == keeping.LOST
    assert "host h2 is lost: its keeper broke: AttributeError" in (site.folder / "logs" / "sleeper.log").read_text()
    until(lambda: not ours(machines, 2) and not left_of_run(machines, 2), "its end")


def left_of_run(lab: Lab, number: int) -> set[str]:
    """The folders of runs on a machine's disk."""
    return {name for name in lab.files(number) if name.startswith("run-")}
