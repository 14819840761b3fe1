"""The inventory: a TOML file that names the machines of the testbed ``ssh``, and how to know and to reach them.

    [defaults]                                  # of all hosts; a host may say otherwise
    user = "me"                                 # default: your own name
    key = "~/.ssh/id_ed25519"                   # default: those of your agent and of ~/.ssh
    known_hosts = "~/.ssh/known_hosts"          # the default; or a fingerprint of the host:
    folder = ".cache/ratebed"                   # there; code and environment stay in it, runs do not
    python = "/opt/ratebed/bin/python"          # there; default: an environment that is made in the folder, once

    [[host]]
    host = "192.0.2.11"                         # where SSH answers
    port = 22
    fingerprint = "SHA256:…"                    # instead of known_hosts
    address = "10.0.0.1"                        # on the network between the hosts; default: the same as host
    cores = 4                                   # that runs may count on; 0: not checked
    shape = true                                # delays, losses and rates may be set on it by tc (as root, or by sudo)

Paths on this machine are relative to the inventory's folder, those on a host to the user's home there.
"""

import getpass
import ipaddress
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import SpecError
from core.reading import read_toml, reading
from core.records import Json, Options
from core.registry import configure
from testbed.findings import Finding
from testbed.hosts.capabilities import probe_capabilities, require
from testbed.topologies.topology import Topology

KNOWN_HOSTS = "~/.ssh/known_hosts"
FINGERPRINT = "SHA256:"


def probe() -> list[Finding]:
    """What this machine needs to command others; of those, only an inventory tells.  Connects to nobody."""
    return [
        *probe_capabilities("linux", "paramiko"),
        Finding("hosts", True, "as an inventory says: --inventory FILE"),
        *probe_capabilities("brokerd", "sshd", needed=False),
    ]


def check_options(options: Options, topology: Topology) -> None:
    """The inventory; SpecError where there is none, or one that cannot be; MachineError without paramiko."""
    if set(options) != {"inventory"}:
        fix = "name them: --inventory FILE (see testbed/hosts/ssh/inventory.py)"
        raise SpecError("the testbed ssh has no hosts", fix)
    read_inventory(Path(options["inventory"]))
    require("paramiko")


@dataclass(frozen=True)
class Machine:
    """One host of the inventory."""

    host: str
    name: str = ""  # for people and for tables; default: the same as ``host``
    port: int = 22
    user: str = ""
    key: str = ""
    known_hosts: str = ""
    fingerprint: str = ""
    address: str = ""
    cores: int = 0
    folder: str = ".cache/ratebed"
    python: str = ""
    shape: bool = False


def read_inventory(path: Path) -> list[Machine]:
    """The machines, in order; SpecError says what is wrong in which host."""
    content = read_toml(
        path, f"inventory {path}", "name one with --inventory FILE, as testbed/hosts/ssh/inventory.py shows it"
    )
    hosts, defaults = content.pop("host", []), content.pop("defaults", {})
    if content or not isinstance(defaults, dict) or not isinstance(hosts, list) or not hosts:
        what = f"unknown {', '.join(content)}" if content else "no [[host]]"
        raise SpecError(f"inventory {path}: {what}", "give [[host]] tables and perhaps [defaults]")
    numbered = {f"inventory {path}, host {number}": each for number, each in enumerate(hosts, 1)}
    machines = []
    for where, each in numbered.items():
        with reading(where):
            machines.append(_machine(where, defaults, each, path.parent))
    for field in ("name", "address"):
        twice = [value for value, count in Counter(getattr(each, field) for each in machines).items() if count > 1]
        if twice:
            raise SpecError(f"inventory {path}: {field} {twice[0]} is there twice", "each host has its own")
    return machines


def _machine(where: str, defaults: Json, own: object, folder: Path) -> Machine:
    if not isinstance(own, dict) or "host" not in own:
        raise SpecError(f"{where}: it does not say where SSH answers", 'give host = "name or address"')
    if "fingerprint" in own and "known_hosts" not in own:
        defaults = {name: value for name, value in defaults.items() if name != "known_hosts"}
    machine: Machine = configure(where, Machine, {**defaults, **own})
    if machine.fingerprint and machine.known_hosts:
        raise SpecError(f"{where}: both a fingerprint and known_hosts", "give one of them")
    if machine.fingerprint and not machine.fingerprint.startswith(FINGERPRINT):
        raise SpecError(f"{where}: fingerprint {machine.fingerprint!r}", "give that of ssh-keygen -l: SHA256:…")
    machine = replace(
        machine,
        name=machine.name or machine.host,
        user=machine.user or getpass.getuser(),
        address=machine.address or machine.host,
        key=machine.key and str(folder / Path(machine.key).expanduser()),
        known_hosts="" if machine.fingerprint else str(folder / Path(machine.known_hosts or KNOWN_HOSTS).expanduser()),
    )
    try:
        ipaddress.IPv4Address(machine.address)
    except ValueError:
        raise SpecError(f"{where}: address {machine.address!r}", "give an IPv4 address between the hosts") from None
    if not 0 < machine.port < 65536 or machine.cores < 0:
        raise SpecError(f"{where}: port {machine.port}, cores {machine.cores}", "give possible ones")
    if any(not (letter.isalnum() or letter in "-_.") for letter in machine.name):
        raise SpecError(f"{where}: name {machine.name!r}", "give letters, digits, dots and hyphens")
    return machine
