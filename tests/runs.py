"""Finished runs made by hand, as the tests of their readers want them."""

from pathlib import Path

from collectors.schema import SCHEMA_VERSION
from collectors.writer import write_run
from core.digests import run_id_of

SPEC = {"system": "lb", "inputs": []}


def write_small_run(runs: Path, seed: int = 1, rows: int = 50, **more: object) -> Path:
    """A run under the id that its manifest makes; ``more``: of the manifest."""
    spec = {**SPEC, "seed": seed}
    run_id = run_id_of(spec, {}, "code")
    identity = {"run_id": run_id, "spec": spec, "inputs": {}, "code_hash": "code", "schema_version": SCHEMA_VERSION}
    samples = {"run_id": [run_id] * rows, "at_ns": range(rows), "node": ["a"] * rows}
    tables = {
        "runs": {"run_id": [run_id], "system": ["lb"]},
        "samples": {**samples, "metric": ["convergence_ns"] * rows, "value": [0.1 * seed * n for n in range(rows)]},
    }
    write_run(runs / run_id, tables, {**identity, **more}, {"node1.log": b"hello\n"})
    return runs / run_id
