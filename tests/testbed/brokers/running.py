"""A broker for tests, for real, and small clients of it that say plainly what they send."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.records import Int64
from testbed.brokers import nsq
from testbed.brokers.brokerd.build import brokerd_path
from testbed.brokers.brokerd.client import BrokerClient, read_rows

TOKEN = "of-this-test"
TIMEOUT_S = 20.0


class Broker:
    """A running broker and its addresses."""

    def __init__(self, folder: Path, *switches: str):
        (folder / "nsqd").mkdir(parents=True)
        (folder / "token").write_text(TOKEN + "\n")
        self.folder = folder
        self.log = (folder / "log").open("wb")
        command = [
            brokerd_path(),
            "-path",
            folder / "nsqd",
            "-token-file",
            folder / "token",
            "-rows",
            "500000",
            *switches,
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        assert self.process.stdout is not None
        self.addresses: dict[str, str] = json.loads(self.process.stdout.readline())

    def connect(self, port: str) -> socket.socket:
        """A connection to ``ingress``, ``nsqd`` or ``control``."""
        host, _, number = self.addresses[port].rpartition(":")
        return socket.create_connection((host, int(number)), TIMEOUT_S)

    def client(self) -> BrokerClient:
        """A new control connection."""
        return BrokerClient(self.connect("control"), TOKEN)

    def stop(self) -> int:
        """Close its standard input, and wait."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            return self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.log.close()


@contextmanager
def broker(folder: Path, *switches: str) -> Iterator[Broker]:
    """A broker that ends with the block."""
    running = Broker(folder, *switches)
    try:
        yield running
    finally:
        running.stop()


class Client:
    """Speaks V2 over one connection; ``publisher`` is one of ours, None a stock client."""

    def __init__(self, connection: socket.socket, publisher: int | None = None, token: str = TOKEN, **features: Any):
        self.socket, self.is_subscribed = connection, False
        self.stream = connection.makefile("rb")
        who = {} if publisher is None else {"client_id": f"p{publisher}"}
        self.send(nsq.MAGIC + nsq.identify(**who, **features) + nsq.auth(token))
        self.first, self.second = self.frame(), self.frame()

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self.socket.sendall(data)

    def frame(self) -> nsq.Frame:
        """The next frame; EOFError when the other end has closed."""
        size, kind = nsq._FRAME.unpack(self._exactly(8))
        return nsq.Frame(kind, self._exactly(size - 4))

    def publish(self, topic: str, *bodies: bytes) -> None:
        """Publish, in a batch if there are several, and wait for the OK."""
        self.send(nsq.pub(topic, bodies[0]) if len(bodies) == 1 else nsq.mpub(topic, bodies))
        assert self.frame() == (nsq.RESPONSE, nsq.OK)

    def subscribe(self, topic: str, ready: int = 1000) -> None:
        """Subscribe to the topic's channel."""
        self.send(nsq.sub(topic, "sub") + nsq.rdy(ready))
        assert self.frame() == (nsq.RESPONSE, nsq.OK)
        self.is_subscribed = True

    def receive(self, count: int) -> list[nsq.Delivered]:
        """The next messages, finished at once."""
        found = []
        while len(found) < count:
            frame = self.frame()
            if frame.kind == nsq.MESSAGE:
                found.append(nsq.message(frame.data))
                self.send(nsq.fin(found[-1].id))
        return found

    def close(self) -> None:
        """Close the connection, and before that let the broker know: what it still sent us would be lost to others."""
        with suppress(OSError, EOFError):  # it may have ended
            if self.is_subscribed:
                self.send(nsq.CLS)
                while self.frame() != (nsq.RESPONSE, nsq.CLOSE_WAIT):
                    pass
        self.stream.close()
        self.socket.close()

    def _exactly(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise EOFError
        return data


def recorded(commands: BrokerClient, path: Path, topic: str = "") -> tuple[dict[str, Int64], int]:
    """The rows that a broker of this machine has kept, and how many messages had no room."""
    row_count, dropped_rows = commands.write_rows(str(path.resolve()), topic)
    return read_rows(path, row_count), dropped_rows


def subscriber(its: Broker, topic: str, ready: int = 1000) -> Client:
    """A subscriber that gets each message at once."""
    client = Client(its.connect("nsqd"), output_buffer_size=-1, feature_negotiation=True)
    client.subscribe(topic, ready)
    return client


def numbered(number: int, publisher: int = 0) -> bytes:
    """A message as our publishers send it."""
    return nsq.HEADER.pack(number, publisher, 0, time.time_ns())


def number_of(message: nsq.Delivered) -> int:
    """The number in the head of a message."""
    number: int = nsq.HEADER.unpack_from(message.body)[0]
    return number


def message_data(whole: nsq.Delivered) -> bytes:
    """The data of a ``MESSAGE`` frame as a broker puts it together."""
    return nsq._MESSAGE.pack(whole.timestamp_ns, whole.attempts, whole.id) + whole.body
