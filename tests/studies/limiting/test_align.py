"""The option ``align``: live, windows of the wall clock begin with the run; all else is as without it."""

import time
from pathlib import Path

import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.estimate import expected_seconds
from harness.experiment import RunSpec
from harness.run import asked_of, carried_out, resolve
from studies.limiting import live
from studies.limiting.asked import Limiting
from studies.limiting.study import Config, asked
from systems.loader import load_system
from testbed.hosts.local import LocalSite
from testbed.play import LEAD_NS, Play
from testbed.topologies.topology import load_topology
from tests.studies.limiting.given import asked as asked_for
from workloads.requests import poisson_requests


def spec(testbed: str = "virtual", **options: str) -> RunSpec:
    return RunSpec(
        system="static-split", workload="hot-keys", workload_options={"duration": "2s"}, topology="full-mesh",
        topology_options={"nodes": 2, "delay": "0ms"}, study="limiting", study_options=options, testbed=testbed,
        system_options={"capacity": 20, "rate": "20"},
    )  # fmt: skip


@pytest.mark.parametrize("align_ns", [0, 1, SECOND_NS // 4, 60 * SECOND_NS])
def test_the_epoch_is_the_next_multiple(align_ns: int) -> None:
    before_ns = time.time_ns()
    epoch_ns = Play().begin(align_ns=align_ns)
    after_ns = time.time_ns()
    assert epoch_ns % max(1, align_ns) == 0
    assert before_ns + LEAD_NS <= epoch_ns <= after_ns + LEAD_NS + align_ns


def test_it_is_no_part_of_a_run_that_does_not_ask_for_it() -> None:
    assert "study.align" not in spec().factors() and Config().align == ""
    point = resolve(spec())
    assert asked(point, Config()) == asked_of(point)[1]
    of_plain, of_aligned = asked_of(point)[1], asked(point, Config(align="1min"))
    assert isinstance(of_plain, Limiting) and (of_plain.align_ns, of_aligned.align_ns) == (0, 60 * SECOND_NS)


def test_virtual_time_ignores_it() -> None:
    assert carried_out(resolve(spec())).tables == carried_out(resolve(spec(align="1min"))).tables


def test_a_live_run_is_expected_to_wait_for_it() -> None:
    assert expected_seconds(spec("local", align="1min")) - expected_seconds(spec("local")) == pytest.approx(30)
    assert expected_seconds(spec(align="1min")) == expected_seconds(spec())


@pytest.mark.parametrize("text", ["soon", "0s", "-1s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="align"):
        resolve(spec()) and asked_of(resolve(spec(align=text)))


@pytest.mark.live
@pytest.mark.slow
def test_a_live_run_begins_on_the_second_and_counts_before_and_after_its_load(tmp_path: Path) -> None:
    topology, system = load_topology("full-mesh", {"nodes": 2, "delay": "0ms"}), load_system("static-split")
    requests = poisson_requests(topology.node_names(), 4, 10.0, SECOND_NS, 1)
    load = asked_for(system, system.config(), topology, requests, SECOND_NS, 1, drain_ns=0, align_ns=SECOND_NS)
    with LocalSite(topology, tmp_path, tmp_path) as site:
        for _ in range(5):
            shown = live.run(site, load)
            assert shown.epoch_ns % SECOND_NS == 0
            told = [row[:3] for row in shown.journal.samples]
            (began_ns,) = [at_ns for at_ns, _, metric in told if metric == "counted_from_ns"]
            (ended_ns,) = [at_ns for at_ns, _, metric in told if metric == "counted_until_ns"]
            assert -SECOND_NS // 2 < began_ns < ended_ns and ended_ns >= SECOND_NS
            if began_ns < 0:  # a busy machine is late, and says so
                break
        else:
            raise AssertionError("this machine is too busy: five times the load began before the count")
    assert {node for _, node, metric in told if metric == "node_process_count"} == {"node-n1", "node-n2"}
    assert not [row for row in told if row[2] == "server_process_count"]
    read = {row[:3] for row in shown.evidence.samples}
    for at_ns in (began_ns, ended_ns):
        assert {(at_ns, f"node-{name}", metric) for name in ("n1", "n2") for metric in ("cpu_ns", "rss_bytes")} <= read
