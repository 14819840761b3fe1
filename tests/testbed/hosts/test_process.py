"""Agents as real processes: answers, logs, cores, ends; the record of a run; the machine's lock."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from core.errors import MachineError, SpecError
from testbed.hosts import agent as agent_module
from testbed.hosts import cleaning, lock
from testbed.hosts.cleaning import Cleaned, kill_marked, remove_left
from testbed.hosts.local import LocalSite
from testbed.hosts.lock import holders, machine_lock
from testbed.hosts.site import Program
from testbed.hosts.state import RunState, all_states, boot_id, read_state, start_time, state_folder
from testbed.topologies.topology import star
from tests.live import needs
from tests.processes import freeze

pytestmark = needs("linux")

AGENT = """
import os, subprocess, sys, threading, time
from pathlib import Path
from core.errors import SpecError
from testbed.hosts.agent import serve

def wrong():
    raise SpecError("the spec is wrong", "mend it")

def broken():
    return 1 // 0

def child(alone):
    return {"pid": subprocess.Popen(["sleep", "60"], start_new_session=alone, stdin=subprocess.DEVNULL).pid}

def write(path, size):
    Path(path).write_bytes(b"x" * size)

def chatter(size):
    print("x" * size, file=sys.stderr, flush=True)

serve({
    "echo": lambda **what: what, "wrong": wrong, "broken": broken, "child": child, "write": write, "chatter": chatter,
    "sleep": lambda seconds: time.sleep(seconds),
    "die": lambda: os._exit(7),
    "leave": lambda: sys.exit(8),
    "cores": lambda: {"cores": sorted(os.sched_getaffinity(0)), "policy": os.sched_getscheduler(0)},
}, pid=os.getpid())
"""
COMMAND = [sys.executable, "-c", AGENT]


@pytest.fixture
def site(tmp_path):
    (tmp_path / "state").mkdir()
    with LocalSite(star(2, "0ms"), tmp_path / "run", tmp_path / "state") as site:
        yield site
    assert list((tmp_path / "state").iterdir()) == []


def wait_until(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def test_an_agent_answers_in_order_and_ends_with_its_input(site):
    agent = site.start("n1", Program("a", COMMAND))
    assert agent.ready()["pid"] == agent.pid
    assert agent.ask("echo", text="grüße\n")["text"] == "grüße\n"
    for number in range(5):
        agent.post("echo", number=number)
    assert [agent.answer()["number"] for _ in range(5)] == list(range(5))
    assert site.processes == [("a", agent.pid)]
    assert agent.stop() == 0 and agent.stop() == 0 and not agent.alive
    with pytest.raises(MachineError, match="has ended"):
        agent.ask("echo")


def test_large_commands_and_answers_pass(site):
    agent = site.start("n1", Program("a", COMMAND))
    agent.ready()
    text = "x" * 3_000_000
    assert agent.ask("echo", text=text)["text"] == text


def test_an_error_of_an_agent_says_whose_fault_it_is_and_the_log_has_the_traceback(site):
    agent = site.start("n1", Program("a", COMMAND))
    agent.ready()
    with pytest.raises(SpecError, match="agent a, wrong: the spec is wrong; mend it"):
        agent.ask("wrong")
    with pytest.raises(MachineError, match="ZeroDivisionError"):
        agent.ask("broken")
    with pytest.raises(MachineError, match="no command 'dance'"):
        agent.ask("dance")
    assert agent.ask("echo", n=1)["n"] == 1, "it goes on"
    log = (site.folder / "logs" / "a.log").read_text()
    assert log.startswith("# on n1: ") and "Traceback" in log and "ZeroDivisionError" in log


def test_an_agent_that_dies_is_named_with_its_last_words(site):
    agent = site.start("n1", Program("a", [sys.executable, "-c", "import sys; sys.exit('no such thing')"]))
    with pytest.raises(MachineError, match=r"agent a has ended.*no such thing"):
        agent.ready()
    other = site.start("n2", Program("b", COMMAND))
    other.ready()
    with pytest.raises(MachineError, match="has ended"):
        other.ask("die")
    wait_until(lambda: not other.alive)
    with pytest.raises(MachineError, match=r"a \(code 1\), b \(code 7\)"):
        site.verify()
    third = site.start("n2", Program("c", COMMAND))
    third.ready()
    with pytest.raises(MachineError, match="has ended"):
        third.ask("leave")
    assert third.stop() == 8


def test_an_agent_that_is_too_late_takes_no_further_commands(site):
    agent = site.start("n1", Program("a", COMMAND))
    agent.ready()
    with pytest.raises(MachineError, match="'sleep' in time"):
        agent.ask("sleep", 0.1, seconds=60)
    with pytest.raises(MachineError, match="'sleep' in time"):  # and never the late answer to another question
        agent.ask("echo", n=1)


def test_a_stopped_agent_blocks_nobody(site):
    agent = site.start("n1", Program("a", COMMAND))
    agent.ready()
    freeze(agent.pid)
    began = time.monotonic()
    with pytest.raises(MachineError, match="in time"):
        agent.post("echo", 0.2, text="x" * 1_000_000)  # more than the pipe holds
    assert agent.stop(0.2) == -signal.SIGKILL
    assert time.monotonic() - began < 30


def test_an_agent_at_work_is_cut_short_when_its_input_ends(site):
    agent = site.start("n1", Program("a", COMMAND))
    agent.ready()
    agent.post("sleep", seconds=60)
    assert agent.stop() == agent_module.CUT_SHORT


def test_children_of_agents_end_with_the_site(tmp_path):
    (tmp_path / "state").mkdir()
    with LocalSite(star(1, "0ms"), tmp_path / "run", tmp_path / "state") as site:
        agent = site.start("n1", Program("a", COMMAND))
        agent.ready()
        children = [agent.ask("child", alone=alone)["pid"] for alone in (False, True)]
        assert all(start_time(child) for child in children)
    wait_until(lambda: not any(start_time(child) for child in children))


def test_a_folder_of_its_own_goes_with_the_site_and_with_its_record(tmp_path):
    (tmp_path / "state").mkdir()
    with LocalSite(star(1, "0ms"), tmp_path / "run", tmp_path / "state", owns_folder=True) as site:
        site.start("n1", Program("a", COMMAND)).ready()
        (left,) = all_states(tmp_path / "state")
        assert [thing["kind"] for thing in left.things.values()] == ["folder", "process"]
        assert left.things[1]["path"] == str(tmp_path / "run") and left.things[1]["whole"]
    assert not (tmp_path / "run").exists() and list((tmp_path / "state").iterdir()) == []


def test_a_folder_of_its_own_that_stays_is_on_record(tmp_path, monkeypatch):
    (tmp_path / "state").mkdir()
    with LocalSite(star(1, "0ms"), tmp_path / "run", tmp_path / "state", owns_folder=True):
        monkeypatch.setattr("testbed.hosts.site.shutil.rmtree", lambda path, ignore_errors: None)
    (left,) = all_states(tmp_path / "state")
    assert [thing["path"] for thing in left.things.values()] == [str(tmp_path / "run")]


def test_a_name_can_be_used_again(site):
    first = site.start("n1", Program("a", COMMAND))
    first.ready()
    second = site.start("n1", Program("a", COMMAND))
    second.ready()
    assert not first.alive and second.alive


def test_a_missing_program_and_an_unknown_host(site):
    with pytest.raises(MachineError, match="no-such-program"):
        site.start("n1", Program("a", ["no-such-program"]))
    with pytest.raises(SpecError, match="n9"):
        site.start("n9", Program("a", COMMAND))
    assert site.agents == {}


@needs("pinning")
def test_an_agent_is_pinned_from_its_start(site):
    core, notes = max(os.sched_getaffinity(0)), list(site.notes)
    agent = site.start("n1", Program("a", COMMAND, cores=[core]))
    agent.ready()
    assert agent.ask("cores")["cores"] == [core] and site.notes == notes
    far = site.start("n1", Program("b", COMMAND, cores=[core, 4096]))
    far.ready()
    assert far.ask("cores")["cores"] == [core] and "4096" in site.notes[-1]
    nowhere = site.start("n1", Program("c", COMMAND, cores=[4096]))
    nowhere.ready()
    assert nowhere.ask("cores")["cores"] == sorted(os.sched_getaffinity(0))
    assert "gets any" in (site.folder / "logs" / "c.log").read_text()


@needs("realtime")
def test_an_agent_gets_its_priority(site):
    agent = site.start("n1", Program("a", COMMAND, fifo_priority=5))
    agent.ready()
    assert agent.ask("cores")["policy"] == os.SCHED_FIFO


# --- the record of a run -----------------------------------------------------------------------------


def test_a_record_says_what_was_made_and_is_not_gone(tmp_path):
    state = RunState(tmp_path)
    first = state.making("process", name="a")
    state.made(first, pid=os.getpid(), started=start_time(os.getpid()))
    second = state.making("group", name="x1")
    state.gone(first)
    with state.path.open("a") as file:
        file.write('{"making": 3, "ki')  # cut short by a kill
    (left,) = all_states(tmp_path)
    assert left.is_running and left.is_of_this_boot and list(left.things) == [second]
    assert left.owner["owner"] == os.getpid() and left.token == state.token
    assert remove_left(tmp_path).removed == [], "a run that goes on is left alone"
    state.close()
    assert state.path.exists(), "the group is still there"


def write_left(folder: Path, things: list[dict], **owner) -> Path:
    """The state file of a harness that is dead: ours, with a start time that is not."""
    path = folder / "run-1-x.jsonl"
    default = {"owner": os.getpid(), "started": 1, "boot": boot_id(), "token": "f" * 32, "command": "c", "since_ns": 0}
    lines = [default | owner, *({"making": number, **thing} for number, thing in enumerate(things, 1))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_clean_kills_the_process_and_not_one_that_got_its_number(tmp_path):
    ours = subprocess.Popen(["sleep", "60"])
    another = subprocess.Popen(["sleep", "60"])
    try:
        path = write_left(
            tmp_path,
            [
                {"kind": "process", "name": "ours", "pid": ours.pid, "started": start_time(ours.pid)},
                {"kind": "process", "name": "earlier", "pid": another.pid, "started": start_time(another.pid) - 1},
                {"kind": "process", "name": "never started"},
            ],
        )
        assert remove_left(tmp_path) == Cleaned([f"process {ours.pid} (ours)"])
        assert ours.wait(5) == -signal.SIGKILL and another.poll() is None and not path.exists()
    finally:
        for process in (ours, another):
            process.kill()
            process.wait()


def test_clean_finds_a_process_that_was_started_but_not_yet_written_down(tmp_path):
    token = os.urandom(16).hex()
    marked = subprocess.Popen(["sleep", "60"], env={**os.environ, "RATEBED_RUN": token})
    similar = subprocess.Popen(["sleep", "60"], env={**os.environ, "RATEBED_RUN": token + "0"})
    try:
        write_left(tmp_path, [{"kind": "process", "name": "a"}], token=token)
        assert remove_left(tmp_path).removed == [f"process {marked.pid} (marked as this run's)"]
        assert marked.wait(5) == -signal.SIGKILL and similar.poll() is None
    finally:
        for process in (marked, similar):
            process.kill()
            process.wait()


def test_a_process_is_known_by_its_mark_as_soon_as_it_was_started():
    """Its starter goes on when the program is executed, which is a moment before it has its environment."""
    token = os.urandom(16).hex()
    for _ in range(50):
        with subprocess.Popen(["sleep", "60"], env={**os.environ, "RATEBED_RUN": token}) as marked:
            assert kill_marked(token) == [marked.pid]


def test_what_a_process_starts_before_it_is_ended_ends_as_well(monkeypatch):
    token = os.urandom(16).hex()
    started: list[subprocess.Popen[bytes]] = []
    look = cleaning.marked_processes

    def start_one_more(token: str) -> list[dict[str, int]]:
        """After a look, twice."""
        seen = look(token)
        if len(started) < 3:
            started.append(subprocess.Popen(["sleep", "60"], env={**os.environ, "RATEBED_RUN": token}))
        return seen

    monkeypatch.setattr(cleaning, "marked_processes", start_one_more)
    try:
        start_one_more(token)
        assert kill_marked(token) == [process.pid for process in started] and len(started) == 3
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_clean_forgets_what_an_earlier_boot_had(tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    try:
        thing = {"kind": "process", "name": "a", "pid": process.pid, "started": start_time(process.pid)}
        path = write_left(tmp_path, [thing], boot="another")
        assert remove_left(tmp_path) == Cleaned() and process.poll() is None and not path.exists()
    finally:
        process.kill()
        process.wait()


def test_clean_removes_folders_of_the_run_only(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "of others").write_text("x")
    path = write_left(
        tmp_path,
        [
            {"kind": "folder", "path": str(tmp_path / "scratch"), "whole": True},
            {"kind": "folder", "path": str(tmp_path / "full")},
            {"kind": "folder", "path": str(tmp_path / "never made")},
        ],
    )
    cleaned = remove_left(tmp_path)
    assert cleaned.removed == [f"folder {tmp_path / 'scratch'}"]
    assert len(cleaned.stuck) == 1 and "full" in cleaned.stuck[0] and path.exists(), "it is there for the next time"
    (tmp_path / "full" / "of others").unlink()
    assert remove_left(tmp_path) == Cleaned([f"folder {tmp_path / 'full'}"]) and not path.exists()


def test_clean_leaves_what_another_version_made(tmp_path):
    path = write_left(tmp_path, [{"kind": "spell", "name": "x"}])
    assert "another version" in remove_left(tmp_path).stuck[0] and path.exists()


def test_the_state_folder_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)  # whoever we are: not root, and not the owner
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("RATEBED_STATE", raising=False)
    (tmp_path / "ratebed").mkdir(mode=0o777)
    with pytest.raises(MachineError, match="not yours alone"):
        state_folder()


# --- killed with -9 ------------------------------------------------------------------------------------

HARNESS = f"""
import sys
from pathlib import Path
from testbed.hosts.local import LocalSite
from testbed.hosts.site import Program
from testbed.topologies.topology import star
site = LocalSite(star(2, "0ms"), Path(sys.argv[1]) / "run", Path(sys.argv[1]) / "state")
agents = [site.start(host, Program(f"agent-{{host}}", [sys.executable, "-c", {AGENT!r}])) for host in ("n1", "n2")]
agents.append(site.start("n1", Program("deaf", ["sleep", "60"])))
for agent in agents[:2]:
    agent.ready()
agents[1].post("sleep", seconds=60)
loose = agents[0].ask("child", alone=True)["pid"]
print(*(agent.pid for agent in agents), loose, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_agents_of_a_killed_harness_end_and_clean_removes_the_rest(tmp_path):
    (tmp_path / "state").mkdir()
    bystander = subprocess.Popen(["sleep", "60"])
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert harness.stdout is not None
        idle, busy, deaf, loose = map(int, harness.stdout.readline().split())
        assert remove_left(tmp_path / "state").removed == [] and start_time(idle), "it goes on"
        harness.kill()
        harness.wait()
        wait_until(lambda: start_time(idle) is None and start_time(busy) is None)
        assert start_time(deaf) and start_time(loose), "they do not read their input"
        (left,) = all_states(tmp_path / "state")
        assert not left.is_running and len(left.things) == 3
        lines = [f"process {deaf} (deaf)", f"process {loose} (marked as this run's)"]
        assert remove_left(tmp_path / "state") == Cleaned(lines)
        assert start_time(deaf) is None and start_time(loose) is None and bystander.poll() is None
        assert remove_left(tmp_path / "state") == Cleaned()
    finally:
        for process in (bystander, harness):
            process.kill()
            process.wait()


# --- a full disk -----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


@needs("root")
def test_a_full_disk_is_a_clear_error_and_the_agents_go_on(small_disk, tmp_path):
    (tmp_path / "state").mkdir()
    with LocalSite(star(1, "0ms"), small_disk, tmp_path / "state") as site:
        agent = site.start("n1", Program("a", COMMAND))
        agent.ready()
        with pytest.raises(MachineError, match=r"agent a, write: OSError.*No space left"):
            agent.ask("write", path=str(small_disk / "records"), size=200_000)
        with pytest.raises(MachineError, match="No space left"):
            agent.ask("chatter", size=100_000)
        assert agent.ask("echo", n=1)["n"] == 1
        with pytest.raises(MachineError, match=r"cannot start b.*No space left.*--out"):
            site.start("n1", Program("b", COMMAND))
        assert list(site.agents) == ["a"]


# --- the lock -----------------------------------------------------------------------------------------

HOLD = """
import sys
from testbed.hosts.lock import machine_lock
with machine_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_campaign_waits_and_says_for_whom(tmp_path, capsys):
    name = f"test{tmp_path}"
    assert holders(name) == []
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        (holder,) = holders(name)
        assert (holder.pid, holder.user_id, holder.is_foreign) == (first.pid, os.getuid(), False)
        said = ""
        entered = threading.Event()

        def second() -> None:
            with machine_lock(name):
                entered.set()

        waiting = threading.Thread(target=second)
        waiting.start()
        until = time.monotonic() + 60
        while not said.endswith("\n") and time.monotonic() < until:  # a line may come in two writes
            time.sleep(0.01)
            said += capsys.readouterr().err
        assert f"waiting for process {first.pid} of user" in said and "machine_lock" in said and not entered.is_set()
        first.kill()  # the lock of a dead process is free
        first.wait()
        assert entered.wait(60)
        waiting.join()
        assert capsys.readouterr().err == "", "it is said once"
        assert holders(name) == []
    finally:
        first.kill()
        first.wait()


CONTEND = """
import sys, time
from testbed.hosts.lock import machine_lock
for _ in range(5):
    with machine_lock(sys.argv[1]), open(sys.argv[2], "a", buffering=1) as file:
        file.write("in\\n")
        time.sleep(0.02)
        file.write("out\\n")
"""


@pytest.mark.slow
def test_campaigns_that_want_the_machine_at_once_have_it_one_by_one(tmp_path):
    words = [sys.executable, "-c", CONTEND, f"test{tmp_path}", str(tmp_path / "log")]
    running = [subprocess.Popen(words, stderr=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert (tmp_path / "log").read_text() == 4 * 5 * "in\nout\n"


SIGN = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + sys.argv[1]); s.listen(); print(); input()"
)


@needs("root")
def test_another_user_holds_nobody_up_for_ever(tmp_path, capsys, monkeypatch):
    """Here the others are those who run the tests: as nobody, who has no campaign."""
    name, python = f"test{tmp_path}", os.path.realpath(sys.executable)
    words = ["setpriv", "--reuid=65534", "--clear-groups", python, "-c", SIGN, f"{name}.squatter"]
    squatter = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
    try:
        assert squatter.stdout is not None and squatter.stdout.readline() == b"\n"
        (holder,) = holders(name)
        assert (holder.pid, holder.user, holder.is_foreign) == (squatter.pid, "nobody", True)
        monkeypatch.setattr(lock, "FOREIGN_S", 1.0)
        sentence = f"waited .* for process {squatter.pid} of user nobody"
        with pytest.raises(MachineError, match=sentence) as caught, machine_lock(name):
            pass
        assert "RATEBED_BESIDE=nobody" in caught.value.fix
        assert f"waiting for process {squatter.pid} of user nobody" in capsys.readouterr().err
        monkeypatch.setenv("RATEBED_BESIDE", "somebody, nobody")
        with machine_lock(name):
            assert [each.pid for each in holders(name)] == [os.getpid()]
    finally:
        squatter.kill()
        squatter.wait()


@pytest.mark.parametrize(
    "forged", [" @{}.", f"0: 2 0 {lock._LISTENING} 1 1 x @{{}}.1", f"0: 2 0 {lock._LISTENING} 1 1 9 @{{}}.1"]
)
def test_a_line_in_a_name_of_a_socket_holds_nothing(tmp_path, forged):
    name = f"test-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX) as sign:
        sign.bind("\0x\n" + forged.format(name))
        assert holders(name) == []
        with machine_lock(name):
            assert [each.pid for each in holders(name)] == [os.getpid()]


def test_a_state_file_without_an_owner_is_its_processs_as_long_as_that_lives(tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    path = tmp_path / f"run-{process.pid}-x.jsonl"
    path.write_text("")
    assert read_state(path).is_running and remove_left(tmp_path).removed == [] and path.exists()
    process.kill()
    process.wait()
    assert not read_state(path).is_running and remove_left(tmp_path) == Cleaned() and not path.exists()
