"""The study of load managers: topics are placed while clients come, go and move."""

from dataclasses import replace
from functools import lru_cache

import msgspec
import numpy as np

from core.clients import ClientLoad, Joined, Role
from core.errors import SpecError
from core.units import duration_ns, duration_text
from studies.api import SECONDS_PER_NODE, Journal, Point, Study, expected_s
from studies.placement.asked import Config, PlacementJournal, PlacementRequest, Spell
from studies.placement.tables import client_rows, latency_rows, message_rows, window_rows
from studies.spec import RunSpec
from studies.tables import columns, fault_rows, histogram_of, sample_rows
from systems.api import System
from systems.placement.options import Options
from testbed.faults import check_faults, read_faults
from testbed.topologies.places import sites
from workloads import load as load_workload
from workloads.api import Offer

SECONDS_PER_CLIENT_SECOND = 1e-4  # of a client of topics, its agents and brokers
SECONDS_PER_TOPIC_MESSAGE = 5e-7  # to all of its consumers


def asked(point: Point, config: Config) -> PlacementRequest:
    """SpecError where there are too few sites for the clients, or a fault cannot happen."""
    load: ClientLoad = point.schedule
    site_count = len(sites(point.topology))
    if site_count < load.site_count:
        what = f"clients at {load.site_count} sites, but topology {point.topology.name} has {site_count}"
        raise SpecError(what, "give both the same number")
    bounds = {topic.name: duration_text(topic.bound_ns) for topic in load.topics}
    options = replace(point.system_config, access=config.access, bounds={**bounds, **point.system_config.bounds})
    faults = read_faults(config.faults)
    request = PlacementRequest(point.system, options, point.topology, load, point.spec.seed, config, faults)
    assert point.system.nodes is not None
    point.system.nodes(request.topology.node_names(), point.system_config, 0)  # a role that is missing: now
    check_faults(faults, request.topology)
    return request


def journal(point: Point, asked: PlacementRequest, shown: PlacementJournal) -> Journal:
    """The tables of a run; the histogram is of all messages that all their consumers got."""
    latency_ns = np.concatenate([np.zeros(0, np.int64), *(fate.latency_ns for fate in shown.fates.values())])
    tables = {
        "samples": sample_rows(shown.samples),
        "latency_histogram": histogram_of("end_to_end_latency", latency_ns[latency_ns >= 0]),
        "topic_windows": window_rows(shown.fates, duration_ns(asked.rule.window)),
        "topic_latency": latency_rows(shown.fates, duration_ns(asked.rule.window)),
        "ownership": columns(Spell._fields, shown.spells),
        "clients": client_rows(asked.happenings),
        "faults": fault_rows(shown.faults),
        "control_messages": message_rows(shown.messages),
    }
    return Journal(tables, evidence=shown.evidence)


def fits(system: System) -> bool:
    """Whether it places topics."""
    return issubclass(system.config, Options)


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Live its length, the warm-up and the clients' processes; else its clients' seconds and messages."""
    seconds = expected_s(spec, Config, "duration")
    clients, rate_rps = _clients(spec.workload, msgspec.json.encode(spec.workload_options, order="deterministic"))
    if real_time:
        warm_up = float(spec.study_options.get("warm_up_rounds", Config.warm_up_rounds))
        return seconds + warm_up + clients * SECONDS_PER_NODE
    return seconds * (clients * SECONDS_PER_CLIENT_SECOND + rate_rps * SECONDS_PER_TOPIC_MESSAGE)


@lru_cache
def _clients(key: str, options: bytes) -> tuple[float, float]:
    workload = load_workload(key)
    load = workload.make(workload.configure(msgspec.json.decode(options)), 1)
    rates = {topic.name: topic.rate_rps for topic in load.topics}
    joined = [change for change in load.happenings(0) if isinstance(change, Joined) and change.role is Role.PRODUCER]
    return len(load.homes), sum(rates[change.topic] for change in joined)


STUDY = Study(
    "placement",
    "topics placed on brokers while their clients come, go and move",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.CLIENTS,
    virtual="studies.placement.virtual",
    live="studies.placement.live",
)
