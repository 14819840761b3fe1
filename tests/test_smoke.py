"""What ``make smoke`` does: a figure a family at tiny scale and a limiter on real sockets, through the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.experiment import SCALES
from paper_figs import FIGURES, load_figure
from tests.command import process, ratebed

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


def words_of(name: str) -> list[str]:
    """A variable of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    match = re.search(rf"^{name} = (.*)$", text, re.MULTILINE)
    assert match is not None, name
    return match[1].split()


@pytest.mark.long
def test_a_figure_a_family_is_drawn_judged_and_reported(tmp_path: Path) -> None:
    keys = words_of("SMOKE_FIGURES")
    done = ratebed("figures", *keys, "--scale", "tiny", "--repetitions", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for key in keys:
        assert (tmp_path / "figures" / f"{key}.svg").stat().st_size > 5_000
    report = (tmp_path / "report" / "index.html").read_text()
    assert all(key in report for key in keys)


def wants_hosts(key: str) -> bool:
    """Whether a figure at tiny scale has runs on a live testbed."""
    experiment = load_figure(key).experiment
    options = {option.name: option.default for option in experiment.options}
    return any(spec.testbed != "virtual" for spec in experiment.points(SCALES["tiny"], options))


def test_each_family_has_a_figure_but_those_that_want_hosts() -> None:
    families: dict[str, list[str]] = {}
    for key in FIGURES:
        families.setdefault(key.partition("-")[0], []).append(key)
    keys = words_of("SMOKE_FIGURES")
    assert set(keys) <= set(FIGURES) and not any(map(wants_hosts, keys))
    without = families.keys() - {key.partition("-")[0] for key in keys}
    assert without == {"fidelity", "link", "pulsar", "redis", "serf"}
    assert all(wants_hosts(key) for family in without for key in families[family]), "one of them could be drawn"


def test_where_mininet_cannot_be_used_it_is_left_out_and_why_is_said() -> None:
    """By root without its rights, or by somebody else."""
    without = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    words = ("make", "--no-print-directory", "smoke-mininet", f"bin={Path(sys.executable).parent}")
    done = subprocess.run((*without, *words), capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"no run on mininet, for want of [\w ]+: \w+", done.stdout), done.stdout
    assert "runs:" not in done.stdout and done.stderr == ""


def test_where_nobody_can_say_whether_mininet_is_there_smoke_fails(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    words = ("make", "--no-print-directory", "smoke-mininet", f"bin={tmp_path}")
    assert subprocess.run(words, capture_output=True, cwd=ROOT, timeout=120).returncode == 2


@pytest.mark.live
@pytest.mark.long  # its exit code says that the run is valid: the load comes in time
def test_a_limiter_runs_on_real_sockets(tmp_path: Path) -> None:
    words = ["run", *words_of("SMOKE_POINT"), "--testbed", "local", "--out", str(tmp_path), "--json"]
    done = process(*words)
    assert done.returncode == 0 and json.loads(done.stdout), done.stdout + done.stderr
    (manifest,) = (json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/manifest.json"))
    assert manifest["spec"]["testbed"] == "local" and manifest["outcome"] == "done"
