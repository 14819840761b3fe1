"""``ratebed doctor`` and ``ratebed clean`` as a user runs them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import MachineError
from testbed import TESTBEDS
from testbed.findings import Finding
from testbed.hosts.capabilities import CAPABILITIES, Capability, find_capability, probe_capabilities
from testbed.hosts.lock import machine_lock
from testbed.hosts.state import start_time
from tests.live import needs


def ratebed(*words: str, state: Path) -> subprocess.CompletedProcess:
    """Run the command line with a state folder of its own."""
    environment = {**os.environ, "RATEBED_STATE": str(state)}
    return subprocess.run([sys.executable, "-m", "ratebed", *words], capture_output=True, text=True, env=environment)


def test_doctor_lists_every_testbed_and_what_it_found(tmp_path):
    done = ratebed("doctor", "--json", state=tmp_path / "state")
    rows = json.loads(done.stdout)
    assert {row["for"] for row in rows} == {"analysis", "machine", *TESTBEDS}
    assert all(row["what"] and row["detail"] for row in rows)
    missing = {row["for"] for row in rows if row["needed"] and not row["found"]}
    assert done.returncode == int(bool(missing & {"analysis", "virtual"})), "other testbeds are no failure"
    text = ratebed("doctor", state=tmp_path / "state").stdout
    usable = text.rpartition("usable: ")[2] if "not usable" not in text else text.split("usable: ")[1]
    assert all((name in usable.splitlines()[0].split(", ")) == (name not in missing) for name in TESTBEDS)


@needs("linux")
def test_doctor_tells_of_a_campaign_that_goes_on(tmp_path):
    with machine_lock(f"test-{tmp_path.name}"):
        code = (
            "import sys; from testbed.hosts import lock; holders = lock.holders\n"
            f"lock.holders = lambda: holders('test-{tmp_path.name}'); sys.argv = ['ratebed', 'doctor']\n"
            "from ratebed.cli import main; main()"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"held by process {os.getpid()}" in done.stdout, done.stderr


def test_what_is_missing_comes_with_the_command_that_adds_it(monkeypatch):
    monkeypatch.setitem(CAPABILITIES, "unicorn", Capability("a unicorn", lambda: None, "apt-get install unicorn"))
    monkeypatch.setitem(CAPABILITIES, "broken", Capability("a thing", lambda: os.readlink("/nowhere"), "mend it"))
    assert probe_capabilities("unicorn", "broken", needed=False) == [
        Finding("a unicorn", False, "apt-get install unicorn", False),
        Finding("a thing", False, "mend it", False),
    ]
    mark = needs("linux", "unicorn").mark
    assert mark.args == (True,) and mark.kwargs["reason"].endswith("no a unicorn (apt-get install unicorn)")
    assert needs().mark.args == (False,)
    monkeypatch.setenv("RATEBED_NEEDS", "linux unicorn")
    with pytest.raises(MachineError, match=r"tests of unicorn must not be skipped here; .*apt-get install unicorn"):
        needs("linux", "unicorn")
    assert needs("broken").mark.args == (True,)
    monkeypatch.setenv("RATEBED_NEEDS", "linux unikorn")
    with pytest.raises(MachineError, match=r"RATEBED_NEEDS names what nobody knows: unikorn;"):
        needs("linux")
    find_capability.cache_clear()


def test_what_cannot_be_tried_comes_with_the_command_for_what_it_needs_first(monkeypatch):
    monkeypatch.setitem(CAPABILITIES, "stable", Capability("a stable", lambda: None, "build a stable"))
    monkeypatch.setitem(CAPABILITIES, "unicorn", Capability("a unicorn", lambda: None, "catch one", "stable"))
    assert probe_capabilities("unicorn") == [Finding("a unicorn", False, "build a stable")]
    find_capability.cache_clear()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes privileges away from root")
def test_doctor_of_a_user_without_privileges(tmp_path):
    words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--securebits=+noroot,+noroot_locked"]
    environment = {**os.environ, "RATEBED_STATE": str(tmp_path / "state")}
    code = (
        "from testbed.hosts.capabilities import probe_capabilities, CAPABILITIES\n"
        "for row in probe_capabilities(*CAPABILITIES): print(row.what, row.found, row.detail, sep='|')"
    )
    done = subprocess.run([*words, sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    found = dict(line.split("|", 1) for line in done.stdout.splitlines())
    for what in ("network namespaces", "NFQUEUE", "netem", "Linux bridges"):
        assert found[what] == "False|run as root", done.stderr
    assert found["SCHED_FIFO"].startswith("False|run as root")


HARNESS = """
import sys
from pathlib import Path
from testbed.hosts.local import LocalSite
from testbed.hosts.site import Program
from testbed.topologies.topology import full_mesh
site = LocalSite(full_mesh(2), Path(sys.argv[1]))
print(site.start("n1", Program("deaf", ["sleep", "60"])).pid, flush=True)
sys.stdin.read()
"""


@needs("linux")
@pytest.mark.slow
def test_clean_after_a_harness_was_killed(tmp_path):
    state, out = tmp_path / "state", tmp_path / "out"
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RATEBED_STATE": str(state)},
    )
    try:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        going_on = ratebed("clean", "--out", str(out), state=state)
        assert going_on.returncode == 0 and f"left alone: the run of process {harness.pid}" in going_on.stdout
        harness.kill()
        harness.wait()
        assert start_time(pid), "sleep does not read its input"
        assert "1 runs were killed" in ratebed("doctor", state=state).stdout
        done = ratebed("clean", "--out", str(out), state=state)
        assert done.returncode == 0 and f"removed process {pid} (deaf)" in done.stdout
        assert start_time(pid) is None and list(state.iterdir()) == [] and not out.exists()
        assert ratebed("clean", "--out", str(out), state=state).stdout == "removed 0 run folders\n"
    finally:
        harness.kill()
        harness.wait()


@pytest.mark.slow
def test_clean_says_what_would_go_and_takes_it_only_if_told_to(tmp_path):
    out, state = tmp_path / "out", tmp_path / "state"
    words = ("run", "--system", "centralised", "--workload", "requests", "--topology", "star", "--out", str(out))
    assert ratebed(*words, "--set", "study.duration=2s", state=state).returncode == 0
    (run,) = (out / "runs").glob("[!.]*")
    assert ratebed("clean", "--out", str(out), state=state).stdout == "removed 0 run folders\n"
    failed, older = out / "runs" / "0123456789abcdef.failed", out / "runs" / "0123456789abcdef"
    failed.mkdir()
    shutil.copytree(run, older)
    listed = ratebed("clean", "--out", str(out), "--dry-run", state=state)
    assert listed.returncode == 0 and f"{failed}: failed" in listed.stdout
    assert "to remove: 2 folders" in listed.stdout and "nothing is removed" in listed.stdout
    asked = ratebed("clean", "--out", str(out), state=state)
    assert asked.returncode == 2 and "say --yes" in asked.stderr and failed.is_dir() and older.is_dir()
    done = ratebed("clean", "--out", str(out), "--yes", state=state)
    assert done.stdout.endswith("removed 2 run folders\n") and [*(out / "runs").glob("[!.]*")] == [run]
    assert ratebed("clean", "--out", str(out), "--all", "--yes", state=state).returncode == 0
    assert not any((out / "runs").iterdir())
