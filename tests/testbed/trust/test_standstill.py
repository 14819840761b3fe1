"""Processes of real runs are stopped for three seconds, and named: each kind that a run has on this machine.

A broker that is killed ends the command with 1, and it says why.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from glob import glob
from pathlib import Path

import psutil
import pytest

from core.units import SECOND_NS
from harness.experiment import RunSpec
from harness.run import carried_out, resolve
from testbed import load_testbed
from testbed.hosts.agent import Agent
from testbed.hosts.site import Program, Site
from testbed.play import LEAD_NS, Play
from testbed.trust.evidence import Fidelity
from tests.live import needs
from tests.studies.distribution.test_live import deployed, spread
from tests.testbed.brokers.pair import Pair, placed
from tests.testbed.brokers.with_clients import until

pytestmark = [pytest.mark.live, pytest.mark.slow]

STOP_NS = 3 * SECOND_NS
Freeze = Callable[..., None]


@pytest.fixture
def freeze(monkeypatch: pytest.MonkeyPatch) -> Freeze:
    """Stops the processes that are named, each at its second of the first timeline that begins."""
    agents: dict[str, Agent] = {}
    start, begin = Site.start, Play.begin

    def kept(self: Site, host: str, program: Program) -> Agent:
        agents[program.name] = start(self, host, program)
        return agents[program.name]

    def frozen(**at_s: int) -> None:
        names = {name.replace("_", "-"): second for name, second in at_s.items()}

        def begun(self: Play, lead_ns: int = LEAD_NS, align_ns: int = 0) -> int:
            while names:
                name, second = names.popitem()
                for at_ns, number in ((0, signal.SIGSTOP), (STOP_NS, signal.SIGCONT)):
                    send = agents[name].process.send_signal  # type: ignore[attr-defined]
                    self.plan(second * SECOND_NS + at_ns, lambda send=send, number=number: send(number))
            return begin(self, lead_ns, align_ns)

        monkeypatch.setattr(Play, "begin", begun)

    monkeypatch.setattr(Site, "start", kept)
    return frozen


def check_named(fidelity: Fidelity, *names: str) -> None:
    assert fidelity.validity == "invalid"
    stood = [
        match[1] for reason in fidelity.reasons if (match := re.fullmatch(r"(.*) stood still for \d\.\d s", reason))
    ]
    assert sorted(stood) == sorted(names), fidelity.reasons


@needs("go")
def test_brokers_publishers_and_subscribers(freeze: Freeze) -> None:
    live = deployed()
    try:
        freeze(broker_broker1=1, publish_publishers1=5, subscribe_subscribers1=9)
        live.next_round(spread(2), 13 * SECOND_NS)
        check_named(live.evidence().fidelity, "broker-broker1", "publish-publishers1", "subscribe-subscribers1")
    finally:
        live.close()


@needs("redis-gcra")
def test_nodes_users_and_redis(freeze: Freeze) -> None:
    spec = RunSpec(
        system="redis-gcra", workload="requests", topology="full-mesh", topology_options={"nodes": 2}, study="limiting",
        study_options={"duration": "13s"}, testbed="local",
    )  # fmt: skip
    freeze(redis_n1=1, node_n1=5, users_n2=9)
    check_named(carried_out(resolve(spec)).evidence.fidelity, "redis-n1", "node-n1", "users-n2")


@needs("go", "serf", "java", "zookeeper")
def test_zookeeper_serf_and_nodes_of_brokers(freeze: Freeze) -> None:
    freeze(zookeeper_store=2, serf_proxy1=6, node_broker1=10)
    journal = placed(load_testbed("local"), 1, Pair(), 16 * SECOND_NS, 0)
    check_named(journal.evidence.fidelity, "zookeeper-store", "serf-proxy1", "node-broker1")


@needs("go")
def test_a_broker_that_is_killed_in_an_ad_hoc_run(tmp_path: Path) -> None:
    settings = ("workload.publishers=30", "workload.batch=5", "workload.group_size=5", "topology.brokers=2",
                "study.profile=5s", "round=10s", "calibration=small", "slo=calibrated")  # fmt: skip
    words = ["--system", "lb", "--workload", "poisson", *(word for each in settings for word in ("--set", each))]
    command = [sys.executable, "-m", "ratebed", "run", *words, "--testbed", "local", "--json", "--out", str(tmp_path)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as harness:
        try:
            loads = tmp_path / "ratebed-*" / "load" / "*.npz"
            until(lambda: harness.poll() is not None or glob(str(loads)), "the load", 120)
            time.sleep(3)  # it goes on for ten
            children = psutil.Process(harness.pid).children(recursive=True)
            next(child for child in children if child.name() == "brokerd").kill()
            out, err = harness.communicate(timeout=300)
        finally:
            harness.kill()
    assert harness.returncode == 1, err
    rows = json.loads(out)
    assert rows and {row["validity"] for row in rows} == {"invalid"}
    assert any("was lost" in reason for reason in rows[0]["validity_reasons"])
    assert re.search(r"^ratebed: invalid: .*broker-?[12].* was lost", err, re.M)
