"""Publishers and subscribers of a live run: one process on each of their hosts, commanded all at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from core.errors import MachineError
from core.records import Block, Int64, Json
from testbed.brokers.publish_load import save_block
from testbed.hosts.agent import Agent
from testbed.hosts.site import Program, Site, python_agent
from testbed.trust.accounts import shifted

CONNECT_S = 40.0  # thousands of connections on few cores
COLLECT_S = 60.0
STATUS_S = 10.0  # a host that says nothing for so long has stopped
READY_S = 60.0
INSTANTS = {"sent_at_ns", "acknowledged_at_ns", "received_at_ns"}  # of columns, by the clock of the host that wrote

Columns = dict[str, np.ndarray]


class Crew:
    """Agents of one kind, by names of their own.  ``lost``: those that have ended, or do not answer any more."""

    def __init__(self, site: Site, agents: Mapping[str, Agent]):
        self.site, self.agents, self.names = site, dict(agents), list(agents)
        self.lost: list[str] = []
        self.folder = site.folder / "load"
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as starting:
            starting.callback(self.stop)  # nobody else knows of those that came up beside one that did not
            for agent in self.agents.values():
                agent.ready(READY_S)
            starting.pop_all()

    def stop(self) -> None:
        """End the processes."""
        for agent in self.agents.values():
            self.site.forget(agent.name)

    def ask_all(
        self, command: str, timeout_s: float, arguments: Callable[[str], Json] = lambda name: {}
    ) -> dict[str, Json]:
        """Send a command to all that are there, then take the answers; one that fails is lost."""
        for name in self.present():
            with self._or_lost(name):
                self.agents[name].post(command, timeout_s, **arguments(name))
        answers = {}
        for name in self.present():
            with self._or_lost(name):
                answers[name] = self.agents[name].answer(timeout_s)
        return answers

    def collect_all(self, kind: str, **arguments: object) -> tuple[dict[str, Json], dict[str, Columns]]:
        """Have all write their rows down, and bring those home, with instants by our clock: answers, and rows."""
        paths = {name: self.folder / f"{name}.{kind}.npz" for name in self.agents}
        hosts = {name: agent.host for name, agent in self.agents.items()}

        def told(name: str) -> Json:
            return {"path": self.site.place(hosts[name], paths[name]), **arguments}

        answers, rows = self.ask_all("collect", COLLECT_S, told), dict[str, Columns]()
        for name in answers:
            with self._or_lost(name):
                self.site.fetch(hosts[name], paths[name])
                with np.load(paths[name]) as tables:
                    rows[name] = dict(tables)
                paths[name].unlink()
                for instant in INSTANTS & rows[name].keys():
                    rows[name][instant] = shifted(rows[name][instant], self.site.clock_offset_ns(hosts[name]))
        return answers, rows

    def present(self) -> list[str]:
        """Those that are not lost."""
        return [name for name in self.agents if name not in self.lost]

    def stop_one(self, name: str) -> None:
        """A crash: SIGKILL."""
        self.agents[name].process.kill()
        self.lost.append(name)

    @contextmanager
    def _or_lost(self, name: str) -> Iterator[None]:
        """Takes a MachineError of an agent that has ended for its end; raises that of one that lives and refuses."""
        try:
            yield
        except MachineError as error:
            with suppress(Exception):
                self.agents[name].process.wait(1.0)
            if self.agents[name].alive and "in time" not in str(error):
                raise
            self.lost.append(name)


class Publishers(Crew):
    """The publisher processes; publisher i lives on host i modulo the number of hosts."""

    module = "testbed.brokers.publish_host"

    def __init__(self, site: Site, hosts: Sequence[str]):
        command = python_agent(self.module)
        super().__init__(site, {host: site.start(host, Program(f"publish-{host}", command)) for host in hosts})
        self._brought: dict[int, dict[str, str]] = {}  # tag -> host -> what it calls the block

    def connect(self, targets: Mapping[int, str | None], token: str) -> list[int]:
        """Bring publishers to brokers (None: to none), wait until they are there; returns those that failed.

        ``token``: of the brokers.
        """

        def arguments(host: str) -> Json:
            mine = [number for number in targets if self.names[number % len(self.names)] == host]
            return {"publishers": mine, "targets": [targets[number] for number in mine], "token": token}

        answers = self.ask_all("move", CONNECT_S, arguments)
        return [publisher for answer in answers.values() for publisher in answer["failed"]]

    def bring(self, block: Block, tag: int) -> None:
        """Hand a block to all hosts before its epoch is agreed: to other machines that takes a while."""
        path = self.folder / f"{tag}.npz"
        save_block(path, block)
        self._brought[tag] = {}
        for host in self.present():
            with self._or_lost(host):
                self._brought[tag][host] = self.site.put(host, path)

    def load(self, epoch_ns: int, topic: str, tag: int) -> None:
        """Let all hosts, each its own publishers' part, play the block that was brought."""
        brought = self._brought.pop(tag)

        def arguments(host: str) -> Json:
            by_its_clock_ns = epoch_ns + self.site.clock_offset_ns(host)
            return {"path": brought[host], "epoch_ns": by_its_clock_ns, "topic": topic, "tag": tag}

        self.ask_all("load", COLLECT_S, arguments)

    def done(self) -> bool:
        """Whether every emission is due, and acknowledged or given up."""
        return all(answer["done"] for answer in self.ask_all("status", STATUS_S).values())

    def collect(self, tag: int) -> list[Columns]:
        """The rows of each host that is left; ends the load."""
        _, rows = self.collect_all(f"{tag}.rows", tag=tag)
        return list(rows.values())


class Subscribers(Crew):
    """The subscriber processes; broker i is the business of host i modulo the number of hosts."""

    module = "testbed.brokers.subscribe_host"

    def __init__(self, site: Site, hosts: Sequence[str], rows: int):
        command = python_agent(self.module, str(rows))
        super().__init__(site, {host: site.start(host, Program(f"subscribe-{host}", command)) for host in hosts})

    def subscribe(self, topic: str, addresses: Mapping[int, str], token: str) -> None:
        """Subscribe to a topic at brokers, by their numbers; MachineError where one does not deliver.

        ``token``: of the brokers.
        """
        answers = self.ask_all("subscribe", CONNECT_S, lambda host: self._wanted(topic, addresses, token, host))
        failed = [address for answer in answers.values() for address in answer["failed"]]
        if failed or self.lost:
            problems = [answer["last_problem"] for answer in answers.values() if answer["last_problem"]]
            raise MachineError(f"no subscription at {', '.join(failed)}: {problems[:1]}", "see the logs")

    def _wanted(self, topic: str, addresses: Mapping[int, str], token: str, host: str) -> Json:
        mine = [address for number, address in addresses.items() if self.names[number % len(self.names)] == host]
        return {"brokers": mine, "topic": topic, "token": token}

    def delivery_count(self) -> int:
        """Deliveries of all topics since the last ``collect``."""
        return sum(answer["delivery_count"] for answer in self.ask_all("status", STATUS_S).values())

    def collect(self) -> "Deliveries":
        """The rows of each host that is left, since the last time."""
        answers, rows = self.collect_all("deliveries")
        dropped_rows = sum(answers[host]["dropped_rows"] for host in rows)
        return Deliveries(list(rows.values()), dropped_rows, sum(answers[host]["out_of_order_count"] for host in rows))


@dataclass
class Deliveries:
    """Rows of all subscribers."""

    parts: list[Columns]
    dropped_rows: int = 0
    out_of_order_count: int = 0

    def of(self, topic: str, tag: int) -> dict[str, Int64]:
        """The rows of one load, in order of their arrival."""
        names = ("message", "publisher", "received_at_ns")
        chosen = [np.empty((len(names), 0), np.int64)]
        for part in self.parts:
            topics = part["topics"].tolist()
            if topic in topics:
                mask = (part["topic"] == topics.index(topic)) & (part["tag"] == tag)
                chosen.append(np.stack([part[name][mask] for name in names]))
        rows = np.concatenate(chosen, axis=1)
        return dict(zip(names, rows[:, np.argsort(rows[-1], kind="stable")], strict=True))
