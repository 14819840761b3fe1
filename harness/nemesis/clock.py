"""A step of the machine's clock: inside a virtual machine of the project's own, and nowhere else."""

import socket
import time
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.vm.inventory import PROJECT

_NAME = "testbed"  # as in the Vagrantfile, which numbers those after the first


def is_own_machine() -> bool:
    """Whether this checkout is that of a machine which ``vagrant up`` made."""
    here, there = Path(__file__).resolve().parents[2], Path(PROJECT)
    return here == there and socket.gethostname().rstrip("0123456789") == _NAME


def require_own_machine() -> None:
    """MachineError on any other machine: its clock is other people's too."""
    if not is_own_machine():
        raise MachineError("the clock of this machine is not ours to set", "try it in the VM: vagrant up testbed")


def step(by_ns: int) -> None:
    """Set CLOCK_REALTIME forward, or back."""
    require_own_machine()
    time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + by_ns)
