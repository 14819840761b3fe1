"""A site with servers outlasts a run for the next one that asks for the same, and for no other."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from core.errors import MachineError
from testbed.faults import Handover
from testbed.hosts.agent import Agent
from testbed.hosts.kept import SiteKeeper
from testbed.hosts.mininet.site import MininetSite
from testbed.hosts.places import LOCAL, MININET, kept_by
from testbed.hosts.site import Program, Site
from testbed.hosts.state import all_states, start_time
from testbed.topologies.places import with_clients
from testbed.topologies.topology import Topology, full_mesh, load_topology, mesh
from tests.live import needs
from tests.pulsar_cluster import NETWORK

TALKS = [sys.executable, "-c", "import sys; sys.stdin.read()"]
HERE = full_mesh(2, "0ms")


class Talker(NamedTuple):
    """A server that takes no time to start."""

    name: str = "talker"

    @contextmanager
    def on(self, site: Site) -> Iterator[Agent]:
        """See ``testbed.api.SiteServers``."""
        agent = site.start(site.topology.hosts[0].name, Program(self.name, TALKS))
        yield agent
        site.forget(self.name)


TALKER = Talker()


def served_by(site: Site) -> Agent:
    assert isinstance(site.servers, Agent)
    return site.servers


def pid_of_run(keeper: SiteKeeper, topology: Topology = HERE, seed: int = 1, server: Talker = TALKER) -> int:
    with kept_by(keeper, LOCAL).site(topology, seed, server) as site:
        return served_by(site).pid


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SiteKeeper]:
    monkeypatch.setenv("RATEBED_STATE", str(tmp_path))
    with SiteKeeper() as one:
        yield one
    assert not list(all_states(tmp_path)), "what was kept is gone with its keeper"


def test_the_next_run_has_the_servers_and_nothing_else_of_the_last(keeper: SiteKeeper) -> None:
    with kept_by(keeper, LOCAL).site(HERE, 1, TALKER) as site:
        pid, folder = served_by(site).pid, site.folder
        notes = list(site.notes)
        other = site.start(site.topology.hosts[1].name, Program("node", TALKS))
        (folder / "nodes").mkdir()
        (folder / "nodes" / "rows").write_text("1")
        (folder / "logs" / "talker.log").write_text("of the first run\n")
        site.epoch_ns = 1
        site.notes.append("of the first run")
    assert start_time(pid) and other.alive
    with kept_by(keeper, LOCAL).site(HERE, 1, TALKER) as again:
        assert again is site and served_by(again).pid == pid and not other.alive
        assert list(again.agents) == ["talker"] and again.epoch_ns is None
        assert {path.name for path in folder.iterdir()} == {"logs"}
        assert {path.name: path.read_text() for path in (folder / "logs").iterdir()} == {"talker.log": ""}
        assert again.notes == [*notes, "runs that these servers carried before: 1"]
    keeper.close()
    assert start_time(pid) is None and not folder.exists()


def test_who_asks_for_something_else_has_it_anew_and_nothing_else_runs_beside(keeper: SiteKeeper) -> None:
    pids = [
        pid_of_run(keeper),
        pid_of_run(keeper, seed=2),
        pid_of_run(keeper, full_mesh(3, "0ms"), seed=2),
        pid_of_run(keeper, full_mesh(3, "0ms"), 2, Talker("other")),
    ]
    assert len(set(pids)) == len(pids) and [start_time(pid) for pid in pids[:3]] == [None] * 3
    assert pid_of_run(keeper, full_mesh(3, "0ms"), 2, Talker("other")) == pids[3]
    with kept_by(keeper, LOCAL).site(HERE, 1) as bare:
        assert bare.servers is None and start_time(pids[3]) is None


def test_a_site_with_a_fault_is_nobody_elses(keeper: SiteKeeper) -> None:
    with kept_by(keeper, LOCAL).site(HERE, 1, TALKER) as site:
        worn = served_by(site)
        site.is_worn = True
    assert not worn.alive
    killed = pid_of_run(keeper)
    with kept_by(keeper, LOCAL).site(HERE, 1, TALKER) as site:
        assert served_by(site).pid == killed
        served_by(site).process.kill()
        served_by(site).process.wait()
    assert pid_of_run(keeper) != killed


def test_a_run_that_fails_takes_its_site_down_and_brings_the_logs(keeper: SiteKeeper) -> None:
    pid = pid_of_run(keeper)

    def fail() -> None:
        with kept_by(keeper, LOCAL).site(HERE, 1, TALKER) as site:
            (site.folder / "logs" / "talker.log").write_text("of the second run\n")
            raise MachineError("lost")

    with pytest.raises(MachineError, match="lost") as caught:
        fail()
    assert start_time(pid) is None
    assert caught.value.logs == {"talker.log": b"of the second run\n"}  # type: ignore[attr-defined]


def test_links_that_draw_draw_for_one_run(keeper: SiteKeeper) -> None:
    jittery = mesh("jittery", ["a", "b"], 2_000_000, jitter_ns=1_000_000)
    assert pid_of_run(keeper, jittery) != pid_of_run(keeper, jittery)


def test_an_end_that_is_not_clean_is_told_and_no_other_runs_failure(
    keeper: SiteKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    with kept_by(keeper, LOCAL).site(HERE, 1, TALKER) as site:
        number = site.state.making("folder", path="/nowhere")

        def fail() -> None:
            site.state.gone(number)
            raise MachineError("it stays")

        site._undo.callback(fail)
    assert pid_of_run(keeper, seed=2)
    assert "the run's end is not clean: it stays; ratebed clean removes" in capsys.readouterr().err


@needs(*NETWORK)
@pytest.mark.slow
def test_who_was_handed_over_is_back_and_links_that_were_changed_are_nobody_elses(keeper: SiteKeeper) -> None:
    topology = with_clients(load_topology("city-mec", {"sites": 2}), {"uav": 0}, 0)
    with kept_by(keeper, MININET).site(topology, 1, TALKER) as site:
        home = {(path.source, path.target): path.requested_delay_ns for path in site.verify()}
        site.apply(Handover(0, "uav", "site2"))
        away = {(path.source, path.target): path.requested_delay_ns for path in site.verify()}
    assert away != home
    with kept_by(keeper, MININET).site(topology, 1, TALKER) as again:
        assert again is site
        assert {(path.source, path.target): path.requested_delay_ns for path in again.verify()} == home
        assert isinstance(again, MininetSite)
        again.set_delay("site1", "city", 1)
    with kept_by(keeper, MININET).site(topology, 1, TALKER) as other:
        assert other is not site
