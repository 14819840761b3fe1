"""libvirt with QEMU, private to a process: Vagrant makes its machines there; the host keeps its network as it is."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

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
) -> str:
    """Run a command in this checkout; what it printed, which ``log`` has as well.  Nothing of its session is left.

    ``prefix``: words before it that end in an exec.  MachineError where it fails, or takes too long.
    """
    name, before_bytes = " ".join(words[:4]), log.stat().st_size if log.exists() else 0
    with log.open("ab") as file, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [*prefix, *words], stdin=subprocess.DEVNULL, stdout=printed, stderr=file, env=environment,
            start_new_session=True, cwd=CHECKOUT,
        )  # fmt: skip
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise MachineError(f"{name} did not end within {timeout_s:.0f} s", f"see {log}") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            printed.seek(0)
            text = printed.read()
            file.write(text)
    if code:
        said = log.read_bytes()[before_bytes:].decode(errors="replace")
        raise MachineError(f"{name}: {_problem(said)}", f"see {log}")
    return text.decode(errors="replace")


def _problem(said: str) -> str:
    """The last line, of those that tell of a failure of Ratebed's if there are any."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "FAILED" in line or "ratebed:" in line] or lines or ["it says nothing"]
    return told[-1][:500]


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

    def run(self, words: Sequence[str], log: Path, timeout_s: float) -> str:
        """``run_logged`` on the network of the machines; files and the process id are those of out here."""
        enter = [str(tool("nsenter")), f"--net=/proc/{self._inner}/ns/net", "--"]
        return run_logged(words, log, timeout_s, enter, self.environment)

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
