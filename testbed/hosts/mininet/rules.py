"""Firewall rules of a host: which packets from the network go to the delayer's queues, and which go nowhere.

All rules of a host are loaded at once, in place of those before; they vanish with its namespace.  There is no bypass:
without a listener a queue drops everything, which is seen at once, where a bypass would be a network without delay.
"""

import shutil
import subprocess
from collections.abc import Iterable

from core.errors import MachineError
from testbed.hosts.capabilities import tool

TIMEOUT_S = 20
CHAIN = "PREROUTING"  # of the table mangle: before the socket, behind the sender


def rules_text(device: str, queued: Iterable[tuple[str, int]], cut: Iterable[str]) -> str:
    """For ``iptables-restore``: packets from addresses to queues, and those of ``cut`` addresses to nowhere."""
    lines = ["*mangle", f":{CHAIN} ACCEPT [0:0]"]
    lines += [f"-A {CHAIN} -i {device} -s {address} -j DROP" for address in cut]
    lines += [f"-A {CHAIN} -i {device} -s {address} -j NFQUEUE --queue-num {queue}" for address, queue in queued]
    return "\n".join([*lines, "COMMIT", ""])


def restore_tool() -> str:
    """Legacy where there is one, for it needs no compatibility layer of nftables."""
    program = tool("iptables-legacy-restore") or tool("iptables-restore")
    if not program:
        raise MachineError("there is no iptables-restore", "apt-get install iptables")
    return program


def load_rules(texts: dict[int, str]) -> None:
    """Load rules into the network namespaces of processes, side by side."""
    command = [restore_tool(), "-w", str(TIMEOUT_S)]
    enter = shutil.which("nsenter") or "/usr/bin/nsenter"
    running = []
    for pid, text in texts.items():
        words = [enter, "-t", str(pid), "-n", *command]
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
        running.append(process)
    problems = [problem for process in running if (problem := _problem(process))]
    if problems:
        raise MachineError(f"iptables: {problems[0]}", "modprobe xt_NFQUEUE nfnetlink_queue")


def _problem(process: "subprocess.Popen[str]") -> str:
    try:
        _, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "no answer in time"
    return (errors.strip() or f"code {process.returncode}").splitlines()[0] if process.returncode else ""
