"""The pacing of Pulsar's clients.  No broker, and no client of Pulsar's."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from core.units import MILLISECOND_NS
from testbed.servers.pulsar.client_host import DUE, ClientHost


class SlowProducer:
    """Takes a while for each message, which the broker has at once."""

    def send_async(self, body: bytes, acknowledged: Callable[[Any, object], None]) -> None:
        time.sleep(1e-3)
        acknowledged(SimpleNamespace(name="Ok"), None)


def host() -> ClientHost:
    made = ClientHost("")
    made._producers[0] = SlowProducer()  # type: ignore[assignment]
    return made


def test_what_is_due_at_the_end_is_sent_and_nothing_later(tmp_path: Path) -> None:
    at_ns = np.repeat([-10 * MILLISECOND_NS, 3_600_000 * MILLISECOND_NS], 50)
    path = tmp_path / "load.npz"
    np.savez(path, **dict(zip(DUE, (np.zeros(100, np.int64), np.arange(100), at_ns), strict=True)))
    its = host()
    its.offer(str(path), time.time_ns())
    its.end()
    assert its.sent.columns()["message"].tolist() == list(range(50))


def test_a_pace_that_nobody_keeps_ends_all_the_same() -> None:
    its = host()
    its.play(1e6)
    begin_s = time.monotonic()
    its.end()
    assert time.monotonic() - begin_s < 10.0 and its.status()["open"] == 0
