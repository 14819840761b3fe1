"""Ctrl-C while containers are made: those that were begun are removed, and no others begin."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from testbed.hosts.docker import site as docker_site
from testbed.hosts.docker.site import AT_ONCE, DockerSite
from testbed.hosts.mininet.site import MininetSite
from testbed.topologies.topology import star

begun, made, closed = list[str](), list[str](), list[str]()
under_way, told = threading.Barrier(AT_ONCE), threading.Event()


class Slots(threading.Semaphore):
    """It tells when who made it takes them all."""

    def acquire(self, *wish: Any, **named: Any) -> bool:
        if threading.current_thread() is threading.main_thread():
            told.set()
        return super().acquire(*wish, **named)


def interrupt() -> None:
    """As somebody presses Ctrl-C: Python misses one that comes just before it waits for a lock."""
    for _ in range(30):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if told.wait(2):
            return


class SlowContainer:
    """Once as many are under way as may be, Ctrl-C comes; none is made before that is heard of."""

    def __init__(self, daemon: object, host: str, *_: object):
        self.host = host
        begun.append(host)
        if not under_way.wait(60):
            interrupt()
        assert told.wait(60)
        made.append(host)

    def close(self) -> None:
        """It is gone."""
        closed.append(self.host)


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """What a shell has started in the background does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_what_is_being_made_when_it_is_interrupted_is_removed(tmp_path: Path) -> None:
    with (
        mock.patch.multiple(docker_site, use_daemon=mock.Mock(), image_of=mock.Mock(), Container=SlowContainer),
        mock.patch.object(docker_site, "Semaphore", Slots),
        mock.patch.object(MininetSite, "_set_up", DockerSite._holders),
        pytest.raises(KeyboardInterrupt),
    ):
        DockerSite(star(AT_ONCE + 2), tmp_path)
    assert sorted(closed) == sorted(made) == sorted(begun) and len(begun) == AT_ONCE
