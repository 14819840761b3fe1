"""The end of a site that is not clean, where something else has gone wrong before: that is what one hears of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from core.errors import MachineError, SystemFault
from systems.loader import load_system
from testbed.hosts.local import LocalSite
from testbed.nodes.fleet import NodeFleet
from testbed.topologies.topology import star

FIRSTS = [KeyboardInterrupt(), SystemFault("wrong answers")]


def fail() -> None:
    raise MachineError("it cannot be removed")


class Unclean(LocalSite):
    """What it has made cannot be removed."""

    in_set_up: Callable[[], None] = staticmethod(lambda: None)

    def _set_up(self) -> None:
        self._undo.callback(fail)
        self.in_set_up()


@pytest.mark.parametrize("first", FIRSTS)
def test_an_error_outlasts_an_end_that_is_not_clean(
    tmp_path: Path, first: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(first)) as shown, Unclean(star(2), tmp_path):
        raise first
    assert shown.value is first
    with pytest.raises(type(first)), mock.patch.object(Unclean, "in_set_up", side_effect=first):
        Unclean(star(2), tmp_path)
    assert capsys.readouterr().err.count("the run's end is not clean: it cannot be removed; ratebed clean") == 2


def test_an_end_that_is_not_clean_is_an_error_by_itself(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="the run's end is not clean"), Unclean(star(2), tmp_path):
        pass


@contextmanager
def stopped(fleet: NodeFleet) -> Iterator[None]:
    """At the end, however that comes."""
    try:
        yield
    finally:
        fleet.stop()


@pytest.mark.parametrize("first", FIRSTS)
def test_an_error_outlasts_servers_that_do_not_end(
    tmp_path: Path, first: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    system, server = load_system("static-split"), mock.Mock()
    server.deploy.return_value.stop.side_effect = MachineError("it cannot be ended")
    with LocalSite(star(2), tmp_path) as site, mock.patch("testbed.nodes.fleet.servers_of", return_value=[server]):
        fleet = NodeFleet(site, system, system.config(), 1)
        with pytest.raises(type(first)), stopped(fleet):
            raise first
        with pytest.raises(MachineError, match="it cannot be ended"):
            fleet.stop()
    assert capsys.readouterr().err == "ratebed: it cannot be ended\n"
