"""The study of limiters: nodes decide on requests that arrive at them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from collectors.histogram import BUCKET_COUNT, bucket_index
from core.errors import SpecError
from core.registry import configure
from core.seeds import child_seed
from core.units import duration_ns
from studies.api import Journal, Point, Study
from studies.distribution.study import histogram_rows
from studies.tables import fault_rows, skipped_rows
from testbed.faults import check_faults, read_faults


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = ""  # empty = as long as the workload itself; ours: 30s for one that has no end
    drain: str = "10min"  # ours: how long after it the nodes may still talk until nothing is left to say (thesis 4.3.1)
    faults: tuple[dict[str, Any], ...] = ()  # tables as testbed.faults.read_faults takes them
    clock_skew: str = "0ms"  # each node's clock is off by a uniform draw from plus or minus this (thesis: none)
    compare_replicas: bool = False  # count what not all replicas hold at the end: samples replica_..._count
    draw: int = 0  # ours: one more name in the seed of nodes and network, for further runs on the same requests

    def __post_init__(self) -> None:
        """SpecError for spans that are none, or faults that cannot be read."""
        read_faults(self.faults)
        if self.draw < 0:
            raise SpecError(f"study limiting: draw = {self.draw}", "give 0 or a greater number")
        for name in ("duration", "drain", "clock_skew"):
            text = getattr(self, name)
            try:
                if text or name != "duration":
                    assert duration_ns(text) >= (name == "duration")
            except (ValueError, AssertionError):
                raise SpecError(f"study limiting: {name} = {text!r}", "give a length, as in 30s") from None


def configured(point: Point) -> Config:
    """The study's options; SpecError where system and workload do not fit it."""
    if point.system.nodes is None:
        raise SpecError(f"system {point.system.key!r} has no nodes", "it distributes publishers, it limits no requests")
    if not hasattr(point.schedule, "requests"):
        raise SpecError(f"workload {point.spec.workload!r} offers no requests", "use requests, data-set or request-log")
    config: Config = configure("study limiting", Config, point.spec.study_options)
    point.backend.check_limit(point.system, check_faults(read_faults(config.faults), point.topology))
    point.system.nodes(point.topology.node_names(), point.system_config, 0)  # an option that no node takes: now
    return config


def run(point: Point, config: Config) -> Journal:
    """Offer the workload's requests to the limiter's nodes, one on each node of the topology."""
    natural_ns: int | None = point.schedule.duration_ns
    span_ns = duration_ns(config.duration) if config.duration else natural_ns or duration_ns("30s")
    journal = point.backend.limit(
        point.system,
        point.system_config,
        point.topology,
        point.schedule.requests(point.topology.node_names(), span_ns),
        span_ns,
        child_seed(point.spec.seed, "draw", config.draw) >> 1 if config.draw else point.spec.seed,
        faults=read_faults(config.faults),
        drain_ns=duration_ns(config.drain),
        clock_skew_ns=duration_ns(config.clock_skew),
        compare_replicas=config.compare_replicas,
    )
    requests = journal.requests()
    tables: dict[str, dict[str, Any]] = {
        "requests": requests,
        "samples": journal.samples(),
        "latency_histogram": _decision_latency(requests),
        "faults": fault_rows(journal.journal.faults),
        "skipped_lines": skipped_rows(getattr(point.schedule, "skipped", {})),
    }
    return Journal(tables, "done", evidence=journal.evidence)


def _decision_latency(requests: dict[str, list[Any]]) -> dict[str, Any]:
    """How long users waited for their verdicts; requests without one are not in it."""
    pairs = zip(requests["decided_at_ns"], requests["intended_at_ns"], strict=True)
    latency_ns = np.array([decided - intended for decided, intended in pairs if decided is not None], np.int64)
    counts = np.bincount(bucket_index(latency_ns), minlength=BUCKET_COUNT)
    return histogram_rows(0, {"decision_latency": counts[np.newaxis]})


STUDY = Study(configured, run)
