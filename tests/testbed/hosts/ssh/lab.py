"""Machines for the tests of the testbed ``ssh``: network namespaces with an sshd each, a disk of its own, and a cable.

Only the interface of the harness is in the root namespace.  Nothing of the host's own sshd is used or touched: keys,
configuration and folders are made here, and each sshd sees a ``/run`` of its own, a tmpfs, where its machine's disk is.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed.hosts.capabilities import tool
from testbed.hosts.ssh.inventory import Machine

_PID = os.getpid()
NETWORK = f"198.{18 + _PID // 250 % 2}.{_PID % 250}"  # for tests of networks, RFC 2544; two labs may be up at once
DISK = "/run/disk"
START_S = 60.0


def run(*words: str, check: bool = True) -> str:
    """A command that ends soon."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def make_key(path: Path) -> str:
    """A new key pair; returns the public one."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    return path.with_name(path.name + ".pub").read_text()


@dataclass
class Lab:
    """Machines ``h1`` ... by number from 1."""

    folder: Path
    disk: str = "96m"  # what fits on each
    tag: str = field(default_factory=lambda: f"rs{_PID % 100000}")
    count: int = 0
    sshd: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def key(self) -> Path:
        """The private key that the machines take."""
        return self.folder / "user"

    def address(self, number: int) -> str:
        """Of a machine."""
        return f"{NETWORK}.{number}"

    def namespace(self, number: int) -> str:
        """Of a machine."""
        return f"{self.tag}h{number}"

    def fingerprint(self, number: int) -> str:
        """Of a machine's key."""
        return run("ssh-keygen", "-l", "-f", str(self.folder / f"h{number}.pub")).split()[1]

    def machine(self, number: int, **other: object) -> Machine:
        """A line of an inventory, right unless told otherwise."""
        own = {
            "host": self.address(number),
            "name": f"h{number}",
            "user": "root",
            "key": str(self.key),
            "fingerprint": self.fingerprint(number),
            "address": self.address(number),
            "folder": DISK,
            "python": sys.executable,
        }
        return Machine(**{**own, **other})  # type: ignore[arg-type]

    def inventory(self, path: Path, *numbers: int, **other: str | bool) -> Path:
        """An inventory of these machines, as a user writes it."""
        lines = []
        for number in numbers:
            its = self.machine(number)
            names = ("host", "name", "user", "key", "fingerprint", "address", "folder", "python")
            values = {name: getattr(its, name) for name in names} | other
            lines += ["[[host]]", *(f"{name} = {_toml(value)}" for name, value in values.items()), ""]
        path.write_text("\n".join(lines))
        return path

    def build(self, count: int) -> None:
        """The switch, and the cable to us."""
        self.count, switch = count, f"{self.tag}sw"
        self._public = make_key(self.key)
        (self.folder / "authorized").write_text(self._public)
        run("ip", "netns", "add", switch)
        run("ip", "-n", switch, "link", "add", "sw", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "sw", "up")
        run("ip", "link", "add", self.tag, "type", "veth", "peer", "name", "home", "netns", switch)
        run("ip", "-n", switch, "link", "set", "home", "master", "sw", "up")
        run("ip", "address", "add", f"{NETWORK}.254/24", "dev", self.tag)
        run("ip", "link", "set", self.tag, "up")
        for number in range(1, count + 1):
            own = self.namespace(number)
            run("ip", "netns", "add", own)
            run(
                "ip", "link", "add", "eth0", "netns", own, "type", "veth", "peer", "name", f"p{number}", "netns", switch
            )
            run("ip", "-n", switch, "link", "set", f"p{number}", "master", "sw", "up")
            run("ip", "-n", own, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", own, "link", "set", device, "up")
            make_key(self.folder / f"h{number}")
            self.sshd.append(self._start_sshd(number))
        for number in range(1, count + 1):
            self._wait_for(number)

    def cut(self, number: int, on: bool = True) -> None:
        """Pull a machine's cable, or plug it in."""
        run("ip", "-n", f"{self.tag}sw", "link", "set", f"p{number}", "down" if on else "up")

    def pids(self, number: int) -> dict[int, str]:
        """What runs on a machine: process id -> command line."""
        found = {}
        for pid in run("ip", "netns", "pids", self.namespace(number), check=False).split():
            with suppress(OSError):
                found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        return {pid: text for pid, text in found.items() if text}

    def queues(self, number: int) -> str:
        """The queueing disciplines of a machine's interface."""
        return run("ip", "netns", "exec", self.namespace(number), "tc", "qdisc", "show", "dev", "eth0")

    def files(self, number: int, folder: str = DISK) -> set[str]:
        """What lies in a folder of a machine's disk."""
        its = Path(f"/proc/{self.sshd[number - 1].pid}/root{folder}")
        return {path.name for path in its.iterdir()} if its.is_dir() else set()

    def remove(self) -> None:
        """Everything that ``build`` made."""
        for number in range(1, self.count + 1):
            for pid in self.pids(number):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for process in self.sshd:
            process.wait(60)
        run("ip", "link", "delete", self.tag, check=False)
        for name in [f"{self.tag}sw", *(self.namespace(number) for number in range(1, self.count + 1))]:
            run("ip", "netns", "delete", name, check=False)

    def _start_sshd(self, number: int) -> "subprocess.Popen[bytes]":
        config = self.folder / f"h{number}.conf"
        config.write_text(
            f"ListenAddress {self.address(number)}\nHostKey {self.folder}/h{number}\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n"
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        )
        script = (
            f"mount --make-rprivate /; mount -t tmpfs -o size={self.disk},mode=755 tmpfs /run; "
            f"mkdir /run/sshd {DISK}; exec {tool('sshd')} -D -e -f {config}"
        )
        log = (self.folder / f"h{number}.log").open("wb")
        words = ("ip", "netns", "exec", self.namespace(number), "unshare", "-m", "sh", "-ec", script)
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait_for(self, number: int) -> None:
        log, until_s = self.folder / f"h{number}.log", time.monotonic() + START_S
        while "listening" not in log.read_text():
            assert time.monotonic() < until_s and self.sshd[number - 1].poll() is None, log.read_text()
            time.sleep(0.02)


def _toml(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


@contextmanager
def lab(folder: Path, count: int, disk: str = "96m") -> Iterator[Lab]:
    """Machines that are up, and gone afterwards."""
    made = Lab(folder, disk)
    try:
        made.build(count)
        yield made
    finally:
        made.remove()
