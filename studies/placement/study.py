"""The study of load managers: topics are placed while clients come, go and move."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from collectors.histogram import BUCKET_COUNT, bucket_index
from core.clients import Joined, Moved, Role
from core.errors import SpecError
from core.units import SECOND_NS, duration_ns, duration_text
from studies.api import SECONDS_PER_NODE, Journal, Point, Study
from studies.distribution.study import histogram_rows
from studies.placement.asked import Bookies, PlacementJournal, PlacementRequest, Placing
from studies.spec import RunSpec
from systems.api import System
from systems.placement.options import Options
from testbed.faults import check_faults, read_faults
from testbed.topologies.places import sites
from workloads import load as load_workload
from workloads.api import Offer

SECONDS_PER_CLIENT_SECOND = 1e-4  # of a client of topics, its agents and brokers
SECONDS_PER_TOPIC_MESSAGE = 5e-7  # to all of its consumers

Row = tuple[int, str, str, float]


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = "60s"
    access: str = "8ms"  # ours: client to its site, one way; ePulsar does not say (LTE)
    warm_up_rounds: int = 600  # ePulsar 5.5.1: coordinates settle for 10 minutes, a probe a second
    out_rps: float = 1_500_000.0  # ePulsar 5.4: the knee of their broker, in messages sent out
    window: str = "1s"  # of the samples of topics
    faults: tuple[dict[str, Any], ...] = ()  # tables as testbed.faults.read_faults takes them
    bookies: int = 0  # nodes that each message is written to before it goes on (3.5); 0: topics are not persistent
    write_quorum: int = 2  # acknowledgements that it waits for
    bookie_site: str = "same"  # ePulsar 3.5: the broker's own site, racks apart; "any": drawn over all sites
    rack_rtt: str = "200us"  # ours: between racks of a site
    bookie_write: str = "1ms"  # ours: mean of a synced write, exponential
    record: bool = False  # keep every message of the control plane: rows of decisions

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
    samples = [*journal.samples, *_of_topics(journal, request.placing.window_ns)]
    names = ("at_ns", "node", "metric", "value")
    tables: dict[str, dict[str, Any]] = {
        "samples": {name: [row[i] for row in samples] for i, name in enumerate(names)},
        "latency_histogram": _latencies(journal),
        "decisions": _decisions(journal),
    }
    return Journal(tables, evidence=journal.evidence)


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


def _of_topics(journal: PlacementJournal, window_ns: int) -> list[Row]:
    """Samples of each topic by window of the messages' birth, at its start.

    ``message_count``, ``late_count`` (messages that not all consumers had within the bound), ``lost_count`` (that
    somebody never got), ``pair_count`` and ``late_pair_count`` (messages times consumers), ``latency_max_ns`` and
    ``latency_mean_ns`` (until the last consumer has it, of those that are not lost).
    """
    rows: list[Row] = []
    for topic, fate in journal.fates.items():
        window = fate.born_ns // window_ns
        starts = np.flatnonzero(np.diff(window, prepend=-1))
        if not len(starts):
            continue
        arrived = fate.latency_ns >= 0
        whole_ns = np.where(arrived, fate.latency_ns, 0)
        sums = {
            "message_count": np.ones(len(window), np.int64),
            "late_count": fate.late_count > 0,
            "lost_count": ~arrived,
            "pair_count": fate.consumer_count,
            "late_pair_count": fate.late_count,
        }
        found = {name: np.add.reduceat(values.astype(np.int64), starts) for name, values in sums.items()}
        found["latency_max_ns"] = np.maximum.reduceat(whole_ns, starts)
        there = np.maximum(1, found["message_count"] - found["lost_count"])
        found["latency_mean_ns"] = np.add.reduceat(whole_ns, starts) / there
        for i, start in enumerate(starts.tolist()):
            at_ns = int(window[start]) * window_ns
            rows += [(at_ns, topic, metric, float(values[i])) for metric, values in found.items()]
    return rows


def _latencies(journal: PlacementJournal) -> dict[str, Any]:
    """Of all messages that all their consumers got."""
    latency_ns = np.concatenate([fate.latency_ns for fate in journal.fates.values()] or [np.zeros(0, np.int64)])
    counts = np.bincount(bucket_index(latency_ns[latency_ns >= 0]), minlength=BUCKET_COUNT)
    return histogram_rows(0, {"end_to_end_latency": counts[np.newaxis]})


def _decisions(journal: PlacementJournal) -> dict[str, Any]:
    """Who owned what, what clients did, what went wrong, and, where recorded, what was said."""
    rows: list[tuple[int, str, str, int | None]] = []
    for topic, broker, start_ns, end_ns in journal.spells:
        rows.append((start_ns, "owned", f"{topic} {broker}", end_ns - start_ns))
    for happening in journal.happenings:
        if isinstance(happening, Moved):
            rows.append((happening.at_ns, "handover", f"{happening.client} {happening.site}", None))
        else:
            kind = "joined" if isinstance(happening, Joined) else "left"
            rows.append((happening.at_ns, kind, f"{happening.client} {happening.topic} {happening.role}", None))
    rows += [(at_ns, "fault", repr(fault), None) for at_ns, fault in journal.faults]
    rows += [(at_ns, way, f"{node} {peer} {text}", None) for at_ns, node, way, peer, text in journal.messages]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {name: list(column) for name, column in zip(("at_ns", "kind", "note", "duration_ns"), columns, strict=True)}


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
