"""Real brokers, publishers and a subscriber on loopback, for the tests of the load."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.records import Block
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.brokers.brokerd.build import brokerd_path
from testbed.brokers.brokerd.client import BrokerClient
from testbed.brokers.publish_load import save_block
from testbed.hosts.agent import Agent
from testbed.hosts.local import LocalSite
from testbed.hosts.site import Program, python_agent
from testbed.topologies.topology import srtm_lan
from testbed.trust.accounts import DeliveryAccount, account

TOPIC = "load"
TOKEN = "of-this-test"
LEAD_NS = 150 * MILLISECOND_NS  # between the handing over of a load and its first instant


def until(holds: Callable[[], Any], what: str, timeout_s: float = 60.0) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end_s, f"{what}: not within {timeout_s} s"
        time.sleep(0.01)


def steady(publishers: int, messages: int, span_ns: int, batch: int = 1, size_bytes: int = 150) -> Block:
    """Emissions at equal distances, the publishers in turn."""
    emissions = messages // batch
    at_ns = np.arange(emissions, dtype=np.int64) * span_ns // emissions
    publisher = (np.arange(emissions) % publishers).astype(np.int32)
    return Block(at_ns, publisher, np.full(emissions, batch, np.int32), size_bytes)


@dataclass
class Broker:
    """A broker process and the ports that it has told."""

    agent: Agent
    ingress: str
    nsqd: str
    client: BrokerClient

    def signal(self, number: signal.Signals) -> None:
        """Stop, continue or kill it."""
        os.kill(self.agent.pid, number)


@dataclass
class Stage:
    """A site with brokers, one publisher process, one subscriber process."""

    folder: Path
    brokers: list[Broker]
    publish: Agent
    subscribe: Agent
    block: Block | None = None

    def load(self, block: Block, tag: int = 0) -> int:
        """Begin to play a block; returns its epoch."""
        save_block(self.folder / "block.npz", block)
        self.block = block
        epoch_ns = time.time_ns() + LEAD_NS
        self.publish.ask("load", path=str(self.folder / "block.npz"), epoch_ns=epoch_ns, topic=TOPIC, tag=tag)
        return epoch_ns

    def wait_sent(self, timeout_s: float = 60.0) -> None:
        """Wait until the load is over for the publishers."""
        until(lambda: self.publish.ask("status")["done"], "the load's end", timeout_s)

    def wait_received(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait for so many deliveries."""
        until(lambda: self.subscribe.ask("status")["delivery_count"] >= count, f"{count} deliveries", timeout_s)

    def wait_quiet(self, span_s: float = 2.0) -> None:
        """Wait until nothing has come for a while."""
        last = (-1, 0.0)

        def quiet() -> bool:
            nonlocal last
            count = self.subscribe.ask("status")["delivery_count"]
            if count != last[0]:
                last = (count, time.monotonic())
            return time.monotonic() > last[1] + span_s

        until(quiet, "quiet")

    def collect(self, tag: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], DeliveryAccount]:
        """The senders' rows, the deliveries, and the account."""
        self.publish.ask("collect", path=str(self.folder / "sent.npz"), tag=tag)
        self.subscribe.ask("collect", path=str(self.folder / "received.npz"))
        sent, received = (dict(np.load(self.folder / name)) for name in ("sent.npz", "received.npz"))
        assert self.block is not None
        number = sent["message"]
        was_sent, was_acknowledged = sent["sent_at_ns"] >= 0, sent["acknowledged_at_ns"] >= 0
        offered = np.arange(self.block.message_count)
        found = account(offered, number[was_sent], number[was_acknowledged], received["message"])
        assert found.accounted_count == found.offered_count == self.block.message_count
        assert found.foreign_count == 0
        return sent, received, found


@contextmanager
def stage(folder: Path, broker_count: int, rdy: int = 2_500) -> Iterator[Stage]:
    """Brokers with the topic, a subscriber of all of them, and publishers that are not connected yet."""
    token = folder / "token"
    token.write_text(TOKEN)
    with LocalSite(srtm_lan(), folder, folder) as site:
        brokers = [_broker(site, folder, token, number) for number in range(broker_count)]
        publish = site.start("publishers1", Program("publish", python_agent("testbed.brokers.publish_host")))
        subscribe = site.start(
            "subscribers1", Program("subscribe", python_agent("testbed.brokers.subscribe_host", "100000"))
        )
        publish.ready()
        subscribe.ready()
        found = subscribe.ask("subscribe", brokers=[its.nsqd for its in brokers], topic=TOPIC, token=TOKEN, rdy=rdy)
        assert found["failed"] == [], found
        yield Stage(folder, brokers, publish, subscribe)
        for broker in brokers:
            broker.client.close()


def _broker(site: LocalSite, folder: Path, token: Path, number: int) -> Broker:
    data = folder / f"broker-{number}"
    data.mkdir()
    command = [str(brokerd_path()), "-path", str(data), "-token-file", str(token), "-rows", "100000"]
    agent = site.start("brokers1", Program(f"broker-{number}", command))
    told = agent.ready()
    port = int(told["control"].rpartition(":")[2])
    client = BrokerClient(site.connect("brokers1", port), TOKEN)
    client.acquire(TOPIC)
    return Broker(agent, told["ingress"], told["nsqd"], client)


def second(seconds: float) -> int:
    """Seconds as nanoseconds."""
    return int(seconds * SECOND_NS)
