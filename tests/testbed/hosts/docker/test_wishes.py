"""What hosts are to be: read from flat options, with clear errors; and control groups, as the kernel lists them."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.matrix import testbed_options as options_of
from harness.run import check_all
from studies.inputs import run_id
from testbed.hosts.docker.daemon import CHOICE, check_choice, chosen
from testbed.hosts.docker.wishes import Wish, read_wishes
from testbed.hosts.groups import hierarchies, kills_count
from testbed.hosts.places import DOCKER
from testbed.topologies.topology import load_topology
from testbed.trust.fidelity import Observation, judge, spread_of

LAN = load_topology("srtm-lan")


def test_the_nearest_option_counts() -> None:
    options = {
        "cpus": 2,
        "broker.cpus": 0.5,
        "brokers2.memory": "64MiB",
        "adaptor.image": "redis:7",
        "publisher.kind": "mininet",
    }
    found = read_wishes(options, LAN)
    assert set(found) == {host.name for host in LAN.machines}
    assert found["subscribers1"] == Wish(cpus=2.0)
    assert found["brokers1"] == Wish(cpus=0.5)
    assert found["brokers2"] == Wish(cpus=0.5, memory="64MiB") and found["brokers2"].memory_bytes == 64 << 20
    assert found["control"] == Wish(cpus=2.0, image="redis:7")  # the host of the node adaptor
    assert found["publishers1"] == found["publishers2"] == Wish(kind="mininet")


GARBAGE: list[tuple[dict[str, Any], str]] = [
    ({"cpu": 1}, "no option 'cpu'.*did you mean 'cpus'"),
    ({"cpus": "many"}, r"cpus = 'many'"),
    ({"cpus": -1}, "cpus = -1.*at least 0.01"),
    ({"cpus": 1e-5}, "at least 0.01"),
    ({"memory": "1 bit"}, "memory = '1 bit'.*256MB"),
    ({"memory": 256}, "memory = '256'.*256MB"),
    ({"memory": "1MB"}, "at least 6MiB"),
    ({"kind": "vm"}, "kind = 'vm'.*docker or mininet"),
    ({"brokers1.kind": "mininet", "brokers1.cpus": 1}, "a mininet host has no image"),
    ({"borker.cpus": 1}, "no host or role 'borker'.*did you mean 'broker'"),
    ({"lan.cpus": 1}, "no host or role 'lan'"),
    ({"command": "'open"}, "command.*mend the quotes"),
]


@pytest.mark.parametrize(("options", "text"), GARBAGE)
def test_garbage_is_refused_before_anything_starts(options: dict[str, Any], text: str) -> None:
    spec = RunSpec(system="lb", workload="poisson", testbed="docker", testbed_options=options)
    with pytest.raises(SpecError, match=text):
        check_all([spec])


@pytest.mark.parametrize("testbed", ["virtual", "local", "mininet"])
def test_other_testbeds_take_no_options(testbed: str) -> None:
    with pytest.raises(SpecError, match=f"testbed {testbed} has no option"):
        check_all([RunSpec(system="lb", workload="poisson", testbed=testbed, testbed_options={"cpus": 1})])


def test_options_are_part_of_a_run_and_archives_of_its_inputs() -> None:
    def spec(**options: Any) -> RunSpec:
        return RunSpec(system="lb", workload="poisson", testbed="docker", testbed_options=options)

    assert run_id(spec(cpus=1), "x") != run_id(spec(), "x") != run_id(spec(cpus=0.5), "x")
    assert spec(cpus=1).factors() == {"testbed.cpus": "1"}
    options = {"image": "a.tar", "n1.image": "b.tar", "n2.image": "redis:7", "cpus": 1}
    assert DOCKER.input_files(options) == ("a.tar", "b.tar")
    words = ["testbed.cpus=0.5", "workload.publishers=3", "testbed.broker.memory=64MB"]
    assert options_of(words) == ({"cpus": 0.5, "broker.memory": "64MB"}, ["workload.publishers=3"])


def test_the_daemon_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    assert chosen() == "private"  # what has no side effects
    monkeypatch.setenv(CHOICE, "running")
    assert chosen() == "running"
    with pytest.raises(SpecError, match=r"unknown Docker daemon 'privat'.*did you mean 'private'"):
        check_choice("privat")


def test_control_groups_are_found_in_both_versions() -> None:
    one = (
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "36 31 0:30 /a /c rw - cgroup cgroup rw,cpu,cpuacct"
    )
    two = "41 31 0:38 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
    found = hierarchies(f"{one}\n{two}\n22 1 0:21 / /proc rw - proc proc rw")
    assert found["memory"] == (Path("/sys/fs/cgroup/memory"), "/")
    assert found["cpu"] == found["cpuacct"] == (Path("/c"), "/a")
    assert found[""] == (Path("/sys/fs/cgroup"), "/")


@pytest.mark.parametrize("name", ["memory.events", "memory.oom_control"])
def test_kills_are_counted_in_both_versions(tmp_path: Path, name: str) -> None:
    assert kills_count(tmp_path) is None
    (tmp_path / name).write_text("oom_kill_disable 0\nunder_oom 0\noom 4\noom_kill 3\n")
    assert kills_count(tmp_path) == 3


def test_a_host_over_its_memory_makes_a_run_invalid() -> None:
    seen = Observation(lateness=spread_of([0]), killed_hosts=("n1 (64 MB)",))
    found = judge(seen)
    assert found.validity == "invalid" and found.reasons == (
        "host n1 (64 MB) was over its memory limit and was killed",
    )
