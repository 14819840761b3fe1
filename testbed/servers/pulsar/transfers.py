"""Topics that are moved while clients use them, and what these see: ``TopicTraffic``, ``transfer``, ``SeenByClients``.

Pulsar 4 fences a topic, lets the next broker own it, and closes its clients last.  So two spans are told apart:
*downtime*, from when a client's connection was closed to when it has another; and the *gap*, the longest time without
a delivery around a move, in which Pulsar keeps messages waiting.
"""

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from core.errors import MachineError
from core.records import Int64
from core.units import SECOND_NS
from testbed.brokers.publish_host import write_columns
from testbed.hosts.site import Program, python_agent
from testbed.servers.pulsar.admin import Admin, Topic, boundaries, bundles_of
from testbed.servers.pulsar.client_host import OPERATION_S, SIZE_BYTES, SUBSCRIPTION
from testbed.servers.pulsar.cluster import PulsarCluster
from testbed.trust.accounts import ABSENT, DeliveryAccount, account, out_of_order_count

LEAD_NS = 2 * SECOND_NS  # from the last word before a run of clients to its time 0
CONNECT_S = 120.0  # hundreds of clients, a cold broker
END_S = 2.0 * OPERATION_S + 20.0  # who is about to leave may be refused twice
AROUND_NS = 2 * SECOND_NS  # ours: a gap of a move begins before its end, and ends so long after it at the latest
MOVE_S = 10.0  # ours: for REST's answer
KNOWN_NS = 5 * SECOND_NS  # ours: until all brokers know of a new owner; they hear of it one after another
AT_ONCE = 16  # ours: namespaces that are made, topics that are put somewhere before a run
_LOOK_AGAIN_S = 0.1


class Transfer(NamedTuple):
    """A topic was to move.  Instants of CLOCK_REALTIME, around the question by REST."""

    topic: Topic
    source: str  # ids of brokers
    target: str  # "": whom Pulsar finds
    asked_at_ns: int
    answered_at_ns: int
    owner: str  # afterwards
    problem: str = ""

    @property
    def landed(self) -> bool:
        """Whether it is where it was to be; without a target, elsewhere or not."""
        return self.owner == self.target if self.target else bool(self.owner)


class Bundled(NamedTuple):
    """A topic that lies alone in its bundle."""

    topic: Topic
    bundle: str


def transfer(admin: Admin, moved: Bundled, target: str = "") -> Transfer:
    """Have a topic moved; what goes wrong is told, not raised."""
    source, owner, problem, asked_at_ns = "", "", "", time.time_ns()
    try:
        source = admin.owner_of(moved.topic)
        asked_at_ns = time.time_ns()
        if source != target:
            admin.move(*moved, target, MOVE_S)
    except MachineError as error:
        problem = str(error)
    answered_at_ns = time.time_ns()
    while True:
        with suppress(MachineError):
            owner = admin.owner_of(moved.topic)
        if (owner and target in ("", owner)) or time.time_ns() >= answered_at_ns + KNOWN_NS:
            break
        time.sleep(_LOOK_AGAIN_S)
    return Transfer(moved.topic, source, target, asked_at_ns, answered_at_ns, owner, problem)


def transfer_all(admin: Admin, plan: Iterable[tuple[Bundled, str]], executors: int) -> list[Transfer]:
    """At most so many at a time, begun in the order of the plan (ePulsar 3.6: 16)."""
    with ThreadPoolExecutor(executors) as pool:
        return list(pool.map(lambda pair: transfer(admin, *pair), plan))


def make_topics(admin: Admin, topics: Sequence[Topic], subscribed: Iterable[tuple[Topic, str]] = ()) -> None:
    """A tenant, and in it each topic, alone in a bundle; ``subscribed``: whose owner has loaded it then, and for whom.

    That takes some twenty ways to the store, so that many at a time are ready long before clients come one by one.

    Namespaces are cut into as many bundles as they have topics: one, where each topic has a namespace.
    """
    admin.make_tenant(topics[0].tenant)
    spaces: dict[str, list[Topic]] = {}
    for topic in topics:
        spaces.setdefault(topic.namespace, []).append(topic)

    def make(namespace: str) -> None:
        members = spaces[namespace]
        admin.make_namespace(topics[0].tenant, namespace, boundaries(members) if len(members) > 1 else ())

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(make, spaces))
        list(pool.map(lambda pair: admin.subscribe(*pair), subscribed))


def put_topics(admin: Admin, places: Iterable[tuple[Topic, str]]) -> None:
    """Each topic to a broker, all of their namespaces' (``make_topics``); MachineError where one does not go."""
    brokers = dict(places)
    plan = [(Bundled(*bundled), brokers[bundled[0]]) for bundled in bundles_of([*brokers]).items()]
    for moved in transfer_all(admin, plan, AT_ONCE):
        if not moved.landed:
            raise MachineError(f"{moved.topic} did not go to {moved.target}: {moved.problem}", "see brokers' logs")


def let_go(admin: Admin, topics: Sequence[Topic]) -> None:
    """Have all of their namespaces' topics unloaded, whose clients are gone: they cost brokers nothing any more."""

    def unload(bundled: Bundled) -> None:
        with suppress(MachineError):  # a broker that is gone has none
            admin.move(*bundled, timeout_s=MOVE_S)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(unload, itertools.starmap(Bundled, bundles_of(topics).items())))


@dataclass(frozen=True)
class SeenByClients:
    """What clients saw of their topics: rows of ``client_host.SENT``, ``GOT`` and ``SUBSCRIBED``, by column."""

    topics: Sequence[Topic]
    sent: Mapping[str, Int64]
    got: Mapping[str, Int64]
    subscribed: Mapping[str, Int64] = field(default_factory=dict)

    def accounts(self) -> dict[Topic, DeliveryAccount]:
        """What became of each topic's messages."""
        return {topic: self._account(number) for number, topic in enumerate(self.topics)}

    def _account(self, number: int) -> DeliveryAccount:
        here = self.sent["topic"] == number
        sent, known = self.sent["message"][here], self.sent["acknowledged_at_ns"][here] != ABSENT
        return account(sent, sent, sent[known], self.got["message"][self.got["topic"] == number])

    def out_of_order(self) -> int:
        """First deliveries after a later message of their topic."""
        return out_of_order_count(self.got["message"], self.got["topic"])

    def gap_ns(self, moved: Transfer) -> int:
        """The longest time without a delivery of its topic, from its question to ``AROUND_NS`` after its answer."""
        at_ns = np.sort(self.got["received_at_ns"][self.got["topic"] == self.topics.index(moved.topic)])
        return longest_gap_ns(at_ns, moved.asked_at_ns, moved.answered_at_ns + AROUND_NS)


def longest_gap_ns(at_ns: Int64, begin_ns: int, end_ns: int) -> int:
    """Between two deliveries, of instants in order; of those around a span, in it, and the next one after it.

    Where there is none before the span, or after it, the gap is at least what the span has of it.
    """
    first, last = np.searchsorted(at_ns, [begin_ns, end_ns])
    before = at_ns[first - 1] if first else begin_ns
    after = at_ns[last] if last < len(at_ns) else end_ns
    return int(np.diff([before, *at_ns[first:last], after]).max())


class Hiring(NamedTuple):
    """Whom a process stands for: consumers and producers of its topics, by their numbers, there from the start.

    ``clients``: the first part of their names, which end in the topics' numbers; "": Pulsar names them.  ``sender``:
    whose messages are sent, where others send on these topics, too.
    """

    consuming: Sequence[int]
    producing: Sequence[int]
    clients: str = ""
    subscription: str = SUBSCRIPTION
    sender: int = 0


class TopicTraffic:
    """Producers and consumers of topics, in a process on the host of a node: the harness' end of ``client_host``.

    Without ``hiring`` a topic has one of each.
    """

    def __init__(
        self,
        cluster: PulsarCluster,
        node: str,
        topics: Sequence[Topic],
        name: str = "pulsar-clients",
        hiring: Hiring | None = None,
    ):
        self.topics, self._site, self._node, self._name = topics, cluster.site, node, name
        self._folder = self._site.folder / name
        log = self._site.place(node, self._folder / "client.log")
        words = python_agent("testbed.servers.pulsar.client_host", log)
        self.agent = self._site.start(node, Program(name, words))
        self.agent.ready()
        every = range(len(topics))
        told = (hiring or Hiring(every, every))._asdict()
        told["name"] = told.pop("clients")
        consuming, producing = (list(told.pop(name)) for name in ("consuming", "producing"))
        names = [str(topic) for topic in topics]
        self.agent.ask(
            "connect",
            CONNECT_S,
            service=cluster.service,
            topics=names,
            consuming=consuming,
            producing=producing,
            **told,
        )

    def play(self, rate_rps: float, size_bytes: int = SIZE_BYTES) -> None:
        """Begin to send, so many messages a second to each topic."""
        self.agent.ask("play", rate_rps=rate_rps, size_bytes=size_bytes)

    def offer(self, load: Mapping[str, Int64], epoch_ns: int, size_bytes: int = SIZE_BYTES) -> None:
        """Begin to send what is due, by the columns ``client_host.DUE``, from an instant of CLOCK_REALTIME on."""
        path = self._folder / "load.npz"
        write_columns(path, load)
        self.agent.ask("offer", path=self._site.put(self._node, path), epoch_ns=epoch_ns, size_bytes=size_bytes)

    def follow(self, changes: Sequence[tuple[int, int, bool]], epoch_ns: int) -> None:
        """Let consumers come and go: the instant, the topic's number, whether it is wanted; in order."""
        self.agent.ask("follow", changes=changes, epoch_ns=epoch_ns)

    def end(self) -> None:
        """Send no more, and come and go no more."""
        self.agent.ask("end", END_S)

    def rest(self, timeout_s: float, still_s: float = 2.0) -> None:
        """Until all that was sent is acknowledged, and nothing has come for ``still_s``; MachineError after so long."""
        until_s, got, since_s = time.monotonic() + timeout_s, -1, 0.0
        while True:
            told, now_s = self.agent.ask("status"), time.monotonic()
            if told["got"] != got:
                got, since_s = told["got"], now_s
            if not told["open"] and now_s - since_s >= still_s:
                return
            if now_s > until_s:
                raise MachineError(f"{told['open']} messages are still under way", f"see {self._folder}/client.log")
            time.sleep(_LOOK_AGAIN_S)

    def seen(self) -> SeenByClients:
        """All so far."""
        path = self._folder / "rows.npz"
        self.agent.ask("collect", path=self._site.place(self._node, path))
        self._site.fetch(self._node, path)
        with np.load(path) as table:
            columns = {name: table[name] for name in table.files}
        parts = (
            {name.removeprefix(way): columns[name] for name in columns if name.startswith(way)}
            for way in ("sent_", "got_", "subscribed_")
        )
        return SeenByClients(self.topics, *parts)

    def log(self) -> str:
        """What Pulsar's client wrote, so far."""
        path = self._folder / "client.log"
        self._site.fetch(self._node, path)
        return path.read_text(errors="replace")

    def close(self) -> None:
        """End the process."""
        self._site.forget(self._name)


def rest_all(every: Sequence[TopicTraffic], timeout_s: float, still_s: float = 2.0) -> None:
    """Let all ``rest``; what has not come by then is lost, or unacknowledged, as the accounts say."""

    def rest(traffic: TopicTraffic) -> None:
        with suppress(MachineError):
            traffic.rest(timeout_s, still_s)

    with ThreadPoolExecutor(len(every)) as pool:
        list(pool.map(rest, every))
