"""Agent: publishers that keep their messages until these are delivered, in one process.

As ``testbed.brokers.publish_host``, and

    {"do": "listen", "address": IP, "token": RUN'S}                takes a port for receipts, and tells it
    {"do": "withhold", "targets": ["ip:port"], "on": true}         nobody connects there until told so

A load is done when all of it was delivered.  Rows say when the process came to each message, whether it was held, and
each sending of it; ``move_*`` have a row a move.
"""

import sys
from pathlib import Path

import numpy as np

from core.records import Json
from testbed.brokers.moving.keeping import KeepingEngine, KeptLoad
from testbed.brokers.moving.receipts import ReceiptPort
from testbed.brokers.publish_host import SWITCH_INTERVAL_S, PublishHost, allow_descriptors, write_columns
from testbed.hosts.agent import serve

MOVES = ("move_told_at_ns", "move_publisher", "move_source", "move_target", "move_opened_at_ns")


class KeepingHost(PublishHost):
    """The commands."""

    prepared = KeptLoad

    def __init__(self, engine: KeepingEngine):
        super().__init__(engine)
        self.keeping = engine

    def listen(self, address: str, token: str) -> Json:
        """Take receipts."""
        loop, take = self.keeping.loop, self.keeping.receive
        return {"port": self.keeping.call(lambda: ReceiptPort(loop, address, token, take)).port}

    def withhold(self, targets: list[str], on: bool) -> None:
        """Keep publishers from these brokers, or let them go there again."""
        change = self.keeping.withheld.update if on else self.keeping.withheld.difference_update
        self.keeping.call(lambda: change(targets))

    def status(self) -> Json:
        """See ``PublishHost``; ``kept``: emissions that were sent and have no receipt.  All of one instant."""

        def told() -> Json:
            kept = sum(load.kept_count for load in self.keeping.kept.values())
            its = super(KeepingHost, self).status()
            return {**its, "kept": kept, "done": its["done"] and not kept}

        return self.keeping.call(told)

    def collect(self, path: str, tag: int = 0) -> None:
        """See ``PublishHost``."""
        load = self.keeping.kept[tag]
        self.keeping.call(lambda: self.keeping.end(load))
        moves = np.array(self.keeping.moves, np.int64).reshape(-1, len(MOVES)).T
        columns = {**load.columns(), **dict(zip(MOVES, moves, strict=True))}
        write_columns(Path(path), columns, brokers=list(self.keeping.brokers))
        del self.loads[tag], self.keeping.kept[tag]


def main() -> None:
    """Serve until standard input ends."""
    allow_descriptors()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    host = KeepingHost(KeepingEngine())
    names = ("connect", "load", "status", "collect", "listen", "withhold")
    serve({"move": host.connect, **{name: getattr(host, name) for name in names}})


if __name__ == "__main__":
    main()
