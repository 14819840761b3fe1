"""The study of load managers: topics are placed while clients come, go and move."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import msgspec
import numpy as np

from core.clients import Joined, Role, check_changes
from core.errors import SpecError
from core.units import duration_text
from studies.api import SECONDS_PER_NODE, Journal, Point, Study, expected_s
from studies.placement.asked import Config, PlacementJournal, PlacementRequest, TopicsRequest
from studies.placement.tables import message_rows, placement_tables
from studies.spec import RunSpec
from systems.api import System
from systems.placement.options import Options
from testbed.faults import Fault, check_faults, read_faults
from workloads import load as load_workload
from workloads.api import Offer

SECONDS_PER_CLIENT_SECOND = 1e-4  # of a client of topics, its agents and brokers
SECONDS_PER_TOPIC_MESSAGE = 5e-7  # to all of its consumers


def asked(point: Point, config: Config) -> PlacementRequest:
    """SpecError where there are too few sites for the clients, or a fault cannot happen."""
    options, faults = settled_options(point, config.access), read_faults(config.faults)
    request = PlacementRequest(point.system, options, point.topology, point.schedule, point.spec.seed, config, faults)
    check_request(point, request, faults)
    return request


def settled_options(point: Point, access: str) -> Options:
    """Those of the system, which knows the clients' way and topics' bounds, where it is given no others."""
    bounds = {topic.name: duration_text(topic.bound_ns) for topic in point.schedule.topics}
    options: Options = point.system_config
    return replace(options, access=access, bounds={**bounds, **options.bounds})


def check_request(point: Point, request: TopicsRequest, faults: Sequence[Fault]) -> None:
    """SpecError where there are too few sites for clients, they do too much, or a role or a fault cannot be."""
    site_count = len(request.places)
    if site_count < request.load.site_count:
        what = f"clients at {request.load.site_count} sites, but topology {point.topology.name} has {site_count}"
        raise SpecError(what, "give both the same number")
    check_changes(request.load, request.duration_ns)
    assert point.system.nodes is not None
    point.system.nodes(request.topology.node_names(), point.system_config, 0)
    check_faults(faults, request.topology)


def journal(point: Point, asked: PlacementRequest, shown: PlacementJournal) -> Journal:
    """The tables of a run; the histogram is of all messages that all their consumers got."""
    latency_ns = np.concatenate([np.zeros(0, np.int64), *(fate.latency_ns for fate in shown.fates.values())])
    tables = placement_tables(asked, shown, latency_ns[latency_ns >= 0])
    return Journal({**tables, "control_messages": message_rows(shown.messages)}, evidence=shown.evidence)


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
