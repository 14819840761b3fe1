"""Measurement rounds: what every testbed is asked for and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.errors import SpecError
from core.records import Envelope, Float64, Int32, Int64
from core.units import duration_ns
from systems.api import Broker, Measured, System
from testbed.faults import read_faults
from testbed.topologies.topology import Topology
from testbed.trust.evidence import Evidence

TRIALS_MAXIMUM = 100  # rounds of a search; one that wants more does not end
ENVELOPES = ("profiled", "conformant", "poisson-model")


@dataclass(frozen=True)
class DeploymentConfig:
    """How a topic is deployed: its token bucket (r, b), and what the brokers carry already."""

    # VI: "profiled" on a trace recorded before; "conformant": on the window itself (ours); "poisson-model": from the
    # M/D/1 model behind Eq. (1), for Poisson topics (report, footnote 8)
    envelope: str = "profiled"
    profile: str = "70s"  # length of the recorded trace; the artifact's 70 s
    margin: float = 1.0  # footnote 1: "often includes a margin"; enlarges b
    model_batch: int = 1  # poisson-model: messages sent at once; b and r scale with it (VI-B)
    non_conformant: str = "delay"  # "delay" until a token is there, or "drop" (report, 1.1)
    release_quantum: bool = False  # the artifact releases clamp(floor(b/6), 1, 10) messages at a time
    initial_loads_rps: tuple[float, ...] = ()  # Fig. 6: message rate of other topics on each broker; empty = idle
    initial_batch: int = 10  # Fig. 6: their batch size
    mcap_batch: int = 0  # capacities: 0 = the calibration's number, n = benchmarked with batches of n (footnote 6)
    stamps: str = "kernel"  # V-B: conformance by the kernel's arrival stamps, or by when the broker "read" the message
    gc: str = "friendly"  # V-C: garbage collection of live brokers: "default", "friendly" or "off"
    faults: tuple[
        dict[str, Any], ...
    ] = ()  # live: tables as testbed.faults.read_faults takes them, in the judged round

    def __post_init__(self) -> None:
        """SpecError for an unknown rule, a margin below 1, a profile of no length or a negative load."""
        read_faults(self.faults)
        known_values = {
            "envelope": ENVELOPES,
            "non_conformant": ("delay", "drop"),
            "stamps": ("kernel", "read"),
            "gc": ("default", "friendly", "off"),
        }
        for name, known in known_values.items():
            if getattr(self, name) not in known:
                raise SpecError(f"study: {name} = {getattr(self, name)!r}", f"use one of {', '.join(known)}")
        for name, least in (("margin", 1), ("model_batch", 1), ("initial_batch", 1), ("mcap_batch", 0)):
            if getattr(self, name) < least:
                raise SpecError(f"study: {name} = {getattr(self, name)}", f"give at least {least}")
        if duration_ns(self.profile) <= 0:
            raise SpecError(f"study: profile = {self.profile!r}", "give a length, as in 70s")
        if any(load < 0 for load in self.initial_loads_rps):
            raise SpecError(f"study: initial_loads_rps = {self.initial_loads_rps}", "give rates of at least 0")


@dataclass(frozen=True)
class Round:
    """One measured window.  Arrays have one entry, or one row, a broker."""

    start_ns: int
    duration_ns: int
    assignment: Int32
    rates_rps: Float64
    envelope: Envelope
    sub_buckets: tuple[Envelope | None, ...]
    latency: Int64  # histogram counts (brokers, BUCKET_COUNT)
    access_delay: Int64
    measured: Measured
    dropped_count: Int64  # messages dropped for want of a token, of those counted in the histograms
    note: str = ""
    more: Mapping[str, Int64] = field(default_factory=dict)  # further histograms, by metric


@dataclass(frozen=True)
class Controlled:
    """What a controller's run showed."""

    windows: list[tuple[Int64, Int64]]  # of each window: histogram counts of latency and of access delay, by broker
    samples: dict[str, list[Any]]  # columns of the ``samples`` table
    commands: list[tuple[int, str, Any]]  # (at_ns, node, command)


class Deployment(Protocol):
    """A topic and its brokers on a testbed, as studies see it.  To be closed at the end.

    ``studies.distribution.windows.TopicWindows`` is what all have in common.
    """

    topic: str
    names: list[str]  # of the brokers
    loads_rps: list[float]  # of the topics that they carry already
    mcap_rps: float
    rule: DeploymentConfig
    now_ns: int  # start of the next window, on the schedule's time

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """What a distributor is told about the brokers."""
        ...

    def envelope_for(self, start_ns: int, duration_ns: int) -> Envelope:
        """The topic's envelope for a window, by the rule."""
        ...

    def next_round(self, assignment: Int32, duration_ns: int) -> Round:
        """Measure an assignment on the next window; one whose bucket cannot be split is infinitely bad."""
        ...

    def fresh_round(self, assignment: Int32, duration_ns: int) -> Round:
        """Measure the final assignment on the window kept for it."""
        ...

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> tuple[Envelope | None, ...]:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""
        ...

    def control(
        self, system: System, config: Any, topology: Topology, duration_ns: int, window_ns: int, seed: int
    ) -> Controlled:
        """After ``start``: let a controller's nodes work on the running brokers; one report a second."""
        ...

    def messages(self) -> Mapping[str, Any]:
        """Columns of ``messages`` for the last window; none where they are not kept."""
        ...

    def evidence(self) -> Evidence:
        """What the testbed says about the run, and what it counted beside the rounds."""
        ...

    def close(self) -> None:
        """Take everything down; a second time it does nothing."""
        ...
