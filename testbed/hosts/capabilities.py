"""What a machine may have or lack for live testbeds: one finder each, used by ``doctor`` and by the tests.

A finder really tries (a namespace, a rule, a module), because installed is not the same as permitted.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from core.errors import HarnessError, MachineError
from testbed.servers import SERVERS, load_server

TRY_TIMEOUT_S = 20.0
CHECKOUT = Path(__file__).resolve().parents[2]


class Finding(NamedTuple):
    """A row of ``Backend.probe``.  ``needed``: without it the testbed cannot be used at all."""

    what: str
    found: bool
    detail: str  # where or how it was found, or the command that adds it
    needed: bool = True


@dataclass(frozen=True)
class Capability:
    """``find`` returns where it is, or None; it is asked once a process, by ``find_capability``."""

    what: str
    find: Callable[[], str | None]
    fix: str  # the command that adds it
    first: str = ""  # the capability without which it cannot be tried


def tries(*command: str) -> bool:
    """Whether a command exists, is permitted and succeeds; what it prints is thrown away."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TRY_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def tool(name: str) -> str | None:
    """The path of a program: on the PATH, or where Debian keeps those that only root has on it."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


def find_iptables() -> str | None:
    """The iptables that is wanted: legacy if there is one, for it needs no compatibility layer of nftables."""
    return tool("iptables-legacy") or tool("iptables")


def _root() -> str | None:
    return "yes" if os.geteuid() == 0 else None


def _namespaces() -> str | None:
    return "can be made" if tries("unshare", "-n", "true") else None


def _mininet() -> str | None:
    spec = importlib.util.find_spec("mininet")
    if spec and spec.origin:
        return str(Path(spec.origin).parent)
    place = Path("/usr/lib/python3/dist-packages/mininet")  # Debian's package is for Debian's Python
    return str(place) if (place / "net.py").is_file() else None


def _in_scratch_namespace(script: str) -> bool:
    return tries("unshare", "-n", "sh", "-ec", script)


def _nfqueue() -> str | None:
    iptables = find_iptables()
    rule = f"{iptables} -t mangle -A PREROUTING -s 10.0.0.2 -j NFQUEUE --queue-num 2"
    bind = f"{sys.executable} -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).bind((0, 0))'"
    return "works" if iptables and _in_scratch_namespace(f"{rule}; {bind}") else None


def _netem() -> str | None:
    works = tool("tc") and _in_scratch_namespace(f"{tool('tc')} qdisc add dev lo root netem delay 1ms")
    return "works" if works else None


def _openvswitch() -> str | None:
    return "answers" if tool("ovs-vsctl") and tries("ovs-vsctl", "--timeout=3", "show") else None


def _bridges() -> str | None:
    """Mininet's LinuxBridge calls brctl."""
    works = tool("brctl") and _in_scratch_namespace(f"{tool('brctl')} addbr ratebed-probe")
    return tool("brctl") if works else None


def _realtime() -> str | None:
    return "permitted" if tool("chrt") and tries("chrt", "-f", "1", "true") else None


def _pinning() -> str | None:
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return f"{os.cpu_count()} cores" if tool("taskset") and tries("taskset", "-c", str(core), "true") else None


def _paramiko() -> str | None:
    spec = importlib.util.find_spec("paramiko")
    return "installed" if spec else None


def _go() -> str:
    """As the build of our broker looks for it: new enough, wherever it is."""
    from testbed.brokers.brokerd import build

    return str(build.find_go())


def _brokerd() -> str | None:
    """The program of the sources that are here."""
    from testbed.brokers.brokerd import build

    return str(build.BINARY) if build.BINARY.is_file() else None


def _docker_sdk() -> str | None:
    spec = importlib.util.find_spec("docker")
    return str(Path(spec.origin).parent) if spec and spec.origin else None


def _dockerd() -> str | None:
    """The engine, if there are control groups to limit containers with: without, it starts and then refuses."""
    there = Path("/sys/fs/cgroup/cgroup.controllers").is_file() or Path("/sys/fs/cgroup/memory").is_dir()
    return tool("dockerd") if there else None


def _java() -> str | None:
    """The one that this checkout has made for Spark, or one on the path."""
    own = CHECKOUT / ".java" / "bin" / "java"
    return str(own) if os.access(own, os.X_OK) else tool("java")


def _linux() -> str | None:
    return os.uname().release if Path("/proc/self/stat").is_file() and hasattr(os, "pidfd_open") else None


CAPABILITIES = {
    "linux": Capability("Linux", _linux, "use a Linux machine (5.3 or newer), or a virtual one: vagrant up testbed"),
    "root": Capability("root", _root, "run as root, as in: sudo make live"),
    "namespaces": Capability("network namespaces", _namespaces, "run as root"),
    "mininet": Capability("Mininet", _mininet, "apt-get install --no-install-recommends mininet"),
    "mnexec": Capability("mnexec", lambda: tool("mnexec"), "apt-get install --no-install-recommends mininet"),
    "brctl": Capability("Linux bridges", _bridges, "apt-get install bridge-utils", "namespaces"),
    "ip": Capability("ip", lambda: tool("ip"), "apt-get install iproute2"),
    "iptables": Capability("iptables", find_iptables, "apt-get install iptables"),
    "nfqueue": Capability(
        "NFQUEUE", _nfqueue, "modprobe nfnetlink_queue xt_NFQUEUE, or a kernel that has them", "namespaces"
    ),
    "netem": Capability(
        "netem", _netem, "modprobe sch_netem, or a kernel that has it (vagrant up testbed)", "namespaces"
    ),
    "openvswitch": Capability("Open vSwitch", _openvswitch, "apt-get install openvswitch-switch"),
    "pinning": Capability("pinning to cores", _pinning, "apt-get install util-linux"),
    "realtime": Capability("SCHED_FIFO", _realtime, "run as root, or allow rtprio in limits.conf"),
    "paramiko": Capability("paramiko", _paramiko, "make setup"),
    "sshd": Capability("sshd, for tests", lambda: tool("sshd"), "apt-get install openssh-server"),
    "go": Capability("Go", _go, "make live (or install Go 1.21 or newer)"),
    "brokerd": Capability("brokerd", _brokerd, "make live (or python -m testbed.brokers.brokerd.build)"),
    "docker-sdk": Capability("Docker SDK", _docker_sdk, "make setup"),
    "dockerd": Capability("Docker engine", _dockerd, "apt-get install --no-install-recommends docker.io"),
    "containerd": Capability(
        "containerd", lambda: tool("containerd"), "apt-get install --no-install-recommends docker.io"
    ),
    "runc": Capability("runc", lambda: tool("runc"), "apt-get install --no-install-recommends docker.io"),
    "libvirtd": Capability("libvirt", lambda: tool("libvirtd") and tool("virsh"), "./bootstrap.sh vm"),
    "qemu": Capability("QEMU", lambda: tool("qemu-img") and tool("qemu-system-x86_64"), "./bootstrap.sh vm"),
    "debootstrap": Capability("debootstrap", lambda: tool("debootstrap"), "./bootstrap.sh vm"),
    "vagrant": Capability("Vagrant", lambda: tool("vagrant"), "./bootstrap.sh vm"),
    "unshare": Capability("unshare", lambda: tool("unshare"), "apt-get install util-linux"),
    "java": Capability("Java", _java, "make setup"),
}


def capability(name: str) -> Capability:
    """One of ``CAPABILITIES``, or what a server of that name needs."""
    return CAPABILITIES[name] if name in CAPABILITIES else load_server(name).capability


@cache
def find_capability(name: str) -> str | None:
    """Where or how a capability was found; None where it is missing, or where looking for it fails."""
    try:
        return capability(name).find()
    except (OSError, ImportError, HarnessError):
        return None


def fix_of(name: str) -> str:
    """The command that adds a missing capability, or the one that it needs first."""
    wanted = capability(name)
    return fix_of(wanted.first) if wanted.first and find_capability(wanted.first) is None else wanted.fix


def require(*names: str) -> None:
    """MachineError, with the command that adds it, for the first of the capabilities that this machine lacks."""
    for name in names:
        if find_capability(name) is None:
            raise MachineError(f"this machine has no {capability(name).what}", fix_of(name))


def probe_capabilities(*names: str, needed: bool = True) -> list[Finding]:
    """Look for each of the named capabilities."""
    looked = [(name, find_capability(name)) for name in names]
    return [Finding(capability(name).what, where is not None, where or fix_of(name), needed) for name, where in looked]


def probe_beside() -> list[Finding]:
    """What live studies may want of this machine beside what makes hosts: brokers, servers, steady measurements."""
    return probe_capabilities("go", "brokerd", *SERVERS, "pinning", "realtime", needed=False)
