"""``show``: the story of one live run, from its folder."""

import json
import shutil

import pytest

from collectors.writer import read_logs, record_failure, write_run
from core.errors import MachineError
from ratebed.timeline import LINES_A_LOG, decision_events
from tests.command import ratebed

EPOCH_NS = 1_700_000_000_000_000_000


def show(*words):
    return ratebed("show", *words)


def stamped(at_s, text):
    return f"{EPOCH_NS + round(at_s * 1e9)} {text}\n"


@pytest.fixture
def out(tmp_path):
    """A degraded run with a fault, paths that are off, and logs with and without instants."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "node1.log").write_text(
        "# on n1: python -m something --error\n" + stamped(0.5, "serving") + "harmless\n"
        + stamped(9, "peer n2 is lost")
        + 'Traceback (most recent call last):\nValueError: a broken frame\n{"error_count": 3}\n'
    )  # fmt: skip
    (logs / "chatty.log").write_text(
        "".join(stamped(1 + n / 100, f"step {n}") for n in range(100)) + stamped(99, "buffer exhausted")
    )
    spec = {
        "system": "crdt-counter", "workload": "requests", "topology": "wan", "testbed": "mininet", "seed": 1,
        "repetition": 0, **{f"{axis}_options": {} for axis in ("system", "workload", "topology", "study")},
    }  # fmt: skip
    manifest = {
        "run_id": "abc", "spec": spec, "wall_seconds": 1.0, "started_at": "2001", "outcome": "done",
        "epoch_ns": EPOCH_NS, "validity": "degraded", "validity_reasons": ["other guests took 20 %"],
        "fidelity": {"lateness_p99_ns": 2_500_000.0, "steal_share": 0.2},
    }  # fmt: skip
    tables = {
        "paths": {
            "source": ["n1", "n2"], "target": ["n2", "n1"], "requested_delay_ns": [20_000_000] * 2,
            "measured_delay_ns": [20_100_000, 21_000_000], "requested_jitter_ns": [0, 2_000_000],
            "measured_p05_ns": [0, 0], "measured_p95_ns": [0, 0], "requested_loss_probability": [0.0, 0.01],
            "lost_count": [0, 3], "probe_count": [200, 200],
        },
        "faults": {"at_ns": [5_000_000_000], "kind": ["partition"], "side": [["n2", "n3"]]},
    }  # fmt: skip
    write_run(tmp_path / "out" / "runs" / "abc", tables, manifest, read_logs(logs))
    return tmp_path / "out"


def test_a_live_run_is_told_by_time(out):
    done = show("abc", "--out", str(out))
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for part in ("validity: degraded", "because other guests took 20 %", "lateness_p99 2.500 ms", "steal_share 0.2"):
        assert part in text
    assert "2 paths measured: delays off by +0.100 to +1.000 ms, 3 of 400 probes lost" in text
    worst, other = text.index("n2 to n1: wanted 20.000 ± 2 ms, found 21.000 ms, lost 3 of 200"), text.index("n1 to n2:")
    assert worst < other
    order = [
        text.index(part)
        for part in ("0.5 s  [node1] serving", "5.0 s  partition  side n2, n3", "9.0 s  [node1] peer n2 is lost")
    ]
    assert order == sorted(order)


def test_what_is_no_beginning_of_an_id_names_no_run(out):
    for word in (str(out / "runs" / "abc"), "**", "a*", "abcd"):
        done = show(word, "--out", str(out))
        assert done.returncode == 2 and "no run '" in done.stderr, done.stderr
    assert show("ab", "--out", str(out)).returncode == 0
    assert show("ab", "--out", str(out / "nowhere")).returncode == 2


def test_of_other_lines_trouble_alone_is_shown(out):
    text = show("abc", "--out", str(out)).stdout
    assert "[node1] ValueError: a broken frame" in text
    for part in ("harmless", "something --error", "error_count", "Traceback"):
        assert part not in text


def test_a_chatty_log_is_cut_but_for_its_trouble(out):
    text = show("abc", "--out", str(out)).stdout
    assert "99.0 s  [chatty] buffer exhausted" in text
    assert (
        text.count("[chatty] step") == LINES_A_LOG - 1
        and f"and {101 - LINES_A_LOG} more lines: see logs/chatty.log" in text
    )


def test_for_machines(out):
    found = json.loads(show("abc", "--json", "--out", str(out)).stdout)
    assert found["manifest"]["validity"] == "degraded" and len(found["paths"]) == 2
    assert found["logs"][-1]["log"] == "node1" and {"log", "at_ns", "text"} == set(found["logs"][0])


def test_a_failed_run_shows_what_its_processes_said(out):
    error = MachineError("agent node2 has ended")
    error.logs = {"node2.log": b"out of memory: killed\n"}
    spec = json.dumps(json.loads((out / "runs" / "abc" / "manifest.json").read_text())["spec"])
    record_failure(out / "runs" / "def", spec, error)
    text = show("def", "--out", str(out)).stdout
    assert "FAILED: agent node2 has ended" in text and "[node2] out of memory: killed" in text
    shutil.copy(out / "runs" / "abc" / "paths.parquet", out / "runs" / "def.failed")
    done = show("def", "--out", str(out))
    assert done.returncode == 1 and "another run" in done.stderr and not done.stdout
    (out / "runs" / "def.failed" / "paths.parquet").unlink()
    record_failure(out / "runs" / "ghi", spec, error)
    shutil.copy(out / "runs" / "ghi.failed" / "manifest.json", out / "runs" / "def.failed")
    done = show("def", "--out", str(out))
    assert done.returncode == 1 and "another run" in done.stderr and not done.stdout


def test_moves_of_publishers_are_told_in_words():
    rows = [
        {"at_ns": at_ns, "kind": "move", "broker": broker, "publisher_count": count}
        for at_ns, broker, count in ((5, 1, 3), (5, 2, 1), (9, 0, 2))
    ]
    assert decision_events(rows) == [(5, "move  3 pub to broker 2  1 pub to broker 3"), (9, "move  2 pub to broker 1")]
