"""One run: resolve the spec, deploy, verify, offer, drain, collect."""

import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from collectors.schema import SCHEMA_VERSION
from collectors.writer import write_run
from core.errors import SpecError
from core.registry import changed, configure, lookup
from harness.code_version import code_hash, commit
from harness.experiment import RunSpec
from systems.api import System
from systems.loader import load_system
from testbed import Backend, load_testbed
from testbed.evidence import NOTHING, Evidence
from testbed.rounds import Deployment
from testbed.topology import Topology, load_topology
from testbed.virtual.broker_model import slo_ns
from workloads import load as load_workload

STUDIES = {
    "distribution": "harness.distribute:STUDY",
    "control": "harness.adapt:STUDY",
    "limiting": "harness.requests:STUDY",
    "throttling": "harness.cycles:STUDY",
    "links": "harness.links:STUDY",
    "placement": "harness.placement:STUDY",
    "policies": "harness.placement_study:STUDY",
    "coordinates": "harness.coordinates:STUDY",
    "profile": "harness.profile:STUDY",
}


@dataclass(frozen=True)
class Point:
    """A resolved spec: every name looked up, every option checked."""

    spec: RunSpec
    system: System
    system_config: Any
    schedule: Any  # core.records.Schedule, or requests for a limiter
    workload_id: str
    topology: Topology
    backend: Backend


@dataclass(frozen=True)
class Journal:
    """What a study brings home: rows of the tables (column -> values) and the run's outcome."""

    tables: dict[str, dict[str, Any]]
    outcome: str
    bucket_rate_rps: float | None = None
    bucket_burst_count: float | None = None
    evidence: Evidence = NOTHING  # of the testbed: can the run be trusted? paths, logs


@dataclass(frozen=True)
class Study:
    """What is done at a point: ``configure`` checks that everything fits together, ``run`` does it."""

    configure: Callable[[Point], Any]
    run: Callable[[Point, Any], Journal]


def check_all(specs: Iterable[RunSpec]) -> None:
    """SpecError for the first point that cannot be run, before anything starts.

    Points that differ in seed and repetition alone are checked once.
    """
    points = {msgspec.structs.replace(spec, seed=0, repetition=0).to_json(): spec for spec in specs}
    for spec in points.values():
        configure_point(resolve(spec))


def configure_point(point: Point) -> tuple[Study, Any]:
    """The study of a point, and its config."""
    point_slo_ns(point.spec), round_ns(point.spec)
    study: Study = lookup("study", STUDIES, point.spec.study)
    return study, study.configure(point)


def resolve(spec: RunSpec) -> Point:
    """Look everything up; SpecError for whatever does not exist or does not fit together."""
    system = load_system(spec.system)
    workload = load_workload(spec.workload)
    config = workload.configure(spec.workload_options)
    schedule = workload.make(config, spec.seed)
    topology = load_topology(spec.topology, spec.topology_options)
    return Point(
        spec=spec,
        system=system,
        system_config=configure(f"system {system.key}", system.config, spec.system_options),
        schedule=schedule,
        workload_id=workload.id(config, spec.seed),
        topology=topology,
        backend=load_testbed(spec.testbed).with_options(spec.testbed_options, topology),
    )


def execute(spec: RunSpec, run_id: str, folder: Path) -> float:
    """Run ``spec`` into ``folder`` (written whole or not at all); returns the seconds it took."""
    started, began = datetime.now(UTC), perf_counter()
    point = resolve(spec)
    study, config = configure_point(point)
    journal = study.run(point, config)
    seconds = perf_counter() - began
    tables = {"runs": _run_row(point, journal), **_with_evidence(journal)}
    for columns in tables.values():
        length = len(next(iter(columns.values())))
        columns["run_id"] = [run_id] * length
    manifest = {
        "run_id": run_id,
        "spec": msgspec.to_builtins(spec),
        "outcome": journal.outcome,
        "validity": journal.evidence.fidelity.validity,
        "validity_reasons": list(journal.evidence.fidelity.reasons),
        "fidelity": dict(journal.evidence.fidelity.numbers),
        "epoch_ns": journal.evidence.epoch_ns,
        "started_at": started.isoformat(),
        "wall_seconds": round(seconds, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "code_hash": code_hash(),
        "commit": commit(),
        "versions": {
            "python": platform.python_version(),
            **_versions(),
        },
        "schema_version": SCHEMA_VERSION,
        "topology_notes": list(point.topology.notes),
        "testbed_notes": list(journal.evidence.notes),
    }
    write_run(folder, tables, manifest, journal.evidence.logs)
    return seconds


@cache
def _versions() -> dict[str, str]:
    """Of the libraries that results may depend on."""
    return {name: version(name) for name in ("numpy", "numba", "pyarrow")}


@contextmanager
def deployed(point: Point, config: Any) -> Iterator[Deployment]:
    """The point's topic on its testbed; an error takes the logs of the testbed's processes with it."""
    deployment: Deployment = point.backend.deploy(point.topology, point.schedule, point.spec, config)
    with closing(deployment):
        try:
            yield deployment
        except Exception as error:
            with suppress(Exception):
                error.logs = deployment.evidence().logs  # type: ignore[attr-defined]
            raise


def _with_evidence(journal: Journal) -> dict[str, dict[str, Any]]:
    """The tables of a journal, and what the testbed adds to them."""
    tables = dict(journal.tables)
    if journal.evidence.paths:
        tables["paths"] = journal.evidence.path_columns()
    if journal.evidence.samples:
        names = ("at_ns", "node", "metric", "value")
        before = tables.get("samples", {name: [] for name in names})
        more = zip(*journal.evidence.samples, strict=True)
        tables["samples"] = {name: [*before[name], *column] for name, column in zip(names, more, strict=True)}
    return tables


def _run_row(point: Point, journal: Journal) -> dict[str, Any]:
    """The run's line in the ``runs`` table."""
    spec = point.spec
    variant = ",".join(f"{key}={value}" for key, value in sorted(changed(point.system_config).items()))
    row = {
        "system": point.system.key,
        "variant": variant,
        "workload": spec.workload,
        "topology": spec.topology,
        "testbed": spec.testbed,
        "calibration": spec.calibration,
        "factors": sorted(spec.factors().items()),
        "seed": spec.seed,
        "repetition": spec.repetition,
        "workload_id": point.workload_id,
        "validity": journal.evidence.fidelity.validity,
        "outcome": journal.outcome,
        "slo_ns": point_slo_ns(spec),
        "bucket_rate_rps": journal.bucket_rate_rps,
        "bucket_burst_count": journal.bucket_burst_count,
        "schema_version": SCHEMA_VERSION,
    }
    return {key: [value] for key, value in row.items()}


def point_slo_ns(spec: RunSpec) -> int:
    """The SLO in nanoseconds."""
    return slo_ns(spec.slo, spec.calibration)


def round_ns(spec: RunSpec) -> int:
    """Length of one measurement round in nanoseconds."""
    return _span(spec.round, "round")


def _span(text: str, field: str) -> int:
    from core.units import duration_ns

    try:
        span_ns = duration_ns(text)
    except ValueError as error:
        raise SpecError(f"{field}: {error}") from None
    if span_ns <= 0:
        raise SpecError(f"{field} = {text!r}", "give a length above zero")
    return span_ns
