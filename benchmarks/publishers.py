"""Open-loop publishers beside a peer in asyncio: how late they are, at one live broker on loopback.

``python -m benchmarks.publishers [SECONDS]``.  The peer does what its users would write: a task a
connection that sleeps until the next message is due.  Both play the same schedule at a broker without limit.
"""

import asyncio
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import HarnessError
from core.records import Block, Int64
from core.units import SECOND_NS
from testbed.brokers import nsq
from testbed.brokers.brokerd.build import brokerd_path
from testbed.brokers.publish_host import allow_descriptors, write_columns
from testbed.brokers.publish_load import PreparedLoad, read_block, save_block
from testbed.hosts.agent import Agent, serve
from testbed.hosts.capabilities import require
from testbed.hosts.local import LocalSite
from testbed.hosts.site import Program, python_agent
from testbed.topologies.topology import srtm_lan
from workloads import load as load_workload

CONNECTIONS, RATE_RPS = 1_000, 10_000
SPAN_S = 5
WANTED_P50_NS = SECOND_NS // 5_000
LEAD_NS = 2 * SECOND_NS
SUBSCRIBER_RDY = 2_500
TOPIC, TOKEN = "load", "benchmark"
FIFO_PRIORITY = 10


@dataclass(frozen=True)
class Lateness:
    """Of the messages of one run: sent after the intended instant, acknowledged after sending."""

    sent_late_ns: Int64
    answered_after_ns: Int64
    cores: float  # that the publishers kept busy while the load lasted

    def row(self, name: str) -> str:
        """A line of the table."""
        p50, p99, most = np.percentile(self.sent_late_ns, [50, 99, 100]) / 1e6
        answer_p50, answer_p99 = np.percentile(self.answered_after_ns, [50, 99]) / 1e6
        return (
            f"  {name:<36}p50 {p50:7.3f}  p99 {p99:7.3f}  max {most:8.3f} ms   "
            f"answer p50 {answer_p50:6.3f}  p99 {answer_p99:6.3f} ms   {self.cores:.2f} cores"
        )


def schedule_block(seconds: int) -> Block:
    """Poisson traffic of all publishers."""
    workload = load_workload("poisson")
    options = {"publishers": CONNECTIONS, "rate_rps": RATE_RPS / CONNECTIONS}
    block: Block = workload.make(workload.configure(options), 1).block(0, seconds * SECOND_NS)
    return block


def measure(folder: Path, block: Block, ours: bool, fifo_priority: int = 0) -> Lateness:
    """Play a block at a fresh broker; every message must be acknowledged and delivered."""
    token = folder / "token"
    token.write_text(TOKEN)
    save_block(folder / "block.npz", block)
    with LocalSite(srtm_lan(1), folder) as site:
        words = ["-path", str(folder), "-token-file", str(token)]
        broker = site.start("brokers1", Program("broker", [str(brokerd_path()), *words])).ready()
        subscriber = site.start("subscribers1", Program("subscribe", python_agent("testbed.brokers.subscribe_host")))
        subscriber.ready()
        subscriber.ask("subscribe", brokers=[broker["nsqd"]], topic=TOPIC, token=TOKEN, rdy=SUBSCRIBER_RDY)
        command = python_agent(
            "testbed.brokers.publish_host" if ours else "benchmarks.publishers", *([] if ours else ["peer"])
        )
        publish = site.start("publishers1", Program("publish", command, fifo_priority=fifo_priority))
        publish.ready()
        publish.ask("connect", publishers=list(range(CONNECTIONS)), targets=broker["ingress"], token=TOKEN)
        epoch_ns = time.time_ns() + LEAD_NS
        publish.ask("load", path=str(folder / "block.npz"), epoch_ns=epoch_ns, topic=TOPIC)
        cores = _play(publish, epoch_ns, int(block.at_ns[-1]) + epoch_ns)
        publish.ask("collect", path=str(folder / "sent.npz"))
        _wait_for(subscriber, block.message_count)
    with np.load(folder / "sent.npz") as rows:
        sent, answered = rows["sent_at_ns"], rows["acknowledged_at_ns"]
        assert len(sent) == block.message_count and (answered >= 0).all(), "not everything was acknowledged"
        return Lateness(sent - rows["intended_at_ns"], answered - sent, cores)


def _play(publish: Agent, epoch_ns: int, end_ns: int) -> float:
    """Wait for the load's end; returns the processor time of the publishers over its length, in cores.

    What comes before ``epoch_ns`` does not count: ours connects when it is told to, the peer once it has the load.
    """
    import psutil

    process = psutil.Process(publish.pid)
    _sleep_until(epoch_ns)
    began_s, before = time.monotonic(), process.cpu_times()
    _sleep_until(end_ns)
    after, span_s = process.cpu_times(), time.monotonic() - began_s
    until_s = time.monotonic() + 20
    while not publish.ask("status")["done"]:
        assert time.monotonic() < until_s, "the load does not end"
        time.sleep(0.05)
    return float(after.user + after.system - before.user - before.system) / span_s


def _sleep_until(at_ns: int) -> None:
    time.sleep(max(0.0, (at_ns - time.time_ns()) / SECOND_NS))


def _wait_for(subscriber: Agent, count: int) -> None:
    until_s = time.monotonic() + 20
    while subscriber.ask("status")["delivery_count"] < count:
        assert time.monotonic() < until_s, "not everything was delivered"
        time.sleep(0.05)
    assert subscriber.ask("status")["delivery_count"] == count


# --- the peer, an agent with the same commands ----------------------------------------------------


class Peer:
    """A task a connection, asleep until its next message is due."""

    def connect(self, publishers: list[int], targets: str, token: str) -> None:
        """Connections are made with the load, in its event loop."""
        self.publishers, self.target, self.token = publishers, targets, token

    def load(self, path: str, epoch_ns: int, topic: str) -> None:
        """Play a block in a thread."""
        self.its = PreparedLoad(read_block(Path(path)), topic, epoch_ns, self.publishers)
        self.thread = threading.Thread(target=lambda: asyncio.run(self._play_all()))
        self.thread.start()

    def status(self) -> dict[str, bool]:
        """Whether it is over."""
        return {"done": not self.thread.is_alive()}

    def collect(self, path: str) -> None:
        """Write the rows as the publishers do."""
        write_columns(Path(path), dict(self.its.columns()))

    async def _play_all(self) -> None:
        mine: dict[int, list[int]] = {publisher: [] for publisher in self.publishers}
        for index, publisher in enumerate(self.its.publisher):
            mine[publisher].append(index)
        await asyncio.gather(*(self._play_one(indices) for indices in mine.values()))

    async def _play_one(self, indices: list[int]) -> None:
        reader, writer = await asyncio.open_connection(*nsq.address(self.target))
        writer.write(nsq.MAGIC + nsq.identify(client_id="peer") + nsq.auth(self.token))
        await reader.readexactly(len(nsq.OK_FRAME))
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))  # the answer to AUTH
        answers = asyncio.create_task(self._take_answers(reader, indices))
        for index in indices:
            await asyncio.sleep((self.its.at_ns[index] - time.time_ns()) / SECOND_NS)
            writer.write(self.its.frame(index))
            self.its.sent_at_ns[index] = time.time_ns()
        await answers
        writer.close()

    async def _take_answers(self, reader: asyncio.StreamReader, indices: list[int]) -> None:
        for index in indices:
            await reader.readexactly(len(nsq.OK_FRAME))
            self.its.acknowledged_at_ns[index] = time.time_ns()


# --- printed --------------------------------------------------------------------------------------


def report(seconds: int = SPAN_S) -> None:
    """Print the lateness of both, or why not."""
    print(
        f"\nOpen-loop publishers: {CONNECTIONS:,} connections, {RATE_RPS:,} messages/s, {seconds} s; "
        f"sent later than intended (wanted: p50 at most {WANTED_P50_NS / 1e6} ms)"
    )
    block = schedule_block(seconds)
    for name, ours, fifo_priority in (
        ("ours", True, 0),
        (f"ours, SCHED_FIFO {FIFO_PRIORITY}", True, FIFO_PRIORITY),
        ("peer: asyncio, a task a connection", False, 0),
    ):
        try:
            brokerd_path()
            if fifo_priority:
                require("realtime")  # a site goes on without
            with tempfile.TemporaryDirectory(prefix="ratebed-publishers-") as folder:
                print(measure(Path(folder), block, ours, fifo_priority).row(name))
        except HarnessError as error:
            print(f"  {name:<36}not measured: {error}")


def main(words: list[str]) -> None:
    """Print the table, or be the peer."""
    if words == ["peer"]:
        peer = Peer()
        allow_descriptors()
        serve({name: getattr(peer, name) for name in ("connect", "load", "status", "collect")})
    else:
        report(*map(int, words))


if __name__ == "__main__":
    main(sys.argv[1:])
