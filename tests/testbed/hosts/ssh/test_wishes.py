"""What links over SSH do not give is said in the notes, and not looked for again and again.  No machine is reached."""

from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from testbed.hosts.site import PathMeasure
from testbed.hosts.ssh.inventory import Machine
from testbed.hosts.ssh.site import SshSite
from testbed.topologies.topology import Host, Link, Topology
from testbed.trust import link_check

MS = 1_000_000
PAIR = Topology("pair", (Host("a"), Host("b")), (Link("a", "b", 5 * MS, MS, 0.1, 10**8),))


class Unreached(SshSite):
    """Connections are taken as made."""

    def _open(self, machine: Machine, brokerd: Path | None) -> None:
        self.hosts[machine.name] = SimpleNamespace(machine=machine, shipped=SimpleNamespace(notes=[]))  # type: ignore

    def _shape(self, machine: Machine) -> None:
        """It is."""


def site(folder: Path, *shapes: bool) -> SshSite:
    hosts = [f"[[host]]\nhost = '192.0.2.{n}'\nshape = {str(shape).lower()}\n" for n, shape in enumerate(shapes, 1)]
    (folder / "hosts.toml").write_text("".join(hosts))
    return Unreached(PAIR, folder / "run", folder, inventory=str(folder / "hosts.toml"))


@pytest.mark.parametrize(
    ("shapes", "plain"), [((False, False), "192.0.2.1, 192.0.2.2"), ((True, False), "192.0.2.2"), ((True, True), "")]
)
def test_jitter_loss_and_rates_that_nobody_gives_are_told(
    tmp_path: Path, shapes: tuple[bool, bool], plain: str
) -> None:
    with site(tmp_path, *shapes) as made:
        notes = [f"what leaves {plain} has no jitter, loss, rate limits of ours"] if plain else []
        notes = [f"{note}, as pair asks for; shape = true in the inventory gives them" for note in notes]
        rates = ["rates hold for each path alone: the paths of a link do not share it"] if any(shapes) else []
        assert made.notes == rates + notes


def test_paths_as_they_are_are_measured_once(tmp_path: Path) -> None:
    ends = ("a", "b"), ("b", "a")
    measures = [PathMeasure(*pair, 5 * MS, 100 * MS, 0.1, 3, 200, problem="median delay 100.00 ms") for pair in ends]
    agent = mock.Mock(**{"ready.return_value": {"port": 1, "keeps_120_s": False}})
    with (
        site(tmp_path, False, False) as made,
        mock.patch.multiple(made, start=mock.Mock(return_value=agent), forget=mock.Mock()),
        mock.patch.object(link_check, "_measure", return_value=measures) as rounds,
    ):
        assert not any(measure.problem for measure in made.verify())
        assert "2 of 2 paths are as the machines have them" in made.notes[-1]
    assert rounds.call_count == 1
