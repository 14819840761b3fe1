"""Run folders are whole or absent, equal for equal data, and survive full disks and kill -9."""

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collectors import schema, writer
from collectors.integrity import read_manifest
from collectors.partials import remove_partials
from core.errors import MachineError, SpecError

ROOT = Path(__file__).parents[2]
MANIFEST = {"run_id": "abc", "outcome": "placed"}


def tables(rows=3):
    return {
        "latency_histogram": {
            "run_id": ["abc"] * rows,
            "round": np.zeros(rows, np.int32),
            "broker": np.arange(rows, dtype=np.int32),
            "metric": np.full(rows, "access_delay", object),
            "low_ns": np.arange(rows),
            "high_ns": np.arange(rows) + 1,
            "count": np.ones(rows, np.int64),
        },
        "runs": {"run_id": ["abc"], "factors": [[("workload.publishers", "4000")]], "bucket_rate_rps": [None]},
        "messages": {"run_id": []},
    }


def run_python(code, folder, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_comes_back_with_the_schema_of_its_tables(tmp_path):
    writer.write_run(tmp_path / "abc", tables(), MANIFEST)
    assert names(tmp_path) == ["abc"]
    assert names(tmp_path / "abc") == ["latency_histogram.parquet", "manifest.json", "runs.parquet"]
    found = pq.read_table(tmp_path / "abc" / "latency_histogram.parquet")
    assert found.schema.equals(schema.TABLES["latency_histogram"])
    assert found.column("broker").to_pylist() == [0, 1, 2]
    runs = pq.read_table(tmp_path / "abc" / "runs.parquet").to_pylist()
    assert runs[0]["factors"] == [("workload.publishers", "4000")]
    assert runs[0]["bucket_rate_rps"] is None and runs[0]["system"] is None
    assert read_manifest(tmp_path / "abc").items() >= MANIFEST.items()


def test_arrow_tables_are_cast_to_the_schema(tmp_path):
    given = pa.table({"run_id": ["abc"], "at_ns": pa.array([5], pa.int32()), "value": pa.array([1.5], pa.float32())})
    writer.write_run(tmp_path / "abc", {"samples": given}, MANIFEST)
    assert pq.read_table(tmp_path / "abc" / "samples.parquet").schema.equals(schema.TABLES["samples"])


def test_equal_data_gives_equal_bytes(tmp_path):
    digests = []
    for name in ("one", "two"):
        writer.write_run(tmp_path / name, tables(2_000), MANIFEST)
        digests.append([hashlib.sha256(path.read_bytes()).digest() for path in sorted((tmp_path / name).iterdir())])
    assert digests[0] == digests[1]


def test_a_column_that_the_schema_lacks_is_a_bug(tmp_path):
    with pytest.raises(AssertionError, match="colour"):
        writer.write_run(tmp_path / "abc", {"runs": {"run_id": ["abc"], "colour": ["red"]}}, MANIFEST)
    assert names(tmp_path) == []


def test_a_finished_run_is_not_replaced(tmp_path):
    writer.write_run(tmp_path / "abc", tables(), MANIFEST)
    writer.write_run(tmp_path / "abc", tables(5), {**MANIFEST, "outcome": "other"})
    assert read_manifest(tmp_path / "abc").items() >= MANIFEST.items()
    assert names(tmp_path) == ["abc"]


def test_a_failure_is_recorded_and_forgotten_after_success(tmp_path):
    spec = b'{"system": "srtm"}'
    failed = writer.record_failure(tmp_path / "abc", spec, SpecError("bad rate", "give one above zero"))
    assert failed.name == "abc.failed"
    first = read_manifest(failed)
    assert first["error"] == "bad rate; give one above zero" and first["spec"] == {"system": "srtm"}
    assert "traceback" not in first
    try:
        raise ValueError("boom")
    except ValueError as error:
        writer.record_failure(tmp_path / "abc", spec, error)
    assert "ValueError: boom" in read_manifest(failed)["traceback"]
    writer.write_run(tmp_path / "abc", tables(), MANIFEST)
    assert names(tmp_path) == ["abc"]


def test_missing_and_broken_manifests_are_one_line(tmp_path):
    with pytest.raises(MachineError, match="No such file"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(MachineError, match=r"manifest\.json is no JSON; `ratebed verify --set-aside`"):
        read_manifest(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_machine_error(tmp_path):
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(MachineError, match=r"cannot write .*runs.abc: .*--out"):
        writer.write_run(tmp_path / "runs" / "abc", tables(), MANIFEST)


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path):
    """A file-size limit stands for the full disk: the kernel refuses the write in the same place."""
    child = run_python(
        """
        import pathlib, resource, sys
        import numpy as np
        from collectors.writer import write_run
        from core.errors import MachineError
        sys.dont_write_bytecode = True  # it would be cut off, and stay so
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        noise = np.random.default_rng(1).random(100_000)
        try:
            write_run(pathlib.Path(sys.argv[1]) / "abc", {"samples": {"run_id": ["abc"] * 100_000, "value": noise}}, {})
        except MachineError as error:
            print(error)
        """,
        tmp_path,
    )
    said = child.communicate()[0]
    assert child.returncode == 0
    assert "cannot write" in said and "too large" in said and said.count("\n") == 1
    assert names(tmp_path) == []


def test_dev_full_refuses_in_the_middle_of_a_table(tmp_path):
    """/dev/full gives ENOSPC on the first flush, as a full disk does."""

    def fill(partial):
        (partial / "samples.parquet").write_bytes(b"x" * 10_000)
        with open("/dev/full", "wb") as file:
            file.write(b"x" * 10_000)

    with pytest.raises(MachineError, match="No space left on device; free disk space"):
        writer._write_aside(tmp_path / "abc", fill)
    assert names(tmp_path) == []


def test_kill_in_the_middle_leaves_only_a_partial_which_is_cleaned(tmp_path):
    child = run_python(
        """
        import pathlib, sys, time
        from collectors import writer
        def fill(partial):
            (partial / "runs.parquet").write_bytes(b"half")
            print("half-written", flush=True)
            time.sleep(60)
        writer._write_aside(pathlib.Path(sys.argv[1]) / "abc", fill)
        """,
        tmp_path,
    )
    assert child.stdout.readline() == "half-written\n"
    (partial,) = names(tmp_path)
    assert partial.startswith(f"abc.partial-{platform.node()}-") and f"-{child.pid}-" in partial
    assert remove_partials(tmp_path) == 0  # its process lives
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    (partial,) = names(tmp_path)
    assert partial.startswith(f"abc.partial-{platform.node()}-") and f"-{child.pid}-" in partial
    assert remove_partials(tmp_path) == 1
    assert names(tmp_path) == []


def test_interrupting_a_write_leaves_nothing(tmp_path):
    def fill(partial):
        (partial / "runs.parquet").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer._write_aside(tmp_path / "abc", fill)
    assert names(tmp_path) == []


def test_manifests_are_sorted_json(tmp_path):
    writer.write_run(tmp_path / "abc", {}, {"b": 1, "a": 2})
    text = (tmp_path / "abc" / "manifest.json").read_text()
    assert text.index('"a"') < text.index('"b"') and json.loads(text).items() >= {"a": 2, "b": 1}.items()


def test_logs_are_taken_over_long_ones_without_their_middle(tmp_path):
    logs = tmp_path / "logs"
    (logs / "below").mkdir(parents=True)
    (logs / "quiet.log").touch()
    (logs / "node1.log").write_bytes(b"one\ntwo\n")
    lines = [b"%06d" % n for n in range(400_000)]  # 7 bytes with their end: no half of the log is whole lines
    (logs / "node2.log").write_bytes(b"\n".join(lines))
    writer.write_run(tmp_path / "abc", {}, MANIFEST, writer.read_logs(logs))
    assert names(tmp_path / "abc" / "logs") == ["node1.log", "node2.log"]
    assert (tmp_path / "abc" / "logs" / "node1.log").read_bytes() == b"one\ntwo\n"
    kept = (tmp_path / "abc" / "logs" / "node2.log").read_bytes()
    assert len(kept) <= writer.LOG_BYTES + 100
    found = kept.split(b"\n")
    (note,) = [number for number, line in enumerate(found) if b"left out" in line]
    whole_lines = found[:note] == lines[:note] and found[note + 1 :] == lines[note + 1 - len(found) :]
    assert whole_lines  # not the comparison: to show how such lists differ takes a minute
    assert found[note] == b"[%d bytes left out here]" % (7 * 400_000 - 1 - len(kept) + len(found[note]) + 1)


def test_a_line_without_end_is_cut_too(tmp_path):
    (tmp_path / "endless.log").write_bytes(b"x" * 3_000_000)
    kept = writer.read_logs(tmp_path)["endless.log"]
    assert b"bytes left out here" in kept and len(kept) <= writer.LOG_BYTES + 100


def test_a_failed_run_keeps_the_logs_that_its_error_brings(tmp_path):
    gone = tmp_path / "ratebed-x"
    error = MachineError("agent node1 has ended", f"see {gone}/logs/node1.log")
    error.folder, error.logs = gone, {"node1.log": b"out of memory\n"}
    failed = writer.record_failure(tmp_path / "abc", b"{}", error)
    assert (failed / "logs" / "node1.log").read_text() == "out of memory\n"
    assert str(error) == read_manifest(failed)["error"] == f"agent node1 has ended; see {failed}/logs/node1.log"
