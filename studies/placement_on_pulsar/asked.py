"""What a testbed is told and gives back when a control plane places the topics of a real Pulsar."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from core.clients import Joined, Left, Moved, Role
from core.errors import SpecError
from core.limits import RoundCount
from core.records import Int64, Json
from core.units import MILLISECOND_NS, duration_ns, duration_text
from studies.api import check_least
from studies.placement.asked import PlacementJournal, TopicsRequest
from systems.parts.options import choice, span_ns
from testbed.faults import Fault, read_faults
from testbed.servers.pulsar.settings import MOST_SESSION_MS

NAME = "placement-on-pulsar"
FIRST, EACH, ONE = "first", "each", "one"
MOST_ALONE = 64  # ours: clients that are a process each


@dataclass(frozen=True)
class Config:
    """Options of the study."""

    duration: str = "60s"
    access: str = "8ms"  # ours: client to its site, one way, as in study placement
    warm_up_rounds: RoundCount = 30  # ours: seconds that Serf's agents have before time 0
    warm_up_moves: RoundCount = 2  # ours, at least: of each topic before time 0, as cold brokers take long; 0: none
    persistent: bool = True  # topics; the paper's public clients use others
    namespaces: str = EACH  # a topic has its own, or all have one, whose bundles are cut so that each is alone in one
    bookies: str = FIRST  # beside the first broker, or each: then a topic's go with it (ePulsar 3.5: at its site)
    shedding: bool = False  # Pulsar's own balancer, let loose beside the load manager
    broker_session: str = "5s"  # ours (30 s as Pulsar comes): of Pulsar's brokers, which outlasts their silence
    window: str = "1s"  # of topics' counts and latencies
    faults: tuple[Json, ...] = ()  # tables as testbed.faults.read_faults takes them

    def __post_init__(self) -> None:
        read_faults(self.faults)
        for name, least in (("duration", "1ns"), ("access", "0"), ("window", "1ns")):
            span_ns(f"study {NAME}", name, getattr(self, name), least)
        choice(f"study {NAME}", "bookies", self.bookies, (FIRST, EACH))
        choice(f"study {NAME}", "namespaces", self.namespaces, (EACH, ONE))
        if self.bookies == EACH and self.namespaces == ONE:
            raise SpecError(f"study {NAME}: a topic's bookies are its namespace's", "give each a namespace of its own")
        least, most = "1s", duration_text(MOST_SESSION_MS * MILLISECOND_NS)
        if span_ns(f"study {NAME}", "broker_session", self.broker_session, least) > duration_ns(most):
            raise SpecError(f"study {NAME}: broker_session = {self.broker_session!r}", f"give at most {most!r}")
        check_least(NAME, self, warm_up_rounds=0, warm_up_moves=0)


class Change(NamedTuple):
    """From an instant on, a consumer of a topic, by the topic's number in its crew, is there or is not any more."""

    at_ns: int
    topic: int
    wanted: bool


class ClientCrew(NamedTuple):
    """Clients in one process of Pulsar's own client, on the host of ``node``.

    ``producing``, ``consuming``: of which of its ``topics``, by number, from the start.
    """

    node: str
    name: str  # of the process
    topics: tuple[str, ...]
    producing: tuple[int, ...] = ()
    consuming: tuple[int, ...] = ()
    changes: tuple[Change, ...] = ()  # in order

    @property
    def produced(self) -> list[str]:
        """The topics that it sends to."""
        return [self.topics[number] for number in self.producing]

    def spans_ns(self, number: int, until_ns: int) -> list[tuple[int, int]]:
        """When it wants to consume a topic; what has no end ends with the run."""
        turns = [Change(0, one, True) for one in self.consuming] + list(self.changes)
        spans: list[tuple[int, int]] = []
        for at_ns, topic, wanted in turns:
            if topic == number:
                if wanted:
                    spans.append((at_ns, until_ns))
                else:
                    spans[-1] = spans[-1][0], at_ns
        return spans


@dataclass(frozen=True)
class PulsarRequest(TopicsRequest):
    """On the brokers of a real Pulsar, or of its model.

    Where all clients are there from the start and stay, and a topic has one producer, and one consumer a site, a
    process stands for those of one role at a site; else each client is a process, on a host of its own, which moves.
    SpecError for clients that neither can stand for.
    """

    rule: Config

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """What goes wrong."""
        return read_faults(self.rule.faults)

    @cached_property
    def each_alone(self) -> bool:
        """Whether each client is a process."""
        taken = set[tuple[Role, str, int]]()  # a topic has one producer, wherever that is
        for one in self.happenings:
            if not isinstance(one, Joined) or one.at_ns > 0:
                return True
            place = one.role, one.topic, self.load.homes[one.client] if one.role is Role.CONSUMER else 0
            if place in taken:
                return True
            taken.add(place)
        return False

    @cached_property
    def homes(self) -> dict[str, int]:
        """Clients' host -> the site where it begins: one for those of each site that has any, or one for each."""
        if self.each_alone:
            return self.load.homes
        return {host_of(site): site for site in sorted({*self.load.homes.values()})}

    @cached_property
    def whereabouts(self) -> dict[str, list[tuple[int, str]]]:
        """Clients' host -> instants, and the proxy of the site where it is from then on."""
        whereabouts = {name: [(0, self.places[site].proxy)] for name, site in self.homes.items()}
        for one in self.happenings:
            if isinstance(one, Moved):
                whereabouts[one.client].append((one.at_ns, self.places[one.site].proxy))
        return whereabouts

    @cached_property
    def crews(self) -> list[ClientCrew]:
        """Who is where, in processes; those who only consume first."""
        if len({(topic.rate_rps, topic.size_bytes) for topic in self.load.topics}) > 1:
            raise SpecError("topics of several rates or sizes", "on Pulsar give all of them the same")
        producers = {one.topic for one in self.happenings if isinstance(one, Joined) and one.role is Role.PRODUCER}
        if missing := [topic.name for topic in self.load.topics if topic.name not in producers]:
            raise SpecError(f"nobody sends to {missing[0]}", "on Pulsar give each topic a producer")
        if self.each_alone and len(self.load.homes) > MOST_ALONE:
            what = f"{len(self.load.homes)} clients, a process each, as they move, come or go, or share topics"
            raise SpecError(what, f"give at most {MOST_ALONE}")
        by_crew: dict[tuple[str, str], list[Joined | Left]] = {}
        for one in self.happenings:
            if not isinstance(one, Moved):
                host = one.client if self.each_alone else host_of(self.load.homes[one.client])
                by_crew.setdefault((host, "" if self.each_alone else one.role), []).append(one)
        crews = [
            _crew(host, f"{host}-{role}s" if role else f"{host}-client", of) for (host, role), of in by_crew.items()
        ]
        return sorted(crews, key=lambda crew: (bool(crew.producing), crew.node))


def host_of(site: int) -> str:
    """Of the clients of a site, where they share one."""
    return f"clients{site + 1}"


def _crew(host: str, name: str, doings: Sequence[Joined | Left]) -> ClientCrew:
    topics = tuple(dict.fromkeys(one.topic for one in doings))
    there: dict[Role, list[int]] = {role: [] for role in Role}
    changes = []
    for one in doings:
        number, wanted = topics.index(one.topic), isinstance(one, Joined)
        if wanted and not one.at_ns:
            there[one.role].append(number)
        elif one.role is Role.PRODUCER:
            raise SpecError(f"{one}: on Pulsar producers come at 0 and stay", "let only consumers come and go")
        else:
            changes.append(Change(one.at_ns, number, wanted))
    return ClientCrew(host, name, topics, tuple(there[Role.PRODUCER]), tuple(there[Role.CONSUMER]), tuple(changes))


class StepSpan(NamedTuple):
    """A step of a topic's move, in the run's time: a row of ``move_steps``."""

    topic: str
    step: str
    start_ns: int
    end_ns: int


class ClientDowntime(NamedTuple):
    """A client was cut off from a topic, in the run's time: a row of ``downtimes``."""

    client: str  # its host
    topic: str
    role: Role
    start_ns: int
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class PulsarJournal(PlacementJournal):
    """Latencies are of first deliveries, of all consumers, from when a message was due."""

    steps: list[StepSpan]
    downtimes: list[ClientDowntime]
    latency_ns: Int64
