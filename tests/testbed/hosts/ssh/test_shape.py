"""Delays and rates that are set by tc on the machines, and taken back."""

import json
import sys
from pathlib import Path

import pytest

from core.errors import MachineError
from testbed.hosts.capabilities import find_capability
from testbed.hosts.site import Program
from testbed.hosts.ssh.site import SshSite
from testbed.topologies.topology import Host, Link, Topology, load_topology
from tests.live import needs
from tests.testbed.hosts.ssh.lab import Lab

pytestmark = [needs("root", "namespaces", "ip", "sshd", "paramiko"), pytest.mark.slow]
RATE_BPS, BYTES = 20_000_000, 3_000_000
LIMITED = Topology("limited", (Host("n1"), Host("n2")), (Link("n1", "n2", rate_bps=RATE_BPS),))

SINK = f"""
import json, socket, struct, sys, time
server = socket.create_server((sys.argv[1], 0))
print(json.dumps({{"port": server.getsockname()[1]}}), flush=True)
peer, _ = server.accept()
count, (began_s,) = 8, struct.unpack("d", peer.recv(8, socket.MSG_WAITALL))
while count < {BYTES}:
    count += len(peer.recv(1 << 16))
print(json.dumps({{"seconds": time.monotonic() - began_s}}), flush=True)
"""
SOURCE = f"""
import socket, struct, sys, time
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
peer.sendall(struct.pack("d", time.monotonic()) + bytes({BYTES - 8}))
"""


def site(lab: Lab, folder: Path, topology: Topology) -> SshSite:
    inventory = lab.inventory(folder / "hosts.toml", 1, 2, shape=True)
    return SshSite(topology, folder / "run", folder, inventory=str(inventory))


def test_a_rate_holds_and_goes_with_the_site(machines: Lab, tmp_path: Path) -> None:
    with site(machines, tmp_path, LIMITED) as made:
        assert "htb" in machines.queues(1) and "htb" in machines.queues(2)
        made.verify()
        sink = made.start("n2", Program("sink", [sys.executable, "-c", SINK, made.address("n2")]))
        port = sink.ready()["port"]
        made.start("n1", Program("source", [sys.executable, "-c", SOURCE, made.address("n2"), str(port)]))
        sink.post("wait")
        rate_bps = 8 * BYTES / sink.answer(120)["seconds"]
        assert 0.2 * RATE_BPS < rate_bps < 1.3 * RATE_BPS, json.dumps(rate_bps)
    assert "htb" not in machines.queues(1) and "htb" not in machines.queues(2)


def test_delays_are_set_where_the_kernel_has_netem(machines: Lab, tmp_path: Path) -> None:
    topology = load_topology("full-mesh", {"nodes": 2, "delay": "20ms"})
    if find_capability("netem"):
        with site(machines, tmp_path, topology) as made:
            assert all(abs(path.measured_delay_ns - 20_000_000) < 3_000_000 for path in made.verify())
    else:
        with pytest.raises(MachineError, match=r"h[12]: .*qdisc kind is unknown.*leave out shape"):
            site(machines, tmp_path, topology)
    assert "htb" not in machines.queues(1) and "netem" not in machines.queues(1)
