"""Agent: thousands of publishers in one process, replaying windows of the schedule, open loop.

    {"do": "connect", "publishers": [0, 1], "targets": "ip:port" | ["ip:port", null], "token": RUN'S}   null: no broker
    {"do": "load", "path": BLOCK, "epoch_ns": N, "topic": T, "tag": 0}   BLOCK by publish_load.save_block
    {"do": "move", "publishers": [1], "targets": ...}     all sent is acknowledged first; null: stop
    {"do": "status"}                                      what is left of each load; publishers, counters
    {"do": "collect", "path": ROWS, "tag": 0}             ends the load; its rows as .npz

Each message has the header of ``nsq.HEADER``; a tag names a load in it.  Loads with different tags may
overlap.  Publishers of a block that have no broker at the time of ``load`` are another's business.
"""

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from core.records import Int64, Json
from testbed.brokers.publish_engine import Engine
from testbed.brokers.publish_load import PreparedLoad, read_block
from testbed.brokers.publisher import State
from testbed.hosts.agent import serve

CONNECT_WAIT_S = 15.0
_MOVES_AT_ONCE = 20  # by the pacing thread, before it looks whether something is due
SWITCH_INTERVAL_S = 0.000_1  # how long the main thread may keep the interpreter from the pacing thread


class PublishHost:
    """The commands; all but reading and writing of files is done by the engine's thread."""

    prepared: type[PreparedLoad] = PreparedLoad  # what is made of a block

    def __init__(self, engine: Engine):
        self.engine = engine
        self.loads: dict[int, PreparedLoad] = {}

    def connect(
        self,
        publishers: Sequence[int],
        targets: str | Sequence[str | None] | None,
        token: str,
        wait_s: float = CONNECT_WAIT_S,
    ) -> Json:
        """Assign publishers to brokers, and wait until each is connected or has given up."""
        each = [targets] * len(publishers) if targets is None or isinstance(targets, str) else list(targets)
        if len(each) != len(publishers):
            raise ValueError(f"{len(publishers)} publishers, {len(each)} targets")
        self.engine.token = token
        until_s = time.monotonic() + wait_s
        pairs = list(zip(publishers, each, strict=True))
        for start in range(0, len(pairs), _MOVES_AT_ONCE):
            self.engine.call(partial(self.engine.move, pairs[start : start + _MOVES_AT_ONCE]))
        moved = [self.engine.publishers[number] for number in publishers]
        while time.monotonic() < until_s and any(one.state not in (State.OPEN, State.IDLE) for one in moved):
            time.sleep(0.005)
        wanted = [publisher for publisher, target in zip(moved, each, strict=True) if target]
        failed = [publisher.number for publisher in wanted if publisher.state is not State.OPEN]
        return {"failed": failed, "last_problem": self.engine.last_problem}

    def load(self, path: str, epoch_ns: int, topic: str, tag: int = 0) -> None:
        """Make a window's commands, and play them from ``epoch_ns`` on."""
        if tag in self.loads:
            raise ValueError(f"the load with tag {tag} has not been collected")
        mine = [number for number, publisher in self.engine.publishers.items() if publisher.target is not None]
        self.loads[tag] = load = self.prepared(read_block(Path(path)), topic, epoch_ns, mine, tag)
        self.engine.call(lambda: self.engine.offer(load))

    def status(self) -> Json:
        """What is left to do.  ``done``: every emission is due, and acknowledged or given up."""
        # Read while the pacing thread works, in the order in which an emission passes: none is missed.
        loads = {
            str(tag): {
                "due_later": load.count - load.next,
                "waiting": load.waiting_count,
                "in_flight": load.in_flight_count,
            }
            for tag, load in self.loads.items()
        }
        states = Counter(publisher.state.value for publisher in list(self.engine.publishers.values()))
        return {
            "done": not any(sum(left.values()) for left in loads.values()),
            "loads": loads,
            "states": {state.value: states[state.value] for state in State},
            "counters": dict(self.engine.tally),
            "last_problem": self.engine.last_problem,
            "cpu_ns": time.process_time_ns(),
        }

    def collect(self, path: str, tag: int = 0) -> None:
        """Write a load's rows, one a message, and ``brokers``, the addresses that the column ``broker`` counts."""
        load = self.loads[tag]
        self.engine.call(lambda: self.engine.end(load))
        write_columns(Path(path), load.columns(), brokers=list(self.engine.brokers))
        del self.loads[tag]


def write_columns(path: Path, columns: Mapping[str, Int64], **names: Sequence[str]) -> None:
    """Write an .npz, whole or not at all, with the lists of names that its columns count."""
    part = path.with_name(path.name + ".part")
    tables = {**columns, **{name: np.array(words, np.str_) for name, words in names.items()}}
    try:
        with part.open("wb") as file:
            np.savez(file, **tables)  # type: ignore[arg-type]
        os.replace(part, path)
    except OSError:  # a full disk, say: what was written takes room that the others need
        part.unlink(missing_ok=True)
        raise


def allow_descriptors() -> None:
    """As many open sockets as the machine lets us have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Serve until standard input ends."""
    allow_descriptors()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    host = PublishHost(Engine())
    names = ("connect", "load", "status", "collect")
    serve({"move": host.connect, **{name: getattr(host, name) for name in names}})


if __name__ == "__main__":
    main()
