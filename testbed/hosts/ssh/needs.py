"""What the testbed ``ssh`` needs here, found without connecting to anybody."""

from pathlib import Path

from core.errors import SpecError
from core.records import Options
from testbed.hosts.capabilities import Finding, probe_capabilities, require
from testbed.hosts.ssh.inventory import read_inventory
from testbed.topologies.topology import Topology


def check_options(options: Options, topology: Topology) -> None:
    """The inventory; SpecError where there is none, or one that cannot be; MachineError without paramiko."""
    if set(options) != {"inventory"}:
        raise SpecError(
            "the testbed ssh has no hosts", "name them: --inventory FILE (see testbed/hosts/ssh/inventory.py)"
        )
    read_inventory(Path(options["inventory"]))
    require("paramiko")


def probe() -> list[Finding]:
    """What this machine needs to command others; of those, only an inventory tells."""
    return [
        *probe_capabilities("linux", "paramiko"),
        Finding("hosts", True, "as an inventory says: --inventory FILE"),
        *probe_capabilities("brokerd", "sshd", needed=False),
    ]
