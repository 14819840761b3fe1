"""Small runs for the tests of the harness."""

import hashlib
from pathlib import Path

from harness.experiment import RunSpec


def small(repetition: int = 0, **changes) -> RunSpec:
    """A run of some 50 ms."""
    fields = {
        "system": "conc",
        "workload": "poisson",
        "workload_options": {"publishers": 300, "batch": 10, "group_size": 5},
        "study_options": {"envelope": "conformant"},
        "round": "6s",
        "seed": 11 + repetition,
        "repetition": repetition,
    }
    return RunSpec(**{**fields, **changes})


def parquet_hashes(runs: Path) -> dict[str, str]:
    """SHA-256 of every Parquet file below ``runs``, by relative path."""
    return {
        path.relative_to(runs).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(runs.rglob("*.parquet"))
    }
