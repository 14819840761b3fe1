"""A ZooKeeper seen from a test: what it counts, and ways to it that clients would not find by themselves."""

import socket
from collections.abc import Callable

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from testbed.servers.zookeeper import ZooKeeperServer


def counters(server: ZooKeeperServer) -> dict[str, str]:
    """What it counts itself (``mntr``): zk_packets_received, zk_ephemerals_count and so on."""
    lines = server.ask(b"mntr", b"\0").decode().splitlines()  # until it hangs up
    return dict(line.split("\t", 1) for line in lines)


def through(monkeypatch: pytest.MonkeyPatch, connect: Callable[[], socket.socket]) -> None:
    """From now on all clients of kazoo's go this way."""
    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", lambda *_, **__: connect())
