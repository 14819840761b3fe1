"""The testbed ``local``: agents of several hosts talk over loopback, by real sockets."""

import sys

import pytest

from core.errors import MachineError, SpecError
from testbed.faults import Handover, Heal
from testbed.hosts import local
from testbed.hosts.capabilities import find_capability
from testbed.hosts.local import LocalSite, probe, unmet_wishes
from testbed.hosts.site import Program, python_agent
from testbed.nodes import retransmission
from testbed.topologies.topology import full_mesh, srtm_lan, star
from tests.live import needs

pytestmark = needs("linux")

ECHO = """
import socket, threading
from testbed.hosts.agent import serve

listener = socket.create_server(("127.0.0.1", 0))

def answer_all():
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=answer, args=(peer,), daemon=True).start()

def answer(peer):
    while data := peer.recv(4096):
        peer.sendall(data)

def send(address, port, text):
    with socket.create_connection((address, port), 5) as peer:
        peer.sendall(text.encode())
        return {"text": peer.recv(4096).decode()}

threading.Thread(target=answer_all, daemon=True).start()
serve({"send": send}, port=listener.getsockname()[1])
"""


def test_hosts_reach_each_other_and_the_harness_reaches_them(tmp_path):
    with LocalSite(full_mesh(3, "0ms"), tmp_path) as site:
        names = [host.name for host in site.topology.machines]
        agents = {name: site.start(name, Program(f"echo-{name}", [sys.executable, "-c", ECHO])) for name in names}
        ports = {name: agent.ready()["port"] for name, agent in agents.items()}
        assert len(set(ports.values())) == 3, "on one address they have ports of their own"
        for source, agent in agents.items():
            for target in names:
                found = agent.ask("send", address=site.address(target), port=ports[target], text=source + target)
                assert found["text"] == source + target
        with site.connect(names[0], ports[names[0]]) as peer:
            peer.sendall(b"hello")
            assert peer.recv(10) == b"hello"
        assert site.verify() == []
        assert {host for host, _, _ in site.counters()} == {"localhost"}
        agents[names[1]].process.kill()
        agents[names[1]].process.wait()
        with pytest.raises(MachineError, match=f"echo-{names[1]}"):
            site.verify()
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [f"echo-{name}.log" for name in names]


def test_wishes_of_the_topology_that_loopback_has_not_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "keeps_120_s", lambda: False)  # whatever Linux is here
    with LocalSite(star(2, "20ms", "1ms", 0.01), tmp_path) as site:
        assert len(site.notes) == 1
        assert all(word in site.notes[0] for word in ("delay (up to 20 ms", "jitter", "loss", "star", "mininet"))
    with LocalSite(full_mesh(2, "0ms"), tmp_path) as site:
        assert site.notes == []
    assert unmet_wishes(srtm_lan()) == ["delay (up to 0.01 ms a link)", "rate limits"]


def test_a_kernel_that_lets_streams_wait_for_long_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(retransmission, "_TCP_RTO_MAX_MS", 9_999)  # as Linux before 6.15: there is no such option
    with LocalSite(full_mesh(2, "0ms"), tmp_path) as site:
        assert len(site.notes) == 1 and "up to 120 s" in site.notes[0]


def test_faults_of_links_are_refused(tmp_path):
    with LocalSite(full_mesh(2, "0ms"), tmp_path) as site:
        site.apply(Handover(0, "n1", "n2"))  # nothing is handed over: hosts are all on loopback
        with pytest.raises(SpecError, match="--testbed mininet"):
            site.apply(Heal(0))


def test_nobody_listens_and_unknown_hosts(tmp_path):
    with LocalSite(full_mesh(2, "0ms"), tmp_path) as site:
        with pytest.raises(MachineError, match="port 1 of n1"):
            site.connect("n1", 1, 1.0)
        with pytest.raises(SpecError, match="n7"):
            site.address("n7")


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="--out"):
        LocalSite(full_mesh(2), tmp_path / "file")


def test_python_agents_start_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LocalSite(full_mesh(2, "0ms"), tmp_path) as site:
        agent = site.start("n1", Program("a", python_agent("json.tool", "--no-such-option")))
        with pytest.raises(MachineError, match="no-such-option"):
            agent.ready()


def test_the_probe_agrees_with_the_machine():
    found = {row.what: row for row in probe()}
    assert found["processes"].found and not found["Go"].needed
    assert found["Go"].found == (find_capability("go") is not None)
