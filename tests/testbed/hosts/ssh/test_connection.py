"""Connections to real sshds: whom we trust, what is refused, and what comes within the time-out."""

import socket
import time
from pathlib import Path

import pytest

from core.errors import MachineError
from testbed.hosts.ssh.connection import SshConnection
from testbed.hosts.ssh.shipping import script
from tests.live import needs
from tests.testbed.hosts.ssh.lab import DISK, Lab, make_key

pytestmark = [needs("root", "namespaces", "ip", "sshd", "paramiko"), pytest.mark.slow]
SOON_S = 15.0  # a handshake takes a quarter of a second on an idle machine


def known_hosts(lab: Lab, path: Path, key: str) -> str:
    path.write_text(f"{lab.address(1)} {' '.join(key.split()[:2])}\n")
    return str(path)


def refused(machine, complaint: str, timeout_s: float = SOON_S) -> str:
    began_s = time.monotonic()
    with pytest.raises(MachineError, match=complaint) as caught:
        SshConnection(machine, timeout_s)
    assert time.monotonic() - began_s < 3 * timeout_s + 10
    assert str(caught.value).startswith(f"{machine.name}: ")
    return str(caught.value)


def test_a_fingerprint_or_a_file_of_known_hosts_lets_us_in(machines: Lab, tmp_path: Path) -> None:
    key = (machines.folder / "h1.pub").read_text()
    known = machines.machine(1, fingerprint="", known_hosts=known_hosts(machines, tmp_path / "known", key))
    for machine in (machines.machine(1), known):
        connection = SshConnection(machine)
        try:
            assert connection.done("cat; echo $0 >&2", b"as it is\0") == b"as it is\0"
            assert connection.run("exit 7").returncode == 7
            assert connection.done(script("ls /run")).split() == [DISK.split("/")[-1].encode(), b"sshd"]
        finally:
            connection.close()
        assert not connection.alive


def test_a_key_that_the_host_does_not_know(machines: Lab, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    text = refused(machines.machine(1, key=str(tmp_path / "other")), "refuses the key .*other for user root")
    assert "authorized_keys" in text
    refused(machines.machine(1, key=str(tmp_path / "none")), "none: No such file")


def test_a_host_key_that_is_another(machines: Lab, tmp_path: Path) -> None:
    other = machines.fingerprint(2)
    text = refused(machines.machine(1, fingerprint=other), "its host key is SHA256:.* and not SHA256:")
    assert machines.fingerprint(1) in text and other in text
    path = known_hosts(machines, tmp_path / "known", make_key(tmp_path / "another"))
    text = refused(machines.machine(1, fingerprint="", known_hosts=path), "its host key is SHA256:.*known")
    assert machines.fingerprint(1) in text


def test_a_host_that_nobody_knows_is_never_accepted(machines: Lab, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    for name in ("known", "not-there"):
        stranger = machines.machine(1, fingerprint="", known_hosts=str(tmp_path / name))
        assert machines.fingerprint(1) in refused(stranger, f"not in .*{name}.*ssh-keyscan")
    assert (tmp_path / "known").read_text() == "" and not (tmp_path / "not-there").exists()


def test_nobody_there(machines: Lab) -> None:
    refused(machines.machine(1, port=23), "port 23: Connection refused")
    refused(machines.machine(1, host=machines.address(99)), "No route to host|does not answer within", 4.0)
    refused(machines.machine(1, host="no-such-host.invalid"), "nobody knows the name|Name or service", 4.0)


def test_a_port_that_is_no_sshd(machines: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        machine = machines.machine(1, host="127.0.0.1", port=silent.getsockname()[1])
        refused(machine, "no SSH|does not answer", 1.0)


def test_a_command_that_does_not_end(machines: Lab) -> None:
    connection = SshConnection(machines.machine(1))
    try:
        with pytest.raises(MachineError, match="h1: 'sleep 100' did not end within 4 s"):
            connection.run("sleep 100", timeout_s=4)
        with pytest.raises(MachineError, match=r"h1: .*broken here"):
            connection.done("echo broken here >&2; exit 3")
        with pytest.raises(MachineError, match="nothing answers on its port 9"):
            connection.reach(9)
    finally:
        connection.close()


def test_an_sshd_that_stands_still_before_it_answers_a_command(machines: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, other = (SshConnection(machines.machine(1)) for _ in range(2))
    try:
        pid = int(connection.done("echo $PPID"))
        channel = connection._transport.open_session(timeout=SOON_S)
        monkeypatch.setattr(connection._transport, "open_session", lambda timeout: channel)
        other.done(f"kill -STOP {pid}")
        began_s = time.monotonic()
        with pytest.raises(MachineError, match="h1: no session"):
            connection.open("true", 1.0)
        assert time.monotonic() - began_s < SOON_S
    finally:
        other.run(f"kill -CONT {pid}")
        connection.close()
        other.close()


def test_a_host_that_is_cut_off(machines: Lab) -> None:
    connection = SshConnection(machines.machine(2))
    try:
        machines.cut(2)
        for what in (lambda: connection.run("true", timeout_s=2), lambda: connection.reach(22, 2)):
            with pytest.raises(MachineError, match="h2: "):
                what()
        refused(machines.machine(2), "No route to host|does not answer within", 4.0)
    finally:
        machines.cut(2, on=False)
        connection.close()
