"""What a machine says of its folders may be any bytes."""

from pathlib import Path

import pytest

from core.errors import MachineError
from testbed.hosts.ssh import fetching
from testbed.hosts.ssh.fetching import fetch_runs
from testbed.hosts.ssh.inventory import Machine
from testbed.hosts.ssh.shipping import ship


class Told:
    """A connection to a machine that answers whatever it is asked with ``said``."""

    said = b"caf\xe9\n"

    def __init__(self, machine: Machine):
        self.machine = machine

    def done(self, command: str) -> bytes:
        return self.said

    def close(self) -> None:
        """It has gone already."""


def test_a_folder_whose_name_is_no_runs_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetching, "SshConnection", Told)
    assert fetch_runs(Machine("h"), "results", tmp_path) == []


@pytest.mark.parametrize("said", [b"/home/caf\xe9\n/home/caf\xe9/.cache\n", b"/home/a\nb\n/home/a\nb/.cache\n", b""])
def test_a_home_that_cannot_be_named_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(Told, "said", said)
    with pytest.raises(MachineError, match="h says of its folder"):
        ship(Told(Machine("h", name="h")), None, "token")  # type: ignore[arg-type]
