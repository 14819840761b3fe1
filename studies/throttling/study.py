"""The study of throttlers: servers are told what they are asked for, cycle by cycle (DST)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from core.errors import SpecError
from core.limits import ROWS, Factor, RoundCount, check_product
from core.records import Columns, Json, Sample
from core.units import duration_ns
from studies.api import Journal, Point, Study, check_least
from studies.spec import RunSpec
from studies.tables import columns, sample_rows, skipped_rows
from studies.throttling.asked import Throttling
from systems.api import System
from systems.limiting.throttling_users import Demand
from testbed.faults import check_faults, read_faults
from testbed.nodes.journal import NodeJournal
from workloads.api import Offer

SECONDS_PER_CYCLE = 1e-3  # of ten servers
OF_CYCLES = ("limit", "demand", "admitted", "nodal_measure")
OF_CLIENTS = {"client_demand": "demand", "client_admitted": "admitted"}  # one after the other, in the clients' order
_NEGATIVE = "negative_limit_count"  # what the limit itself says


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    cycles: RoundCount = 1_000  # DST Section 6
    load: Factor = 1.0  # ours (D7): mean total demand over l_total; 0 = the system's own l_total
    clients_at: tuple[int, ...] = ()  # ours: cycles in which servers are told each client's demand (Fig. 7)
    faults: tuple[Json, ...] = ()  # tables as testbed.faults.read_faults takes them

    def __post_init__(self) -> None:
        read_faults(self.faults)
        check_least("throttling", self, cycles=1)
        if not 0.0 <= self.load < float("inf"):
            raise SpecError(f"study throttling: load = {self.load}", "give 1, or 0 for the system's own limit")
        if any(not 0 <= cycle < self.cycles for cycle in self.clients_at):
            raise SpecError(f"study throttling: clients_at = {self.clients_at}", f"cycles are 0 to {self.cycles - 1}")


def asked(point: Point, config: Config) -> Throttling:
    """SpecError for faults that cannot happen, and for more demands than a run can hold."""
    faults = check_faults(read_faults(config.faults), point.topology)
    count = len(point.topology.node_names())
    check_product("study throttling", ROWS, cycles=config.cycles, nodes=count)
    demands = point.schedule.demands(count, config.cycles)
    system_config = point.system_config
    if config.load:
        limit = float(demands.sum(axis=1).mean()) / config.load  # of all servers, a cycle
        system_config = replace(system_config, total=limit)
    clients = {}
    for cycle in config.clients_at:
        clients[cycle] = np.asarray(point.schedule.client_demands(demands[cycle]))
        check_product("study throttling", ROWS, clients_at=len(config.clients_at), clients=clients[cycle].size)
    cycle_ns = duration_ns(point.system_config.cycle)
    return Throttling(
        point.system, system_config, point.topology, demands, clients, cycle_ns, point.spec.seed, tuple(faults)
    )


def journal(point: Point, asked: Throttling, shown: NodeJournal) -> Journal:
    """The tables of a run."""
    skipped = skipped_rows(point.schedule.skipped)
    return Journal({**cycle_tables(shown.samples, asked.cycle_ns), "skipped_lines": skipped})


def cycle_tables(samples: Iterable[Sample], cycle_ns: int) -> dict[str, Columns]:
    """The tables ``cycles``, ``client_cycles`` and ``samples``: the rest; cycle k ends at (k + 1) x ``cycle_ns``.

    ``samples``: in the order in which nodes told them.
    """
    rest: list[Sample] = []
    cycles: dict[tuple[int, str], dict[str, float]] = {}
    clients: dict[tuple[int, str], dict[str, list[float]]] = {}
    for at_ns, node, metric, value in samples:
        if metric in OF_CYCLES:
            cycles.setdefault((at_ns, node), {})[metric] = value
        elif metric in OF_CLIENTS:
            clients.setdefault((at_ns, node), {}).setdefault(OF_CLIENTS[metric], []).append(value)
        elif metric != _NEGATIVE:
            rest.append((at_ns, node, metric, value))
    ended = [
        (at_ns, at_ns // cycle_ns - 1, server, *(told.get(name) for name in OF_CYCLES))
        for (at_ns, server), told in cycles.items()
    ]
    each = [
        (at_ns, at_ns // cycle_ns - 1, server, number, demand, admitted)
        for (at_ns, server), told in clients.items()
        for number, (demand, admitted) in enumerate(zip(told["demand"], told["admitted"], strict=True))
    ]
    return {
        "cycles": columns(("at_ns", "cycle", "server", *OF_CYCLES), ended),
        "client_cycles": columns(("at_ns", "cycle", "server", "client", "demand", "admitted"), each),
        "samples": sample_rows(rest),
    }


def fits(system: System) -> bool:
    """Whether its nodes take demands."""
    return system.nodes is not None and Demand in system.inputs


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its cycles."""
    return float(spec.study_options.get("cycles", Config.cycles)) * SECONDS_PER_CYCLE


STUDY = Study(
    "throttling",
    "demands, cycle by cycle, at the servers of a throttler",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.DEMANDS,
    virtual="studies.throttling.virtual",
)
