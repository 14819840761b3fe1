"""The limiters over arrays beside their listed twins, and what a gossip message costs among users that are quiet.

``python -m benchmarks.limiters NAME [small]``: one system on data set C, whole or a fiftieth of it, in
a process of its own: seconds of processor time, peak memory, what was sent.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from benchmarks.process_tree import own_peak_mib
from core.records import Options, Request
from core.registry import configure
from core.units import SECOND_NS, duration_ns
from studies.limiting.asked import Limiting
from studies.limiting.virtual import run
from systems.api import Arrival, Delivery, Effect, Event, Message, Node, Send, Start, Timer
from systems.limiting.counter_common import Delta
from systems.limiting.queue_common import Elements
from systems.loader import load_system
from testbed.topologies.topology import load_topology
from workloads import load

THESIS_S = 3_600  # its testbed runs in real time (4.3.1)
WHOLE: Options = {"set": "C"}
SMALL: Options = {"set": "C", "users": 100, "requests": 10_000, "duration": "1min"}
CASES: dict[str, tuple[str, Options, Options]] = {  # name -> system, its options, those of the twin
    "counter": ("crdt-counter", {}, {"body": "literal"}),
    "queue+F+L": ("crdt-queue", {"frequency": True, "linf": True}, {"implementation": "lists"}),
}
WANTED_S, WANTED_GIB = 120, 4
KNOWN_USERS = (1_000, 10_000, 100_000)
BUSY_USERS = 10
ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Counted:
    """A node whose messages are counted; everything else is the node's."""

    node: Node
    totals: dict[str, int] = field(default_factory=dict)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """The node's answer."""
        effects = self.node.handle(event, now_ns)
        for effect in effects:
            if isinstance(effect, Send):
                self.totals["elements"] = self.totals.get("elements", 0) + elements_of(effect.message)
        return effects

    def __getattr__(self, name: str) -> object:
        return getattr(self.node, name)


def elements_of(message: Message) -> int:
    """Queue elements, or a counter's entries, in a message."""
    if isinstance(message, Elements):
        return len(message.births) // 8
    assert isinstance(message, Delta)
    return len(message.counts) // 4


def run_case(name: str, options: Options, twin: bool) -> dict[str, float]:
    """One run on 30 nodes, full mesh, no delay (thesis 4.3.3): seconds of processor time and what was sent."""
    key, ours, theirs = CASES[name]
    system = load_system(key)
    config = configure(key, system.config, {**ours, **(theirs if twin else {})})
    totals: dict[str, int] = {}
    make = system.nodes
    assert make is not None
    counted = replace(system, nodes=lambda *given: {name: Counted(node, totals) for name, node in make(*given).items()})
    workload = load("data-set")
    schedule = workload.make(workload.configure(options), 1)
    topology = load_topology("full-mesh", {"nodes": 30, "delay": "0ms"})
    began = process_time()
    drain_ns = duration_ns("10min")
    journal = run(Limiting(counted, config, topology, schedule, schedule.duration_ns, 1, drain_ns=drain_ns)).journal
    spent_s = process_time() - began
    sums = {metric: 0.0 for metric in ("sent_bytes", "sent_count")}
    for _, _, metric, value in journal.samples:
        if metric in sums:
            sums[metric] += value
    rejected = sum(verdict.value == "reject" for _, _, verdict in journal.verdicts.values())
    return {"seconds": spent_s, "requests": len(journal.offered), "rejected": rejected, **sums, **totals}


def message_seconds(name: str, known_users: int, rounds: int = 200) -> float:
    """What it costs a pair of nodes to tell each other of ``BUSY_USERS`` users, a round, with many more known."""
    key, ours, _ = CASES[name]
    system = load_system(key)
    assert system.nodes is not None
    config = configure(key, system.config, {**ours, "capacity": 100_000, "rate": "100"})
    nodes = system.nodes(["a", "b"], config, 1)
    for node in nodes.values():
        node.handle(Start(None), 0)
    now_ns = 0
    for user in range(known_users):
        nodes["a"].handle(Arrival(Request(user, f"user-{user}", now_ns)), now_ns)
    _round(nodes, now_ns)
    spans = []
    for number in range(rounds):
        now_ns += SECOND_NS // 10
        for user in range(BUSY_USERS):
            request = Request(known_users + number * BUSY_USERS + user, f"user-{user}", now_ns)
            nodes["a"].handle(Arrival(request), now_ns)
        began = perf_counter()
        _round(nodes, now_ns)
        spans.append(perf_counter() - began)
    return median(spans)


def _round(nodes: dict[str, Node], now_ns: int) -> None:
    """Node a gossips, node b takes it."""
    for effect in nodes["a"].handle(Timer("gossip", now_ns), now_ns):
        if isinstance(effect, Send):
            nodes["b"].handle(Delivery("a", effect.message), now_ns)


def report() -> None:
    """Print data set C at full size, the twins on a fiftieth of it, and the cost of a message."""
    print(f"\ndata set C on 30 nodes, one core (wanted: at most {WANTED_S} s and {WANTED_GIB} GiB each)")
    sys.stdout.flush()
    for name in CASES:
        subprocess.run([sys.executable, "-m", "benchmarks.limiters", name], check=True, cwd=ROOT)
    print("\nthe same code beside the thesis' listings in plain Python, on a fiftieth of C")
    for name in CASES:
        run_case(name, SMALL, twin=False)  # compiles
        ours, twin = run_case(name, SMALL, twin=False), run_case(name, SMALL, twin=True)
        alike = all(ours[key] == twin[key] for key in ours if key != "seconds")
        assert alike, f"{name}: the twins differ: {ours}, {twin}"
        ratio = twin["seconds"] / ours["seconds"]
        print(f"{name:<12}{ours['seconds']:6.1f} s, listed {twin['seconds']:6.1f} s: {ratio:.1f}x  same answer")
    print(f"\na gossip message about {BUSY_USERS} users, by users known, over that among {KNOWN_USERS[0]:,}")
    for name in CASES:
        base, *others = [message_seconds(name, known) for known in KNOWN_USERS]
        ratios = ", ".join(
            f"{known:,}: {span / base:.2f}x" for known, span in zip(KNOWN_USERS[1:], others, strict=True)
        )
        print(f"{name:<12}{base * 1e6:6.0f} us among {KNOWN_USERS[0]:,}; {ratios}")


def main(words: Sequence[str]) -> None:
    """Print one line about one case."""
    if not words or words[0] not in CASES or words[1:] not in ([], ["small"]):
        sys.exit(f"usage: python -m benchmarks.limiters {'|'.join(CASES)} [small]")
    run_case(words[0], SMALL, twin=False)  # compiles
    case = run_case(words[0], SMALL if words[1:] else WHOLE, twin=False)
    print(
        f"{words[0]:<12}{case['seconds']:6.1f} s (thesis' testbed {THESIS_S / case['seconds']:.0f}x as long), "
        f"peak RSS {own_peak_mib():,.0f} MiB; {case['requests']:,.0f} requests, {case['rejected']:,.0f} rejected; "
        f"{case['sent_count']:,.0f} messages, {case['elements'] / 1e6:,.1f} M elements, "
        f"{case['sent_bytes'] / 1e9:,.2f} GB sent"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
