"""The message pipeline (schedule, ingress, bucket, pump, histogram) beside SimPy; start-up; whole campaigns."""

import os
import platform
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.simpy_peer import SimpyBroker
from core.records import Envelope
from core.units import SECOND_NS
from systems.parts.token_bucket import split_bucket
from testbed.virtual.broker_model import load_calibration
from testbed.virtual.fleet import Fleet
from workloads import load

SIMPY_SPAN_NS = SECOND_NS // 2


@dataclass(frozen=True)
class Case:
    """One load, split over ``brokers``."""

    name: str
    workload: str
    options: dict[str, Any]
    brokers: int
    target_mps: float  # millions of messages a second on one core


SPREAD = {"publishers": 6000, "group_size": 25, "spread": "16ms"}
CASES = (
    Case("Poisson, 6,000 publishers, 1 broker", "poisson", {"publishers": 6000}, 1, 20),
    Case("Poisson, 10,000 publishers, 6 brokers", "poisson", {"publishers": 10_000}, 6, 20),
    Case("Poisson, batch 10, 6 brokers", "poisson", {"publishers": 10_000, "batch": 10}, 6, 8),
    Case("periodic, 6,000 publishers, 2 brokers", "periodic", {"publishers": 6000}, 2, 8),
    Case("periodic, batch 10, 6 brokers", "periodic", {"publishers": 6000, "batch": 10}, 6, 8),
    Case("groups of 25, 6 brokers", "poisson", {"publishers": 6000, "group_size": 25}, 6, 8),
    Case("groups of 25, batch 10, 6 brokers", "poisson", {"publishers": 1000, "group_size": 25, "batch": 10}, 6, 8),
    Case("groups of 25, spread 16 ms, 6 brokers", "poisson", SPREAD, 6, 8),
)


def deployed(case: Case) -> Fleet:
    """A fleet that has never seen the schedule, with publishers spread at random."""
    schedule = load(case.workload).make(load(case.workload).configure(case.options), 1)
    fleet = Fleet(load_calibration("srtm-paper"), "topic", schedule, [None] * case.brokers)
    count = schedule.population.count
    fleet.move(np.random.default_rng(1).permutation(np.arange(count) % case.brokers).astype(np.int32))
    envelope = Envelope(1.1 * schedule.population.total_rps, 250.0)
    for broker, part in enumerate(split_bucket(envelope, [1.0] * case.brokers)):
        fleet.set_bucket(broker, part, full=True)
    return fleet


def rate_of(case: Case, span_ns: int) -> float:
    """Messages a second of wall-clock time, for a run of ``span_ns`` of virtual time."""
    fleet = deployed(case)
    fleet.record(0, span_ns)
    began = perf_counter()
    fleet.advance(span_ns)
    return float(fleet.state.latency.sum()) / (perf_counter() - began)


def simpy_rate(case: Case) -> float:
    """The same of the SimPy model, all publishers on one broker (its cost hardly depends on the split)."""
    schedule = load(case.workload).make(load(case.workload).configure(case.options), 1)
    broker = SimpyBroker(load_calibration("srtm-paper"), Envelope(1.1 * schedule.population.total_rps, 250.0))
    began = perf_counter()
    latencies = broker.run(schedule.block(0, SIMPY_SPAN_NS))
    return len(latencies) / (perf_counter() - began)


def report(repeats: int) -> None:
    """Print the pipeline's rates, and how cost and memory grow with the length of a run."""
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"message pipeline on one core, compiled code warm, medians of {repeats}")
    print(f"{'':<44}{'M msg/s':>9}{'wanted':>8}{'SimPy k/s':>11}{'ratio':>8}")
    for case in CASES:
        rate_of(case, SECOND_NS)
        ours = median(rate_of(case, 60 * SECOND_NS) for _ in range(repeats))
        peer = median(simpy_rate(case) for _ in range(repeats))
        print(f"{case.name:<44}{ours / 1e6:>9.1f}{case.target_mps:>8.0f}{peer / 1e3:>11.1f}{ours / peer:>7.0f}x")
    print("\ngrowth with the length of a run (Poisson, 6,000 publishers)")
    for minutes in (1, 4, 16):
        before = _peak_mib()
        rate = rate_of(CASES[0], minutes * 60 * SECOND_NS)
        print(f"{minutes:>4} min of traffic: {rate / 1e6:6.1f} M msg/s, peak memory +{_peak_mib() - before:.0f} MiB")


def report_start_up(repeats: int) -> None:
    """Print how long the command line takes to say something."""
    print(f"\nstart-up, medians of {repeats}")
    for words, wanted in ((["--help"], 0.5), (["list"], 1.0)):
        seconds = median(_seconds([sys.executable, "-m", "ratebed", *words]) for _ in range(repeats))
        print(f"ratebed {words[0]:<12}{seconds:6.2f} s (wanted {wanted})")


def report_figures(scale: str) -> None:
    """Print the wall time and peak memory of the whole figure set in a fresh folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "ratebed",
            "figures",
            "--all",
            "--scale",
            scale,
            "--out",
            str(Path(folder) / "out"),
        ]
        seconds = _seconds(command, quiet=False)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nall figures at scale {scale}: {seconds / 60:.1f} min, largest process {peak:.0f} MiB")


def _seconds(command: list[str], quiet: bool = True) -> float:
    began = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)
    return perf_counter() - began


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
