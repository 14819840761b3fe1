"""Coordinates on a site without agents: how a run is judged whose clients move late."""

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.units import SECOND_NS
from studies.coordinates.asked import Locating
from studies.coordinates.live import locate_live
from testbed.faults import Fault, Handover
from testbed.hosts.local import LocalSite
from testbed.topologies.topology import load_topology


class NoAgents:
    """Stands for ``testbed.servers.serf.SerfCluster``: agents that answer at once, and know nothing."""

    def __init__(self, site: Any, nodes: tuple[str, ...], profile: str):
        process = SimpleNamespace(name="serf", alive=True, pid=os.getpid())
        rpc = SimpleNamespace(coordinate=lambda node: None, stats=lambda: {"serf": {"health_score": "0"}})
        self.servers = {node: SimpleNamespace(node=node, process=process, rpc=rpc) for node in nodes}

    def __enter__(self) -> "NoAgents":
        return self

    def __exit__(self, *error: object) -> None: ...

    def start(self) -> None: ...


class SlowSite(LocalSite):
    """Takes 3 s for a handover, by the clock that only it moves on."""

    late_ns = 0

    def apply(self, fault: Fault) -> None:
        super().apply(fault)
        self.late_ns += 3 * SECOND_NS


def test_a_client_that_is_moved_late_makes_the_run_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.coordinates.live.SerfCluster", NoAgents)
    with SlowSite(load_topology("star", {"nodes": 2}), tmp_path / "run", tmp_path) as site:
        monkeypatch.setattr(
            "testbed.play.Clock",
            lambda epoch_ns: SimpleNamespace(now_ns=lambda: time.time_ns() - epoch_ns + site.late_ns),
        )
        move = Handover(0, "n1", "hub")
        evidence = locate_live(site, Locating(("n1", "n2"), 1, (0, 1), handovers=(move,))).evidence
    assert evidence.fidelity.validity == "invalid"
    assert any(reason.startswith("a client's host was moved 3") for reason in evidence.fidelity.reasons)
    late = [value for _, _, metric, value in evidence.samples if metric == "handover_lateness_ns"]
    assert len(late) == 1 and late[0] >= 3 * SECOND_NS
