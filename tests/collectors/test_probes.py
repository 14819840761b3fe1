"""Samples of real processes and sockets; the arithmetic of shares on times that are known."""

import itertools
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from collectors import procfs
from collectors.probes import HARNESS, MACHINE, Probes, clock_offset
from collectors.procfs import TICK_NS, CoreTimes
from core.errors import MachineError
from tests.live import needs

STAT = """cpu  10 0 20 30 5 0 1 2 0 0
cpu0 4 0 10 20 5 0 1 2 0 0
cpu1 6 0 10 10
ctxt 77
"""

DEV = """Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:    0    0    0    0    0     0     0         0       0       0    0    0    0     0       0          0
h1-eth0: 1000  10    0    2    0     0     0         0     500       5    0    1    0     0       0          0
"""

SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs CurrEstab
Tcp: 1 -1 100 200 3 4
Udp: InDatagrams NoPorts InErrors OutDatagrams
Udp: 7 0 2 9
UdpLite: InDatagrams NoPorts InErrors OutDatagrams
UdpLite: 70 0 20 90
TcpExt: ListenDrops TCPRcvQDrop
TcpExt: 5 6
"""


def test_times_of_cores_with_and_without_steal():
    assert list(procfs.parse_core_times(STAT)) == [
        CoreTimes(42 * TICK_NS, 25 * TICK_NS, 2 * TICK_NS),
        CoreTimes(26 * TICK_NS, 10 * TICK_NS, 0),
    ]


def test_interfaces_that_carried_something():
    assert procfs.parse_interfaces(DEV) == {
        "interface_received_bytes": 1000.0,
        "interface_received_count": 10.0,
        "interface_sent_bytes": 500.0,
        "interface_sent_count": 5.0,
        "interface_dropped_count": 3.0,
    }


def test_counters_of_protocols():
    assert procfs.parse_protocols(SNMP) == {
        "tcp_received_count": 100.0,
        "tcp_sent_count": 200.0,
        "tcp_retransmitted_count": 3.0,
        "tcp_established_count": 4.0,
        "udp_received_count": 7.0,
        "udp_sent_count": 9.0,
        "udp_dropped_count": 2.0,
        "tcp_listen_dropped_count": 5.0,
        "tcp_dropped_count": 6.0,
    }
    assert procfs.parse_protocols("Udp: InErrors\n") == {} and procfs.parse_protocols("") == {}


def test_what_is_not_there_gives_nothing():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert procfs.process_counters(gone.pid) == {} and procfs.network_counters(gone.pid) == {}
    assert procfs.namespace_of(gone.pid) is None and procfs.read("/nowhere") == ""


def seen(times: list[list[CoreTimes]], every_ns: int = 1000) -> Probes:
    """Probes that saw these times of the cores, at 0, 1000, 2000 … ns of a clock whose offset is 0."""
    probes = Probes()
    probes._cores = [(number * every_ns, cores) for number, cores in enumerate(times)]
    probes._clock = [(0, 0)]
    return probes


def test_shares_of_busy_cores_and_of_steal():
    both_idle = CoreTimes(0, 0, 0), CoreTimes(0, 0, 0)
    one_busy = CoreTimes(1000, 0, 0), CoreTimes(1000, 1000, 0)
    both_busy = CoreTimes(2000, 0, 500), CoreTimes(2000, 1040, 0)  # the second for 96 %
    probes = seen([list(both_idle), list(one_busy), list(both_busy)])
    assert probes.busy_share() == 0.5 and probes.busy_share(1000) == 1.0 and probes.busy_share(0, 900) == 0.0
    assert probes.steal_share() == 0.125 and probes.steal_share(1000, 2000) == 0.25
    assert probes.busy_share(5000) is None and seen([]).busy_share() is None and seen([]).steal_share() is None


def test_a_step_of_the_clock_is_seen_to_either_side():
    probes = Probes()
    assert probes.clock_step_ns == 0
    probes._clock = [(0, 50), (1, 60), (2, -1000), (3, 55)]
    assert probes.clock_step_ns == 1050
    first, second = clock_offset(), clock_offset()
    assert abs(second[1] - first[1]) < 50_000_000, "nobody sets the clock"


BURN = "import time\nuntil = time.monotonic() + 60\nwhile time.monotonic() < until: pass"


@needs("linux")
@pytest.mark.slow
def test_a_busy_machine_is_seen_and_what_its_processes_took():
    cores = sorted(os.sched_getaffinity(0))
    hogs = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in cores]
    try:
        for hog, core in zip(hogs, cores, strict=True):
            os.sched_setaffinity(hog.pid, {core})
        time.sleep(0.2)
        from_ns = time.time_ns()
        with Probes(lambda: [(f"hog-{number}", hog.pid) for number, hog in enumerate(hogs)]) as probes:
            time.sleep(5)
        until_ns = time.time_ns()
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    if len(cores) == os.cpu_count():
        share = probes.busy_share(from_ns, until_ns)
        assert share is not None and share > 0.5
    rows = probes.samples(from_ns)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows) and rows[0][0] >= 0
    values = [row[3] for row in rows if row[1:3] == ("hog-0", "cpu_ns")]
    assert len(values) >= 3 and values[-1] - values[0] > 100_000_000, "at the start, every second, at the end"
    metrics = {row[1:3] for row in rows}
    names = ("rss_bytes", "thread_count", "voluntary_switch_count", "involuntary_switch_count")
    assert {("hog-0", name) for name in names} <= metrics
    assert {(MACHINE, "memory_available_bytes"), (MACHINE, "clock_offset_ns"), (HARNESS, "rss_bytes")} <= metrics
    (*_, probing_ns) = [row[3] for row in rows if row[1:3] == (HARNESS, "probing_ns")]
    assert 0 < probing_ns < 0.2 * (until_ns - from_ns) and probes.clock_step_ns < 1_000_000_000


@needs("linux")
def test_datagrams_that_find_no_room_are_counted():
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver.bind(("127.0.0.1", 0))
        with Probes() as probes:
            for _ in range(200):
                sender.sendto(b"x" * 1000, receiver.getsockname())
    rows = [row for row in probes.samples(0) if row[1:3] == (MACHINE, "udp_dropped_count")]
    assert rows[-1][3] - rows[0][3] >= 150


@needs("linux")
def test_a_mark_reads_processes_once_more_at_an_instant_that_it_tells(monkeypatch):
    monkeypatch.setattr("collectors.probes.CORES_EVERY_S", 60.0)  # no look between the first and the last
    with Probes(lambda: [("own", os.getpid())]) as probes:
        at_ns = probes.mark()
    rows = [(row[0], row[3]) for row in probes.samples(0) if row[1:3] == ("own", "cpu_ns")]
    assert [at for at, _ in rows].count(at_ns) == 1 and rows[0][0] < at_ns < rows[-1][0]
    assert [value for _, value in rows] == sorted(value for _, value in rows)
    cores = [row[0] for row in probes.samples(0) if row[1:3] == (MACHINE, "core_count")]
    own = len(rows) - 1
    assert len(cores) == len(probes._cores) == own >= 2, "shares of cores are of spans between looks of their own"
    assert at_ns not in cores


def test_a_counter_that_two_threads_read_never_falls(monkeypatch):
    probes, reads = Probes(), itertools.count()
    reading, go_on = threading.Event(), threading.Event()

    def counters() -> dict[str, float]:
        if threading.current_thread() is watching:
            reading.set()
            go_on.wait(10)
        return {"switch_count": float(next(reads))}

    monkeypatch.setattr(procfs, "machine_counters", counters)
    watching, marking = (threading.Thread(target=read) for read in (probes._sample_all, probes.mark))
    watching.start()
    assert reading.wait(10)
    marking.start()
    marking.join(0.2)  # it has read already, or waits
    go_on.set()
    watching.join(10)
    marking.join(10)
    values = [value for *_, metric, value in probes.samples(0) if metric == "switch_count"]
    assert values == sorted(values) and len(values) == 2


@needs("namespaces", "ip")
def test_a_namespace_has_counters_of_its_own():
    script = "ip link set lo up && echo up && cat"
    process = subprocess.Popen(["unshare", "-n", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == b"up\n"
        nodes = {"inner": process.pid, "outer": os.getpid()}
        with Probes(namespaces=lambda: nodes, more=lambda: [("delayer", "packet_count", 3.0)]) as probes:
            pass
        rows = probes.samples(0)
        assert {row[1] for row in rows} == {MACHINE, HARNESS, "inner", "delayer"}, "outer is the machine's own"
        (listen, *_) = [row[3] for row in rows if row[1:3] == ("inner", "tcp_listen_dropped_count")]
        assert listen == 0
    finally:
        process.stdin.close()
        process.wait(60)


def test_who_watches_no_more_says_so_and_is_not_heard_where_something_else_went_wrong() -> None:
    def usage() -> list[tuple[str, str, float]]:
        if threading.current_thread().name == "probes":
            raise OSError("gone")
        return []

    probes = Probes(usage=usage)
    probes.start()
    probes._thread.join(10)
    with pytest.raises(MachineError, match="not watched to the end of the run: OSError: gone"):
        probes.stop()
    probes.stop()

    def run() -> None:
        with Probes(usage=usage) as watched:
            watched._thread.join(10)
            raise ValueError("the run")

    with pytest.raises(ValueError, match="the run"):
        run()


def test_cores_that_cannot_be_read_are_not_idle() -> None:
    probes = Probes()
    probes._cores = [(number * 10**9, []) for number in range(3)]
    assert probes.busy_share() is None
