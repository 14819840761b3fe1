"""Deployed limiters, unmodified: their memory at a million keys, and how much of one hot key each bears.

``python -m benchmarks.deployed [NAME …]``.  Real servers on loopback, asked in their drivers' own bytes.  Limiters of
ours stand beside them, nodes in a fresh process each, with what these keep.  The peer is redis-gcra.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from math import inf, nan
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import psutil

from benchmarks.asker import ERROR, REJECTED, Asker, ask_all, warm
from benchmarks.hot_key import LATE_SHARE, LOWEST_RPS, WARMING, WARMING_S, Rung, climb, counts, knee, others_s
from core.errors import HarnessError, MachineError, SpecError
from core.records import Options, Request
from core.registry import configure
from core.units import SECOND_NS
from paper_figs.beyond.contenders import FAST, PRODUCTS, REPLICATED
from systems.api import Arrival, Delivery, Event, Send, SetTimer, Start, Timer
from systems.limiting.deployed import Driver, quota_of
from systems.loader import declared, load_system
from testbed.hosts.capabilities import tool
from testbed.hosts.local import LocalSite
from testbed.servers.driven import Driven
from testbed.servers.server import Placing, ServerGroup
from testbed.topologies.topology import mesh

PEER = "redis-gcra"
KEYS, SAMPLED, REPEATS = 1_000_000, 500, 3
DAY_S = 86_400
LONG: tuple[Options, ...] = (
    {"capacity": 20, "rate": f"20/{DAY_S}"},
    {"capacity": 20, "rate": "1/20"},  # as slowly as nginx leaks
)
FILL_S = 100.0  # keys that have not been asked by then are left out; bucket4j bears some 2,000 a second
CONNECTIONS, DEPTH = 16, 8  # of the fill, and questions at a time on each
UNPIPELINED = {"bucket4j"}  # Java's HTTP server takes one question at a time of a connection
# bucket4j's script gives Java 128 MiB, enough for the few keys of figures.  Java reads this after the script's words.
ROOM = {"_JAVA_OPTIONS": "-Xmx3g"}
SETTLED, SETTLE_S, LOOK_S = 1.01, 20.0, 0.5  # memory that has grown by no more between two looks; but no longer
ARRIVALS_NS = 20_000  # between those at ours, in virtual time
MIB = 2**20
WIDTH, INDENT = 120, "    "
ROOT = Path(__file__).resolve().parents[1]


class Case(NamedTuple):
    """A configuration on so many ``nodes``: the first is asked, and the last is asked what it knows."""

    name: str
    system: str
    options: Options
    nodes: int = 1


_SINGLE = [Case(name, who.system, who.options) for name, who in PRODUCTS.items() if name not in REPLICATED]
_COPIED = [
    Case("haproxy, 2 peers", "haproxy", {}, 2),
    Case("bucket4j, 2 members", "bucket4j", {}, 2),  # each bucket, and its backup
]
DEPLOYED = sorted([*_SINGLE, *_COPIED], key=lambda case: case.name != PEER)  # the peer first: the others are told by it
OURS = [
    Case("crdt-counter", "crdt-counter", {}),
    Case("crdt-counter, 2 nodes", "crdt-counter", {}, 2),
    Case("leases", "leases", {}),
    Case("centralised", "centralised", {}),
]
CASES = {case.name: case for case in (*DEPLOYED, *OURS)}


@contextmanager
def running(case: Case, driver: Driver, config: Any) -> Iterator[ServerGroup]:
    """The servers of a configuration, up and ready; their folder goes with them."""
    names = names_of(case)
    with (
        tempfile.TemporaryDirectory(prefix="ratebed-deployed-") as place,
        LocalSite(mesh("bench", names, 0), Path(place)) as site,
    ):
        servers = Driven(driver).deploy(site, Placing(names, names[0], "benchmark", config))
        try:
            servers.start(names)
            servers.wait()
            yield servers
        finally:
            servers.stop()


def names_of(case: Case) -> list[str]:
    """Its nodes."""
    return [f"n{number}" for number in range(1, case.nodes + 1)]


def driver_of(case: Case) -> Driver:
    """MachineError where this machine lacks one of its programs, with what brings it."""
    driver = declared(load_system(case.system), ":DRIVER")
    assert isinstance(driver, Driver)
    for program, fix in driver.programs.items():
        if tool(program) is None:
            raise MachineError(f"no {program}", fix)
    return driver


# --- memory -----------------------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """Resident before and after ``asked`` keys; ``kept``: the share of the sampled ones that is known afterwards.

    ``model_bytes``: what ours say that they keep; None: of others.
    """

    asked: int
    before_bytes: int
    after_bytes: int
    kept: float = 1.0
    errors: int = 0
    took_s: float = 0.0
    model_bytes: int | None = None

    @property
    def key_bytes(self) -> float:
        """Growth a key."""
        return (self.after_bytes - self.before_bytes) / self.asked


def long_config(driver: Driver, case: Case) -> Any:
    """Its options with the first limit of ``LONG`` that it can say."""
    for limit in LONG:
        config = configure(case.system, driver.config, {**case.options, **limit})
        try:
            driver.check(quota_of(config), config, names_of(case))
        except SpecError:
            continue
        return config
    raise MachineError(f"{driver.key} can say none of the limits", "give LONG one that it can")


def user(number: int) -> str:
    """A key; all are of one length."""
    return f"user-{number:08}"


def measure_memory(case: Case, driver: Driver, keys: int, fill_s: float = FILL_S) -> Memory:
    """Ask each key once, but a sample spread evenly over them up to its limit; and the sample again at the end.

    Other keys come first: what connections and first questions take is no key's.  A key that was forgotten has its
    whole limit again.  ``kept`` is nan where that tells nothing.
    """
    config = long_config(driver, case)
    quota, sampled = quota_of(config), min(SAMPLED, keys)
    before, key, after = driver.ask(user(0), 1, quota, config).partition(user(0).encode())
    assert key and driver.ask(user(keys), 1, quota, config) == before + user(keys).encode() + after
    sample = [place * keys // sampled for place in range(sampled)]
    turns = dict.fromkeys(sample, quota.count)
    others = (before + user(keys + each).encode() + after for each in range(WARMING))
    first = (before + user(each).encode() + after for each in range(keys) for _ in range(turns.get(each, 1)))
    again = (before + user(each).encode() + after for each in sample for _ in range(quota.count))
    depth, names = 1 if case.system in UNPIPELINED else DEPTH, names_of(case)
    with _environment(ROOM), running(case, driver, config) as servers:
        with Asker(servers.reached_from(names[0]), driver.wire, CONNECTIONS, depth) as asker:
            warm(asker, others, driver.verdict, WARMING_S)
            resident, begun_s, window = _settled_bytes(servers), time.monotonic(), time.time() // DAY_S
            verdicts = ask_all(asker, first, driver.verdict, fill_s)
            took_s, grown = time.monotonic() - begun_s, _settled_bytes(servers)
        with Asker(servers.reached_from(names[-1]), driver.wire, CONNECTIONS, depth) as asker:
            told = ask_all(asker, again, driver.verdict, fill_s)
    asked = keys_of(len(verdicts), turns)
    kept = kept_share(told, sum(number < asked for number in sample), quota.count)
    # Limits that are there again by now, or windows that have ended, are no keys that were forgotten.
    if time.monotonic() - begun_s > quota.period or time.time() // DAY_S != window:
        kept = nan
    return Memory(asked, resident, grown, kept, verdicts.count(ERROR) + told.count(ERROR), took_s)


def keys_of(questions: int, turns: Mapping[int, int]) -> int:
    """How many keys were asked with the first ``questions``; ``turns``: of those that are asked more than once."""
    more = 0
    for number, count in turns.items():  # in order
        if number + more >= questions:
            break
        more += count - 1
    return max(1, questions - more)


def kept_share(verdicts: bytes | bytearray, sampled: int, count: int) -> float:
    """The share of so many exhausted keys that are known: asked ``count`` times each, not everything is admitted."""
    groups = [verdicts[place * count : (place + 1) * count] for place in range(sampled)]
    return sum(REJECTED in group for group in groups) / sampled if sampled else nan


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """What servers are started with, beside what their drivers say."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _processes(servers: ServerGroup) -> list[psutil.Process]:
    roots = [psutil.Process(process.pid) for _, process in servers.processes]
    return [each for root in roots for each in (root, *root.children(recursive=True))]


def _resident_bytes(servers: ServerGroup) -> int:
    return sum(each.memory_info().rss for each in _processes(servers))


def _settled_bytes(servers: ServerGroup) -> int:
    """When what was asked has come to all of them."""
    before, until_s = _resident_bytes(servers), time.monotonic() + SETTLE_S
    while True:
        time.sleep(LOOK_S)
        now = _resident_bytes(servers)
        if now <= SETTLED * before or time.monotonic() > until_s:
            return now
        before = now


class _Together:
    """Nodes in one process: what one sends arrives at once, and timers ring when they are due."""

    def __init__(self, case: Case):
        system = load_system(case.system)
        assert system.nodes is not None
        names = names_of(case)
        config = configure(case.system, system.config, {**case.options, **LONG[0]})
        self.nodes: dict[str, Any] = system.nodes(names, config, 1)
        self.now_ns, self._timers = 0, list[tuple[int, str, str]]()
        for name in names:
            self._give(name, Start(None))

    def arrive(self, keys: int) -> None:
        """A request of each user at the first node; then what is left to say is said."""
        for number in range(keys):
            self._wait(ARRIVALS_NS)
            self._give("n1", Arrival(Request(number, user(number), self.now_ns)))
        self._wait(SECOND_NS)

    def _wait(self, span_ns: int) -> None:
        until_ns = self.now_ns + span_ns
        while self._timers and self._timers[0][0] <= until_ns:
            self.now_ns, name, timer = heappop(self._timers)
            self._give(name, Timer(timer, self.now_ns))
        self.now_ns = until_ns

    def _give(self, name: str, event: Event) -> None:
        for effect in self.nodes[name].handle(event, self.now_ns):
            if isinstance(effect, Send):
                self._give(effect.target, Delivery(name, effect.message))
            elif isinstance(effect, SetTimer):
                heappush(self._timers, (effect.at_ns, name, effect.name))


def fill_ours(case: Case, keys: int) -> Memory:
    """Nodes of ours in this process, which must be a fresh one."""
    _Together(case).arrive(min(keys, SAMPLED))  # compiles
    gc.collect()
    process = psutil.Process()
    before, begun_s = process.memory_info().rss, time.monotonic()
    together = _Together(case)
    together.arrive(keys)
    took_s = time.monotonic() - begun_s
    gc.collect()
    model_bytes = sum(node.state_bytes() for node in together.nodes.values())
    return Memory(keys, before, process.memory_info().rss, took_s=took_s, model_bytes=model_bytes)


# --- printed ---------------------------------------------------------------------------------------------------------

HEAD = """
Deployed limiters on loopback, {0} cores with who asks.
Left: {1:,} keys asked once each, {2} of them up to their limit (kept: the share of these that is known at the end);
resident memory of all servers, and its growth a key.  Right: one key, its limit {3}, asked at Poisson's instants:
the rate at which the median wait is over twice that at {4:g}/s; medians of {5}.  >: not reached, up to there, beyond
which who asks is late.  Below: each rate, its wait in us (and in what nine tenths of its requests were taken up: at
most {6:g} of the first wait, if the rate counts).
                      nodes   RSS MiB   B/key  ratio    kept errors   filled       wait doubles at  ratio errors"""


@contextmanager
def _on_cores(cores: Collection[int]) -> Iterator[None]:
    """This thread, and what it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure_rungs(case: Case, driver: Driver, repeats: int) -> tuple[list[Rung], float]:
    """One hot key, its limit 20 a second; and how many cores others had meanwhile.

    Who asks has a core to itself where there are two.
    """
    config = configure(case.system, driver.config, {**case.options, **FAST.limit})
    cores = sorted(os.sched_getaffinity(0))
    with _on_cores(cores[:-1] or cores), running(case, driver, config) as servers, _on_cores(cores[-1:]):
        processes, begun_s = [psutil.Process(), *_processes(servers)], time.monotonic()
        before_s = others_s(processes)
        rungs = climb(servers.reached_from("n1"), driver, config, repeats)
        return rungs, (others_s(processes) - before_s) / (time.monotonic() - begun_s)


def _memory_text(case: Case, memory: Memory, peer: Memory | None) -> str:
    ratio = f"{memory.key_bytes / peer.key_bytes:6.2f}" if peer and peer.key_bytes > 0 else f"{'-':>6}"
    kept = "" if memory.model_bytes is not None else "?" if memory.kept != memory.kept else f"{memory.kept:.1%}"
    text = (
        f"{case.nodes:5} {memory.after_bytes / MIB:9,.0f} {memory.key_bytes:7,.0f} {ratio} {kept:>7} {memory.errors:6,}"
    )
    return f"{text} {memory.took_s:6,.0f} s"


def _rungs_text(rungs: Sequence[Rung], peer: Sequence[Rung]) -> str:
    own_knee, of_peer = knee(rungs), knee(peer).rate_rps if peer else None
    more, rate_rps = ("", own_knee.rate_rps) if own_knee.rate_rps else (">", own_knee.below_rps)
    ratio = f"{more}{rate_rps / of_peer:.2f}" if rate_rps and of_peer else "-"
    reached = f"{more}{rate_rps:,.0f}" if rate_rps else "late" if rungs[0].wait_ns < inf else "errors"
    return f" {rungs[0].wait_ns / 1000:7,.0f} us {reached:>10} {ratio:>6} {sum(rung.errors for rung in rungs):6,}"


def _ladder_text(rungs: Sequence[Rung], others: float) -> str:
    steps = (
        f"{rung.rate_rps:,.0f}/s {rung.wait_ns / 1000:,.0f} ({rung.late_ns / 1000:,.0f})"
        + ("" if counts(rung, rungs[0]) else " not counted")
        for rung in rungs
    )
    text = f"{'; '.join(steps)}; others had {others:.2f} cores"
    return fill(text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)


def report(names: Collection[str] = (), keys: int = KEYS, repeats: int = REPEATS, fill_s: float = FILL_S) -> None:
    """Print a table of these configurations; () is all."""
    print(HEAD.format(os.cpu_count(), keys, min(SAMPLED, keys), FAST.said, LOWEST_RPS, repeats, LATE_SHARE))
    peer_memory, peer_rungs = None, list[Rung]()
    for case in (case for case in DEPLOYED if not names or case.name in names):
        sys.stdout.flush()
        try:
            driver = driver_of(case)
            memory = measure_memory(case, driver, keys, fill_s)
            rungs, others = measure_rungs(case, driver, repeats) if case.nodes == 1 else ([], 0.0)
        except (HarnessError, OSError, ValueError, psutil.Error) as error:
            print(f"{case.name:<22}not measured: {error}")
            continue
        if case.name == PEER:
            peer_memory, peer_rungs = memory, rungs
        right = _rungs_text(rungs, peer_rungs) if rungs else ""
        print(f"{case.name:<22}{_memory_text(case, memory, peer_memory)}{right}")
        if memory.asked < keys:
            print(f"{INDENT}only {memory.asked:,} keys were asked in {fill_s:g} s")
        if rungs:
            print(_ladder_text(rungs, others))
    for case in (case for case in OURS if not names or case.name in names):
        sys.stdout.flush()
        words = [sys.executable, "-m", "benchmarks.deployed", "--alone", "--keys", str(keys), case.name]
        done = subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        memory = Memory(*json.loads(done.stdout))
        model = f"   its model says {(memory.model_bytes or 0) / keys:,.0f} B/key"
        print(f"{case.name:<22}{_memory_text(case, memory, peer_memory)}{model}")


def main(words: Sequence[str]) -> None:
    """Print the table, or be the process of one of ours."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deployed", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {'; '.join(CASES)} (default: all)")
    parser.add_argument("--keys", type=int, default=KEYS, help=f"so many keys (default {KEYS:,})")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"medians of so many (default {REPEATS})")
    parser.add_argument("--fill", type=float, default=FILL_S, help=f"ask for at most so many s (default {FILL_S:g})")
    parser.add_argument("--alone", action="store_true", help="one of ours, in this process: prints its numbers")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.names) - set(CASES):
        parser.error(f"no {', '.join(sorted(unknown))}; there are {'; '.join(CASES)}")
    if min(arguments.keys, arguments.repeats) < 1:
        parser.error("give at least one key and one repeat")
    if arguments.alone:
        print(json.dumps(fill_ours(CASES[arguments.names[0]], arguments.keys)))
    else:
        report(arguments.names, arguments.keys, arguments.repeats, arguments.fill)


if __name__ == "__main__":
    main(sys.argv[1:])
