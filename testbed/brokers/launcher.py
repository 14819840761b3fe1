"""The brokers of a live run: processes of ``testbed.brokers.brokerd`` on the topology's broker hosts, by name."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

import numpy as np

from core.errors import MachineError
from core.records import Envelope, Int64
from testbed.brokers.brokerd.build import brokerd_path
from testbed.brokers.brokerd.client import COLUMNS, BrokerClient, read_rows
from testbed.hosts.agent import Agent
from testbed.hosts.site import Program, Site

READY_S = 30.0
_ROOM = 1.25  # rows that are kept, for each message that is expected
_SPARE_ROWS = 5_000

Answer = TypeVar("Answer")


@dataclass
class BrokerProcess:
    """One broker: its process, its control connection, the ports that it has told."""

    name: str
    host: str
    agent: Agent
    client: BrokerClient
    ingress: str  # "ip:port", for publishers
    nsqd: str  # for subscribers
    control_port: int  # on its host's loopback

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self.agent.alive


class Brokers:
    """All brokers of a run.  What is asked of one that has ended is not done: ``lost`` names it.

    ``cores``: those that they are pinned to.  ``rows``: what each may be asked to record at a time.
    ``commanded``: only commands make topics, so that one that comes back serves nothing before it is told to.

    Their folders are in memory where hosts share this machine: nsqd writes its list of topics, synced, whenever one is
    opened, and brokers would wait for each other at one disk.
    """

    def __init__(
        self,
        site: Site,
        names: Sequence[str],
        stamps: str = "kernel",
        gc: str = "friendly",
        cores: Sequence[int] = (),
        rows: int = 0,
        commanded: bool = False,
    ):
        self._site, self._names, self.token = site, list(names), secrets.token_hex(16)
        self._switches = ["-stamps", stamps, "-gc", gc, "-rows", str(rows), *(["-commanded"] if commanded else [])]
        self._cores = cores
        self._row_count = rows
        self.folder = site.folder / "brokers"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._token_file = self.folder / "token"
        self._token_file.touch(mode=0o600)
        self._token_file.write_text(self.token)
        self._lives = count(1)
        agents = {name: self._start(name, ("-data", ":0", "-nsqd", ":0")) for name in names}
        self.all = [self._introduced(name, agent) for name, agent in agents.items()]

    def __iter__(self) -> Iterator[BrokerProcess]:
        return iter(self.all)

    @property
    def lost(self) -> list[str]:
        """The brokers whose processes have ended."""
        return [broker.name for broker in self.all if not broker.alive]

    def named(self, name: str) -> BrokerProcess:
        """The broker called ``name``."""
        return self.all[self._names.index(name)]

    def acquire(self, number: int, topic: str) -> None:
        """Make a topic on a broker."""
        self._tell(number, lambda client: client.acquire(topic))

    def set_bucket(self, number: int, topic: str, envelope: Envelope | None) -> None:
        """Give a topic's sub-bucket a new rate and size, full; None: no limit, and what waits leaves now."""
        self._tell(number, lambda client: client.set_bucket(topic, envelope, full=True))

    def record(self, number: int, topic: str, message_count: int) -> None:
        """Begin to keep rows, with room for the messages that are expected, as far as the run has announced it."""
        room = min(int(message_count * _ROOM) + _SPARE_ROWS, self._row_count)
        self._tell(number, lambda client: client.record(topic, room))

    def move(self, number: int, topic: str, publishers: Sequence[int], target: int) -> int:
        """Send publishers from one broker to another; returns how many were told by a frame of the broker."""
        answer = self._tell(number, lambda client: client.move(topic, publishers, self.all[target].ingress))
        return int(answer["told_count"]) if answer else 0

    def collect(self, number: int, topic: str) -> tuple[dict[str, Int64], int]:
        """The rows of a broker, and how many had no room; none of a broker that has ended."""
        host, path = self.all[number].host, self.folder / f"{self.all[number].name}.rows"

        def taken(client: BrokerClient) -> tuple[dict[str, Int64], int]:
            row_count, dropped_rows = client.write_rows(self._site.place(host, path), topic)
            self._site.fetch(host, path)
            return read_rows(path, row_count, self._site.clock_offset_ns(host)), dropped_rows

        rows = self._tell(number, taken)
        path.unlink(missing_ok=True)
        return rows or ({name: np.empty(0, np.int64) for name in COLUMNS}, 0)

    def stats(self, number: int) -> dict[str, int]:
        """Counters since the broker's start; none of one that has ended."""
        return self._tell(number, lambda client: client.stats()) or {}

    def kill(self, name: str) -> None:
        """SIGKILL: a crash; what it held is gone."""
        broker = self.named(name)
        with suppress(OSError):  # it may have ended
            broker.agent.process.kill()
        broker.agent.process.wait(5.0)
        broker.client.close()

    def restart(self, name: str) -> None:
        """Start one that has ended: it is empty, and has the ports that it had."""
        old = self.named(name)
        assert not old.alive, f"{name} runs"
        ports = ("-data", old.ingress, "-nsqd", old.nsqd, "-control", f"127.0.0.1:{old.control_port}")
        self.all[self._names.index(name)] = self._introduced(name, self._start(name, ports))

    def close(self) -> None:
        """Close the control connections; the site ends the processes."""
        for broker in self.all:
            with suppress(OSError):
                broker.client.close()

    def _start(self, name: str, ports: Sequence[str]) -> Agent:
        """A process of an empty folder; ports without an address are its host's."""
        host, address = self._site.topology.host_of(name), self._site.address(name)
        data = Path(self._site.place(host, self._site.memory / f"{name}.{next(self._lives)}" / "data")).parent
        token_file = self._site.put(host, self._token_file)
        listening = [f"{address}{word}" if word.startswith(":") else word for word in ports]
        words = [str(brokerd_path()), *listening, "-path", str(data), "-token-file", token_file, *self._switches]
        return self._site.start(host, Program(f"broker-{name}", words, cores=self._cores))

    def _introduced(self, name: str, agent: Agent) -> BrokerProcess:
        host, told = self._site.topology.host_of(name), agent.ready(READY_S)
        port = int(told["control"].rpartition(":")[2])
        client = BrokerClient(self._site.connect(host, port), self.token)
        return BrokerProcess(name, host, agent, client, told["ingress"], told["nsqd"], port)

    def _tell(self, number: int, what: Callable[[BrokerClient], Answer]) -> Answer | None:
        """None where the broker is gone; MachineError where one that lives refuses."""
        broker = self.all[number]
        if not broker.alive:
            return None
        try:
            return what(broker.client)
        except MachineError as error:
            with suppress(Exception):
                broker.agent.process.wait(1.0)
            if broker.alive:
                raise MachineError(f"{broker.name}: {error.what}", error.fix) from None
            return None
