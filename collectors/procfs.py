"""What Linux tells of cores, processes and network namespaces in /proc, as counters since their start.

Everything is cumulative and raw: rates and shares are made from them later.  A file that is not there gives nothing.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

TICK_NS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

Counters = dict[str, float]  # metric -> value; the unit is the metric's last word


def read(path: str) -> str:
    """A small file of /proc, whole; empty where it is not there (a process has ended) or not ours to read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(handle, 1 << 16):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
    except OSError:  # it ended in between
        return ""
    finally:
        os.close(handle)


@dataclass(frozen=True)
class CoreTimes:
    """Of one core since the machine's start, in ns."""

    total_ns: int
    idle_ns: int
    steal_ns: int  # wanted to run, but another guest of the same machine ran


def core_times() -> list[CoreTimes]:
    """All cores, in order."""
    return list(parse_core_times(read("/proc/stat")))


def parse_core_times(text: str) -> Iterator[CoreTimes]:
    """The lines ``cpu0 user nice system idle iowait irq softirq steal guest guest_nice`` (guests count as user)."""
    for line in text.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(value) for value in values[:8]] + [0] * (8 - len(values))
            yield CoreTimes(sum(ticks) * TICK_NS, (ticks[3] + ticks[4]) * TICK_NS, ticks[7] * TICK_NS)


def machine_counters() -> Counters:
    """Memory that can still be had, and context switches of all processes together."""
    counters = {}
    for line in read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            counters["memory_available_bytes"] = 1024.0 * int(line.split()[1])
    for line in read("/proc/stat").splitlines():
        if line.startswith("ctxt "):
            counters["switch_count"] = float(line.split()[1])
    return counters


def process_counters(pid: int) -> Counters:
    """Processor time, memory and threads of a process, and its context switches: of the threads that live."""
    text = read(f"/proc/{pid}/stat")
    if not text:
        return {}
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
    counters = {
        "cpu_ns": float((int(fields[11]) + int(fields[12])) * TICK_NS),
        "thread_count": float(fields[17]),
        "rss_bytes": float(int(fields[21]) * PAGE_BYTES),
    }
    return counters | _switches(pid)


def is_stopped(pid: int) -> bool:
    """Whether a process stands still, by a signal (T) or under a debugger (t)."""
    text = read(f"/proc/{pid}/stat")
    return text[text.rfind(")") + 2 : text.rfind(")") + 3] in ("T", "t")


def anonymous_bytes(pid: int) -> float:
    """What of ``rss_bytes`` is no file's: heap and stacks, without the program's own pages, which processes share."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith("RssAnon:"):
            return 1024.0 * int(line.split()[1])
    return 0.0


def _switches(pid: int) -> Counters:
    """``/proc/PID/status`` alone counts those of the main thread."""
    voluntary = involuntary = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    for thread in threads:
        for line in read(f"/proc/{pid}/task/{thread}/status").splitlines()[-4:]:
            if line.startswith("voluntary_ctxt_switches"):
                voluntary += int(line.split()[1])
            elif line.startswith("nonvoluntary_ctxt_switches"):
                involuntary += int(line.split()[1])
    return {"voluntary_switch_count": float(voluntary), "involuntary_switch_count": float(involuntary)}


def namespace_of(pid: int) -> int | None:
    """The number of a process's network namespace."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


_SNMP = {
    ("Udp", "InDatagrams"): "udp_received_count",
    ("Udp", "OutDatagrams"): "udp_sent_count",
    ("Udp", "InErrors"): "udp_dropped_count",  # above all for want of room in a socket's buffer
    ("Tcp", "InSegs"): "tcp_received_count",
    ("Tcp", "OutSegs"): "tcp_sent_count",
    ("Tcp", "RetransSegs"): "tcp_retransmitted_count",
    ("Tcp", "CurrEstab"): "tcp_established_count",
    ("TcpExt", "ListenDrops"): "tcp_listen_dropped_count",
    ("TcpExt", "TCPRcvQDrop"): "tcp_dropped_count",
}


_PROTOCOLS = tuple({f"{protocol}:" for protocol, _ in _SNMP})


def network_counters(pid: int, extended: bool = False) -> Counters:
    """Interfaces and sockets of the network namespace in which a process lives.

    ``extended``: drops of TCP, too, for which the kernel adds up several hundred counters.
    """
    text = read(f"/proc/{pid}/net/snmp") + (read(f"/proc/{pid}/net/netstat") if extended else "")
    return parse_interfaces(read(f"/proc/{pid}/net/dev")) | parse_protocols(text)


def parse_interfaces(text: str) -> Counters:
    """The lines ``eth0: bytes packets errs drop … bytes packets errs drop …`` of those that carried something.

    Summed over all interfaces but the loopback, which is kept apart.
    """
    counters: Counters = {}
    for line in text.splitlines():
        name, colon, rest = line.strip().partition(":")
        values = rest.split()
        if colon and len(values) >= 12 and (values[1] != "0" or values[9] != "0"):
            kind = "loopback" if name == "lo" else "interface"
            counted = {
                "received_bytes": int(values[0]),
                "received_count": int(values[1]),
                "sent_bytes": int(values[8]),
                "sent_count": int(values[9]),
                "dropped_count": int(values[3]) + int(values[11]),
            }
            for what, count in counted.items():
                counters[f"{kind}_{what}"] = counters.get(f"{kind}_{what}", 0.0) + count
    return counters


def parse_protocols(text: str) -> Counters:
    """Pairs of lines, ``Udp: names …`` and ``Udp: values …``."""
    counters = {}
    before: list[str] = []
    for line in text.splitlines():
        if line.startswith(_PROTOCOLS):
            words = line.split()
            if before and before[0] == words[0]:
                values = dict(zip(before, words, strict=False))
                for (protocol, name), metric in _SNMP.items():
                    if f"{protocol}:" == words[0] and name in values:
                        counters[metric] = float(values[name])
            before = words
    return counters
