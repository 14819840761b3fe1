"""Ctrl-C at moments that are hard to hit: what is slow there is put in its place."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from select import select

import pytest

from ratebed import interrupts
from tests.command import process
from tests.ratebed.test_interrupts import APART_S, WAIT_S, at, half_written, ratebed
from tests.runs import write_small_run

SLOW = """
import atexit, sys, time
import ratebed.app
from ratebed import at_commit, cli
from ratebed.verbs import clean
from collectors.packs import RunPacks
def now(*words):
    print("now", flush=True)
    time.sleep(60)
def stays(*words, **more):
    try:
        now()
    finally:
        time.sleep(60)
class Slow:
    __del__ = now
def deletes(*words, **more):
    Slow()
    time.sleep(60)
git = at_commit._git
"""


def at_that_moment(patch: str, signals: int, *words: str, folder: Path) -> str:
    """The standard error of a command that is interrupted once it says "now": one line, and the code is 130."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"{SLOW}\n{patch}\ncli.main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=at(folder),
    )
    assert child.stdout is not None
    while (said := child.stdout.readline()) != "now\n":
        assert said, child.communicate()[1]
    for _ in range(signals):
        os.killpg(child.pid, signal.SIGINT)
        time.sleep(APART_S)
    _, errors = child.communicate(timeout=WAIT_S)
    assert child.returncode == 130 and len(errors.splitlines()) == 1, errors
    assert errors.startswith("ratebed: interrupted"), errors
    return errors


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("ratebed.app.app = deletes", ("list",)),
        ("cli._unknown_option = now", ("run", "srtm-fig4", "--colour", "red")),
        ("cli.collect_rarely = lambda: atexit.register(now)", ("list",)),
    ],
    ids=["destructor", "hint", "atexit"],
)
def test_at_moments_when_no_error_can_pass(tmp_path, patch, words):
    assert at_that_moment(patch, 1, *words, folder=tmp_path).endswith("repeat the command to go on\n")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("clean.shutil.rmtree = stays", ("clean", "--all", "--yes")),
        ("RunPacks._unpacked = stays", ("store", "--pull", "{packs}")),
        (
            "at_commit._git = lambda *words: stays() if 'checkout' in words else git(*words)",
            ("diff", "HEAD", "HEAD", "srtm-fig9", "--scale", "tiny"),
        ),
    ],
    ids=["clean", "pull", "diff"],
)
def test_what_other_verbs_leave_is_told_and_removed(tmp_path, patch, words):
    out, packs = tmp_path / "out", tmp_path / "packs"
    write_small_run(tmp_path / "there" / "runs")
    write_small_run(out / "runs", seed=2)
    assert process("store", "--push", str(packs), "--out", str(tmp_path / "there")).returncode == 0
    given = (word.format(packs=packs) for word in words)
    errors = at_that_moment(patch, 2, *given, "--out", str(out), folder=tmp_path)
    assert f"at once; left: 1 half-written folder; `ratebed clean --out {out}` removes them" in errors
    assert len(half_written(out)) == 1
    subprocess.run(ratebed("clean", "--yes", folder=tmp_path), capture_output=True, env=at(tmp_path))
    assert half_written(out) == []


@pytest.mark.parametrize(("key", "code"), [(b"\x03", 130), (b"\x04", 0)], ids=["ctrl-c", "ctrl-d"])
def test_at_the_question_of_clean(tmp_path, key, code):
    useless = write_small_run(tmp_path / "out" / "runs")
    pid, terminal = pty.fork()
    if pid == 0:
        words = ratebed("clean", folder=tmp_path)
        os.execve(words[0], words, at(tmp_path))
    said, ended = b"", b"interrupted" if code else b"removed 0 run folders"
    while ended not in said:
        if select([terminal], [], [], 1.0)[0]:
            said += os.read(terminal, 1000)
        elif b"[y/N]" in said:  # it waits: just before, Python lets a Ctrl-C wait with it
            os.write(terminal, key)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    os.close(terminal)
    assert b"fault" not in said and b"Traceback" not in said and useless.is_dir()


AT_WORK = """
import sys, time
from harness.executors.local import deaf_children, live_with_the_parent, spawning_pool
from ratebed import interrupts

if __name__ == "__main__":
    pool = spawning_pool(2, live_with_the_parent)
    with deaf_children():
        working = [pool.submit(time.sleep, 600) for _ in range(4)]
    pool.shutdown(wait=False, cancel_futures=True)
    interrupts.leave()
"""


def test_who_leaves_waits_for_no_worker(tmp_path):
    (tmp_path / "at_work.py").write_text(AT_WORK)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, tmp_path / "at_work.py"], env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (interrupts.INTERRUPTED, b""), "nor does a worker hold its ends of pipes"
