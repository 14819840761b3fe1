"""The procedure of limiters: nodes decide on requests that arrive at them."""

from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from core.registry import configure
from core.units import duration_ns
from harness.run import Journal, Point, Procedure


@dataclass(frozen=True)
class Config:
    """Options of the procedure."""

    duration: str = "30s"  # ours
    drain: str = "5s"  # ours: late verdicts are waited for

    def __post_init__(self) -> None:
        if duration_ns(self.duration) <= 0:
            raise SpecError(f"procedure requests: duration = {self.duration!r}", "give a length, as in 30s")


def configured(point: Point) -> Config:
    """The procedure's options; SpecError where system and workload do not fit it."""
    if point.system.nodes is None:
        raise SpecError(f"system {point.system.key!r} has no nodes", "it distributes publishers, it limits no requests")
    if not hasattr(point.schedule, "requests"):
        raise SpecError(f"workload {point.spec.workload!r} offers messages, not requests", "use the workload requests")
    return configure("procedure requests", Config, point.spec.procedure_options)


def run(point: Point, config: Config) -> Journal:
    """Offer the workload's requests to the limiter's nodes, one on each node of the topology."""
    span_ns = duration_ns(config.duration)
    journal = point.backend.limit(
        point.system,
        point.system_config,
        point.topology,
        point.schedule.requests(point.topology.node_names(), span_ns),
        span_ns + duration_ns(config.drain),
        point.spec.seed,
    )
    tables: dict[str, dict[str, Any]] = {"requests": journal.requests(), "samples": journal.samples()}
    return Journal(tables, "done")


PROCEDURE = Procedure(configured, run)
