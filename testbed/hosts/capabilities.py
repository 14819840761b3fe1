"""What a machine may have or lack for live testbeds: one finder each, used by ``doctor`` and by the tests.

A finder really tries (a namespace, a rule, a module), because installed is not the same as permitted.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import HarnessError, MachineError
from core.registry import lookup
from systems.limiting.deployed import Driver
from testbed.findings import Finding
from testbed.golang import find_go
from testbed.servers import BUILT, SERVERS

TRY_TIMEOUT_S = 20.0
CHECKOUT = Path(__file__).resolve().parents[2]
SBIN = "/usr/sbin:/sbin:/usr/local/sbin"  # where Debian keeps programs that only root has on the PATH


@dataclass(frozen=True)
class Capability:
    """``find`` returns where or how it is there, or nothing; it is asked once a process, by ``find_capability``."""

    what: str
    find: Callable[[], str | bool | None]
    fix: str  # the command that adds it
    first: str = ""  # the capability without which it cannot be tried


def tries(*command: str) -> bool:
    """Whether a command exists, is permitted and succeeds; what it prints is thrown away."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def tool(name: str) -> str | None:
    """The path of a program: as this checkout has built it, on the PATH, or in ``SBIN``."""
    return _built(name) or shutil.which(name) or shutil.which(name, path=SBIN)


def _built(name: str) -> str | None:
    program = lookup("program", BUILT, name) if name in BUILT else None
    return str(program) if program is not None and program.is_file() else None


def find_iptables() -> str | None:
    """The iptables that is wanted: legacy if there is one, for it needs no compatibility layer of nftables."""
    return tool("iptables-legacy") or tool("iptables")


def _package(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    return str(Path(spec.origin).parent) if spec and spec.origin else None


def _mininet() -> str | None:
    place = Path("/usr/lib/python3/dist-packages/mininet")  # Debian's package is for Debian's Python
    return _package("mininet") or (str(place) if (place / "net.py").is_file() else None)


def _in_scratch_namespace(script: str) -> bool:
    return tries("unshare", "-n", "sh", "-ec", f"PATH=$PATH:{SBIN}; {script}")


def _nfqueue() -> bool:
    iptables = find_iptables()
    rule = f"{shlex.quote(iptables or '')} -t mangle -A PREROUTING -s 10.0.0.2 -j NFQUEUE --queue-num 2"
    bind = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).bind((0, 0))"
    return iptables is not None and _in_scratch_namespace(f"{rule}; {shlex.join([sys.executable, '-c', bind])}")


def _pinning() -> str | bool:
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return tries("taskset", "-c", str(core), "true") and f"{os.cpu_count()} cores"


def _go() -> str:
    """As the build of our broker looks for it: new enough, wherever it is."""
    return str(find_go())


def _brokerd() -> str | bool:
    from testbed.brokers.brokerd import build

    return build.BINARY.is_file() and str(build.BINARY)


def _dockerd() -> str | None:
    """The engine, if there are control groups to limit containers with: without, it starts and then refuses."""
    there = Path("/sys/fs/cgroup/cgroup.controllers").is_file() or Path("/sys/fs/cgroup/memory").is_dir()
    return tool("dockerd") if there else None


def _java() -> str | None:
    """The one that this checkout has made for Spark, or one on the path."""
    own = CHECKOUT / ".java" / "bin" / "java"
    return str(own) if os.access(own, os.X_OK) else tool("java")


def _linux() -> str | bool:
    return Path("/proc/self/stat").is_file() and hasattr(os, "pidfd_open") and os.uname().release


def _programs(what: str, fix: str, *names: str) -> Capability:
    return Capability(what, lambda: all(map(tool, names)) and tool(names[0]), fix)


_INSTALL = "apt-get install --no-install-recommends"
CAPABILITIES = {
    "linux": Capability("Linux", _linux, "use a Linux machine (5.3 or newer), or a virtual one: vagrant up testbed"),
    "root": Capability("root", lambda: os.geteuid() == 0 and "yes", "run as root, as in: sudo make live"),
    "namespaces": Capability(
        "network namespaces", lambda: tries("unshare", "-n", "true") and "can be made", "run as root"
    ),
    "mininet": Capability("Mininet", _mininet, f"{_INSTALL} mininet"),
    "mnexec": _programs("mnexec", f"{_INSTALL} mininet", "mnexec"),
    "brctl": Capability(  # which Mininet's LinuxBridge calls
        "Linux bridges",
        lambda: _in_scratch_namespace("brctl addbr ratebed-probe") and tool("brctl"),
        "apt-get install bridge-utils",
        "namespaces",
    ),
    "ip": _programs("ip", "apt-get install iproute2", "ip"),
    "iptables": Capability("iptables", find_iptables, "apt-get install iptables"),
    "nfqueue": Capability(
        "NFQUEUE", _nfqueue, "modprobe nfnetlink_queue xt_NFQUEUE, or a kernel that has them", "namespaces"
    ),
    "netem": Capability(
        "netem",
        lambda: _in_scratch_namespace("tc qdisc add dev lo root netem delay 1ms"),
        "modprobe sch_netem, or a kernel that has it (vagrant up testbed)",
        "namespaces",
    ),
    "openvswitch": Capability(
        "Open vSwitch", lambda: tries("ovs-vsctl", "--timeout=3", "show"), "apt-get install openvswitch-switch"
    ),
    "pinning": Capability("pinning to cores", _pinning, "apt-get install util-linux"),
    "realtime": Capability(
        "SCHED_FIFO", lambda: tries("chrt", "-f", "1", "true"), "run as root, or allow rtprio in limits.conf"
    ),
    "paramiko": Capability("paramiko", lambda: _package("paramiko"), "make setup"),
    "sshd": _programs("sshd, for tests", "apt-get install openssh-server", "sshd"),
    "erlang": _programs("Erlang", f"{_INSTALL} erlang-base", "erl", "erlc"),
    "go": Capability("Go", _go, "make live (or install Go 1.21 or newer)"),
    "brokerd": Capability("brokerd", _brokerd, "make live (or python -m testbed.brokers.brokerd.build)"),
    "docker-sdk": Capability("Docker SDK", lambda: _package("docker"), "make setup"),
    "dockerd": Capability("Docker engine", _dockerd, f"{_INSTALL} docker.io"),
    "containerd": _programs("containerd", f"{_INSTALL} docker.io", "containerd"),
    "runc": _programs("runc", f"{_INSTALL} docker.io", "runc"),
    "libvirtd": _programs("libvirt", "./bootstrap.sh vm", "virsh", "libvirtd"),
    "qemu": _programs("QEMU", "./bootstrap.sh vm", "qemu-system-x86_64", "qemu-img"),
    "debootstrap": _programs("debootstrap", "./bootstrap.sh vm", "debootstrap"),
    "vagrant": _programs("Vagrant", "./bootstrap.sh vm", "vagrant"),
    "unshare": _programs("unshare", "apt-get install util-linux", "unshare"),
    "java": Capability("Java", _java, "make setup"),
}


def capability(name: str) -> Capability:
    """One of ``CAPABILITIES``, or what a server of that name needs."""
    if name in CAPABILITIES:
        return CAPABILITIES[name]
    server: Any = lookup("server", SERVERS, name)
    return of_programs(name, server.programs) if isinstance(server, Driver) else server.capability


def of_programs(what: str, programs: Mapping[str, str]) -> Capability:
    """All of ``programs``, each with the command that brings it."""
    missing = [name for name in programs if tool(name) is None]
    fix = "; ".join(programs[name] for name in missing or programs)
    return Capability(what, lambda: not missing and tool([*programs][-1]), fix)


@cache
def find_capability(name: str) -> str | None:
    """Where or how a capability was found; None where it is missing, or where looking for it fails."""
    try:
        where = capability(name).find()
    except (OSError, ImportError, HarnessError):
        return None
    return "works" if where is True else where or None


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
    return probe_capabilities("go", "brokerd", *SERVERS, "erlang", "pinning", "realtime", needed=False)
