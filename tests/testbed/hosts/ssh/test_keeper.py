"""What a keeper was to set by tc, and cannot take back, stays on record.  A program in the place of tc; no network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.hosts.ssh import keeper
from testbed.hosts.ssh.keeper import RECORD, STUCK

WORDS = [sys.executable, "-m", "testbed.hosts.ssh.keeper"]
TC = """#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
  *"qdisc show"*) if [ -e set ]; then echo '[{"kind": "htb", "handle": "1:", "root": true}]'; else echo '[]'; fi;;
  *"qdisc del"*) [ ! -e stuck ] && rm set;;
  *) cat > set;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a tc that has something ``set``, or is ``stuck``, by files of these names."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in (("tc", TC), ("sudo", '#!/bin/sh\nshift; exec "$@"\n')):
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize("is_stuck", [False, True])
def test_a_record_lasts_as_long_as_what_it_tells_of(tmp_path: Path, tools: Path, is_stuck: bool) -> None:
    if is_stuck:
        (tools / "stuck").touch()
    folder, shape = tmp_path / "run", {"do": "shape", "number": 1, "device": "lo", "lines": ["qdisc …"]}
    kept = subprocess.run([*WORDS, folder, f"token-{tmp_path}", "60"], input=json.dumps(shape), text=True, timeout=120)
    assert kept.returncode == (STUCK if is_stuck else 0)
    assert (folder / RECORD).exists() == (tools / "set").exists() == is_stuck
    if is_stuck:
        cleaned = subprocess.run([*WORDS, "--clean", folder], stderr=subprocess.PIPE, text=True, timeout=120)
        assert cleaned.returncode == 1 and "tc qdisc del dev lo root" in cleaned.stderr
        assert (folder / RECORD).exists()
        (tools / "stuck").unlink()
        assert keeper.clean(folder) and not (tools / "set").exists()
    assert not folder.exists() and not keeper.clean(folder)


def test_a_process_that_does_not_end_keeps_nothing_set(
    tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, started: int) -> bool:
        raise OSError(f"process {pid} does not end")

    monkeypatch.setattr(keeper, "kill_left", refuse)
    (tools / "set").touch()
    (tmp_path / RECORD).write_text(json.dumps({"pid": 7, "started": 1, "token": f"token-{tmp_path}", "shaped": ["lo"]}))
    with pytest.raises(OSError, match="process 7 does not end"):
        keeper.clean(tmp_path)
    assert (tmp_path / RECORD).exists() and not (tools / "set").exists()
