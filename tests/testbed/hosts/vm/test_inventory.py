"""The inventory of Vagrant's machines: out of what Vagrant says, and read again by the testbed ``ssh``."""

import pytest

from core.errors import MachineError
from testbed.hosts.ssh.inventory import read_inventory
from testbed.hosts.vm.inventory import inventory_text, ssh_settings

CONFIG = """Host testbed
  HostName 192.168.121.5
  User vagrant
  Port 22
  UserKnownHostsFile /dev/null
  IdentityFile "/opt/keys/a folder/key"

Host testbed2
  HostName 127.0.0.1
  User vagrant
  Port 2222
  IdentityFile /opt/keys/key2
  IdentityFile /opt/keys/other
"""
KEY = "256 SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8 root@testbed (ED25519)"


def vagrant(words):
    if list(words) == ["ssh-config"]:
        return CONFIG
    assert words[0] == "ssh"
    last = ("testbed", "testbed2").index(words[1])
    return f"\n{KEY}\n2\n192.168.121.{5 + last} 192.168.56.{11 + last} \n"


def test_machines_of_vagrant_become_an_inventory(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text(inventory_text(vagrant))
    one, two = read_inventory(file)
    assert (one.name, one.host, one.port, one.user, one.key) == (
        "testbed", "192.168.121.5", 22, "vagrant", "/opt/keys/a folder/key",
    )  # fmt: skip
    assert (two.host, two.port, two.key) == ("127.0.0.1", 2222, "/opt/keys/key2")
    assert [machine.address for machine in (one, two)] == ["192.168.56.11", "192.168.56.12"]
    assert one.fingerprint == KEY.split()[1] and one.cores == 2 and one.shape and two.shape
    assert one.python == "/home/vagrant/ratebed/.venv/bin/python"


def test_a_machine_alone_is_where_ssh_answers(tmp_path):
    alone = {"ssh-config": CONFIG[: CONFIG.index("Host testbed2")], "ssh": f"{KEY}\n4\n10.0.2.15\n"}
    file = tmp_path / "hosts.toml"
    file.write_text(inventory_text(lambda words: alone[words[0]]))
    (machine,) = read_inventory(file)
    assert machine.address == "192.168.121.5" and not machine.shape


@pytest.mark.parametrize("text", ["", "no such file\n", "a\nb\nc\n"])
def test_a_machine_that_answers_something_else_is_an_error(text):
    with pytest.raises(MachineError, match="is it up"):
        inventory_text(lambda words: CONFIG if words[0] == "ssh-config" else text)


def test_no_machine_is_no_setting():
    assert ssh_settings("") == []
