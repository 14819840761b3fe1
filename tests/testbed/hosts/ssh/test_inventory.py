"""Inventories: what is read, what is refused."""

from pathlib import Path

import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.run import check_all
from testbed import load_testbed
from testbed.hosts.ssh.inventory import read_inventory
from testbed.topologies.topology import load_topology
from tests.tidy import ROOT

HOSTS = load_topology("star")
WHOLE = """
[defaults]
user = "me"
known_hosts = "hosts"
folder = "/var/tmp/bench"

[[host]]
host = "192.0.2.1"

[[host]]
host = "lab.example"
name = "two"
port = 2222
key = "keys/two"
fingerprint = "SHA256:abc"
address = "10.0.0.2"
cores = 4
shape = true
"""


def read(folder: Path, text: str):
    (folder / "hosts.toml").write_text(text)
    return read_inventory(folder / "hosts.toml")


def test_defaults_paths_and_own_values(tmp_path):
    one, two = read(tmp_path, WHOLE)
    assert (one.name, one.port, one.user, one.address) == ("192.0.2.1", 22, "me", "192.0.2.1")
    assert one.known_hosts == str(tmp_path / "hosts") and one.key == "" and not one.shape
    assert (two.name, two.port, two.address, two.cores, two.shape) == ("two", 2222, "10.0.0.2", 4, True)
    assert two.key == str(tmp_path / "keys/two")
    assert two.fingerprint == "SHA256:abc" and two.known_hosts == ""  # its own word against the default


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no \\[\\[host\\]\\]"),
        ("[[host]]\nuser = 'me'", "host 1: it does not say where SSH answers"),
        ("[[host]]\nhost = '192.0.2.1'\ncolour = 'red'", "no option 'colour'"),
        ("[[host]]\nhost = '192.0.2.1'\nport = 'x'", "option port = 'x'"),
        ("[[host]]\nhost = '192.0.2.1'\nport = 99999", "port 99999"),
        ("[[host]]\nhost = 'lab.example'", "address 'lab.example'"),
        ("[[host]]\nhost = '192.0.2.1'\nfingerprint = 'aa:bb'", "fingerprint 'aa:bb'"),
        ("[[host]]\nhost = '192.0.2.1'\nfingerprint = 'SHA256:a'\nknown_hosts = 'b'", "both"),
        ("[[host]]\nhost = '192.0.2.1'\nname = 'a b'", "name 'a b'"),
        ("[[host]]\nhost = '192.0.2.1'\n[[host]]\nhost = '192.0.2.1'", "192.0.2.1 is there twice"),
        ("[[machine]]\nhost = '192.0.2.1'", "unknown machine"),
        ("host = ", "Invalid value"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, text, complaint):
    with pytest.raises(SpecError, match=complaint):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SpecError, match=r"--inventory FILE"):
        read_inventory(tmp_path / "none.toml")


def test_the_example_is_one():
    one, two = read_inventory(ROOT / "docs" / "examples" / "hosts.toml")
    assert (one.address, two.address) == ("10.0.0.1", "10.0.0.2") and two.shape and two.user == "bench"


def test_what_the_testbed_has_not_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "hosts.toml").write_text(WHOLE)
    there = {"testbed": "ssh", "testbed_options": {"inventory": str(tmp_path / "hosts.toml")}}
    limited = {"workload": "requests", "topology": "full-mesh", "study": "limiting", **there}
    heal = {"faults": [{"kind": "heal", "at": "1s"}]}
    with pytest.raises(SpecError, match="no links to change"):
        check_all([RunSpec(system="crdt-counter", study_options=heal, **limited)])
    with pytest.raises(SpecError, match="not brought to the machines of ssh"):
        check_all([RunSpec(system=f"{ROOT}/docs/examples/my_limiter.py:SYSTEM", **limited)])
    for name in ("virtual", "local", "mininet"):
        with pytest.raises(SpecError, match="has no option"):
            load_testbed(name).with_options({"inventory": "hosts.toml"}, HOSTS)
