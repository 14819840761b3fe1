"""The message pipeline (schedule, ingress, bucket, pump, histogram) beside SimPy; start-up; whole campaigns."""

import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.process_tree import watch
from benchmarks.simpy_peer import SimpyBroker
from collectors.histogram import quantile
from core.records import Envelope, Options, Schedule
from core.units import SECOND_NS
from systems.parts.token_bucket import split_bucket
from testbed.brokers.model import load_calibration
from testbed.virtual.fleet import Fleet
from workloads import load

SIMPY_SPAN_NS = SECOND_NS // 2
HISTOGRAM_ERROR = 0.01  # relative
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Split:
    """One load, split over ``brokers``."""

    name: str
    workload: str
    options: Options
    brokers: int
    target_mps: float  # millions of messages a second on one core


SPREAD = {"publishers": 6000, "group_size": 25, "spread": "16ms"}
SPLITS = (
    Split("Poisson, 6,000 publishers, 1 broker", "poisson", {"publishers": 6000}, 1, 20),
    Split("Poisson, 10,000 publishers, 6 brokers", "poisson", {"publishers": 10_000}, 6, 20),
    Split("Poisson, batch 10, 6 brokers", "poisson", {"publishers": 10_000, "batch": 10}, 6, 8),
    Split("periodic, 6,000 publishers, 2 brokers", "periodic", {"publishers": 6000}, 2, 8),
    Split("periodic, batch 10, 6 brokers", "periodic", {"publishers": 6000, "batch": 10}, 6, 8),
    Split("groups of 25, 6 brokers", "poisson", {"publishers": 6000, "group_size": 25}, 6, 8),
    Split("groups of 25, batch 10, 6 brokers", "poisson", {"publishers": 1000, "group_size": 25, "batch": 10}, 6, 8),
    Split("groups of 25, spread 16 ms, 6 brokers", "poisson", SPREAD, 6, 8),
)


def _offered(split: Split) -> tuple[Schedule, Envelope]:
    """What is sent, and the bucket that it meets."""
    schedule = load(split.workload).make(load(split.workload).configure(split.options), 1)
    return schedule, Envelope(1.1 * schedule.population.total_rps, 250.0)


def deployed(split: Split) -> Fleet:
    """A fleet that has never seen the schedule, with publishers spread at random."""
    schedule, envelope = _offered(split)
    fleet = Fleet(load_calibration("srtm-paper"), "topic", schedule, [None] * split.brokers)
    count = schedule.population.count
    fleet.move(np.random.default_rng(1).permutation(np.arange(count) % split.brokers).astype(np.int32))
    for broker, part in enumerate(split_bucket(envelope, [1.0] * split.brokers)):
        fleet.set_bucket(broker, part, full=True)
    return fleet


def rate_of(split: Split, span_ns: int) -> float:
    """Messages a second of wall-clock time, for a run of ``span_ns`` of virtual time."""
    fleet = deployed(split)
    fleet.record(0, span_ns)
    began = perf_counter()
    fleet.advance(span_ns)
    return float(fleet.state.latency.sum()) / (perf_counter() - began)


def simpy_deployed(split: Split) -> tuple[SimpyBroker, Schedule]:
    """The same in SimPy: all publishers on one broker (its cost hardly depends on the split)."""
    schedule, envelope = _offered(split)
    return SimpyBroker(load_calibration("srtm-paper"), envelope), schedule


def simpy_rate(split: Split) -> float:
    """Messages a second of wall-clock time in SimPy."""
    broker, schedule = simpy_deployed(split)
    began = perf_counter()
    latencies = broker.run(schedule.block(0, SIMPY_SPAN_NS))
    return len(latencies) / (perf_counter() - began)


def answers(split: Split, span_ns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(messages, p99 in ns) of the kernel and of SimPy for the same load; on one broker, as SimPy has one."""
    fleet = deployed(replace(split, brokers=1))
    fleet.record(0, span_ns)
    fleet.advance(span_ns)
    counts = fleet.state.latency[0]
    broker, schedule = simpy_deployed(split)
    peer_ns = broker.run(schedule.block(0, span_ns))
    peer_p99_ns = int(np.quantile(peer_ns, 0.99, method="inverted_cdf"))
    return (int(counts.sum()), quantile(counts, 0.99)), (len(peer_ns), peer_p99_ns)


def check_same_answer(split: Split, span_ns: int) -> None:
    """Timing two models that compute different things says nothing: AssertionError if they do."""
    (count, p99_ns), (peer_count, peer_p99_ns) = answers(split, span_ns)
    assert count == peer_count > 0, f"{split.name}: {count} messages, SimPy {peer_count}"
    same = abs(p99_ns - peer_p99_ns) <= HISTOGRAM_ERROR * peer_p99_ns
    assert same, f"{split.name}: p99 {p99_ns} ns, SimPy {peer_p99_ns} ns"


def report(repeats: int) -> None:
    """Print the pipeline's rates, and how cost and memory grow with the length of a run."""
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"message pipeline on one core, compiled code warm, medians of {repeats}")
    print(f"{'':<44}{'M msg/s':>9}{'wanted':>8}{'SimPy k/s':>11}{'ratio':>8}")
    for split in SPLITS:
        check_same_answer(split, SIMPY_SPAN_NS)
        rate_of(split, SECOND_NS)
        ours = median(rate_of(split, 60 * SECOND_NS) for _ in range(repeats))
        peer = median(simpy_rate(split) for _ in range(repeats))
        rates = f"{ours / 1e6:>9.1f}{split.target_mps:>8.0f}{peer / 1e3:>11.1f}{ours / peer:>7.0f}x"
        print(f"{split.name:<44}{rates}  same answer")
    print("\ngrowth with the length of a run (Poisson, 6,000 publishers), a fresh process each")
    sys.stdout.flush()
    for minutes in (1, 4, 16):
        subprocess.run([sys.executable, "-m", "benchmarks.memory", str(minutes)], check=True, cwd=ROOT)


def report_start_up(repeats: int) -> None:
    """Print how long the command line takes to say something."""
    print(f"\nstart-up, medians of {repeats}")
    for words, wanted in ((["--help"], 0.5), (["list"], 1.0)):
        seconds = median(_seconds([sys.executable, "-m", "ratebed", *words]) for _ in range(repeats))
        print(f"ratebed {words[0]:<12}{seconds:6.2f} s (wanted {wanted})")


def report_figures(scale: str) -> None:
    """Print the wall time of the whole figure set in a fresh folder, and the peak memory of all its processes."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out")
        seconds, peak_mib = watch([sys.executable, "-m", "ratebed", "figures", "--all", "--scale", scale, "--out", out])
    print(
        f"\nall figures at scale {scale}: {seconds / 60:.1f} min, "
        f"peak of the sum of RSS over all processes {peak_mib:.0f} MiB"
    )


def _seconds(command: list[str]) -> float:
    began = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - began
