"""The agent of a path check: echoes small datagrams, sends some, and says how long each way took.

Light to import: there is one on every host, and they all start at once.
"""

import os
import socket
import struct
import sys
import threading
import time
from contextlib import suppress

from testbed.hosts.agent import serve
from testbed.nodes.retransmission import keeps_120_s

SO_RCVBUFFORCE = 33
FIFO_PRIORITY = 1  # of the thread that listens, where it is permitted: what delays packets goes before it
_MESSAGE = struct.Struct("!4sBHIqq")  # mark, kind, round, number, sent at, echoed at
_MARK = b"rbLC"
_ASK, _ECHO = 0, 1


class Prober:
    """Echoes what it is asked, and asks others."""

    def __init__(self, address: str):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with suppress(PermissionError):  # a busy machine does not read for a while
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        self._socket.bind((address, 0))
        self.port: int = self._socket.getsockname()[1]
        self._heard: dict[tuple[tuple[str, int], int], set[int]] = {}
        self._answers: dict[tuple[tuple[str, int], int], dict[int, tuple[int, int]]] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def probe(
        self, targets: list[tuple[str, int]], count: int, span_s: float, wait_s: float, number: int
    ) -> dict[str, list[dict[str, list[int]]]]:
        """Send ``count`` messages to each target within ``span_s``, in turn; the delays there and back, in ns."""
        ends = [(address, port) for address, port in targets]
        begin_s = time.monotonic()
        step_s = span_s / (count * len(ends))
        for serial in range(count * len(ends)):
            left_s = begin_s + serial * step_s - time.monotonic()
            if left_s > 0:
                time.sleep(left_s)
            message = _MESSAGE.pack(_MARK, _ASK, number, serial // len(ends), time.time_ns(), 0)
            self._socket.sendto(message, ends[serial % len(ends)])
        until_s = time.monotonic() + wait_s
        while time.monotonic() < until_s and any(len(self._answers.get((end, number), ())) < count for end in ends):
            time.sleep(0.01)
        answers = [list(self._answers.get((end, number), {}).values()) for end in ends]
        results = [{"there_ns": [there for there, _ in one], "back_ns": [back for _, back in one]} for one in answers]
        return {"results": results}

    def heard(self, address: str, port: int, number: int) -> dict[str, int]:
        """How many messages of a round came from an asker."""
        return {"heard_count": len(self._heard.get(((address, port), number), ()))}

    def _listen(self) -> None:
        with suppress(OSError):  # how long it waits for its turn is no delay of a link
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
        while True:
            message, sender = self._socket.recvfrom(2048)
            now_ns = time.time_ns()
            if len(message) != _MESSAGE.size or not message.startswith(_MARK):
                continue
            _, kind, number, serial, sent_ns, echoed_ns = _MESSAGE.unpack(message)
            if kind == _ASK:
                with suppress(OSError):  # a false sender, that cannot be answered
                    self._socket.sendto(_MESSAGE.pack(_MARK, _ECHO, number, serial, sent_ns, now_ns), sender)
                self._heard.setdefault((sender, number), set()).add(serial)
            else:  # what comes twice counts once
                delays = echoed_ns - sent_ns, now_ns - echoed_ns
                self._answers.setdefault((sender, number), {}).setdefault(serial, delays)


def main() -> None:
    """The agent: its argument is the host's address."""
    prober = Prober(sys.argv[1])
    serve({"probe": prober.probe, "heard": prober.heard}, port=prober.port, keeps_120_s=keeps_120_s())


if __name__ == "__main__":
    main()
