"""Ctrl-C twice, at any moment: no traceback, and the last line says what is left and how to remove it."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.live import needs
from tests.processes import still_there

FIGURE = ("figures", "srtm-fig4", "--scale", "tiny", "--jobs", "2")
LIVE = (
    *("run", "--system", "centralised", "--workload", "requests", "--topology", "full-mesh", "--testbed", "local"),
    *("--set", "topology.nodes=2", "--set", "study.duration=2s", "--set", "study.drain=1s"),
)
LAST_S = 12.0  # from when our own code runs to when a figure is drawn
APART_S = 0.05
ATTEMPTS = 6  # the last a 32nd of the first instant
WAIT_S = 240.0  # for what cannot be interrupted in between: compiling, a query


def ratebed(*words: str, folder: Path) -> list[str]:
    """A command line, to be run ``at`` that folder."""
    return [sys.executable, "-m", "ratebed", *words, "--out", str(folder / "out")]


def at(folder: Path) -> dict[str, str]:
    """The environment, with a state folder of its own."""
    return {**os.environ, "RATEBED_STATE": str(folder / "state")}


def interrupted(
    words: tuple[str, ...], after_s: float, number: signal.Signals, folder: Path
) -> tuple[int | None, str, int]:
    """Of a command that gets two signals, as a terminal sends them, to all of it: exit code, standard error, group.

    No exit code of one that ended before.
    """
    child = subprocess.Popen(
        ratebed(*words, folder=folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=at(folder),
    )
    while child.poll() is None and not minds_its_end(child.pid):
        time.sleep(0.01)
    time.sleep(after_s)
    if child.poll() is not None:
        return None, child.communicate()[1], child.pid
    for _ in range(2):
        if child.poll() is None:
            os.killpg(child.pid, number)
        time.sleep(APART_S)
    return child.wait(WAIT_S), child.communicate()[1], child.pid


def minds_its_end(pid: int) -> bool:
    """Whether our own code runs: Python itself does nothing about SIGTERM, so that until then no line can be said."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def half_written(out: Path) -> list[Path]:
    """Folders; an empty file of such a name is a claim of the store's."""
    return [path for path in out.rglob("*.partial-*") if path.is_dir()]


def check_twice(words: tuple[str, ...], after_s: float, number: signal.Signals, folder: Path) -> None:
    """Interrupt, read the last line, clean up, and look for what the line did not say."""
    for attempt in range(ATTEMPTS):  # each where nothing is done yet
        (here := folder / str(attempt)).mkdir()
        print(f"{number.name} {after_s} s after our own code runs")
        code, errors, group = interrupted(words, after_s, number, here)
        assert "Traceback" not in errors and "Error" not in errors, errors
        invalid = code == 1 and errors.strip().splitlines()[-1].startswith("ratebed: invalid: ")  # a busy machine's
        if code and not invalid:
            break
        after_s /= 2  # it had ended before, or ended when it was interrupted
    else:
        pytest.fail(f"it ends before it is interrupted, {2 * after_s} s after our own code runs, too")
    last = errors.strip().splitlines()[-1]
    assert code == 130 and last.startswith("ratebed: interrupted"), errors
    left = list((here / "state").glob("run-*")) + half_written(here / "out")
    assert ("nothing else is left" in last) == (not left), (last, left)
    assert not left or f"`ratebed clean --out {here / 'out'}` removes them" in last
    cleaned = subprocess.run(ratebed("clean", folder=here), capture_output=True, text=True, env=at(here))
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    again = subprocess.run(ratebed("clean", folder=here), capture_output=True, text=True, env=at(here))
    assert again.stdout == "removed 0 run folders\n" and not half_written(here / "out"), again.stdout
    assert not still_there(group)


def instant(salt: str) -> float:
    """A random one, each run another; in CI always the same."""
    return random.Random(f"{0 if os.environ.get('CI') else time.time_ns()} {salt}").uniform(0, LAST_S)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_at_a_random_instant_of_a_figure(tmp_path, number):
    check_twice(FIGURE, instant(number.name), number, tmp_path)


@needs("linux")
def test_at_a_random_instant_of_a_live_run(tmp_path):
    check_twice(LIVE, instant("live"), signal.SIGINT, tmp_path)


@pytest.mark.long
@pytest.mark.live
@pytest.mark.parametrize("words", [FIGURE, LIVE], ids=["figure", "live"])
@pytest.mark.parametrize("number", [*range(4), *(pytest.param(n, marks=pytest.mark.night) for n in range(4, 10))])
def test_at_many_instants(tmp_path, words, number):
    check_twice(words, instant(f"{number}"), signal.SIGINT, tmp_path)


def test_once_is_enough_to_end_in_order(tmp_path):
    child = subprocess.Popen(
        ratebed(*FIGURE, folder=tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=at(tmp_path)
    )
    assert child.stdout is not None
    while "to do" not in child.stdout.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=WAIT_S)
    assert child.returncode == 130 and errors.splitlines()[-1].endswith("repeat the command to go on")
    assert not list((tmp_path / "out" / "runs").glob("*.partial-*"))
