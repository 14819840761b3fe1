"""The study of limiters: nodes decide on requests that arrive at them."""

from dataclasses import dataclass, fields

import numpy as np

from core.records import Json
from core.seeds import child_seed
from core.units import SECOND_NS, duration_ns
from studies.api import SECONDS_PER_NODE, Journal, Point, Study, check_least
from studies.limiting.asked import Limiting, RequestJournal
from studies.spec import RunSpec
from studies.tables import fault_rows, histogram_of, skipped_rows
from systems.api import Arrival, System
from systems.loader import load_system
from systems.parts.options import span_ns
from testbed.faults import check_faults, read_faults
from workloads import load as load_workload
from workloads.api import LoggedSchedule, Offer, Size

SECONDS_PER_REQUEST = 5e-5
SECONDS_PER_GOSSIP = 1.5e-4  # a round of one node, and its message
_TYPICAL = Size(10_000.0, duration_ns("5min"))  # of logs, say


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = ""  # empty = as long as the workload itself; ours: 30s for one that has no end
    drain: str = "10min"  # ours: how long after it the nodes may still talk until nothing is left to say (thesis 4.3.1)
    faults: tuple[Json, ...] = ()  # tables as testbed.faults.read_faults takes them
    clock_skew: str = "0ms"  # each node's clock is off by a uniform draw from plus or minus this (thesis: none)
    compare_replicas: bool = False  # count what not all replicas hold at the end: samples replica_..._count
    draw: int = 0  # ours: one more name in the seed of nodes and network, for further runs on the same requests
    # ours: live, time 0 is a whole multiple of this span on the wall clock, and so the begin of a server's windows of
    # that length; empty = at any instant.  Virtual time has no other clock than its own.
    align: str = ""

    def __post_init__(self) -> None:
        read_faults(self.faults)
        check_least("limiting", self, draw=0)
        for name, least in (("duration", "1ns"), ("drain", "0"), ("clock_skew", "0"), ("align", "1ns")):
            if getattr(self, name) or name not in ("duration", "align"):
                span_ns("study limiting", name, getattr(self, name), least)


def asked(point: Point, config: Config) -> Limiting:
    """SpecError where system and workload do not fit, or a fault cannot happen."""
    natural_ns: int | None = point.schedule.duration_ns
    seed = point.spec.seed
    request = Limiting(
        point.system,
        point.system_config,
        point.topology,
        point.schedule,
        duration_ns(config.duration) if config.duration else natural_ns or duration_ns("30s"),
        child_seed(seed, "draw", config.draw) >> 1 if config.draw else seed,
        tuple(check_faults(read_faults(config.faults), point.topology)),
        duration_ns(config.drain),
        duration_ns(config.clock_skew),
        config.compare_replicas,
        duration_ns(config.align) if config.align else 0,
    )
    assert point.system.nodes is not None
    point.system.nodes(point.topology.node_names(), point.system_config, 0)  # an option that no node takes: now
    return request


def journal(point: Point, asked: Limiting, shown: RequestJournal) -> Journal:
    """The tables of a run; how long users waited for their verdicts is of requests that have one."""
    requests = shown.requests()
    pairs = zip(requests["decided_at_ns"], requests["intended_at_ns"], strict=True)
    latency_ns = np.array([decided - intended for decided, intended in pairs if decided is not None], np.int64)
    skipped = point.schedule.skipped if isinstance(point.schedule, LoggedSchedule) else {}
    tables = {
        "requests": requests,
        "samples": shown.samples(),
        "latency_histogram": histogram_of("decision_latency", latency_ns),
        "faults": fault_rows(shown.journal.faults),
        "skipped_lines": skipped_rows(skipped),
    }
    return Journal(tables, evidence=shown.evidence)


def fits(system: System) -> bool:
    """Whether requests can arrive at its nodes."""
    return system.nodes is not None and Arrival in system.inputs


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Live, its length and its nodes; else its requests, and for limiters that gossip their rounds.

    Of logs only the length asked for is known.
    """
    workload = load_workload(spec.workload)
    size = workload.size(workload.configure(spec.workload_options)) if workload.size else _TYPICAL
    told = spec.study_options.get("duration")
    span_ns = duration_ns(str(told)) if told else size.span_ns or _TYPICAL.span_ns
    nodes = float(spec.topology_options.get("nodes", 10))
    if real_time:
        wait_ns = duration_ns(str(spec.study_options.get("align") or "0s")) / 2  # for the next multiple, on average
        return (span_ns + wait_ns) / SECOND_NS + nodes * SECONDS_PER_NODE
    seconds = size.request_count * SECONDS_PER_REQUEST
    gossip = {field.name: field.default for field in fields(load_system(spec.system).config)}.get("gossip")
    if gossip:
        interval_ns = duration_ns(str(spec.system_options.get("gossip", gossip)))
        seconds += nodes * span_ns / interval_ns * SECONDS_PER_GOSSIP
    return seconds


STUDY = Study(
    "limiting",
    "requests at the nodes of a limiter",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.REQUESTS,
    virtual="studies.limiting.virtual",
    live="studies.limiting.live",
)
