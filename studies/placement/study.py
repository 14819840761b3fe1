"""The study of load managers: topics are placed while clients come, go and move."""

from dataclasses import dataclass, replace
from typing import Any

from core.errors import SpecError
from core.registry import configure
from core.units import duration_ns, duration_text
from studies.api import Journal, Point, Study
from studies.placement.asked import Bookies, Placing
from studies.placement.tables import tables_of
from systems.placement.options import Options
from testbed.faults import check_faults, read_faults
from testbed.topologies.places import sites, with_clients


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


def configured(point: Point) -> Config:
    """The study's options; SpecError where system, workload and topology do not fit it."""
    if not isinstance(point.system_config, Options):
        raise SpecError(f"system {point.system.key!r} places no topics", "choose pulsar, all-pairs or epulsar")
    if not hasattr(point.schedule, "happenings"):
        raise SpecError(
            f"workload {point.spec.workload!r} has no clients of topics", "use uav-swarms, mmog or static-topics"
        )
    config: Config = configure("study placement", Config, point.spec.study_options)
    point.backend.check_place(point.system, _placing(point, config))
    places = sites(point.topology)
    if len(places) < point.schedule.site_count:
        what = f"clients at {point.schedule.site_count} sites, but topology {point.topology.name} has {len(places)}"
        raise SpecError(what, "give both the same number")
    whole = with_clients(point.topology, point.schedule.homes, duration_ns(config.access))
    assert point.system.nodes is not None
    point.system.nodes(whole.node_names(), point.system_config, 0)  # a role that is missing: now
    check_faults(read_faults(config.faults), whole)
    return config


def run(point: Point, config: Config) -> Journal:
    """Let the control plane place the workload's topics for ``duration``."""
    bounds = {topic.name: duration_text(topic.bound_ns) for topic in point.schedule.topics}
    options = replace(point.system_config, access=config.access, bounds={**bounds, **point.system_config.bounds})
    journal = point.backend.place(point.system, options, point.topology, point.schedule, _placing(point, config))
    return Journal(tables_of(journal, duration_ns(config.window)), "done", evidence=journal.evidence)


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
    )


def _bookies(config: Config) -> Bookies | None:
    if not config.bookies:
        return None
    times = duration_ns(config.rack_rtt), duration_ns(config.bookie_write)
    return Bookies(config.bookies, config.write_quorum, config.bookie_site == "same", *times)


STUDY = Study(configured, run)
