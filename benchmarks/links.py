"""Delays between hosts in namespaces: how exact, how many packets, how soon set up.  Needs root.

``python -m benchmarks.links`` prints them.  The row of 0 ms is the peer: the same hosts and programs without a delay.
"""

import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from core.errors import HarnessError
from core.units import MILLISECOND_NS
from testbed.hosts.agent import Agent, serve
from testbed.hosts.mininet.site import MininetSite, probe
from testbed.hosts.site import Program, python_agent
from testbed.topologies.topology import load_topology

DELAYS_MS = (0, 1, 5, 20, 40)
ECHOES, ECHO_RPS = 2_000, 1_000
PACKETS_RPS, LOAD_S, LOAD_DELAY_MS = 30_000, 5.0, 20
HOSTS = 20
WANTED_ERROR_MS, WANTED_SET_UP_S = 0.3, 2.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
BODY = bytes(100 - 16)


def report() -> None:
    """Print all, or why not."""
    print("Links between namespaces (testbed mininet)")
    missing = [finding for finding in probe() if finding.needed and not finding.found]
    if missing:
        print(f"  not measured: no {missing[0].what} ({missing[0].detail})")
        return
    folder = Path(tempfile.mkdtemp(prefix="ratebed-links-"))
    try:
        _report_errors(folder)
        _report_load(folder)
        _report_set_up(folder)
    except HarnessError as error:
        print(f"  stopped: {error}")
    finally:
        shutil.rmtree(folder)


def _report_errors(folder: Path) -> None:
    """Round trips of 100 B at 1,000 a second, less twice the delay that was asked for."""
    with MininetSite(load_topology("full-mesh", {"nodes": 2, "delay": "0ms"}), folder / "errors") as site:
        print(f"  delays by {site.delays}; round trip less request, {ECHOES} UDP messages at {ECHO_RPS}/s:")
        agents = [
            site.start(f"n{i}", Program(f"probe{i}", python_agent("testbed.trust.link_probe", site.address(f"n{i}"))))
            for i in (1, 2)
        ]
        ports = [int(agent.ready()["port"]) for agent in agents]
        for number, delay_ms in enumerate(DELAYS_MS):
            site.set_delay("n1", "n2", delay_ms * MILLISECOND_NS)
            target = [site.address("n2"), ports[1]]
            trips = agents[0].ask(
                "probe", targets=[target], count=ECHOES, span_s=ECHOES / ECHO_RPS, wait_s=1.0, number=number
            )["results"][0]
            both = np.add(trips["there_ns"], trips["back_ns"]) - 2 * delay_ms * MILLISECOND_NS
            p50, p99 = np.percentile(both, (50, 99)) / MILLISECOND_NS
            wanted = f" (wanted: at most {WANTED_ERROR_MS})" if delay_ms else " (the peer: no delay)"
            print(f"    {delay_ms:3d} ms  p50 {p50:7.3f} ms{wanted}  p99 {p99:7.3f} ms  lost {ECHOES - len(both)}")


def _report_load(folder: Path) -> None:
    """One direction at 30,000 packets a second."""
    topology = load_topology("full-mesh", {"nodes": 2, "delay": f"{LOAD_DELAY_MS}ms"})
    with MininetSite(topology, folder / "load") as site:
        receiver = site.start(
            "n2", Program("receiver", python_agent("benchmarks.links", "receive", site.address("n2")))
        )
        sender = site.start("n1", Program("sender", python_agent("benchmarks.links", "send", site.address("n1"))))
        port = receiver.ready()["port"]
        sender.ready()
        sender.ask("send", address=site.address("n2"), port=port, rate_rps=1000, span_s=0.5)  # warms up
        time.sleep(0.5)
        receiver.ask("collect")
        before = _processor_s(site.delayer), _idle_s(), time.monotonic()
        sent = sender.ask("send", 60.0, address=site.address("n2"), port=port, rate_rps=PACKETS_RPS, span_s=LOAD_S)
        time.sleep(0.5)
        after = _processor_s(site.delayer), _idle_s(), time.monotonic()
        received = receiver.ask("collect", 60.0)
        span_s = after[2] - before[2]
        print(
            f"  {PACKETS_RPS} packets/s of 100 B at {LOAD_DELAY_MS} ms, {LOAD_S:g} s (sent {sent['rate_rps']:.0f}/s):"
        )
        print(
            f"    lost {sent['count'] - received['count']}, out of order {received['disorder_count']}, delay"
            f" p50 {received['p50_ms']:.2f} p99 {received['p99_ms']:.2f} ms; of {os.cpu_count()} cores the delayer took"
            f" {(after[0] - before[0]) / LOAD_S:.2f}, idle {(after[1] - before[1]) / span_s:.2f}"
        )
        late = {name: value for host, name, value in site.counters() if host == "delayer"}
        if late:
            shown = ", ".join(f"{key} {late[f'lateness_{key}_ns'] / 1e6:.2f} ms" for key in ("p50", "p99", "max"))
            print(f"    the delayer's lateness: {shown}; refused by the kernel: {late['error_count']:.0f}")


def _report_set_up(folder: Path) -> None:
    took = []
    for number in range(3):
        began_s = time.monotonic()
        topology = load_topology("full-mesh", {"nodes": HOSTS, "delay": "20ms"})
        with MininetSite(topology, folder / f"set-up{number}") as site:
            took.append((site.links_took_ns / 1e9, time.monotonic() - began_s))
    links, whole = (median(column) for column in zip(*took, strict=True))
    pairs = HOSTS * (HOSTS - 1)
    print(
        f"  set-up of {pairs} delays, {HOSTS} hosts: {links:.2f} s (wanted: under {WANTED_SET_UP_S:g});"
        f" with the network {whole:.2f} s"
    )


def _processor_s(agent: Agent | None) -> float:
    """Processor time of a process so far; none where netem does the work."""
    if agent is None:
        return 0.0
    fields = Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def _idle_s() -> float:
    """Of all cores so far."""
    return int(Path("/proc/stat").read_text().split(maxsplit=5)[4]) * TICK_S


# --- agents: a stream of numbered datagrams, and its end -----------------------------------------------------


def send(address: str, port: int, rate_rps: int, span_s: float) -> dict[str, Any]:
    """Datagrams at an even rate, some every half millisecond."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect((address, port))
        began_s = time.monotonic()
        count = int(rate_rps * span_s)
        number = 0
        while number < count:
            due = min(count, int((time.monotonic() - began_s) * rate_rps))
            while number < due:
                out.send(number.to_bytes(8, "big") + time.time_ns().to_bytes(8, "big") + BODY)
                number += 1
            time.sleep(0.0005)
        return {"count": count, "rate_rps": count / (time.monotonic() - began_s)}


class Receiver:
    """Takes what comes while it is not asked; ``collect`` takes the rest out of the socket's buffer."""

    def __init__(self, address: str):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.socket.bind((address, 0))
        self.numbers: list[int] = []
        self.delays_ns: list[int] = []

    def listen(self) -> None:
        """For ever; in a thread of its own."""
        while True:
            message = self.socket.recv(2048)
            self.delays_ns.append(time.time_ns() - int.from_bytes(message[8:16], "big"))
            self.numbers.append(int.from_bytes(message[:8], "big"))

    def collect(self) -> dict[str, Any]:
        """What came since the last time."""
        numbers, delays = self.numbers, np.array(self.delays_ns)
        self.numbers, self.delays_ns = [], []
        p50, p99 = np.percentile(delays, (50, 99)) / MILLISECOND_NS if len(delays) else (0.0, 0.0)
        disorder = int((np.diff(np.array(numbers)) < 0).sum())
        return {"count": len(numbers), "disorder_count": disorder, "p50_ms": p50, "p99_ms": p99}


def main() -> None:
    """Without arguments the report; otherwise an agent of it."""
    if len(sys.argv) < 2:
        report()
    elif sys.argv[1] == "send":
        serve({"send": send})
    else:
        import threading

        receiver = Receiver(sys.argv[2])
        threading.Thread(target=receiver.listen, daemon=True).start()
        serve({"collect": receiver.collect}, port=receiver.socket.getsockname()[1])


if __name__ == "__main__":
    main()
