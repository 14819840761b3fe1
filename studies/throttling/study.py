"""The study of throttlers: servers are told what they are asked for, cycle by cycle (DST)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.errors import SpecError
from core.registry import configure
from core.units import duration_ns
from studies.api import Journal, Point, Study
from studies.tables import skipped_rows
from studies.throttling.tables import cycle_tables
from systems.limiting.throttling_users import Demand
from testbed.faults import check_faults, read_faults


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    cycles: int = 1_000  # DST Section 6
    load: float = 1.0  # ours (D7): mean total demand over l_total; 0 = the system's own l_total
    clients_at: tuple[int, ...] = ()  # ours: cycles in which servers are told each client's demand (Fig. 7)
    faults: tuple[dict[str, Any], ...] = ()  # tables as testbed.faults.read_faults takes them

    def __post_init__(self) -> None:
        """SpecError for numbers that make no sense, or faults that cannot be read."""
        read_faults(self.faults)
        if self.cycles < 1:
            raise SpecError(f"study throttling: cycles = {self.cycles}", "give 1 or more")
        if not 0.0 <= self.load < float("inf"):
            raise SpecError(f"study throttling: load = {self.load}", "give 1, or 0 for the system's own limit")
        if any(not 0 <= cycle < self.cycles for cycle in self.clients_at):
            raise SpecError(f"study throttling: clients_at = {self.clients_at}", f"cycles are 0 to {self.cycles - 1}")


def configured(point: Point) -> Config:
    """The study's options; SpecError where system, workload and topology do not fit it."""
    if point.system.nodes is None or Demand not in point.system.inputs:
        raise SpecError(f"system {point.system.key!r} takes no demands", "choose throttler or centralised-throttler")
    if not hasattr(point.schedule, "demands"):
        raise SpecError(f"workload {point.spec.workload!r} offers no demands", "use the workload load-curve")
    config: Config = configure("study throttling", Config, point.spec.study_options)
    check_faults(read_faults(config.faults), point.topology)
    return config


def run(point: Point, config: Config) -> Journal:
    """Tell the throttler's servers the demands of every cycle."""
    count = len(point.topology.node_names())
    demands = point.schedule.demands(count, config.cycles)
    cycle_ns = duration_ns(point.system_config.cycle)
    system_config = point.system_config
    if config.load:
        limit = float(demands.sum(axis=1).mean()) / config.load  # of all servers, a cycle
        system_config = replace(system_config, total=limit)
    clients = {cycle: np.asarray(point.schedule.client_demands(demands[cycle])) for cycle in config.clients_at}
    journal = point.backend.throttle(
        point.system,
        system_config,
        point.topology,
        demands,
        clients=clients,
        cycle_ns=cycle_ns,
        seed=point.spec.seed,
        faults=read_faults(config.faults),
    )
    tables = {
        **cycle_tables(journal.journal.samples, cycle_ns),
        "skipped_lines": skipped_rows(point.schedule.skipped),
    }
    return Journal(tables, "done")


STUDY = Study(configured, run)
