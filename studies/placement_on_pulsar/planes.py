"""What stands beside the nodes on real hosts, or in their place: Pulsar's REST, its ZooKeeper, Serf's agents."""

import json
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from core.errors import MachineError, SystemFault
from core.units import SECOND_NS
from studies.placement.script import events_file
from studies.placement_on_pulsar.nodes import Served, ServedTopic, Unload, Unloaded
from systems.api import Delivery, Effect, Event, Node, Send, Timer
from systems.placement.messages import AtSite, Changed, WatchEntries
from systems.placement.monitoring import OWNERS, Rates
from testbed.brokers.plane import NoPlane
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import Count, Heard, Plane, Report, ServerAt, Surroundings, all_of
from testbed.servers.pulsar.admin import Admin, Topic, bundles_of, connect_to
from testbed.servers.pulsar.owners import OwnerWatch, entry_of, owner_in
from testbed.servers.pulsar.transfers import MOVE_S
from testbed.servers.serf_agent import SerfAgent
from testbed.servers.zookeeper_store import ZooKeeperStore

NAME = "t"  # of the one topic of a namespace, which is called as the workload calls the topic
ALL = "all"  # the namespace of all, where they have one
POLL_S = 2.0  # ours: Pulsar itself makes new figures every 5 s (settings)


class PulsarScript(msgspec.Struct, frozen=True):
    """What the processes of a run are told before it: a file that is brought to each host."""

    tenant: str
    topics: tuple[str, ...]
    brokers: dict[str, str]  # node -> the id of the broker beside it
    store: str  # the node
    store_at: ServerAt  # Pulsar's ZooKeeper
    session_ns: int
    serf: dict[str, ServerAt]  # agent -> its RPC
    whereabouts: dict[str, list[tuple[int, str]]]  # clients' node -> instants, and its site's proxy from then on
    executors: int  # moves at a time
    persistent: bool = True
    grouped: bool = False  # a group of bookies beside each broker, which is called as its node
    in_one: bool = False  # all topics have one namespace, else each its own

    def topic(self, name: str) -> Topic:
        """As Pulsar has it."""
        where = (ALL, name) if self.in_one else (name, NAME)
        return Topic(self.tenant, *where, self.persistent)

    def bundles(self) -> dict[str, str]:
        """Of each topic of the workload's, the bundle, in which it is alone."""
        bundle_of = bundles_of([self.topic(name) for name in self.topics])
        return {name: bundle_of[self.topic(name)] for name in self.topics}

    def node_of(self, broker: str) -> str:
        """The node beside the broker of that id; "": none."""
        return next((node for node, at in self.brokers.items() if at == broker), "")


def read_script(path: Path) -> PulsarScript:
    """What the study wrote."""
    return msgspec.json.decode(path.read_bytes(), type=PulsarScript)


def stand_in(node: Node, around: Surroundings) -> Node:
    """See ``systems.api.StandIn``: the store is Pulsar's ZooKeeper, and agents are Serf's."""
    path, name = Path(around.script), around.node
    script = read_script(path)
    if name == script.store:
        return PulsarStore(name, script, events_file(path.parent, name))
    if name in script.serf:
        return SerfAgent(name, script.serf[name])
    return node


def pulsar_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> Plane:
    """See ``testbed.nodes.planes``."""
    path, name = Path(around.script), around.node
    script = read_script(path)
    if name in script.brokers:
        return PulsarBrokerPlane(loop, name, script, report, events_file(path.parent, name))
    if name in script.whereabouts:
        return WhereaboutsPlane(loop, script.whereabouts[name], report)
    return NoPlane(name)


class PulsarStore(ZooKeeperStore):
    """Pulsar's own ZooKeeper as the store: election and reports are ours there, who owns what is Pulsar's.

    Every owner that it hears of it also writes down, a line of JSON each: instant of CLOCK_REALTIME, unit, node.
    """

    def __init__(self, node_id: str, script: PulsarScript, events: Path):
        super().__init__(node_id, script.store_at, script.session_ns)
        self._script, self._events = script, events.open("w", buffering=1)
        self._owners: dict[str, str] = {}  # unit -> node
        self._watchers: dict[str, None] = {}
        self._told: SimpleQueue[tuple[int, str, bytes | None]] = SimpleQueue()
        entries = {unit: entry_of(script.topic(unit), bundle) for unit, bundle in script.bundles().items()}
        self._watch = OwnerWatch(script.store_at, script.session_ns / SECOND_NS, entries, self._tell)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Delivery(source, WatchEntries(prefix)) if prefix == OWNERS:
                self._watchers[source] = None
                return [Send(source, Changed(OWNERS + unit, node)) for unit, node in self._owners.items()]
            case Timer("poll", _):
                return [*self._changes(), *super().handle(event, now_ns)]
        effects = super().handle(event, now_ns)
        if not isinstance(event, Timer | Delivery):
            self._watch.start()
        return effects

    def close(self) -> None:
        """End all sessions."""
        super().close()
        self._watch.close()

    def _tell(self, unit: str, content: bytes | None) -> None:
        self._told.put((time.time_ns(), unit, content))

    def _changes(self) -> list[Effect]:
        effects: list[Effect] = []
        for at_ns, unit, content in all_of(self._told):
            node = self._script.node_of(owner_in(content))
            if self._owners.get(unit, "") == node:
                continue
            self._events.write(json.dumps([at_ns, unit, node]) + "\n")
            self._owners[unit] = node
            effects += [Send(name, Changed(OWNERS + unit, node or None)) for name in self._watchers]
        self._owners = {unit: node for unit, node in self._owners.items() if node}
        return effects


class WhereaboutsPlane(Plane):
    """Of a node of clients: says which proxy is theirs, whenever that changes.  See ``testbed.nodes.planes``."""

    def __init__(self, loop: Loop, whereabouts: Sequence[tuple[int, str]], report: Report):
        self._loop, self._whereabouts, self._report = loop, whereabouts, report

    def actuate(self, command: object) -> None:
        """SystemFault: the clients are Pulsar's."""
        raise SystemFault(f"clients commanded {command}", "Pulsar's own clients follow their brokers")

    def go(self, clock: Clock) -> None:
        """Time 0 is agreed."""
        for at_ns, proxy in self._whereabouts:
            self._loop.call_at(clock.zero_ns + at_ns, self._report, AtSite(proxy))


class PulsarBrokerPlane(Plane):
    """A broker's REST: units are unloaded, at most so many at a time, and what is loaded is told every few seconds.

    Of each unload it writes a line of JSON: unit, source, target, asked and answered at, of CLOCK_REALTIME, problem.
    """

    def __init__(self, loop: Loop, name: str, script: PulsarScript, report: Report, events: Path):
        self._name, self._script = name, script
        self._own, self._bundles = script.brokers[name], script.bundles()
        first = [self._own, *(broker for broker in script.brokers.values() if broker != self._own)]
        self._admin = Admin({broker: partial(connect_to, broker) for broker in first})
        self._pool = ThreadPoolExecutor(script.executors, "unload")
        self._events, self._lock = events.open("w", buffering=1), threading.Lock()
        self._heard, self._over = Heard(loop, report), threading.Event()

    def actuate(self, command: object) -> None:
        """Begin to carry a command out; SystemFault for another one than ``Unload``."""
        if not isinstance(command, Unload):
            raise SystemFault(f"{self._name} commanded {command}", "see studies.placement_on_pulsar.nodes")
        if not self._over.is_set():  # a move that is asked for after the run is nobody's any more
            self._pool.submit(self._unload, command)

    def go(self, clock: Clock) -> None:
        """Time 0 is agreed: what the broker has loaded is of interest from now on."""
        threading.Thread(target=self._poll, daemon=True).start()

    def finish(self) -> None:
        """The run ends."""
        self._over.set()
        self._pool.shutdown(cancel_futures=True)

    def _unload(self, command: Unload) -> None:
        target = self._script.brokers[command.target] if command.target else ""
        asked_at_ns, problem = time.time_ns(), ""
        topic = self._script.topic(command.unit)
        try:
            if self._script.grouped and target:
                self._admin.keep_on(topic, command.target)
            self._admin.move(topic, self._bundles[command.unit], target, MOVE_S)
        except MachineError as error:
            problem = str(error)
        row = command.unit, self._name, command.target, asked_at_ns, time.time_ns(), problem
        self._heard.say(Unloaded(command.unit))
        with self._lock:
            self._events.write(json.dumps(row) + "\n")

    def _poll(self) -> None:
        while not self._over.wait(POLL_S):
            try:
                told = self._admin.served(self._own)
            except MachineError as error:
                print(f"{self._name}: {error}", file=sys.stderr, flush=True)
                continue
            self._heard.say(Served(served_in(told, self._script)))


def served_in(told: dict[str, Any], script: PulsarScript) -> dict[str, ServedTopic]:
    """The run's topics in what a broker says of all that it has loaded (``Admin.served``)."""
    topics = {}
    for name in script.topics:
        topic = script.topic(name)
        for kinds in told.get(topic.space, {}).values():
            figures = kinds.get(topic.kind, {}).get(str(topic))
            if figures is not None:
                topics[name] = _served(figures)
    return topics


def _served(figures: dict[str, Any]) -> ServedTopic:
    consumers = [each for one in figures.get("subscriptions", {}).values() for each in one.get("consumers", ())]
    rates = Rates(float(figures.get("msgRateIn", 0.0)), sum(float(each.get("msgRateOut", 0.0)) for each in consumers))
    return ServedTopic(rates, _names(figures.get("publishers", ()), "producerName"), _names(consumers, "consumerName"))


def _names(clients: Iterable[dict[str, Any]], field: str) -> tuple[str, ...]:
    return tuple(sorted(str(client[field]) for client in clients if field in client))
