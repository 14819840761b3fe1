"""The crews of a deployed topic without processes: nobody sends or carries anything, and all are at rest at once."""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from core.records import Block, Envelope, Int64
from studies.distribution.live import EVERYTHING
from testbed.brokers.brokerd.client import COLUMNS
from testbed.brokers.traffic import Deliveries


class IdleBrokers:
    """Stands for ``testbed.brokers.launcher.Brokers``."""

    def __init__(self, site: Any, names: Sequence[str], stamps: str, gc: str, rows: int) -> None:
        self.rows, self.token, self.lost = rows, "", list[str]()
        self.all = [
            SimpleNamespace(name=name, ingress=name, nsqd=name, agent=SimpleNamespace(alive=True)) for name in names
        ]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all)

    def named(self, name: str) -> Any:
        return next(broker for broker in self.all if broker.name == name)

    def acquire(self, number: int, topic: str) -> None: ...

    def record(self, number: int, topic: str, message_count: int) -> None: ...

    def set_bucket(self, number: int, topic: str, envelope: Envelope | None) -> None: ...

    def collect(self, number: int, topic: str) -> tuple[dict[str, Int64], int]:
        return {name: np.empty(0, np.int64) for name in COLUMNS}, 0

    def stats(self, number: int) -> dict[str, int]:
        return {}

    def kill(self, name: str) -> None:
        self.lost.append(name)

    def close(self) -> None: ...


class IdlePublishers:
    """Stands for ``testbed.brokers.traffic.Publishers``."""

    def __init__(self, site: Any, hosts: Sequence[str]) -> None:
        self.agents, self.lost = dict[str, Any](), list[str]()

    def connect(self, targets: Mapping[int, str | None], token: str) -> list[int]:
        return []

    def bring(self, block: Block, tag: int) -> None: ...

    def load(self, epoch_ns: int, topic: str, tag: int) -> None: ...

    def done(self) -> bool:
        return True

    def collect(self, tag: int) -> list[dict[str, np.ndarray]]:
        return []


class IdleSubscribers:
    """Stands for ``testbed.brokers.traffic.Subscribers``; says that all has come."""

    def __init__(self, site: Any, hosts: Sequence[str], rows: int) -> None:
        self.rows, self.agents, self.lost = rows, dict[str, Any](), list[str]()

    def subscribe(self, topic: str, addresses: Mapping[int, str], token: str) -> None: ...

    def delivery_count(self) -> int:
        return EVERYTHING

    def collect(self) -> Deliveries:
        return Deliveries([])


IDLE: Any = (IdlePublishers, IdleSubscribers)  # ``LiveDeployment.crews``
