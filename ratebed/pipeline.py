"""From figure keys to a report: run what is missing, aggregate on Spark, draw, judge, write.

``out/runs/<id>/``         one folder a run
``out/tables/<figure>/``   the figure's tables (Parquet) and ``section.json``: runs, command, reason if skipped
``out/figures/``           SVG and PNG
``out/report/index.html``  a fold over all sections that are there

A figure on another testbed than its own, or at scale small, stands beside the plain one under the
name ``<figure>@<testbed>`` or ``<figure>@<testbed>-small`` (``ratebed.settings``).
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from collectors.writer import PARTIAL, read_manifest
from core.errors import SpecError
from harness.campaign import Campaign, Finished, LocalExecutor
from harness.experiment import RunSpec
from harness.run import check_all
from paper_figs import load_figure
from ratebed.options import Request
from ratebed.progress import Progress
from ratebed.settings import VIRTUAL, Setting, setting_of
from systems.loader import is_file, load_system
from testbed import calibration_path, load_testbed
from testbed.evidence import INVALID, VALID

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

    Tables = dict[str, pd.DataFrame]

SECTION = "section.json"
AGGREGATIONS_AT_A_TIME = 2


@dataclass(frozen=True)
class Plan:
    """What a request comes down to."""

    campaign: Campaign
    run_ids: dict[str, list[str]]  # figure -> its runs
    skipped: dict[str, str]  # figure -> why it has none
    settings: dict[str, Setting] = field(default_factory=dict)  # figure -> where it runs


def make_plan(request: Request) -> Plan:
    """The runs of each figure; an extra system joins every grid beside the figure's own."""
    campaign = Campaign(request.out / "runs")
    run_ids: dict[str, list[str]] = {}
    skipped: dict[str, str] = {}
    settings: dict[str, Setting] = {}
    if request.extra_system:
        load_system(request.extra_system)
    for key in request.keys:
        experiment = load_figure(key).experiment
        options = request.figure_options[key]
        points = experiment.runs(request.scale, options, request.seed)
        settings[key] = setting_of({spec.testbed for spec in points}, request.testbed, request.scale.name)
        specs = [adapted(spec, request, len(settings[key].own) > 1) for spec in points]
        if request.extra_system and not experiment.open_to_systems:
            raise SpecError(f"{key} takes no further system", "run it with a figure that compares systems, or ad hoc")
        specs += joined(specs, request.extra_system)
        if not specs and not experiment.analytic:
            skipped[key] = experiment.skip_reason(options) if experiment.skip_reason else "its grid is empty"
        if request.every and not request.testbed and settings[key].own - {VIRTUAL}:
            skipped[key], specs = f"it runs on {settings[key].testbed}: ask for it, ratebed run {key}", []
        run_ids[key] = campaign.add(specs)
    check_all(campaign.wanted.values())
    return Plan(campaign, run_ids, skipped, settings)


def adapted(spec: RunSpec, request: Request, compares: bool = False) -> RunSpec:
    """The spec on the testbed and with the calibration that the user names.

    In a grid that ``compares`` testbeds, the virtual points stay where they are.  Figures about token buckets alone
    keep their calibration: it is what they are about.
    """
    calibration = (
        spec.calibration if spec.calibration == "bucket-only" or not request.calibration else request.calibration
    )
    inputs = (*spec.inputs, str(calibration_path(calibration))) if calibration.endswith(".toml") else spec.inputs
    stays = not request.testbed or (compares and spec.testbed == VIRTUAL)
    testbed = spec.testbed if stays else request.testbed
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
    _warm_up(plan, request)
    with Progress(plan.campaign.missing(), total=len(plan.campaign.wanted), jobs=request.jobs) as progress:
        return plan.campaign.run(LocalExecutor(request.jobs), progress.finished)


def _warm_up(plan: Plan, request: Request) -> None:
    """Start Spark beside the runs, so that drawing need not wait for it; runs in real time are left alone."""
    missing = plan.campaign.missing().values()
    if missing and not any(load_testbed(spec.testbed).real_time for spec in missing):
        from analysis.spark import warm_up

        Thread(target=warm_up, args=(_master(request),), daemon=True).start()


def _master(request: Request) -> str:
    return request.spark_master or "local[*]"


def draw(plan: Plan, request: Request, failures: list[Finished]) -> dict[str, str]:
    """Tables and drawings of the request's figures; returns the figures that could not be drawn, and why.

    Invalid runs are left out unless ``request.plot_invalid``.
    """
    for key, reason in plan.skipped.items():
        if not sections(request.out).get(plan.settings[key].name(key), {}).get("run_ids"):  # drawn before, it stays
            _write_section(request, key, plan.settings[key], _Outcome(skipped=reason))
    missing, errors = plan.campaign.missing(), {failure.run_id: failure.error for failure in failures}
    doubtful = _doubtful(plan, request, missing)
    outcomes = {
        key: _Outcome(
            run_ids=[i for i in ids if i not in missing and (request.plot_invalid or not _invalid(doubtful, i))],
            failed={run_id: errors.get(run_id, "not run") for run_id in ids if run_id in missing},
            doubtful={run_id: doubtful[run_id] for run_id in ids if run_id in doubtful},
        )
        for key, ids in plan.run_ids.items()
        if key not in plan.skipped
    }
    with _spark(plan, request, missing) as data, _aggregated(outcomes, data) as tables:
        for key, found in outcomes.items():
            if key in tables:
                found.skipped = _draw_one(key, plan.settings[key], tables[key], len(found.run_ids), request.out)
            else:
                found.skipped = "all of its runs are invalid" if found.doubtful else "none of its runs worked"
            _write_section(request, key, plan.settings[key], found)
    return {key: found.skipped for key, found in outcomes.items() if found.skipped}


@contextmanager
def _aggregated(outcomes: "Mapping[str, _Outcome]", data: "Data | None") -> "Iterator[dict[str, Future[Tables]]]":
    """The tables of each figure that has runs, or needs none, in the making: while one is drawn, others are computed.

    Two at a time: one core plans a query while the other carries one out.
    """
    from analysis.spark import Data

    def compute(key: str, run_ids: list[str]) -> "Tables":
        figure = load_figure(key)
        if figure.experiment.analytic:
            return figure.tables(Data(None, ()))
        assert data is not None
        return figure.tables(data.select(run_ids))

    pool = ThreadPoolExecutor(AGGREGATIONS_AT_A_TIME)
    try:
        yield {
            key: pool.submit(compute, key, found.run_ids)
            for key, found in outcomes.items()
            if load_figure(key).experiment.analytic or (data is not None and found.run_ids)
        }
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass
class _Outcome:
    """What came of one figure."""

    run_ids: list[str] = field(default_factory=list)  # drawn
    failed: dict[str, str] = field(default_factory=dict)  # run -> why
    doubtful: dict[str, list[str]] = field(default_factory=dict)  # run -> degraded or invalid, and the reasons
    skipped: str = ""  # why there is no drawing


def _doubtful(plan: Plan, request: Request, missing: Mapping[str, RunSpec]) -> dict[str, list[str]]:
    """Runs that are not valid: what they are, and why.  Virtual time keeps its schedule: it has none."""
    found = {}
    for run_id, spec in plan.campaign.wanted.items():
        if spec.testbed == VIRTUAL or run_id in missing:
            continue
        manifest = read_manifest(request.out / "runs" / run_id)
        if manifest["validity"] != VALID:
            found[run_id] = [manifest["validity"], *manifest["validity_reasons"]]
    return found


def _invalid(doubtful: Mapping[str, list[str]], run_id: str) -> bool:
    return doubtful.get(run_id, [""])[0] == INVALID


@contextmanager
def _spark(plan: Plan, request: Request, missing: Mapping[str, RunSpec]) -> "Iterator[Data | None]":
    """The raw tables of all finished runs; None where there are none."""
    folders = [request.out / "runs" / run_id for run_id in sorted(plan.campaign.wanted) if run_id not in missing]
    if not folders:
        yield None
        return
    from analysis.spark import load, session

    runs = request.out / "runs"
    spark = session(_master(request))
    try:
        with TemporaryDirectory(dir=runs, prefix="together", suffix=f"{PARTIAL}{os.getpid()}") as scratch:
            yield load(spark, folders, Path(scratch).resolve())
    finally:
        spark.stop()


def _draw_one(key: str, setting: Setting, coming: "Future[Tables]", run_count: int, out: Path) -> str:
    """Draw one figure as soon as its tables are there; returns what went wrong, so that the others can go on."""
    name = setting.name(key)
    print(f"drawing {name} ({run_count} runs)" if run_count else f"drawing {name}", flush=True)
    figure = load_figure(key)
    try:
        tables = coming.result()
        drawing = figure.draw(tables)
        if setting.text:
            drawing.supxlabel(setting.text, fontsize=7, x=0.99, ha="right", color="#555555")
    except OSError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    folder = out / "tables" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for table, frame in tables.items():
        replace_file(folder / f"{table}.parquet", frame.to_parquet(index=False))
    _save(drawing, out / "figures", name)
    return ""


def _save(drawing: "Drawing", folder: Path, key: str) -> None:
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
        content = BytesIO()
        drawing.savefig(content, format=suffix, **options)
        drawing.set_layout_engine("none")  # everything is in its place: laying out is most of the work
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


def _write_section(request: Request, key: str, setting: Setting, found: _Outcome) -> None:
    """What the report needs to know of the figure besides its tables."""
    folder = request.out / "tables" / setting.name(key)
    folder.mkdir(parents=True, exist_ok=True)
    section = {
        "name": folder.name,
        "key": key,
        "testbed": setting.testbed,
        "setting": setting.suffix,
        "where": setting.text,
        "run_ids": found.run_ids,
        "failed": found.failed,
        "doubtful": found.doubtful,
        "skipped": found.skipped,
        "scale": request.scale.name,
        "seed": request.seed,
        "calibration": request.calibration,
        "command": request.command(key),
    }
    replace_file(folder / SECTION, json.dumps(section, indent=2).encode())


def sections(out: Path) -> dict[str, dict[str, Any]]:
    """What every figure left in ``out``, by name (``srtm-fig4``, ``srtm-fig4@mininet-small``)."""
    found = (json.loads(path.read_text()) for path in sorted((out / "tables").glob(f"*/{SECTION}")))
    return {section["name"]: section for section in found}


def tables_of(out: Path, name: str) -> "dict[str, pd.DataFrame]":
    """The tables of a figure by its name, table -> frame."""
    import pandas as pd

    return {path.stem: pd.read_parquet(path) for path in sorted((out / "tables" / name).glob("*.parquet"))}
