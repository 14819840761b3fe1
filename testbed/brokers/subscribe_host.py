"""Agent: a subscriber of one or several brokers, which keeps a row of every delivery.

    {"do": "subscribe", "brokers": ["ip:port"], "topic": T, "channel": "sub", "rdy": 2500, "tries": 10}
    {"do": "status"}                      deliveries so far, states, errors
    {"do": "collect", "path": ROWS}       the rows as .npz, sequence accounts per topic and tag; begins anew
    {"do": "stop"}                        closes all connections

Arguments: the number of rows to make room for (default a million).
"""

import gc
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import time_ns
from typing import Any

import numpy as np

from testbed.brokers.publish_host import allow_descriptors, write_columns
from testbed.brokers.subscription import Rows, Subscription
from testbed.hosts.agent import serve
from testbed.hosts.calls import CALL_TIMEOUT_S, Calls
from testbed.trust.accounts import sequence

ROWS = 1_000_000
SUBSCRIBE_WAIT_S = 10.0
_POLL_S = 0.05


class SubscribeHost:
    """The subscriptions of a process, served by one thread, and the commands."""

    def __init__(self, row_count: int = ROWS):
        self.rows = Rows(row_count)
        self.brokers: list[str] = []
        self.topics: list[str] = []
        self.subscriptions: list[Subscription] = []
        self._epoll = select.epoll()
        self._calls = Calls()
        self._epoll.register(self._calls.descriptor, select.EPOLLIN)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="receiving", daemon=True)
        self._thread.start()

    def subscribe(
        self,
        brokers: Sequence[str],
        topic: str,
        channel: str = "sub",
        rdy: int = 2_500,
        tries: int = 10,
        wait_s: float = SUBSCRIBE_WAIT_S,
    ) -> dict[str, Any]:
        """Subscribe to a topic at brokers, and wait until they deliver or are gone.

        ``tries``: connections in a row that may fail; 1 for a topic that will be released, since a
        subscriber that comes back would make it anew.
        """
        new = [Subscription(self._epoll, self.rows, address, topic, channel, rdy, tries) for address in brokers]
        for subscription in new:
            subscription.broker_number = _number(self.brokers, subscription.address)
            subscription.topic_number = _number(self.topics, topic)
        self._call(lambda: self._begin(new))
        until_s = time.monotonic() + wait_s
        while time.monotonic() < until_s and any(its.state not in ("receiving", "gone") for its in new):
            time.sleep(0.005)
        failed = [its.address for its in new if its.state != "receiving"]
        return {"failed": failed, "last_problem": next((its.last_problem for its in new if its.address in failed), "")}

    def status(self) -> dict[str, Any]:
        """How much has come so far."""
        return {
            **self._counters(),
            "states": [[its.address, its.topic, its.state] for its in self.subscriptions],
            "error_count": sum(its.error_count for its in self.subscriptions),
            "reconnect_count": sum(its.reconnect_count for its in self.subscriptions),
            "last_problem": next((its.last_problem for its in self.subscriptions if its.last_problem), ""),
        }

    def collect(self, path: str) -> dict[str, Any]:
        """Write the rows since the last time, ``brokers`` and ``topics`` (the lists that columns count)."""
        counters = self._counters()
        columns = self._call(self.rows.take)
        names = {"brokers": np.array(self.brokers, np.str_), "topics": np.array(self.topics, np.str_)}
        write_columns(Path(path), {**columns, **names})
        return {**counters, "rows": len(columns["message"]), "sequences": self._sequences(columns)}

    def stop(self) -> dict[str, Any]:
        """Close everything."""
        self._ending = True
        self._calls.wake()
        self._thread.join(CALL_TIMEOUT_S)
        return {}

    def _counters(self) -> dict[str, int]:
        rows = self.rows
        return {
            "delivery_count": rows.count + rows.dropped_count,
            "dropped_rows": rows.dropped_count,
            "foreign_count": rows.foreign_count,
            "repeated_count": rows.repeated_count,
        }

    def _sequences(self, columns: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """Duplicates and gaps of each topic's loads."""
        found = []
        ours = columns["publisher"] >= 0
        loads = set(zip(columns["topic"][ours].tolist(), columns["tag"][ours].tolist(), strict=True))
        for topic, tag in sorted(loads):
            chosen = ours & (columns["topic"] == topic) & (columns["tag"] == tag)
            its = sequence(columns["message"][chosen], columns["publisher"][chosen])
            found.append({"topic": self.topics[topic], "tag": tag, **asdict(its)})
        return found

    # --- the receiving thread -------------------------------------------------------------------------

    def _begin(self, new: list[Subscription]) -> None:
        self.subscriptions += new
        for subscription in new:
            subscription.begin()

    def _run(self) -> None:
        gc.disable()
        try:
            while not self._ending:
                self._turn()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)  # a subscriber without its receiving thread must not look alive
        for subscription in self.subscriptions:
            subscription.close()

    def _turn(self) -> None:
        events = self._epoll.poll(_POLL_S)
        by_descriptor = {its.socket.fileno(): its for its in self.subscriptions if its.socket is not None}
        for descriptor, what in events:
            if descriptor == self._calls.descriptor:
                self._calls.carry_out()
            elif descriptor in by_descriptor:
                by_descriptor[descriptor].happened(what)
        now_ns = time_ns()
        for subscription in self.subscriptions:
            subscription.tick(now_ns)

    def _call(self, function: Callable[[], Any]) -> Any:
        """Run a function in the receiving thread and wait for what it returns."""
        return self._calls.call(function, self._thread)


def _number(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def main() -> None:
    """Serve until standard input ends."""
    allow_descriptors()
    host = SubscribeHost(*(int(argument) for argument in sys.argv[1:2]))
    serve({name: getattr(host, name) for name in ("subscribe", "status", "collect", "stop")})


if __name__ == "__main__":
    main()
