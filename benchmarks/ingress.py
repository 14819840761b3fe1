"""The live broker: its ingress beside nsqd's own port, by NSQ's own bench programs; how exactly it releases.

``python -m benchmarks.ingress``.  Both ports belong to brokers of this project: the peer is the nsqd inside one that
runs with Go's default garbage collection, as a stock nsqd does.
"""

import json
import os
import random
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from core.errors import MachineError
from core.records import Envelope
from testbed.brokers import nsq
from testbed.brokers.brokerd.build import brokerd_path, nsq_bench_path
from testbed.brokers.brokerd.client import BrokerClient, read_rows
from testbed.trust.accounts import exact_releases_ns

BATCHES = (1, 10, 200)
SIZE_BYTES = 200  # the bench programs' default
SPAN_S = 2
MEMORY_QUEUE = 1_000_000  # as in NSQ's bench.sh
NEVER_EMPTY = Envelope(400_000.0, 4_000_000.0)
WANTED_RATIO = 0.95
WANTED_P50_MS, WANTED_P99_MS = 0.1, 0.5
RELEASE_ENVELOPE, RELEASE_BATCH, RELEASE_SPAN_S = Envelope(1000.0, 5.0), 10, 5.0
RELEASE_ROWS = 100_000


@dataclass
class Broker:
    """A broker process and its control connection."""

    addresses: dict[str, str]
    commands: BrokerClient

    def connect(self, port: str) -> socket.socket:
        """A connection to one of its ports."""
        return socket.create_connection(nsq.address(self.addresses[port]))


@contextmanager
def running_broker(collection: str) -> Iterator[Broker]:
    """A broker with a mode of garbage collection."""
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text("benchmark")
        command: list[str | Path] = [brokerd_path(), "-path", folder, "-token-file", token, "-gc", collection, "-open"]
        command += ["-memory-queue", str(MEMORY_QUEUE), "-rows", str(RELEASE_ROWS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdin is not None
            try:
                addresses = json.loads(process.stdout.readline())
                control = socket.create_connection(nsq.address(addresses["control"]))
                yield Broker(addresses, BrokerClient(control, "benchmark"))
            finally:
                process.stdin.close()
                process.wait(20)


def start(name: str, address: str, topic: str, *flags: str) -> "subprocess.Popen[str]":
    """One of NSQ's bench programs, for the usual span."""
    common = ["-nsqd-tcp-address", address, "-topic", topic, "-size", str(SIZE_BYTES), "-runfor", f"{SPAN_S}s"]
    return subprocess.Popen([nsq_bench_path(name), *common, *flags], stderr=subprocess.PIPE, text=True)


def rate_of(process: "subprocess.Popen[str]") -> float:
    """Messages a second, as the program says at its end."""
    text = process.communicate(timeout=SPAN_S + 30)[1]
    match = re.search(r"([\d.]+)ops/s", text)
    if process.returncode or not match:
        raise MachineError(f"{process.args!r} failed", text.strip()[-300:])
    return float(match[1])


def measure(broker: Broker, port: str, batch: int) -> tuple[float, float, float]:
    """Messages a second: of a writer alone, then of a writer beside a reader, and of the reader."""
    rates = []
    for with_reader in (False, True):
        topic = f"bench-{port}-{batch}-{with_reader}"
        broker.commands.acquire(topic)
        broker.commands.set_bucket(topic, NEVER_EMPTY)
        reader = start("bench_reader", broker.addresses["nsqd"], topic, "-channel", "sub") if with_reader else None
        rates.append(rate_of(start("bench_writer", broker.addresses[port], topic, "-batch-size", str(batch))))
        if reader:
            rates.append(rate_of(reader))
        broker.commands.release(topic, limit_ns=1)  # what nobody read is given up
    return rates[0], rates[1], rates[2]


def release_errors_ns() -> np.ndarray:
    """How late messages left that waited for a token: batches at random instants, a subscriber beside."""
    with running_broker("friendly") as broker, tempfile.TemporaryDirectory() as folder:
        commands, rng = broker.commands, random.Random(1)
        commands.acquire("release")
        commands.set_bucket("release", RELEASE_ENVELOPE)
        commands.record("release", RELEASE_ROWS)
        subscriber = broker.connect("nsqd")
        subscriber.sendall(
            nsq.MAGIC + nsq.identify(output_buffer_size=-1) + nsq.sub("release", "sub") + nsq.rdy(99_999)
        )
        publisher = broker.connect("ingress")
        publisher.sendall(nsq.MAGIC)
        mean_s = 1.05 * RELEASE_BATCH / RELEASE_ENVELOPE.rate_rps
        until_s = time.monotonic() + RELEASE_SPAN_S
        while time.monotonic() < until_s:
            publisher.sendall(nsq.mpub("release", [bytes(SIZE_BYTES)] * RELEASE_BATCH))
            time.sleep(rng.expovariate(1 / mean_s))
        while commands.report()["release"]["waiting_count"]:
            time.sleep(0.01)
        path = Path(folder) / "rows"
        rows = read_rows(path, commands.write_rows(str(path))[0])
        for each in (subscriber, publisher):
            with suppress(OSError):
                each.close()
    exact_ns = exact_releases_ns(rows["stamp_ns"], RELEASE_ENVELOPE)
    assert (rows["released_at_ns"] >= exact_ns).all(), "never early"
    waited = exact_ns > rows["stamp_ns"]
    return (rows["released_at_ns"] - exact_ns)[waited]


def report(repeats: int = 3) -> None:
    """Print the comparison and the release error."""
    try:
        brokerd_path(), nsq_bench_path("bench_writer"), nsq_bench_path("bench_reader")
    except MachineError as error:
        print(f"\nLive broker: not measured ({error})")
        return
    print(f"\nLive broker: messages a second of {SIZE_BYTES} bytes, NSQ's bench_writer and bench_reader,")
    print(f"{os.cpu_count()} cores with the clients, medians of {repeats}; wanted: a ratio of at least {WANTED_RATIO}")
    print(f"{'batch':>7} {'':18} {'nsqd':>10} {'ingress':>10} {'ratio':>7}")
    with running_broker("default") as stock, running_broker("friendly") as ours:
        for batch in BATCHES:
            peers, results = [], []
            for _ in range(repeats):
                peers.append(measure(stock, "nsqd", batch))
                results.append(measure(ours, "ingress", batch))
            for i, what in enumerate(("writer alone", "writer with reader", "its reader")):
                theirs, its = median(rates[i] for rates in peers), median(rates[i] for rates in results)
                print(f"{batch:7} {what:18} {theirs:10,.0f} {its:10,.0f} {its / theirs:7.2f}")
    p50, p99 = np.percentile(errors := release_errors_ns(), [50, 99]) / 1e6
    print(f"release error of {len(errors):,} messages that waited: p50 {p50:.3f} ms, p99 {p99:.3f} ms", end=" ")
    print(f"(wanted: at most {WANTED_P50_MS} and {WANTED_P99_MS} on an idle machine)")


if __name__ == "__main__":
    report()
