"""One run: resolve the spec, deploy, verify, offer, drain, collect."""

import os
import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import msgspec

from collectors.schema import SCHEMA_VERSION
from collectors.writer import write_run
from core.errors import MachineError, SpecError
from core.files import is_file
from core.reading import reading
from core.records import Columns
from core.registry import changed, configure
from harness.code_version import changed_since, code_hash, commit
from studies import load_study
from studies.api import Asked, Journal, Point, Study, point_slo_ns, round_ns
from studies.inputs import input_digests
from studies.spec import RunSpec
from studies.tables import sample_rows
from systems import SYSTEMS
from systems.loader import load_system
from testbed import load_testbed
from testbed.api import Testbed
from testbed.topologies.topology import load_topology
from workloads import WORKLOADS
from workloads import load as load_workload

RUN_MAXIMUM_S = 7 * 86_400.0  # ours: a run is whole or lost, and so no longer than people let a machine alone
# Environment variables by which linear algebra, compilers and interpreters work otherwise, places of files aside.
_CHOICES = re.compile(r"(OPENBLAS|OMP_|MKL|BLIS|NUMBA|NPY|PYTHON(HASHSEED|OPTIMIZE)|GO(MAXPROCS|GC|DEBUG)).*(?<!_DIR)")
_OWN = {"OPENBLAS_NUM_THREADS": "1"}  # what ``core`` sets
_SPARKS = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": ""}  # what Spark sets on its workers; "": whatever it is there
LIBRARIES = ("numpy", "numba", "pyarrow", "scipy", "cvxpy")  # that results may depend on


def check_all(specs: Iterable[RunSpec]) -> None:
    """SpecError for the first point that cannot be run, before anything starts.

    Points that differ in seed and repetition alone are checked once.
    """
    points = {msgspec.structs.replace(spec, seed=0, repetition=0).to_json(): spec for spec in specs}
    for spec in points.values():
        with reading(f"{spec.system} on {spec.workload}, {spec.topology}", "check its options: ratebed list"):
            point = resolve(spec)
            check_point(point)
            seconds = load_study(spec.study).expected_seconds(spec, point.testbed.real_time)
        if seconds > RUN_MAXIMUM_S:
            what = f"a run of {spec.system} on {spec.workload} would take some {seconds / 86_400:,.0f} days"
            raise SpecError(what, f"ask for less: at most {RUN_MAXIMUM_S / 86_400:.0f}, as a run is whole or lost")


def check_point(point: Point) -> None:
    """SpecError where the point cannot be run."""
    load_study(point.spec.study).body(point.testbed)  # first, as what is asked may be long to say
    study, asked = asked_of(point)
    study.check(point.testbed, asked)


def asked_of(point: Point) -> tuple[Study[object, Asked, object], Asked]:
    """The study of a point, and what it asks of the testbed; SpecError where they do not fit together."""
    spec = point.spec
    point_slo_ns(spec), round_ns(spec)
    study = load_study(spec.study)
    if not study.fits(point.system):
        fitting = [name for name in SYSTEMS if study.fits(load_system(name))]
        raise SpecError(f"system {point.system.key!r} is not for the study {study.key}", f"use {', '.join(fitting)}")
    offer = load_workload(spec.workload).offer
    if study.offer is not None and offer != study.offer:
        offering = [name for name in WORKLOADS if load_workload(name).offer == study.offer]
        what = f"workload {spec.workload!r} offers {offer}, and the study {study.key} wants {study.offer}"
        raise SpecError(what, f"use {', '.join(offering)}")
    return study, study.asked(point, configure(f"study {study.key}", study.config, spec.study_options))


def carried_out(point: Point) -> Journal:
    """Ask the testbed, and put what comes home into tables."""
    study, asked = asked_of(point)
    study.check(point.testbed, asked)
    return study.journal(point, asked, study.carry_out(point.testbed, asked))


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
        testbed=load_testbed(spec.testbed).with_options(spec.testbed_options, topology),
    )


def execute(
    spec: RunSpec, run_id: str, folder: Path, place: Callable[[Testbed], Testbed] = lambda testbed: testbed
) -> float:
    """Run ``spec`` into ``folder`` (written whole or not at all); returns the seconds it took.

    ``place``: where the run is to be instead of on its testbed, with somebody who disturbs it, say.
    """
    started, began, inputs = datetime.now(UTC), perf_counter(), input_digests(spec)
    point = resolve(spec)
    point = replace(point, testbed=place(point.testbed))
    journal = carried_out(point)
    if point.testbed.real_time and (changed_files := changed_since(spec)):
        what = f"{changed_files[0]} was changed while runs went on: nobody knows which code {run_id} was"
        raise MachineError(what, "repeat the command, and change nothing meanwhile")
    seconds = perf_counter() - began
    tables = {
        name: {"run_id": [run_id] * len(next(iter(columns.values()))), **columns}
        for name, columns in {"runs": _run_row(point, journal), **_with_evidence(journal)}.items()
        if columns
    }
    fidelity = journal.evidence.fidelity
    manifest = {
        "run_id": run_id,
        "spec": msgspec.to_builtins(spec),
        "inputs": inputs,
        "outcome": journal.outcome,
        "validity": fidelity.validity,
        "validity_reasons": list(fidelity.reasons),
        "fidelity": dict(fidelity.numbers),
        "epoch_ns": journal.evidence.epoch_ns,
        "started_at": started.isoformat(),
        "wall_seconds": round(seconds, 3),
        "host": platform.node(),
        "platform": platform.platform(),
        "code_hash": code_hash(spec),
        "commit": commit(),
        "versions": {**_versions(), **journal.evidence.versions},
        "environment": chosen_environment(),
        "schema_version": SCHEMA_VERSION,
        "topology_notes": list(point.topology.notes),
        "testbed_notes": list(journal.evidence.notes),
    }
    write_run(folder, tables, manifest, journal.evidence.logs)
    return seconds


@cache
def _versions() -> dict[str, str]:
    """Of Python and of the libraries that results may depend on: a process keeps those that it began with."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def chosen_environment() -> dict[str, str]:
    """What somebody chose by environment variables, and results may depend on: they are no part of a run's id.

    What Spark sets on its workers nobody chose.
    """
    set_by_others = {**_OWN, **(_SPARKS if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER" else {})}
    chosen = {name: value for name, value in os.environ.items() if value and _CHOICES.fullmatch(name)}
    return {name: value for name, value in sorted(chosen.items()) if set_by_others.get(name) not in ("", value)}


def _with_evidence(journal: Journal) -> dict[str, Columns]:
    tables = dict(journal.tables)
    if journal.evidence.paths:
        tables["paths"] = journal.evidence.path_columns()
    if journal.evidence.samples:
        more = sample_rows(journal.evidence.samples)
        tables["samples"] = {name: [*tables.get("samples", {}).get(name, ()), *more[name]] for name in more}
    return tables


def _run_row(point: Point, journal: Journal) -> Columns:
    spec = point.spec
    as_asked = ("testbed", "calibration", "seed", "repetition")
    row = {
        "workload": load_workload(spec.workload).key if is_file(spec.workload) else spec.workload,
        "topology": point.topology.name if is_file(spec.topology) else spec.topology,
        **{name: getattr(spec, name) for name in as_asked},
        "system": point.system.key,
        "variant": ",".join(f"{key}={value}" for key, value in sorted(changed(point.system_config).items())),
        "factors": sorted(spec.factors().items()),
        "workload_id": point.workload_id,
        "validity": journal.evidence.fidelity.validity,
        "outcome": journal.outcome,
        "slo_ns": point_slo_ns(spec),
        "bucket_rate_rps": journal.bucket_rate_rps,
        "bucket_burst_count": journal.bucket_burst_count,
        "schema_version": SCHEMA_VERSION,
    }
    return {key: [value] for key, value in row.items()}
