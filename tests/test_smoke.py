"""What ``make smoke`` does: a figure a family at tiny scale and a limiter on real sockets, through the command line."""

import json
import re
from pathlib import Path

import pytest

from paper_figs import FIGURES
from tests.command import process, ratebed

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


def words_of(name: str) -> list[str]:
    """A variable of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    match = re.search(rf"^{name} = (.*)$", text, re.MULTILINE)
    assert match is not None, name
    return match[1].split()


def test_a_figure_a_family_is_drawn_judged_and_reported(tmp_path: Path) -> None:
    keys = words_of("SMOKE_FIGURES")
    assert {key.partition("-")[0] for key in keys} >= {"srtm", "crdt", "dst", "epulsar"} and set(keys) <= set(FIGURES)
    done = ratebed("figures", *keys, "--scale", "tiny", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for key in keys:
        assert (tmp_path / "figures" / f"{key}.svg").stat().st_size > 5_000
    report = (tmp_path / "report" / "index.html").read_text()
    assert all(key in report for key in keys)


@pytest.mark.live
@pytest.mark.long  # its exit code says that the run is valid: the load comes in time
def test_a_limiter_runs_on_real_sockets(tmp_path: Path) -> None:
    words = ["run", *words_of("SMOKE_POINT"), "--testbed", "local", "--out", str(tmp_path), "--json"]
    done = process(*words)
    assert done.returncode == 0 and json.loads(done.stdout), done.stdout + done.stderr
    (manifest,) = (json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/manifest.json"))
    assert manifest["spec"]["testbed"] == "local" and manifest["outcome"] == "done"
