"""One real broker under topics with fan-out: what comes home of a run; a process that has a share of a core."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from collectors import procfs
from core.errors import MachineError, SpecError
from core.units import SECOND_NS
from harness.experiment import CALIBRATED, RunSpec
from harness.run import check_point, execute, resolve
from studies.profile.asked import Profiled, ProfileRequest
from studies.profile.live import run
from testbed import load_testbed
from testbed.hosts.groups import confined, hierarchies
from testbed.hosts.local import LocalSite
from testbed.hosts.state import RunState
from testbed.topologies.topology import full_mesh
from tests.live import needs

NETWORK = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
TOPICS, PRODUCERS, CONSUMERS, RATE_RPS, SIZE_BYTES = 3, 2, 2, 20.0, 200
SECONDS = 10  # that are measured: 0.3 of them are three, which a busy machine may hold up


def spec(**changes: Any) -> RunSpec:
    """A run on loopback: six producers, twelve copies a round of theirs."""
    workload = {"topics": TOPICS, "producers": PRODUCERS, "consumers": CONSUMERS, "rate_rps": RATE_RPS,
                "size_bytes": SIZE_BYTES, "sites": 1}  # fmt: skip
    fields: dict[str, Any] = {
        "system": "pulsar", "workload": "static-topics", "workload_options": workload, "testbed": "local",
        "topology_options": {"brokers": 1}, "calibration": "small", "slo": CALIBRATED, "study": "profile",
        "study_options": {"duration": f"{SECONDS + 1}s", "warm_up": "1s"},
    }  # fmt: skip
    return RunSpec(**{**fields, **changes})


def profiled(one: RunSpec, core_share: float = 1.0) -> Profiled:
    """The journal of the testbed itself."""
    point = resolve(one)
    length_ns = (SECONDS + 1) * SECOND_NS
    asked = ProfileRequest(point.topology, point.schedule, length_ns, SECOND_NS, one.seed, 20_000_000, core_share)
    with point.testbed.site(point.topology, one.seed) as site:
        found = run(site, asked)
    assert not groups(site.state)
    return found


def check(found: Profiled) -> None:
    """Every consumer got every message: the rates are those that were asked for."""
    values = {(node, metric): value for _, node, metric, value in found.samples}
    of_broker = {metric: value for (node, metric), value in values.items() if node == "broker1"}
    due = TOPICS * PRODUCERS * RATE_RPS * SECONDS
    assert of_broker["span_ns"] == SECONDS * SECOND_NS
    assert of_broker["span_offered_count"] == pytest.approx(due * CONSUMERS, abs=TOPICS * PRODUCERS * CONSUMERS)
    # What was offered in the span may be taken after it, where the machine is busy.
    assert of_broker["span_in_count"] == pytest.approx(due, rel=0.3)
    assert of_broker["span_out_count"] == pytest.approx(due * CONSUMERS, rel=0.3)
    assert of_broker["span_out_bytes"] == SIZE_BYTES * of_broker["span_out_count"]
    assert of_broker["span_lost_count"] == 0
    assert len(found.latency_ns) == of_broker["span_offered_count"] and found.latency_ns.min() > 0
    assert of_broker["span_cpu_ns"] >= 0 and values["clients", "span_cpu_ns"] >= 0
    rows = {metric: value for _, node, metric, value in found.evidence.samples if node == ""}
    copies = TOPICS * PRODUCERS * CONSUMERS * RATE_RPS * (SECONDS + 1)
    assert rows["offered_count"] == rows["delivered_count"] == pytest.approx(copies, abs=TOPICS * PRODUCERS * CONSUMERS)
    assert rows["duplicated_count"] == rows["dropped_rows_count"] == 0


@needs("brokerd")
@pytest.mark.slow
def test_every_consumer_gets_every_message() -> None:
    check(profiled(spec()))


@needs("brokerd", *NETWORK)
@pytest.mark.slow
def test_in_namespaces_with_a_share_of_a_core_that_goes_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.profile.live.STILL_S", 10.0)
    check(profiled(spec(testbed="mininet"), core_share=0.5))


@needs("brokerd")
@pytest.mark.slow
def test_tables_of_a_run(tmp_path: Path) -> None:
    execute(spec(), "one", tmp_path / "one")
    histogram = pq.read_table(tmp_path / "one" / "latency_histogram.parquet").to_pandas()
    spans = pq.read_table(tmp_path / "one" / "spans.parquet").to_pandas().set_index("node")
    offered = spans.span_offered_count["broker1"]
    assert set(histogram.metric) == {"end_to_end_latency"} and histogram["count"].sum() == offered
    assert list(spans.index) == ["broker1", "clients"] and spans.span_cpu_ns.notna().all()


def groups(state: RunState) -> set[Path]:
    """Control groups of that run; others make theirs at the same time."""
    return {path for root, _ in hierarchies().values() for path in root.glob(f"ratebed-{state.tag}-*")}


@needs("root", "linux")
def test_a_confined_process_has_its_share(tmp_path: Path) -> None:
    if not {"cpu", ""} & hierarchies().keys():
        pytest.skip("this machine has no control groups with CPU quotas")
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    core = {max(os.sched_getaffinity(0))}
    os.sched_setaffinity(spinner.pid, core)
    try:
        with LocalSite(full_mesh(2, "0ms"), tmp_path / "run", tmp_path) as site:
            with confined(site.state, spinner.pid, 0.25):
                assert len(groups(site.state)) == 1 and os.sched_getaffinity(spinner.pid) == core
                began_s, had_ns = time.monotonic(), procfs.process_counters(spinner.pid)["cpu_ns"]
                time.sleep(1.5)
                used = procfs.process_counters(spinner.pid)["cpu_ns"] - had_ns
                assert 0 < used / SECOND_NS / (time.monotonic() - began_s) < 0.35
                already = pytest.raises(MachineError, match="a CPU quota already")  # as of a container that has one
                with already, confined(site.state, spinner.pid, 0.5):
                    pass
                assert len(groups(site.state)) == 1
            assert not groups(site.state) and spinner.poll() is None and os.sched_getaffinity(spinner.pid) == core
            with confined(site.state, spinner.pid, 1.0):
                assert not groups(site.state)
    finally:
        spinner.kill()
        spinner.wait()


@needs("root", "linux")
def test_a_share_for_nobody_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with (
        LocalSite(full_mesh(2, "0ms"), tmp_path / "run", tmp_path) as site,
        pytest.raises(MachineError, match="core_share=1"),
        confined(site.state, gone.pid, 0.5),
    ):
        pass
    assert not groups(site.state)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"testbed": "virtual"}, "--testbed mininet"),
        ({"topology_options": {"brokers": 2}}, "2 brokers"),
        ({"topology": "full-mesh", "topology_options": {}}, "0 brokers"),
        ({"workload": "poisson", "workload_options": {}}, "static-topics"),
        ({"workload": "uav-swarms", "workload_options": {}, "study_options": {"duration": "10min"}}, "come and go"),
        ({"study_options": {"duration": "1s", "warm_up": "1s"}}, "something to measure"),
        ({"study_options": {"duration": "soon"}}, "profile.*soon"),
        ({"study_options": {"core_share": 0.0}}, "core_share"),
    ],
)
def test_what_cannot_be_profiled_is_refused_before_anything_starts(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_point(resolve(spec(**changes)))


def test_the_same_seed_offers_the_same_messages() -> None:
    """Phases are of the seed: two repetitions differ, two runs of one do not."""
    from studies.profile.live import blocks_of

    def instants(seed: int) -> np.ndarray:
        blocks = blocks_of(resolve(spec(seed=seed)).schedule, seed, SECOND_NS)
        assert [block.message_count for block in blocks.values()] == pytest.approx(
            [PRODUCERS * RATE_RPS] * TOPICS, abs=PRODUCERS
        )
        return np.concatenate([block.at_ns for block in blocks.values()])

    assert (instants(1) == instants(1)).all() and not np.array_equal(instants(1), instants(2))
    assert load_testbed("local").privileges == "none" and msgspec.structs.asdict(spec())["study"] == "profile"
