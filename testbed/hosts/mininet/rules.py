"""Firewall rules of a host: which packets from the network go to the delayer's queues, and which go nowhere.

All rules of a host are loaded at once, in place of those before; they vanish with its namespace.  There is no bypass:
without a listener a queue drops everything, which is seen at once, where a bypass would be a network without delay.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from core.errors import MachineError
from testbed.hosts.capabilities import tool
from testbed.hosts.mininet.namespaces import COMMAND_S, run_in

CHAIN = "PREROUTING"  # of the table mangle: before the socket, behind the sender


def rules_text(device: str, queued: Iterable[tuple[str, int]], cut: Iterable[str]) -> str:
    """For ``iptables-restore``: packets from addresses to queues, and those of ``cut`` addresses to nowhere."""
    lines = ["*mangle", f":{CHAIN} ACCEPT [0:0]"]
    lines += [f"-A {CHAIN} -i {device} -s {address} -j DROP" for address in cut]
    lines += [f"-A {CHAIN} -i {device} -s {address} -j NFQUEUE --queue-num {queue}" for address, queue in queued]
    return "\n".join([*lines, "COMMIT", ""])


def load_rules(texts: Mapping[int, str]) -> None:
    """Load rules into the network namespaces of processes, side by side."""
    # legacy where there is one, for it needs no compatibility layer of nftables
    restore = next((name for name in ("iptables-legacy-restore", "iptables-restore") if tool(name)), None)
    if restore is None:
        raise MachineError("there is no iptables-restore", "apt-get install iptables")
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(
                run_in, pid, restore, "-w", str(COMMAND_S), text=text, fix="modprobe xt_NFQUEUE nfnetlink_queue"
            )
            for pid, text in texts.items()
        ]
    for each in running:
        each.result()
