"""From figure keys to a report: run what is missing, aggregate on Spark, draw, judge, write.

``out/runs/<id>/``         one folder a run
``out/tables/<figure>/``   the figure's tables (Parquet) and ``section.json``: runs, command, reason if skipped
``out/figures/``           SVG and PNG
``out/report/index.html``  a fold over all sections that are there
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.campaign import Campaign, Finished, LocalExecutor
from harness.experiment import RunSpec
from harness.run import resolve
from paper_figs import load_figure
from ratebed.options import Request
from ratebed.progress import Progress
from systems.loader import is_file, load_system

if TYPE_CHECKING:
    import pandas as pd

    from analysis.spark import Data
    from paper_figs.figure import Figure

SECTION = "section.json"


@dataclass(frozen=True)
class Plan:
    """What a request comes down to."""

    campaign: Campaign
    run_ids: dict[str, list[str]]  # figure -> its runs
    skipped: dict[str, str]  # figure -> why it has none


def make_plan(request: Request, extra_system: str = "") -> Plan:
    """The runs of each figure; ``extra_system`` joins every grid of load distribution beside the figure's own."""
    campaign = Campaign(request.out / "runs")
    run_ids: dict[str, list[str]] = {}
    skipped: dict[str, str] = {}
    for key in request.keys:
        experiment = load_figure(key).experiment
        options = request.figure_options[key]
        specs = [adapted(spec, request) for spec in experiment.runs(request.scale, options, request.seed)]
        specs += joined(specs, extra_system)
        if not specs:
            skipped[key] = experiment.skip_reason(options) if experiment.skip_reason else "its grid is empty"
        for spec in {spec.inputs: spec for spec in specs if spec.inputs}.values():
            resolve(spec)  # a broken input file is said now, not once a run
        run_ids[key] = campaign.add(specs)
    return Plan(campaign, run_ids, skipped)


def adapted(spec: RunSpec, request: Request) -> RunSpec:
    """The spec on the testbed and with the calibration that the user names.

    Figures about token buckets alone keep their calibration: it is what they are about.
    """
    calibration = (
        spec.calibration if spec.calibration == "bucket-only" or not request.calibration else request.calibration
    )
    inputs = (*spec.inputs, calibration) if calibration.endswith(".toml") else spec.inputs
    return msgspec.structs.replace(spec, testbed=request.testbed, calibration=calibration, inputs=inputs)


def joined(specs: list[RunSpec], system: str) -> list[RunSpec]:
    """The grid's points once more with another system, without the options of the one that it replaces."""
    if not system:
        return []
    load_system(system)
    source = (system.partition(":")[0],) if is_file(system) else ()
    more = {
        msgspec.structs.replace(spec, system=system, system_options={}, inputs=(*spec.inputs, *source)).to_json()
        for spec in specs
        if spec.procedure == "distribute"
    }
    return [msgspec.json.decode(spec, type=RunSpec) for spec in sorted(more)]


def run(plan: Plan, request: Request) -> list[Finished]:
    """Execute what is missing, with progress; returns the failures."""
    with Progress(plan.campaign.missing(), total=len(plan.campaign.wanted), jobs=request.jobs) as progress:
        return plan.campaign.run(LocalExecutor(request.jobs), progress.finished)


def draw(plan: Plan, request: Request) -> list[str]:
    """Tables and drawings of the request's figures; returns the figures that could not be drawn."""
    for key, reason in plan.skipped.items():
        _write_section(request, key, [], reason)
    done = {key: [i for i in ids if i not in plan.campaign.missing()] for key, ids in plan.run_ids.items()}
    wanted = {key: ids for key, ids in done.items() if ids}
    failed = [key for key in request.keys if key not in wanted and key not in plan.skipped]
    if not wanted:
        return failed
    from analysis.spark import load, session

    spark = session(request.spark_master or "local[*]")
    try:
        everything = sorted({i for ids in wanted.values() for i in ids})
        data = load(spark, [request.out / "runs" / i for i in everything])
        for key, ids in wanted.items():
            print(f"drawing {key} ({len(ids)} runs)", flush=True)
            _draw_one(load_figure(key), data.select(ids), request.out)
            _write_section(request, key, ids, "")
    finally:
        spark.stop()
    return failed


def _draw_one(figure: "Figure", data: "Data", out: Path) -> None:
    from matplotlib import pyplot

    tables = figure.tables(data)
    folder = out / "tables" / figure.key
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        replace_file(folder / f"{name}.parquet", frame.to_parquet(index=False))
    drawing = figure.draw(tables)
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
        partial = out / "figures" / f".{figure.key}.{suffix}"
        drawing.savefig(partial, format=suffix, **options)
        partial.replace(out / "figures" / f"{figure.key}.{suffix}")
    pyplot.close(drawing)


def replace_file(path: Path, content: bytes) -> None:
    """Write aside and rename."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)


def _write_section(request: Request, key: str, run_ids: list[str], skipped: str) -> None:
    folder = request.out / "tables" / key
    if skipped and (folder / SECTION).exists() and not json.loads((folder / SECTION).read_text())["skipped"]:
        return  # drawn by an earlier command, with the option that this one lacks
    folder.mkdir(parents=True, exist_ok=True)
    section = {
        "key": key,
        "run_ids": run_ids,
        "skipped": skipped,
        "scale": request.scale.name,
        "seed": request.seed,
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
