"""The study of nodes in Erlang: what goes into its tables, what it refuses, and which files make its runs."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from core.errors import MachineError, SpecError
from harness.code_version import files_of, id_of
from harness.run import check_all, execute
from studies.spec import RunSpec
from testbed.hosts import capabilities
from tests.live import needs

SPEC = RunSpec(
    system="crdt-queue",
    system_options={"phase": "aligned", "frequency": True, "linf": True, "literal_priorities": True},
    workload="data-set",
    workload_options={"set": "B-barely"},
    topology="full-mesh",
    topology_options={"nodes": 5, "delay": "0ms"},
    study="erlang",
)


def changed(**options: Any) -> RunSpec:
    return msgspec.structs.replace(SPEC, **options)


def test_the_sources_in_erlang_are_part_of_a_runs_identity() -> None:
    names = {path.name for path in files_of(SPEC) if path.suffix == ".erl"}
    assert names == {path.name for path in Path("testbed/erlang").glob("*.erl")} and len(names) == 4
    assert not [path for path in files_of(changed(study="limiting")) if path.suffix == ".erl"]


@needs("erlang")
@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (changed(topology_options={"nodes": 5}), "messages take no time"),
        (changed(system_options={"overlay": "ring"}), "has no overlay = 'ring' in Erlang"),
        (changed(system_options={"literal_merge": True}), "has no literal_merge"),
        (changed(system_options={"gossip": "1500us"}), "whole milliseconds"),
        (changed(system="crdt-counter", system_options={"push": "broadcast"}), "has no push"),
        (changed(system="leases", system_options={}), "not for the study erlang"),
        (changed(study_options={"births": "sometimes"}), "births"),
        (changed(study_options={"own_words": -1}), "own_words"),
        (changed(testbed="local"), "does not run on testbed local"),
    ],
)
def test_what_it_refuses(spec: RunSpec, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        check_all([spec])


def test_without_erlang_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "find_capability", lambda name: None)
    with pytest.raises(MachineError, match="erlang-base"):
        check_all([SPEC])


@needs("erlang")
@pytest.mark.slow
@pytest.mark.parametrize("system", ["crdt-queue", "crdt-counter"])
def test_a_run_has_the_tables_of_the_limiters(system: str, tmp_path: Path) -> None:
    load = {**SPEC.workload_options, "barely": "1.1c"}
    own = SPEC.system_options if system == "crdt-queue" else {}
    spec = changed(system=system, system_options=own, workload_options=load)
    execute(spec, id_of(spec), tmp_path / "run")
    tables = {path.stem: pq.read_table(path).to_pylist() for path in (tmp_path / "run").glob("*.parquet")}
    assert len(tables["requests"]) == 330
    assert {row["decision"] for row in tables["requests"]} == {"admit", "reject"}
    metrics = {row["metric"] for row in tables["samples"]}
    assert metrics == {"load_end_ns", "convergence_ns", "flat_state_bytes", "sent_word_bytes"}
    (converged_ns,) = [row["value"] for row in tables["samples"] if row["metric"] == "convergence_ns"]
    weighed = [row for row in tables["usage"] if row["state_bytes"] is not None]
    assert len(weighed) == 5 * int(converged_ns / 1e9)
    assert all(row["state_bytes"] < row["allocated_bytes"] for row in weighed)
    manifest = msgspec.json.decode((tmp_path / "run" / "manifest.json").read_bytes())
    assert "Erlang/OTP" in manifest["testbed_notes"][0]
