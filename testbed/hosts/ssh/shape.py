"""Delays, losses and rates of a topology on machines of an inventory that let us: tc at each one's own interface."""

from collections.abc import Mapping, Sequence

from core.errors import MachineError, SpecError
from testbed.hosts.mininet.shaping import host_lines, is_limited
from testbed.hosts.ssh.host import RemoteHost
from testbed.hosts.ssh.inventory import Machine
from testbed.links import LinkStates, PathState
from testbed.topologies.topology import Topology


def shaped_machines(topology: Topology, machines: Sequence[Machine], machine_of: Mapping[str, str]) -> list[Machine]:
    """Those that are to be shaped; SpecError where hosts of the topology would share one: tc tells paths by address."""
    if not any(_wants(path) for path in LinkStates(topology).states().values()):
        return []
    used = [machine for machine in machines if machine.shape and machine.name in machine_of.values()]
    if used and len(machine_of) > len(machines):
        what = f"{len(machine_of)} hosts of {topology.name} on {len(machines)} machines"
        raise SpecError(f"{what}: paths inside of a machine cannot be shaped", "add machines, or leave out shape")
    return used


def shape(remote: RemoteHost, targets: Mapping[str, PathState]) -> None:
    """Set what leaves a machine for each address; the keeper takes it back at its end."""
    device = remote.keeping.ask("device", address=remote.machine.address)["device"]
    netem = any(path.delay_ns or path.loss_probability for path in targets.values())
    lines = host_lines(device, targets, netem=netem)
    if lines:
        try:
            remote.keeping.ask("shape", device=device, lines=lines)
        except MachineError as error:
            fix = "delays want the kernel module sch_netem there, all want root or sudo; or leave out shape"
            raise MachineError(error.what, fix) from None


def _wants(path: PathState) -> bool:
    return bool(path.delay_ns or path.loss_probability or is_limited(path.rate_bps))
