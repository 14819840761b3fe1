"""Brokers of a run: killed, started again where they were, and asked for counters that only the living have."""

import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from testbed.brokers.launcher import Brokers
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import srtm_lan
from tests.live import needs

pytestmark = [needs("linux", "brokerd"), pytest.mark.slow]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with LocalSite(srtm_lan(2), tmp_path / "run", tmp_path) as site:
        made = Brokers(site, site.topology.node_names("broker"), stamps="read", gc="off")
        yield made
        made.close()


def test_one_that_is_killed_comes_back_empty_where_it_was(brokers: Brokers) -> None:
    first, other = brokers
    brokers.acquire(0, "t")
    assert set(first.client.queues()) == {"t"} and brokers.stats(0)["cpu_ns"] > 0
    brokers.kill(first.name)
    assert brokers.lost == [first.name] and other.alive
    assert brokers.stats(0) == {} and brokers.stats(1)["command_count"] >= 0
    assert brokers.move(0, "t", [1], 1) == 0 and brokers.collect(0, "t")[1] == 0, "of the dead nothing is asked"
    brokers.restart(first.name)
    again = brokers.named(first.name)
    assert brokers.lost == [] and again.agent.pid != first.agent.pid
    assert (again.ingress, again.nsqd, again.control_port) == (first.ingress, first.nsqd, first.control_port)
    assert again.client.queues() == {}, "what it held is gone"


def test_only_who_knows_the_token_commands_and_nobody_else_can_read_it(brokers: Brokers) -> None:
    assert stat.S_IMODE((brokers.folder / "token").stat().st_mode) == 0o600
    assert len(brokers.token) == 32 and brokers.stats(0)["refused_token_count"] == 0


def test_the_token_is_on_no_command_line(brokers: Brokers) -> None:
    roots = [psutil.Process(its.agent.pid) for its in brokers]
    for root in roots:
        lines = [process.cmdline() for process in [root, *root.children(recursive=True)]]
        assert any("-token-file" in words for words in lines), lines
        assert not any(brokers.token in word for words in lines for word in words)
    assert len(roots) > 1
