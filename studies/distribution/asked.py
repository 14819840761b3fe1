"""A topic on brokers: what every testbed is asked for, and what measurement rounds answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from core.errors import SpecError
from core.limits import Factor, UserCount
from core.records import Block, Columns, Envelope, Float64, Int32, Int64, Json, Schedule
from core.seeds import child_seed
from studies.api import check_least
from systems.api import Distribution, Measured, System
from systems.parts.options import choice, span_ns
from testbed.brokers.model import CoreCount, load_calibration
from testbed.faults import read_faults
from testbed.topologies.topology import Topology
from testbed.trust.evidence import RunEvidence

TRIALS_MAXIMUM = 100  # rounds of a search; one that wants more does not end


@dataclass(frozen=True)
class DeploymentConfig:
    """How a topic is deployed: its token bucket (r, b), and what the brokers carry already."""

    # VI: "profiled" on a trace recorded before; "conformant": on the window itself (ours); "replayed": the profiled
    # window comes again in every round (ours); "poisson-model": from the M/D/1 model behind Eq. (1), for Poisson topics
    # (report, footnote 8)
    envelope: str = "profiled"
    profile: str = "70s"  # length of the recorded trace; the artifact's 70 s
    margin: Factor = 1.0  # footnote 1: "often includes a margin"; enlarges b
    model_batch: UserCount = 1  # poisson-model: messages sent at once; b and r scale with it (VI-B)
    non_conformant: str = "delay"  # "delay" until a token is there, or "drop" (report, 1.1)
    release_quantum: bool = False  # the artifact releases clamp(floor(b/6), 1, 10) messages at a time
    initial_loads_rps: tuple[float, ...] = ()  # Fig. 6: message rate of other topics on each broker; empty = idle
    initial_batch: UserCount = 10  # Fig. 6: their batch size
    mcap_batch: UserCount = 0  # capacities: 0 = the calibration's, n = benchmarked with batches of n (footnote 6)
    mcap_rps: float = 0.0  # capacities: 0 = as above, else given
    broker_cores: tuple[CoreCount, ...] = ()  # ours: cores of each broker, its capacity in proportion; empty = alike
    stamps: str = "kernel"  # V-B: conformance by the kernel's arrival stamps, or by when the broker "read" the message
    gc: str = "friendly"  # V-C: garbage collection of live brokers: "default", "friendly" or "off"
    faults: tuple[Json, ...] = ()  # live: tables as testbed.faults.read_faults takes them, in the judged round

    def __post_init__(self) -> None:
        """SpecError for an unknown rule, a margin below 1, a profile of no length or a negative load."""
        read_faults(self.faults)
        known = {
            "envelope": ("profiled", "conformant", "replayed", "poisson-model"),
            "non_conformant": ("delay", "drop"),
            "stamps": ("kernel", "read"),
            "gc": ("default", "friendly", "off"),
        }
        for name, words in known.items():
            choice("study distribution", name, getattr(self, name), words)
        check_least("distribution", self, margin=1, model_batch=1, initial_batch=1, mcap_batch=0, mcap_rps=0)
        span_ns("study distribution", "profile", self.profile)
        if self.mcap_batch and self.mcap_rps:
            raise SpecError(f"study: mcap_batch = {self.mcap_batch} and mcap_rps = {self.mcap_rps}", "give one of them")
        if min(self.initial_loads_rps, default=0) < 0:
            raise SpecError(f"study: initial_loads_rps = {self.initial_loads_rps}", "give rates of at least 0")


@dataclass(frozen=True)
class Deployed:
    """A topic on brokers: what is deployed, as all testbeds are asked for it."""

    topology: Topology
    schedule: Schedule
    rule: DeploymentConfig
    calibration: str
    seed: int
    slo_ns: int
    round_ns: int
    keeps_messages: bool = False  # those of the last window
    longest_ns: int = 0  # window, where that is not a round

    @property
    def names(self) -> list[str]:
        """Of the brokers."""
        return self.topology.node_names("broker")

    @property
    def core_shares(self) -> list[float]:
        """The cores of each broker over those of the calibration's."""
        alike = load_calibration(self.calibration).cores
        return [cores / alike for cores in self.rule.broker_cores] or [1.0] * len(self.names)

    def other_topics(self) -> list[Schedule | None]:
        """The Poisson load that each broker carries already; None where it carries none."""
        loads: list[Schedule | None] = [None] * len(self.names)
        for broker, load_rps in enumerate(self.rule.initial_loads_rps):
            if load_rps:
                publishers, seed = max(1, round(load_rps / 10)), child_seed(self.seed, "other topics", broker)
                loads[broker] = poisson_topic(publishers, load_rps / publishers, self.rule.initial_batch, seed)
        return loads


class Replayed:
    """A topic whose generators start over with the same seeds: each round sends the messages of the first one."""

    def __init__(self, schedule: Schedule, period_ns: int):
        self.schedule, self.period_ns, self.population = schedule, period_ns, schedule.population

    def block(self, start_ns: int, end_ns: int) -> Block:
        """See ``core.records.Schedule``."""
        parts: list[Block] = []
        at_ns = start_ns
        while not parts or at_ns < end_ns:
            begun_ns = at_ns - at_ns % self.period_ns
            until_ns = min(end_ns, begun_ns + self.period_ns)
            part = self.schedule.block(at_ns - begun_ns, until_ns - begun_ns)
            parts.append(replace(part, at_ns=part.at_ns + begun_ns))
            at_ns = until_ns
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.broadcast_to(np.int32(part.size_bytes), part.at_ns.shape) for part in parts])
        at, publisher, count = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("at_ns", "publisher", "count")
        )
        return Block(at, publisher, count, sizes)


def check_deployed(asked: Deployed) -> None:
    """SpecError for no calibration of that name, no brokers, or a wrong number of loads or of brokers' cores."""
    load_calibration(asked.calibration)
    names, loads, cores = asked.names, asked.rule.initial_loads_rps, asked.rule.broker_cores
    if not names:
        raise SpecError(f"topology {asked.topology.name!r} has no brokers", "use srtm-lan")
    if loads and len(loads) != len(names):
        raise SpecError(f"{len(loads)} initial loads for {len(names)} brokers", "give one a broker")
    if cores and len(cores) != len(names):
        raise SpecError(f"broker_cores has {len(cores)} of {len(names)} brokers", "give one number a broker")


def poisson_topic(publishers: int, rate_rps: float, batch: int, seed: int) -> Schedule:
    """A topic of publishers that send so many messages a second each."""
    from workloads import load

    workload = load("poisson")
    schedule: Schedule = workload.make(workload.config(publishers=publishers, rate_rps=rate_rps, batch=batch), seed)
    return schedule


@dataclass(frozen=True, kw_only=True)
class Searching(Deployed):
    """A search for an assignment of publishers to brokers, judged on fresh traffic."""

    system: System
    config: object  # of the system's class


@dataclass(frozen=True)
class Searched:
    """A search's rounds, each with the iteration that it belongs to, its answer, and the round that judges it."""

    rounds: list["Round"]
    iterations: list[int]
    answer: Distribution
    fresh: "Round"
    names: list[str]
    loads_rps: list[float]
    mcaps_rps: list[float]
    messages: Columns  # columns of ``messages`` for the fresh round, where they are kept
    evidence: RunEvidence


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
