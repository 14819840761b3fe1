"""libvirt with QEMU, private to a process: Vagrant makes its machines there, and the host keeps its network as it is.

Files, processes and network are in namespaces of their own, so bridges, firewall rules, dnsmasq and machines go when
the first process in there goes; ``ratebed clean`` ends that of a harness which was killed.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from core.errors import MachineError
from testbed.hosts.capabilities import CHECKOUT, tool, tries
from testbed.hosts.private import PrivateServer

NEEDED = ("root", "unshare", "ip", "iptables", "libvirtd", "qemu", "vagrant")
_SETTINGS_IN = "etc/libvirt"
_OWN = (_SETTINGS_IN, "var/lib/libvirt", "var/log/libvirt", "var/cache/libvirt", "run/libvirt")
_SOCKET = "run/libvirt/libvirt-sock"
# A probe as another user would find no KVM where root's did, and libvirt would probe again before each step: 52 s each.
_SETTINGS = 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\ncgroup_controllers = []\n'
_INIT = """
set -e
folder=$1
shift
for own; do
    mkdir -p "/$own"
    mount --bind "$folder/$own" "/$own"
done
ip link set lo up
virtlogd --daemon
libvirtd --daemon
while :; do sleep 3600 & wait; done
"""


def run_logged(
    words: Sequence[str],
    log: Path,
    timeout_s: float,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> int:
    """Run a command in this checkout, what it says appended to ``log``; its code.  Nothing of its session is left.

    ``prefix``: words before it that end in an exec; ``output``: where its standard output goes instead.  MachineError
    where it takes too long.
    """
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*prefix, *words], stdin=subprocess.DEVNULL, stdout=output or file, stderr=file, env=environment,
            start_new_session=True, cwd=CHECKOUT,
        )  # fmt: skip
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            what = f"{' '.join(words[:4])} did not end within {timeout_s:.0f} s"
            raise MachineError(what, f"see {log}") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Hypervisor(PrivateServer):
    """A libvirt of our own, with the machines in it; see ``PrivateServer``."""

    name = "libvirt"
    needed = NEEDED
    ends_by_itself = False

    @property
    def environment(self) -> dict[str, str]:
        """For Vagrant: everything that it keeps is in the hypervisor's folder, and gone with that."""
        return {
            **os.environ,
            **self.state.environment,
            "VAGRANT_HOME": str(self.folder / "vagrant"),
            "VAGRANT_DOTFILE_PATH": str(self.folder / "machines"),
            "VAGRANT_DEFAULT_PROVIDER": "libvirt",
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "LIBVIRT_DEFAULT_URI": f"qemu:///system?socket={self.folder / _SOCKET}",
        }

    def run(self, words: Sequence[str], log: Path, timeout_s: float, output: IO[bytes] | None = None) -> int:
        """``run_logged`` on the network of the machines; files and the process id are those of out here."""
        enter = [str(tool("nsenter")), f"--net=/proc/{self._inner}/ns/net", "--"]
        return run_logged(words, log, timeout_s, enter, self.environment, output)

    # --- inside ------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        for own in _OWN:
            here, there = Path("/") / own, self.folder / own
            if own == _SETTINGS_IN and here.is_dir():
                shutil.copytree(here, there, symlinks=True)
            there.mkdir(parents=True, exist_ok=True)
        (self.folder / _SETTINGS_IN / "qemu.conf").write_text(_SETTINGS)

    def _command(self) -> list[str]:
        return [
            *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("sh", "-c", _INIT, "libvirt", str(self.folder), *_OWN),
        ]

    @property
    def _inner(self) -> int:
        """The first process in there; its parent is outside of the new namespaces of processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def _answers(self) -> bool:
        virsh = [str(tool("virsh")), "--connect", self.environment["LIBVIRT_DEFAULT_URI"], "version"]
        return (self.folder / _SOCKET).exists() and tries(*virsh)
