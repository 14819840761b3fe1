"""libvirt with QEMU, private to a process: Vagrant makes its machines there, and the host keeps its network as it is.

Files, processes and network are in namespaces of their own, so bridges, firewall rules, dnsmasq and machines go when
the first process in there goes; ``ratebed clean`` ends that of a harness which was killed.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from core.errors import MachineError
from testbed.live.capabilities import CAPABILITIES, find_capability, tool
from testbed.live.cleaning import kill_marked
from testbed.live.state import RunState, start_time

NEEDED = ("root", "unshare", "ip", "iptables", "libvirtd", "qemu", "vagrant")
START_S, STOP_S = 60.0, 20.0
_OWN = ("/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt", "/run/libvirt")
# A probe as another user would find no KVM where root's did, and libvirt would probe again before each step: 52 s each.
_SETTINGS = 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\ncgroup_controllers = []\n'
_INIT = """
set -e
folder=$1
for own in etc/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt run/libvirt; do
    mkdir -p "/$own"
    mount --bind "$folder/$own" "/$own"
done
ip link set lo up
virtlogd --daemon
libvirtd --daemon
while :; do sleep 3600 & wait; done
"""


class Hypervisor:
    """Up when this returns; ``close`` ends it, with all machines in it, and removes all that it had.

    MachineError where this machine lacks something, or libvirt does not start.
    """

    def __init__(self, state_folder: Path | None = None):
        for name in NEEDED:
            if find_capability(name) is None:
                raise MachineError(f"this machine has no {CAPABILITIES[name].what}", CAPABILITIES[name].fix)
        self.state = RunState(state_folder)
        self.folder = Path(tempfile.mkdtemp(prefix="ratebed-vm-"))
        self._undo = ExitStack()
        self._undo.callback(self.state.close)
        try:
            number = self.state.making("folder", path=str(self.folder), whole=True)
            self._undo.callback(self.state.gone, number)
            self._undo.callback(shutil.rmtree, self.folder)
            number = self.state.making("process", name="libvirt")
            self._process = self._start()
            self._undo.callback(self._end, number)
            self.state.made(number, pid=self._process.pid, started=start_time(self._process.pid))
            self._await()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Hypervisor":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; a second call does nothing."""
        self._undo.close()

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
            "LIBVIRT_DEFAULT_URI": f"qemu:///system?socket={self.folder}/run/libvirt/libvirt-sock",
        }

    def inside(self, words: Sequence[str]) -> list[str]:
        """The command on the network of the machines; its files and its process id are those of out here."""
        return [str(tool("nsenter")), f"--net=/proc/{self._inner}/ns/net", "--", *words]

    def run(
        self, words: Sequence[str], log: Path, timeout_s: float, more: Mapping[str, str] | None = None, **how: Any
    ) -> int:
        """Run a command in there, what it says appended to ``log``; its code.  MachineError where it takes too long."""
        with log.open("ab") as file:
            process = subprocess.Popen(
                self.inside(words), stdin=subprocess.DEVNULL, stdout=how.pop("stdout", file), stderr=file,
                env={**self.environment, **(more or {})}, start_new_session=True, **how,
            )  # fmt: skip
            try:
                return process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                what = f"{' '.join(words[:4])} did not end within {timeout_s:.0f} s"
                raise MachineError(what, f"see {log}") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.wait()

    # --- inside ------------------------------------------------------------------------------------------

    def _start(self) -> "subprocess.Popen[bytes]":
        for own in _OWN:
            here, there = Path(own), self.folder / own.lstrip("/")
            if here == Path(_OWN[0]) and here.is_dir():
                shutil.copytree(here, there, symlinks=True)
            there.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "etc/libvirt/qemu.conf"
        settings.write_text(_SETTINGS)
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin:/sbin"])
        words = [
            *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("sh", "-c", _INIT, "libvirt", str(self.folder)),
        ]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **self.state.environment, "PATH": path},
            )  # fmt: skip

    @property
    def _inner(self) -> int:
        """The first process in there; its parent is outside of the new namespaces of processes."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    def _await(self) -> None:
        until_s = time.monotonic() + START_S
        virsh = [str(tool("virsh")), "--connect", self.environment["LIBVIRT_DEFAULT_URI"], "version"]
        while self._process.poll() is None and time.monotonic() < until_s:
            if (self.folder / "run/libvirt/libvirt-sock").exists():
                done = subprocess.run(virsh, stdin=subprocess.DEVNULL, capture_output=True, timeout=START_S)
                if done.returncode == 0:
                    return
            time.sleep(0.05)
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        raise MachineError(f"libvirt does not start: {lines[-1][:300] if lines else 'it says nothing'}", "run as root")

    def _end(self, number: int) -> None:
        self._process.kill()
        self._process.wait(STOP_S)
        kill_marked(self.state.token)
        self.state.gone(number)
