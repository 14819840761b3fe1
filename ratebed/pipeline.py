"""From figure keys to a report: run what is missing, aggregate on Spark, draw, judge, write.

``out/runs/<id>/``         one folder a run
``out/tables/<figure>/``   the figure's tables (Parquet) and ``section.json``: runs, command, reason if skipped
``out/figures/``           SVG and PNG
``out/report/index.html``  a fold over all sections that are there
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from core.errors import SpecError
from harness.campaign import Campaign, Finished, LocalExecutor
from harness.experiment import RunSpec
from harness.run import check_all
from paper_figs import load_figure
from ratebed.options import Request
from ratebed.progress import Progress
from systems.loader import is_file, load_system
from testbed import calibration_path

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

SECTION = "section.json"


@dataclass(frozen=True)
class Plan:
    """What a request comes down to."""

    campaign: Campaign
    run_ids: dict[str, list[str]]  # figure -> its runs
    skipped: dict[str, str]  # figure -> why it has none


def make_plan(request: Request) -> Plan:
    """The runs of each figure; an extra system joins every grid beside the figure's own."""
    campaign = Campaign(request.out / "runs")
    run_ids: dict[str, list[str]] = {}
    skipped: dict[str, str] = {}
    if request.extra_system:
        load_system(request.extra_system)
    for key in request.keys:
        experiment = load_figure(key).experiment
        options = request.figure_options[key]
        specs = [adapted(spec, request) for spec in experiment.runs(request.scale, options, request.seed)]
        if request.extra_system and not experiment.open_to_systems:
            raise SpecError(f"{key} takes no further system", "run it with a figure that compares systems, or ad hoc")
        specs += joined(specs, request.extra_system)
        if not specs and not experiment.analytic:
            skipped[key] = experiment.skip_reason(options) if experiment.skip_reason else "its grid is empty"
        run_ids[key] = campaign.add(specs)
    check_all(campaign.wanted.values())
    return Plan(campaign, run_ids, skipped)


def adapted(spec: RunSpec, request: Request) -> RunSpec:
    """The spec on the testbed and with the calibration that the user names.

    Figures about token buckets alone keep their calibration: it is what they are about.
    """
    calibration = (
        spec.calibration if spec.calibration == "bucket-only" or not request.calibration else request.calibration
    )
    inputs = (*spec.inputs, str(calibration_path(calibration))) if calibration.endswith(".toml") else spec.inputs
    testbed = request.testbed or spec.testbed
    return msgspec.structs.replace(spec, testbed=testbed, calibration=calibration, inputs=inputs)


def joined(specs: list[RunSpec], system: str) -> list[RunSpec]:
    """The grid's points once more with another system, without the options of the one that it replaces.

    What a limiter limits, ``capacity`` and ``rate``, belongs to the point: a system that has such options takes them.
    """
    if not system:
        return []
    source = (system.partition(":")[0],) if is_file(system) else ()
    kept = {field.name for field in fields(load_system(system).config)} & {"capacity", "rate"}
    more = {
        msgspec.structs.replace(
            spec,
            system=system,
            system_options={name: value for name, value in spec.system_options.items() if name in kept},
            inputs=(*spec.inputs, *source),
        ).to_json()
        for spec in specs
        if spec.procedure in ("distribute", "requests")
    }
    return [msgspec.json.decode(spec, type=RunSpec) for spec in sorted(more)]


def run(plan: Plan, request: Request) -> list[Finished]:
    """Execute what is missing, with progress; returns the failures."""
    with Progress(plan.campaign.missing(), total=len(plan.campaign.wanted), jobs=request.jobs) as progress:
        return plan.campaign.run(LocalExecutor(request.jobs), progress.finished)


def draw(plan: Plan, request: Request, failures: list[Finished]) -> dict[str, str]:
    """Tables and drawings of the request's figures; returns the figures that could not be drawn, and why."""
    for key, reason in plan.skipped.items():
        if not sections(request.out).get(key, {}).get("run_ids"):  # drawn by an earlier command, it stays
            _write_section(request, key, [], {}, reason)
    missing, errors = plan.campaign.missing(), {failure.run_id: failure.error for failure in failures}
    undrawn: dict[str, str] = {}
    from analysis.spark import Data

    nothing = Data(None, ())  # what an analytic figure's tables are made of
    with _spark(plan, request, missing) as data:
        for key, ids in plan.run_ids.items():
            if key in plan.skipped:
                continue
            analytic = load_figure(key).experiment.analytic
            done = [run_id for run_id in ids if run_id not in missing]
            failed = {run_id: errors.get(run_id, "not run") for run_id in ids if run_id in missing}
            if analytic:
                problem = _draw_one(key, nothing, done, request.out)
            elif data is not None and done:
                problem = _draw_one(key, data, done, request.out)
            else:
                problem = "none of its runs worked"
            if problem:
                undrawn[key] = problem
            _write_section(request, key, done, failed, problem)
    return undrawn


@contextmanager
def _spark(plan: Plan, request: Request, missing: Mapping[str, RunSpec]) -> "Iterator[Data | None]":
    """The raw tables of all finished runs; None where there are none."""
    folders = [request.out / "runs" / run_id for run_id in sorted(plan.campaign.wanted) if run_id not in missing]
    if not folders:
        yield None
        return
    from analysis.spark import load, session

    spark = session(request.spark_master or "local[*]")
    try:
        yield load(spark, folders)
    finally:
        spark.stop()


def _draw_one(key: str, data: "Data", run_ids: list[str], out: Path) -> str:
    """Aggregate and draw one figure; returns what went wrong, so that the others can go on."""
    print(f"drawing {key} ({len(run_ids)} runs)" if run_ids else f"drawing {key}", flush=True)
    figure = load_figure(key)
    try:
        tables = figure.tables(data.select(run_ids))
        drawing = figure.draw(tables)
    except OSError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    folder = out / "tables" / key
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, frame in tables.items():
        replace_file(folder / f"{name}.parquet", frame.to_parquet(index=False))
    _save(drawing, out / "figures", key)
    return ""


def _save(drawing: "Drawing", folder: Path, key: str) -> None:
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
        content = BytesIO()
        drawing.savefig(content, format=suffix, **options)
        replace_file(folder / f"{key}.{suffix}", content.getvalue())
    pyplot.close(drawing)


def replace_file(path: Path, content: bytes) -> None:
    """Write aside and rename; nothing is left of a write that fails."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write_section(request: Request, key: str, run_ids: list[str], failed: dict[str, str], skipped: str) -> None:
    """What the report needs to know of the figure besides its tables."""
    folder = request.out / "tables" / key
    folder.mkdir(parents=True, exist_ok=True)
    section = {
        "key": key,
        "run_ids": run_ids,
        "failed": failed,
        "skipped": skipped,
        "scale": request.scale.name,
        "seed": request.seed,
        "calibration": request.calibration,
        "command": request.command(key),
    }
    replace_file(folder / SECTION, json.dumps(section, indent=2).encode())


def sections(out: Path) -> dict[str, dict[str, Any]]:
    """What every figure left in ``out``, by key."""
    found = (json.loads(path.read_text()) for path in sorted((out / "tables").glob(f"*/{SECTION}")))
    return {section["key"]: section for section in found}


def tables_of(out: Path, key: str) -> "dict[str, pd.DataFrame]":
    """The tables of a figure, name -> frame."""
    import pandas as pd

    return {path.stem: pd.read_parquet(path) for path in sorted((out / "tables" / key).glob("*.parquet"))}
