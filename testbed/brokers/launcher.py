"""The brokers of a live run: processes of ``testbed.brokers.brokerd`` on the topology's broker hosts, by name."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
class Broker:
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
    """All brokers of a run.  What is asked of one that has ended is not done: ``lost`` names it."""

    def __init__(
        self,
        site: Site,
        names: Sequence[str],
        stamps: str = "kernel",
        gc: str = "friendly",
        cores: Sequence[int] = (),
    ):
        self._site, self.token = site, secrets.token_hex(16)
        self.folder = site.folder / "brokers"
        self.folder.mkdir(parents=True, exist_ok=True)
        token_file = self.folder / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(self.token)
        program = str(brokerd_path())
        started = []
        for name in names:
            host, address = site.topology.host_of(name), site.address(name)
            data = site.place(host, self.folder / name / "data")
            words = ("-data", f"{address}:0", "-nsqd", f"{address}:0", "-path", str(Path(data).parent),
                     "-token-file", site.put(host, token_file), "-stamps", stamps, "-gc", gc)  # fmt: skip
            started.append((name, host, site.start(host, Program(f"broker-{name}", [program, *words], cores=cores))))
        self.all = [self._introduced(name, host, agent) for name, host, agent in started]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.all)

    @property
    def lost(self) -> list[str]:
        """The brokers whose processes have ended."""
        return [broker.name for broker in self.all if not broker.alive]

    def named(self, name: str) -> Broker:
        """The broker called ``name``."""
        return next(broker for broker in self.all if broker.name == name)

    def acquire(self, number: int, topic: str) -> None:
        """Make a topic on a broker."""
        self._tell(number, lambda client: client.acquire(topic))

    def set_bucket(self, number: int, topic: str, envelope: Envelope | None) -> None:
        """Give a topic's sub-bucket a new rate and size, full; None: no limit."""
        self._tell(number, lambda client: client.set_bucket(topic, envelope, full=True))

    def open_bucket(self, number: int, topic: str) -> None:
        """Take the limit away: what waits leaves now."""
        self._tell(number, lambda client: client.set_bucket(topic, None))

    def record(self, number: int, topic: str, message_count: int) -> None:
        """Begin to keep rows, with room for the messages that are expected."""
        self._tell(number, lambda client: client.record(topic, int(message_count * _ROOM) + _SPARE_ROWS))

    def move(self, number: int, topic: str, publishers: Sequence[int], target: int) -> int:
        """Send publishers from one broker to another; returns how many were told by a frame of the broker."""
        answer = self._tell(number, lambda client: client.move(topic, publishers, self.all[target].ingress))
        return int(answer["told_count"]) if answer else 0

    def collect(self, number: int, topic: str) -> tuple[dict[str, Int64], int]:
        """The rows of a broker, and how many found no room; none of a broker that has ended."""
        host, path = self.all[number].host, self.folder / f"{self.all[number].name}.rows"

        def taken(client: BrokerClient) -> tuple[dict[str, Int64], int]:
            row_count, dropped_rows = client.write_rows(self._site.place(host, path), topic)
            self._site.fetch(host, path)
            return read_rows(path, row_count, self._site.clock_offset_ns(host)), dropped_rows

        found = self._tell(number, taken)
        path.unlink(missing_ok=True)
        return found or ({name: np.empty(0, np.int64) for name in COLUMNS}, 0)

    def stats(self, number: int) -> dict[str, int]:
        """Counters since the broker's start; none of one that has ended."""
        return self._tell(number, lambda client: client.stats()) or {}

    def kill(self, name: str) -> None:
        """SIGKILL: a crash."""
        self.named(name).agent.process.kill()
        self.named(name).agent.process.wait(5.0)

    def close(self) -> None:
        """Close the control connections; the site ends the processes."""
        for broker in self.all:
            with suppress(OSError):
                broker.client.close()

    def _introduced(self, name: str, host: str, agent: Agent) -> Broker:
        told = agent.ready(READY_S)
        port = int(told["control"].rpartition(":")[2])
        client = BrokerClient(self._site.connect(host, port), self.token)
        return Broker(name, host, agent, client, told["ingress"], told["nsqd"], port)

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


def clear(folder: Path) -> None:
    """Make a folder that is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
