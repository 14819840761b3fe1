"""The study of load managers: topics are placed while clients come, go and move."""

from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec
import numpy as np

from core.clients import ClientLoad, Joined, Role
from core.errors import SpecError
from core.records import Json
from core.units import duration_ns, duration_text
from studies.api import SECONDS_PER_NODE, Journal, Point, Study, check_least, expected_s
from studies.placement.asked import Bookies, PlacementJournal, PlacementRequest, Spell
from studies.placement.tables import client_rows, latency_rows, message_rows, window_rows
from studies.spec import RunSpec
from studies.tables import columns, fault_rows, histogram_of, sample_rows
from systems.api import System
from systems.parts.options import choice, span_ns
from systems.placement.options import Options
from testbed.faults import check_faults, read_faults
from testbed.topologies.places import sites
from workloads import load as load_workload
from workloads.api import Offer

SECONDS_PER_CLIENT_SECOND = 1e-4  # of a client of topics, its agents and brokers
SECONDS_PER_TOPIC_MESSAGE = 5e-7  # to all of its consumers


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = "60s"
    access: str = "8ms"  # ours: client to its site, one way; ePulsar does not say (LTE)
    warm_up_rounds: int = 600  # ePulsar 5.5.1: coordinates settle for 10 minutes, a probe a second
    out_rps: float = 1_500_000.0  # ePulsar 5.4: the knee of their broker, in messages sent out
    window: str = "1s"  # of topics' counts and latencies
    faults: tuple[Json, ...] = ()  # tables as testbed.faults.read_faults takes them
    bookies: int = 0  # nodes that each message is written to before it goes on (3.5); 0: topics are not persistent
    write_quorum: int = 2  # acknowledgements that it waits for
    bookie_site: str = "same"  # ePulsar 3.5: the broker's own site, racks apart; "any": drawn over all sites
    rack_rtt: str = "200us"  # ours: between racks of a site
    bookie_write: str = "1ms"  # ours: mean of a synced write, exponential
    record: bool = False  # keep every message of the control plane

    def __post_init__(self) -> None:
        """SpecError for numbers that make no sense, or faults that cannot be read."""
        read_faults(self.faults)
        for name, least in (
            ("duration", "1ns"),
            ("access", "0"),
            ("window", "1ns"),
            ("rack_rtt", "0"),
            ("bookie_write", "0"),
        ):
            span_ns("study placement", name, getattr(self, name), least)
        if self.bookies and not 1 <= self.write_quorum <= self.bookies:
            what = f"study placement: write_quorum = {self.write_quorum} of bookies = {self.bookies}"
            raise SpecError(what, "give at least 1, and at most as many as there are bookies")
        choice("study placement", "bookie_site", self.bookie_site, ("same", "any"))
        check_least("placement", self, warm_up_rounds=0)
        if not self.out_rps > 0:
            raise SpecError(f"study placement: out_rps = {self.out_rps}", "give a rate above 0")


def asked(point: Point, config: Config) -> PlacementRequest:
    """SpecError where there are too few sites for the clients, or a fault cannot happen."""
    load: ClientLoad = point.schedule
    site_count = len(sites(point.topology))
    if site_count < load.site_count:
        what = f"clients at {load.site_count} sites, but topology {point.topology.name} has {site_count}"
        raise SpecError(what, "give both the same number")
    bounds = {topic.name: duration_text(topic.bound_ns) for topic in load.topics}
    options = replace(point.system_config, access=config.access, bounds={**bounds, **point.system_config.bounds})
    times = duration_ns(config.rack_rtt), duration_ns(config.bookie_write)
    bookies = Bookies(config.bookies, config.write_quorum, config.bookie_site == "same", *times)
    request = PlacementRequest(
        point.system,
        options,
        point.topology,
        load,
        duration_ns(config.duration),
        duration_ns(config.access),
        point.spec.seed,
        config.warm_up_rounds,
        config.out_rps,
        read_faults(config.faults),
        config.record,
        bookies if config.bookies else None,
        duration_ns(config.window),
    )
    assert point.system.nodes is not None
    point.system.nodes(request.topology.node_names(), point.system_config, 0)  # a role that is missing: now
    check_faults(request.faults, request.topology)
    return request


def journal(point: Point, asked: PlacementRequest, shown: PlacementJournal) -> Journal:
    """The tables of a run; the histogram is of all messages that all their consumers got."""
    latency_ns = np.concatenate([np.zeros(0, np.int64), *(fate.latency_ns for fate in shown.fates.values())])
    tables = {
        "samples": sample_rows(shown.samples),
        "latency_histogram": histogram_of("end_to_end_latency", latency_ns[latency_ns >= 0]),
        "topic_windows": window_rows(shown.fates, asked.window_ns),
        "topic_latency": latency_rows(shown.fates, asked.window_ns),
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
    """The clients of a workload, and the messages a second of those that publish at first."""
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
