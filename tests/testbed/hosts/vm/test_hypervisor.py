"""A libvirt of our own, for real: it answers, it is private, and it goes, also after kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.errors import MachineError
from testbed.hosts.cleaning import remove_left
from testbed.hosts.private import host_settings
from testbed.hosts.state import all_states, start_time
from testbed.hosts.vm.hypervisor import NEEDED, Hypervisor
from tests.live import needs

pytestmark = needs(*NEEDED)
HOLD = """
import sys, time
from pathlib import Path
from testbed.hosts.vm.hypervisor import Hypervisor

vm = Hypervisor(Path(sys.argv[1]))
print(vm.folder, flush=True)
time.sleep(60)
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def test_it_answers_and_the_host_stays_as_it_is(tmp_path: Path, state: Path) -> None:
    before, log = host_settings(), tmp_path / "log"
    with Hypervisor(state) as vm:
        assert "default" in vm.run(["virsh", "net-list", "--all"], log, 30) and "default" in log.read_text()
        vm.run(["virsh", "net-start", "default"], log, 30)
        assert "virbr0" in vm.run(["ip", "link", "show", "virbr0"], log, 10)
        assert host_settings() == before, "bridge, dnsmasq and firewall rules are in there"
        with pytest.raises(MachineError, match="did not end within"):
            vm.run(["sleep", "60"], log, 0.2)
        process = vm.process.pid
    assert start_time(process) is None and not vm.folder.exists() and not list(state.iterdir())
    assert host_settings() == before


def test_clean_after_the_harness_was_killed(state: Path) -> None:
    before = host_settings()
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(state)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    folder = Path(holder.stdout.readline().strip())
    (left,) = all_states(state)
    pids = [thing["pid"] for thing in left.things.values() if "pid" in thing]
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(60)
    holder.stdout.close()
    cleaned = remove_left(state)
    assert cleaned.removed and not cleaned.stuck
    until_s = time.monotonic() + 60
    while any(start_time(pid) for pid in pids) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not any(start_time(pid) for pid in pids) and not folder.exists() and not list(state.iterdir())
    assert host_settings() == before
