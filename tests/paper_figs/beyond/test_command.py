"""The plane through the command line: the real log, and what is said of a broken one."""

from pathlib import Path

import pandas as pd
import pytest

from tests.command import ratebed
from tests.paper_figs.beyond.test_load import HEADER, NASA, written

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.skipif(not NASA.is_file(), reason="the real logs are not beside the checkout")
def test_all_limiters_run_on_the_real_log(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("run", "limiters-plane", "--log", str(NASA), "--limit", "auto", "--duration", "1min", "--nodes", "3")
    done = ratebed(*words, "--scale", "tiny", "--out", str(out))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    folder = out / "tables" / "limiters-plane"
    facts = pd.read_parquet(folder / "facts.parquet").iloc[0]
    assert facts.log == NASA.name and facts.spread and 0 < facts.rejected_share < 0.15
    runs = pd.read_parquet(folder / "runs.parquet")
    assert runs.name.nunique() == 9 and (runs.offered_count == facts.requests).all()
    svg = (out / "figures" / "limiters-plane.svg").read_text()
    assert NASA.name in svg and "SYNTHETIC" not in svg and f"c = {facts.capacity} tokens" in svg


def test_a_bad_line_ends_the_command_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = ratebed("run", "limiters-plane", "--log", written(tmp_path, HEADER + "a,1\nb,x\n"), "--out", str(out))
    assert done.returncode == 2 and "line 3" in done.stderr + done.stdout and "Traceback" not in done.stderr
    assert not out.exists()
