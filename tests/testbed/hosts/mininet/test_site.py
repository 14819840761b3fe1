"""Networks for real: as root, in namespaces."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.errors import LinkError, MachineError, SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.faults import Crash, Handover, Heal, LinkDelay, LinkDuplication, LinkLoss, LinkReordering, Partition
from testbed.hosts.capabilities import find_capability
from testbed.hosts.cleaning import marked_processes
from testbed.hosts.mininet.namespaces import run_in
from testbed.hosts.mininet.site import NETEM, USER_SPACE, MininetSite
from testbed.hosts.site import Program, Site, python_agent
from testbed.hosts.state import read_state, start_time
from testbed.nodes.retransmission import retry_soon
from testbed.topologies.topology import Host, Link, Topology, load_topology
from testbed.trust import link_check
from testbed.trust.link_check import check_links
from tests.live import needs
from tests.testbed.brokers.with_clients import until
from tests.testbed.hosts.mininet.ends import PORT, one_way_ns, pid_of, pump, received_numbers, send_numbers, tcp, udp

pytestmark = needs("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
Make = Callable[..., MininetSite]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Builds sites, and takes them down."""
    with ExitStack() as stack:

        def build(topology: Topology | str, **options: Any) -> MininetSite:
            made = topology if isinstance(topology, Topology) else load_topology(topology, options)
            state = tmp_path / "state"
            state.mkdir(exist_ok=True)
            return stack.enter_context(MininetSite(made, tmp_path / made.name, state, delays=USER_SPACE))

        yield build


def test_every_pair_has_its_delay(make: Make) -> None:
    site: Site = make("wan", nodes=4)
    measures = {(found.source, found.target): found for found in site.verify()}
    assert ("delayer", "packet_count", 0.0) in site.counters()  # counts begin with the load
    assert len(measures) == 12
    for (a, b), found in measures.items():
        wanted_ns = site.topology.path(a, b).one_way_delay_ns
        assert found.requested_delay_ns == wanted_ns and found.lost_count == 0
        assert wanted_ns - MILLISECOND_NS < found.measured_p05_ns < wanted_ns + 5 * MILLISECOND_NS
    assert isinstance(site, MininetSite)
    check_links(site)
    counts = {metric: value for host, metric, value in site.counters() if host == "delayer"}
    assert counts["packet_count"] >= 12 * 200 and counts["error_count"] == counts["unstamped_count"] == 0
    late_ns, packets = zip(*site.delays_late, strict=True)
    assert 0 < min(late_ns) <= counts["lateness_max_ns"] and 12 * 200 <= sum(packets) <= counts["packet_count"]


AS_OLD_LINUX = """
from testbed.nodes import retransmission
retransmission._TCP_RTO_MAX_MS = 9_999  # as before 6.15: there is no such option
from testbed.trust.link_probe import main
main()
"""


def test_hosts_whose_kernel_lets_streams_wait_for_long_are_said_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make("full-mesh", nodes=2, delay="10ms")
    before = list(site.notes)
    monkeypatch.setattr(link_check, "python_agent", lambda _, *words: [sys.executable, "-c", AS_OLD_LINUX, *words])
    check_links(site)
    check_links(site)
    (note,) = [note for note in site.notes if note not in before]
    assert "kernel of n1, n2 lets" in note and "up to 120 s" in note


def test_no_interface_says_anything_by_itself(make: Make) -> None:
    """With an address for IPv6 it looks for routers whenever its carrier comes, and that counts as the load's bytes."""
    site = make("full-mesh", nodes=2, delay="10ms")
    assert site.network
    for node in site.network.nodes.values():
        for device in _interfaces(node.pid) - {"lo"}:
            for word in ("down", "up"):
                run_in(node.pid, "ip", "link", "set", "dev", device, word)
    time.sleep(1)  # the kernel may tell of a carrier a second later
    for node in site.network.nodes.values():
        lines = Path(f"/proc/{node.pid}/net/if_inet6").read_text().splitlines()
        assert len(_interfaces(node.pid)) > 1 and {line.split()[-1] for line in lines} <= {"lo"}


def _interfaces(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


def test_tcp_moves_bulk_over_20_ms(make: Make) -> None:
    site = make("full-mesh", nodes=2, delay="20ms")
    with tcp(site, "n1", "n2") as (mine, theirs):
        assert pump(mine, theirs, 40_000_000) < 60  # a held sender would take minutes


def test_jitter_spreads_and_tcp_keeps_its_order(make: Make) -> None:
    site = make("full-mesh", nodes=2, delay="10ms", jitter="5ms")
    (there, _) = check_links(site)
    assert there.measured_p05_ns < 8 * MILLISECOND_NS and there.measured_p95_ns > 12 * MILLISECOND_NS
    with udp(site, "n1", "n2") as (sender, receiver):
        send_numbers(sender, site.address("n2"), 300)
        numbers = received_numbers(receiver, 300)
    assert numbers != sorted(numbers) and sorted(numbers) == list(range(300))
    with tcp(site, "n1", "n2") as (mine, theirs):
        pump(mine, theirs, 2_000_000)
        assert _retransmitted(site, "n1") < 5


def _retransmitted(site: MininetSite, host: str) -> int:
    words = [line.split() for line in Path(f"/proc/{pid_of(site, host)}/net/snmp").read_text().splitlines()]
    names, values = (row for row in words if row[0] == "Tcp:")
    return int(values[names.index("RetransSegs")])


@pytest.mark.slow
def test_loss_doubling_and_holding_back(make: Make) -> None:
    site = make("full-mesh", nodes=3, delay="3ms")
    site.apply(LinkLoss(0, "n1", "n2", 0.3))
    site.apply(LinkDuplication(0, "n2", "n3", 0.4))
    site.apply(LinkReordering(0, "n1", "n3", 0.3, 30 * MILLISECOND_NS))
    with udp(site, "n1", "n2", "n3") as (first, second, third):
        send_numbers(first, site.address("n2"), 400)
        assert 200 < len(received_numbers(second, 201)) < 350
        send_numbers(second, site.address("n3"), 400)
        numbers = received_numbers(third, 481, quiet_s=2.5)
        assert 480 < len(numbers) < 640 and set(numbers) == set(range(400))
        whole = bytes(range(256)) * 12
        for _ in range(30):
            second.sendto(whole, (site.address("n3"), PORT))  # fragments
            assert third.recv(4096) == whole
        received_numbers(third, quiet_s=2.5)  # copies
        send_numbers(first, site.address("n3"), 400)
        numbers = received_numbers(third, 400)
        assert sorted(numbers) == list(range(400))
        assert sum(after < before for before, after in pairwise(numbers)) > 50
        site.apply(LinkDuplication(0, "n1", "n3", 1.0))
        gaps_s = []
        for _ in range(40):
            send_numbers(first, site.address("n3"), 1)
            came_s = [(third.recv(64), time.monotonic())[1] for _ in range(2)]
            gaps_s.append(came_s[1] - came_s[0])
        assert min(gaps_s) < 0.015 < sorted(gaps_s)[-5], "a copy is held back, or not, for itself"
        site.apply(LinkDuplication(0, "n2", "n3", 0.0))
        site.apply(LinkLoss(0, "n1", "n2", 0.0))
        send_numbers(second, site.address("n3"), 100)
        assert received_numbers(third, 100) == list(range(100))
        send_numbers(first, site.address("n2"), 100)
        assert received_numbers(second, 100) == list(range(100))


@pytest.mark.slow
def test_a_partition_cuts_and_heals_and_what_is_under_way_arrives(make: Make) -> None:
    site = make("full-mesh", nodes=3, delay="150ms")
    with udp(site, "n1", "n2", "n3") as (first, second, third), tcp(site, "n1", "n3") as (mine, theirs):
        taken = _delayed_count(site)
        first.sendto((7).to_bytes(4, "big"), (site.address("n3"), 7001))
        until(lambda: _delayed_count(site) > taken, "its being under way")
        site.apply(Partition(0, ("n3",)))
        assert received_numbers(third, 1) == [7]
        send_numbers(first, site.address("n3"), 20)
        mine.sendall(b"waits")
        send_numbers(first, site.address("n2"), 20)
        assert received_numbers(third) == [] and received_numbers(second, 20) == list(range(20))
        site.apply(Heal(0, ("n3",)))
        assert theirs.recv(10) == b"waits"  # TCP sends it again
        send_numbers(first, site.address("n3"), 20)
        assert received_numbers(third, 20) == list(range(20))


def _delayed_count(site: MininetSite) -> float:
    (count,) = [value for host, metric, value in site.counters() if (host, metric) == ("delayer", "packet_count")]
    return count


@pytest.mark.long
def test_a_stream_outlives_a_partition_that_lasts(make: Make) -> None:
    site = make("full-mesh", nodes=2, delay="10ms")
    with tcp(site, "n1", "n2") as (mine, theirs):
        if not retry_soon(mine):
            pytest.skip("this kernel has no TCP_RTO_MAX_MS (Linux 6.15)")
        site.apply(Partition(0, ("n2",)))
        mine.sendall(b"waits")
        time.sleep(18)  # with tries every second Linux ends a connection after 15 s, unless it is told otherwise
        site.apply(Heal(0, ("n2",)))
        assert theirs.recv(10) == b"waits"


def test_short_paths_are_left_alone_until_a_fault_needs_them(make: Make) -> None:
    site = make("srtm-lan")
    assert not _rules(site, "publishers1")
    with udp(site, "control", "publishers1") as (sender, receiver):
        site.apply(Partition(0, ("control", "brokers1")))
        send_numbers(sender, site.address("publishers1"), 10)
        assert received_numbers(receiver) == []
        site.apply(Heal(0))
        site.apply(LinkLoss(0, "publishers1", "lan", 1.0))
        assert _rules(site, "publishers1") == "mangle"
        send_numbers(sender, site.address("publishers1"), 10)
        assert received_numbers(receiver) == []
        site.apply(LinkLoss(0, "publishers1", "lan", 0.0))
        send_numbers(sender, site.address("publishers1"), 10)
        assert received_numbers(receiver, 10) == list(range(10))
    with pytest.raises(SpecError, match="nothing that a network does"):
        site.apply(Crash(0, "control"))
    with pytest.raises(SpecError, match="no link"):
        site.apply(LinkLoss(0, "control", "publishers1", 0.5))


def _rules(site: MininetSite, host: str) -> str:
    words = ["nsenter", "-t", str(pid_of(site, host)), "-n", "cat", "/proc/net/ip_tables_names"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def test_delays_change_in_a_run(make: Make) -> None:
    site = make("full-mesh", nodes=3, delay="5ms")
    assert 4 * MILLISECOND_NS < one_way_ns(site, "n1", "n2") < 25 * MILLISECOND_NS
    site.set_delay("n1", "n2", 60 * MILLISECOND_NS)  # by way of n3 it is shorter now
    assert 9 * MILLISECOND_NS < one_way_ns(site, "n1", "n2") < 30 * MILLISECOND_NS
    site.set_delay("*", "*", 40 * MILLISECOND_NS)
    assert 39 * MILLISECOND_NS < one_way_ns(site, "n2", "n1") < 60 * MILLISECOND_NS
    assert site.topology.path("n1", "n2").one_way_delay_ns == 40 * MILLISECOND_NS
    site.apply(LinkDelay(0, "n1", "n2", 100 * MILLISECOND_NS))
    assert one_way_ns(site, "n2", "n1") > 139 * MILLISECOND_NS
    site.apply(LinkDelay(0, "*", "*", 0))
    assert 39 * MILLISECOND_NS < one_way_ns(site, "n2", "n1") < 60 * MILLISECOND_NS
    with pytest.raises(SpecError, match="no link"):
        site.set_delay("n1", "n9", 1)


MOVES: dict[str, tuple[str, dict[str, Any], str]] = {
    "delays of paths": ("tree", {"delay": "10ms"}, "s3"),
    "the link itself": ("tree", {"delay": "10ms", "rate_mbps": 100}, "s3"),
    "one bridge": ("wan", {"nodes": 4, "cities": "London, Paris, Tokyo", "delay_factor": 0.3}, "tokyo"),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_host_moves_to_another_access_point_and_its_connections_live_on(make: Make, case: str) -> None:
    name, options, point = MOVES[case]
    site = make(name, **options)
    before_ns = site.topology.path("n1", "n3").one_way_delay_ns
    with tcp(site, "n1", "n3") as (mine, theirs):
        assert before_ns - MILLISECOND_NS < one_way_ns(site, "n1", "n3") < before_ns + 20 * MILLISECOND_NS
        site.apply(Handover(0, "n1", point))
        near_ns = site.topology.path("n1", "n3").one_way_delay_ns
        assert near_ns < before_ns - 10 * MILLISECOND_NS
        assert near_ns - MILLISECOND_NS < one_way_ns(site, "n1", "n3") < near_ns + 8 * MILLISECOND_NS
        mine.sendall(b"still here")
        assert theirs.recv(20) == b"still here"
        site.apply(Handover(0, "n1", point))  # nothing happens
    if name == "tree":
        assert (len(_ports(site, "s2")), len(_ports(site, "s3"))) == ((2, 4) if "rate_mbps" in options else (3, 3))
    with pytest.raises(SpecError, match="access point"):
        site.apply(Handover(0, "n1", "mars"))
    with pytest.raises(SpecError, match="only a host with one link"):
        site.apply(Handover(0, point, "n1"))


def _ports(site: MininetSite, switch: str) -> set[str]:
    assert site.network is not None
    node = site.network.nodes[switch]
    return {path.name for path in Path(f"/proc/{node.pid}/root/sys/class/net/{node.name}/brif").iterdir()}


@pytest.mark.slow
def test_a_narrow_link_is_shared_and_holds_its_rate(make: Make) -> None:
    site = make("dumbbell", nodes=2, delay="2ms", rate_mbps=40)
    with tcp(site, "n1", "n2") as (mine, theirs):
        assert pump(mine, theirs, 5_000_000) > 0.8  # 1 s, less the first burst
    hosts = (Host("a"), Host("b"), Host("c"))
    forwarding = Topology("forwarding", hosts, (Link("a", "b", 10**6, rate_bps=40 * 10**6), Link("b", "c", 10**6)))
    site = make(forwarding)  # one bridge: by path
    with tcp(site, "a", "c") as (mine, theirs):
        assert pump(mine, theirs, 5_000_000) > 0.8
    with tcp(site, "b", "c") as (mine, theirs):
        # Nobody narrows it: so it is, unless this machine has something else to do each time.
        assert any(pump(mine, theirs, 5_000_000) < 0.8 for _ in range(10))
    site.set_delay("b", "c", 3 * MILLISECOND_NS)
    with tcp(site, "a", "c") as (mine, theirs):
        assert pump(mine, theirs, 5_000_000) > 0.8


@pytest.mark.slow
def test_a_delayer_that_stopped_fails_the_check(make: Make) -> None:
    site = make("full-mesh", nodes=3, delay="5ms")
    assert site.delayer is not None
    site.delayer.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(LinkError, match=r"n1 to n2: .*lost"):
            site.verify()
    finally:
        site.delayer.process.send_signal(signal.SIGCONT)
    site.delayer.process.kill()
    with pytest.raises(LinkError, match="lost"):
        site.verify()
    assert ("delayer", "alive_count", 0.0) in site.counters()
    with pytest.raises(MachineError, match="delayer"):
        site.apply(LinkLoss(0, "*", "*", 0.1))


@pytest.mark.slow
def test_a_delayer_that_does_not_answer_is_not_alive(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make("star", nodes=1, delay="5ms")
    assert site.delayer is not None
    assert ("delayer", "alive_count", 1.0) in site.counters()
    site.delayer.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr("testbed.hosts.mininet.site.STATS_TIMEOUT_S", 0.2)
    assert [row for row in site.counters() if row[0] == "delayer"] == [("delayer", "alive_count", 0.0)]


def test_agents_run_on_their_hosts_and_are_reached_on_their_loopback(make: Make) -> None:
    site = make("star", nodes=2)
    agent = site.start(
        "n1", Program("echo", python_agent("testbed.trust.link_probe", "127.0.0.1"), cores=[0], fifo_priority=1)
    )
    assert agent.ready()["port"]
    place = Path(f"/proc/{agent.pid}/ns/net").readlink()
    assert place == Path(f"/proc/{pid_of(site, 'n1')}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    script = (
        "import socket\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        'print(\'{"ok": "ready", "port": %d}\' % s.getsockname()[1], flush=True)\n'
        "s.accept()[0].sendall(b'hello')\n"
    )
    port = site.start("n2", Program("server", [sys.executable, "-c", script])).ready()["port"]
    with pytest.raises(MachineError, match="nothing answers"):
        site.connect("n1", port)
    with site.connect("n2", port) as connection:
        assert connection.recv(10) == b"hello"
    assert {name for _, name, _ in site.counters()} >= {"interface_sent_bytes", "queue_drop_count"}


@pytest.mark.slow
def test_twenty_hosts_all_pairs(make: Make) -> None:
    site = make("full-mesh", nodes=20, delay="20ms")
    assert 0 < site.links_took_ns < 120 * SECOND_NS
    measures = check_links(site)
    assert len(measures) == 380
    assert all(found.lost_count == 0 and found.measured_p05_ns > 19 * MILLISECOND_NS for found in measures)
    assert sum(value for _, metric, value in site.counters() if metric == "queue_drop_count") == 0


def test_the_state_file_lists_every_process_until_the_end(tmp_path: Path) -> None:
    site = MininetSite(load_topology("dumbbell", {"nodes": 3, "rate_mbps": 10_000}), tmp_path / "run", tmp_path)
    assert any("10 Gb/s" in note for note in site.notes)
    left = read_state(site.state.path)
    listed = {thing["pid"] for thing in left.things.values()}
    assert listed == {thing["pid"] for thing in marked_processes(site.state.token)} and len(listed) >= 5
    site.close()
    assert not site.state.path.exists() and not any(Path(f"/proc/{pid}").exists() for pid in listed)
    site.close()  # a second time does nothing
    with pytest.raises(MachineError, match="network is down"):
        site.address("n1")


@pytest.mark.slow
def test_netem_where_there_is_netem(tmp_path: Path) -> None:
    topology = load_topology("full-mesh", {"nodes": 2, "delay": "20ms"})
    if find_capability("netem") is None:
        with pytest.raises(MachineError, match="no netem"):
            MininetSite(topology, tmp_path / "run", tmp_path, delays=NETEM)
        assert not list(tmp_path.glob("run-*"))
    else:
        with MininetSite(topology, tmp_path / "run", tmp_path, delays=NETEM) as site:
            assert site.delayer is None
            assert all(found.measured_p05_ns > 19 * MILLISECOND_NS for found in check_links(site))
    with pytest.raises(SpecError, match="delays 'magic'"):
        MininetSite(topology, tmp_path / "run", tmp_path, delays="magic")


OWNER = """
import sys, time
from pathlib import Path
from testbed.hosts.site import python_agent
from testbed.hosts.mininet.site import MininetSite
from testbed.hosts.site import Program
from testbed.topologies.topology import load_topology
site = MininetSite(load_topology("tree", {"delay": "3ms"}), Path(sys.argv[1]), Path(sys.argv[2]), delays="user-space")
site.start("n1", Program("probe", python_agent("testbed.trust.link_probe", site.address("n1")))).ready()
places = {str(Path(f"/proc/{node.pid}/ns/net").readlink()) for node in site.network.nodes.values()}
print(site.state.token, *places, flush=True)
time.sleep(60)
"""


def test_nothing_is_left_of_a_killed_owner(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    words = [sys.executable, "-c", OWNER, str(tmp_path / "run"), str(tmp_path / "state")]
    links = _root_links()
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    token, *places = owner.stdout.readline().split()
    assert len(places) == 7 and len(marked_processes(token)) >= 9  # a shell a node, the delayer, the agent
    owner.kill()
    killed = round(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    owner.wait()
    owner.stdout.close()
    until_s = time.monotonic() + 60
    while (marked_processes(token) or _in_use(places, killed)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not marked_processes(token)
    assert not _in_use(places, killed)
    assert _root_links() - links == set()


def _in_use(places: list[str], until: int) -> bool:
    """By processes that began before ``until`` (ticks): a namespace's number is given out again once it is gone."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with suppress(OSError):
            place, began = str(path.readlink()), start_time(int(path.parts[2]))
            if began is not None and began <= until:
                found.add(place)
    return bool(found & set(places))


def _root_links() -> set[str]:
    """Interfaces here with names as Mininet gives them."""
    return {path.name for path in Path("/sys/class/net").glob("[hs][0-9]*")}
