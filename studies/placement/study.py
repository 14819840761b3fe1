"""The study of load managers: topics are placed while clients come, go and move."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from core.clients import Joined, Role
from core.errors import SpecError
from core.units import SECOND_NS, duration_ns, duration_text
from studies.api import SECONDS_PER_NODE, Journal, Point, Study
from studies.placement.asked import Bookies, PlacementJournal, PlacementRequest, Placing
from studies.placement.tables import tables_of
from studies.spec import RunSpec
from systems.api import System
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
    faults: tuple[dict[str, Any], ...] = ()  # tables as testbed.faults.read_faults takes them
    bookies: int = 0  # nodes that each message is written to before it goes on (3.5); 0: topics are not persistent
    write_quorum: int = 2  # acknowledgements that it waits for
    bookie_site: str = "same"  # ePulsar 3.5: the broker's own site, racks apart; "any": drawn over all sites
    rack_rtt: str = "200us"  # ours: between racks of a site
    bookie_write: str = "1ms"  # ours: mean of a synced write, exponential
    record: bool = False  # keep every message of the control plane

    def __post_init__(self) -> None:
        """SpecError for numbers that make no sense, or faults that cannot be read."""
        read_faults(self.faults)
        spans = (("duration", 1), ("access", 0), ("window", 1), ("rack_rtt", 0), ("bookie_write", 0))
        for name, least in spans:
            try:
                assert duration_ns(getattr(self, name)) >= least
            except (ValueError, AssertionError):
                raise SpecError(
                    f"study placement: {name} = {getattr(self, name)!r}", "give a length, as in 30s"
                ) from None
        if self.bookies and not 1 <= self.write_quorum <= self.bookies:
            what = f"study placement: write_quorum = {self.write_quorum} of bookies = {self.bookies}"
            raise SpecError(what, "give at least 1, and at most as many as there are bookies")
        if self.bookie_site not in ("same", "any"):
            raise SpecError(f"study placement: bookie_site = {self.bookie_site!r}", "choose same or any")
        if self.warm_up_rounds < 0 or not self.out_rps > 0:
            what = f"study placement: warm_up_rounds = {self.warm_up_rounds}, out_rps = {self.out_rps}"
            raise SpecError(what, "give rounds from 0 on, and a rate above 0")


def asked(point: Point, config: Config) -> PlacementRequest:
    """SpecError where there are too few sites for the clients, or a fault cannot happen."""
    places = sites(point.topology)
    if len(places) < point.schedule.site_count:
        what = f"clients at {point.schedule.site_count} sites, but topology {point.topology.name} has {len(places)}"
        raise SpecError(what, "give both the same number")
    bounds = {topic.name: duration_text(topic.bound_ns) for topic in point.schedule.topics}
    options = replace(point.system_config, access=config.access, bounds={**bounds, **point.system_config.bounds})
    request = PlacementRequest(point.system, options, point.topology, point.schedule, _placing(point, config))
    assert point.system.nodes is not None
    point.system.nodes(request.topology.node_names(), point.system_config, 0)  # a role that is missing: now
    check_faults(read_faults(config.faults), request.topology)
    return request


def journal(point: Point, request: PlacementRequest, journal: PlacementJournal) -> Journal:
    """The tables of a run."""
    return Journal(tables_of(journal, request.placing.window_ns), evidence=journal.evidence)


def _placing(point: Point, config: Config) -> Placing:
    return Placing(
        duration_ns(config.duration),
        duration_ns(config.access),
        point.spec.seed,
        config.warm_up_rounds,
        config.out_rps,
        read_faults(config.faults),
        config.record,
        _bookies(config),
        duration_ns(config.window),
    )


def _bookies(config: Config) -> Bookies | None:
    if not config.bookies:
        return None
    times = duration_ns(config.rack_rtt), duration_ns(config.bookie_write)
    return Bookies(config.bookies, config.write_quorum, config.bookie_site == "same", *times)


def fits(system: System) -> bool:
    """Whether it places topics."""
    return issubclass(system.config, Options)


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Live its length, the warm-up and the clients' processes; else its clients' seconds and messages."""
    seconds = duration_ns(str(spec.study_options.get("duration", Config.duration))) / SECOND_NS
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
    Offer.CLIENTS,
    fits,
    asked,
    journal,
    expected_seconds,
    "studies.placement.virtual:BODY",
    "studies.placement.live:BODY",
)
