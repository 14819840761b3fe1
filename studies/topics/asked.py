"""What is asked of brokers to which topics come and from which they leave, and what comes home."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.errors import SpecError
from core.limits import DRAWN, ROWS, check_product
from core.records import Int32, Int64, Schedule
from core.seeds import child_seed, generator
from core.units import duration_ns
from studies.api import Point
from studies.control.asked import Config as ControlConfig
from studies.distribution.asked import Deployed, Searched, Searching
from systems.api import System
from systems.parts.options import choice, span_ns
from workloads import load

SPLIT, STORE = "split", "store"
LIVES = ("exponential", "log-normal")
SIGMA = 1.0  # of a log-normal life's logarithm (ours)
TOPICS_MAXIMUM = 2_000  # of a run: each has a histogram


@dataclass(frozen=True)
class Config(ControlConfig):
    """Options of the study; all but the bucket's are ours.

    What a topic is follows from its workload's options, of which ``publishers``, ``group_size`` and the SLO are drawn
    for each from what is given here, each as likely.
    """

    duration: str = "1200s"  # topics come until then, and whoever is there is looked at until then
    window: str = "10s"  # of the counts of messages that are late
    gap: str = "35s"  # mean, between arrivals: they are a Poisson process
    life: str = "240s"  # mean residence, from admission on
    life_kind: str = "exponential"  # or "log-normal"
    publishers: tuple[int, ...] = (10, 20, 40)
    group_sizes: tuple[int, ...] = (1, 10)
    slos: tuple[str, ...] = ()  # none: the spec's
    sharing: str = SPLIT  # of a topic's bucket: sub-buckets; or a "store" that each message asks, and waits in line
    rtt: str = "20ms"  # from brokers to the store, and back; a topic on one broker has its bucket there

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("gap", "1ns"), ("life", "1ns"), ("rtt", "0s")):
            span_ns("study topics", name, getattr(self, name), least)
        choice("study topics", "life_kind", self.life_kind, LIVES)
        choice("study topics", "sharing", self.sharing, (SPLIT, STORE))
        if not self.publishers or not self.group_sizes:
            raise SpecError("study topics: no publishers, or no group_sizes", "give at least one of each")
        for slo in self.slos:
            span_ns("study topics", "slos", slo)
        most, count = TOPICS_MAXIMUM, duration_ns(self.duration) / duration_ns(self.gap)
        if 2 * count > most:
            raise SpecError(f"study topics: gap = {self.gap}", f"at most {most // 2} topics may be expected")
        topics, windows = math.ceil(count), -(-duration_ns(self.duration) // duration_ns(self.window))
        check_product("study topics", DRAWN, topics=topics, publishers=max(self.publishers))
        check_product("study topics", ROWS, topics=topics, windows=windows)


@dataclass(frozen=True)
class ComingTopic:
    """A topic that will come.  ``life_ns``: how long it stays once it is admitted."""

    name: str
    arrives_ns: int
    life_ns: int
    slo_ns: int
    schedule: Schedule
    seed: int


@dataclass(frozen=True, kw_only=True)
class Churning(Deployed):
    """Brokers, the topics in the order in which they come, and the distributor that finds each a place."""

    rule: Config
    system: System
    config: object  # of the system's class
    topics: Sequence[ComingTopic]
    duration_ns: int
    window_ns: int

    def search_for(self, topic: ComingTopic) -> Searching:
        """What is asked for one topic."""
        own = {"schedule": topic.schedule, "slo_ns": topic.slo_ns, "seed": topic.seed}
        told = {name: getattr(self, name) for name in Deployed.__dataclass_fields__}
        return Searching(**{**told, **own}, system=self.system, config=self.config)


@dataclass(frozen=True)
class Stay:
    """What became of a topic whose turn came.

    ``looked_at_ns``: when its turn came; ``admitted_ns``: None where it was refused; ``left_ns``: it left, or was
    refused; ``search``: None where there was no room to search in.
    """

    topic: ComingTopic
    looked_at_ns: int
    left_ns: int
    admitted_ns: int | None = None
    assignment: Int32 | None = None
    search: Searched | None = None


@dataclass(frozen=True)
class Churned:
    """What a run showed.  Counts by topic and window, and histogram counts by topic and by broker, of residents."""

    stays: Sequence[Stay]  # of the first topics: the last ones' turn may not have come
    message_count: Int64
    late_count: Int64
    latency: Int64
    broker_latency: Int64


def coming(point: Point, config: Config, slo_ns: int) -> Iterator[ComingTopic]:
    """The topics of a run, each drawn from a branch of its own; a shorter gap or life is the same draw, scaled."""
    spec, workload = point.spec, load(point.spec.workload)
    gap_ns, life_ns, end_ns = (duration_ns(text) for text in (config.gap, config.life, config.duration))
    slos_ns = [duration_ns(text) for text in config.slos] or [slo_ns]
    at_ns = number = 0
    while True:
        draws = generator(spec.seed, "topics", number)
        at_ns += 1 + int(draws.standard_exponential() * gap_ns)
        if at_ns >= end_ns:
            return
        stay = draws.standard_exponential(), draws.lognormal(-(SIGMA**2) / 2, SIGMA)
        publishers = int(draws.choice(config.publishers))
        size, slo = min(publishers, int(draws.choice(config.group_sizes))), int(draws.choice(slos_ns))
        options = {**spec.workload_options, "publishers": publishers, "group_size": size}
        seed = child_seed(spec.seed, "topic", number) >> 1
        schedule = workload.make(workload.configure(options), seed)
        lasts_ns = 1 + int(stay[LIVES.index(config.life_kind)] * life_ns)
        yield ComingTopic(f"topic-{number}", at_ns, lasts_ns, slo, schedule, seed)
        number += 1
