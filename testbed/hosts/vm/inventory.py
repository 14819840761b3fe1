"""``python -m testbed.hosts.vm.inventory >hosts.toml``: the machines of ``vagrant up`` for the testbed ssh.

Their host keys are asked for through Vagrant: on the network between this machine and its own virtual ones.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence

from core.errors import HarnessError, MachineError
from testbed.hosts.capabilities import CHECKOUT

PROJECT = "/home/vagrant/ratebed"  # as in the Vagrantfile
BETWEEN = "192.168.56."  # the network between machines, where there are several: the same
FOLDER = "/home/vagrant/.cache/ratebed"
_ASK = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; nproc; hostname -I"
Vagrant = Callable[[Sequence[str]], str]  # what ``vagrant WORDS`` prints


def ask_vagrant(words: Sequence[str]) -> str:
    """Ask the Vagrant of this checkout; MachineError with what it said where it fails."""
    command = ["vagrant", *words]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise MachineError(f"vagrant: {error.strerror}", "install Vagrant, or ./bootstrap.sh vm") from None
    if done.returncode:
        raise MachineError(f"vagrant {words[0]}: {(done.stderr or done.stdout).strip()[-300:]}", "vagrant up testbed")
    return done.stdout


def inventory_text(vagrant: Vagrant = ask_vagrant) -> str:
    """The inventory of the machines that are up."""
    parts, machines = [], ssh_settings(vagrant(["ssh-config"]))
    for machine in machines:
        fingerprint, cores, addresses = told(vagrant(["ssh", machine["Host"], "-c", _ASK]))
        between = [address for address in addresses if address.startswith(BETWEEN)]
        values = {
            "name": machine["Host"], "host": machine["HostName"], "port": int(machine["Port"]),
            "user": machine["User"], "key": machine["IdentityFile"], "fingerprint": fingerprint,
            "address": (between or [machine["HostName"]])[0], "cores": cores, "folder": FOLDER,
            "python": f"{PROJECT}/.venv/bin/python", "shape": len(machines) > 1,  # one alone has no paths to shape
        }  # fmt: skip
        parts.append("\n".join(["[[host]]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]))
    return "\n\n".join(parts) + "\n"


def ssh_settings(text: str) -> list[dict[str, str]]:
    """The blocks of ``vagrant ssh-config``."""
    machines: list[dict[str, str]] = []
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "Host":
            machines.append({})
        if machines and value:
            machines[-1].setdefault(name, value.strip('"'))
    return machines


def told(text: str) -> tuple[str, int, list[str]]:
    """Fingerprint, cores and addresses, out of what a machine answers."""
    try:
        key, cores, addresses = [line for line in text.splitlines() if line.strip()][-3:]
        return key.split()[1], int(cores), addresses.split()
    except (ValueError, IndexError):
        raise MachineError(f"a machine of Vagrant's answers {text.strip()[:200]!r}", "is it up?") from None


if __name__ == "__main__":
    try:
        sys.stdout.write(inventory_text())
    except HarnessError as error:
        sys.exit(f"ratebed: {error}")
