"""TB Adaptor's nodes beside brokers of Pulsar: what a topic took is told up, its limit goes down, by REST.

Pulsar says of no message that it waits, as it does not read what it cannot take yet: no backlog is ever reported, and
the rate is that of what was admitted.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from sys import stderr
from time import monotonic

import msgspec

from core.errors import MachineError, SystemFault
from systems.api import SetBucket, TopicReport
from systems.distribution import tb_adaptor
from testbed.brokers.plane import NoPlane
from testbed.hosts.loop import Clock, Loop
from testbed.nodes.planes import Count, Heard, Plane, Report, Surroundings
from testbed.servers.pulsar.admin import Admin, Topic, connect_to

TOPIC = "quota"  # what nodes call the topics of all brokers together
MISSED = 3  # ours: intervals in a row of which nothing was heard, after which a run is none


class QuotaScript(msgspec.Struct, frozen=True):
    """What the processes of a run are told before it: a file that is brought to each host."""

    tenant: str
    brokers: dict[str, str]  # node -> the id of the broker beside it
    interval_s: int

    def topic(self, node: str) -> Topic:
        """That of the broker beside a node, alone in a namespace."""
        return Topic(self.tenant, node, "t")


@dataclass(frozen=True)
class AdaptorOnPulsar(tb_adaptor.Config):
    """Options of TB Adaptor: a class of its own, by which a node's process finds the system below."""


def quota_plane(loop: Loop, around: Surroundings, report: Report, count_sent: Count) -> Plane:
    """See ``testbed.nodes.planes``."""
    script = msgspec.json.decode(Path(around.script).read_bytes(), type=QuotaScript)
    return QuotaPlane(loop, around.node, script, report) if around.node in script.brokers else NoPlane(around.node)


class QuotaPlane(Plane):
    """A broker's REST: asked each interval how much its topic has taken, told its limit; a thread for each way."""

    def __init__(self, loop: Loop, name: str, script: QuotaScript, report: Report):
        self._name, self._script = name, script
        own = script.brokers[name]
        self._topic, self._admin = script.topic(name), Admin({own: partial(connect_to, own)})
        self._pool = ThreadPoolExecutor(1, "limit")  # in order
        self._heard, self._over = Heard(loop, report), threading.Event()
        self._problem: Exception | None = None

    def actuate(self, command: object) -> None:
        """Begin to set a limit; SystemFault for another command."""
        if not isinstance(command, SetBucket):
            raise SystemFault(f"{self._name} commanded {command}", "brokers of Pulsar are told limits of their topic")
        if not self._over.is_set():  # the node goes on for as long as the last messages come
            self._pool.submit(self._limit, max(1, int(command.rate_rps)))

    def go(self, clock: Clock) -> None:
        """Time 0 is agreed."""
        threading.Thread(target=self._look, daemon=True).start()

    def finish(self) -> None:
        """The run ends; MachineError where limits were not set, or rates not heard of: it was not what it was to be."""
        self._over.set()
        self._pool.shutdown(cancel_futures=True)
        if self._problem is not None:
            raise MachineError(f"{self._name}: {self._problem}", "see the brokers' logs") from self._problem

    def _limit(self, rate_rps: int) -> None:
        try:
            self._admin.limit(self._topic, rate_rps)
        except Exception as error:  # it is nobody's else: a thread's
            self._problem = error

    def _look(self) -> None:
        before: tuple[int, float] | None = None
        wait_s, missed = 0.0, 0  # what was taken before time 0 is not reported
        while not self._over.wait(wait_s):
            wait_s = self._script.interval_s
            try:
                now, missed = (int(self._admin.stats(self._topic)["msgInCounter"]), monotonic()), 0
            except Exception as error:
                print(f"{self._name}: {error}", file=stderr, flush=True)
                missed += 1
                if missed >= MISSED:
                    self._problem = error
                continue
            if before is not None:
                self._heard.say(TopicReport(TOPIC, (now[0] - before[0]) / (now[1] - before[1]), 0.0, 0.0))
            before = now


ADAPTOR_ON_PULSAR = replace(tb_adaptor.SYSTEM, config=AdaptorOnPulsar, plane="studies.quota.planes:quota_plane")
